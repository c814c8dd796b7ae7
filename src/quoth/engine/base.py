"""What every opened collection does alike: search and answer, from hits that are shown whole."""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from quoth.answer.config import AnswerConfig, DecodingConfig
from quoth.engine.answering import AnswerInProgress, Asking
from quoth.engine.finding import CutSnippet
from quoth.engine.passages import BY_VECTORS, nearness
from quoth.records import Answer, Document, Hit, Passage, Query, SearchRequest, ShownHits, Snippet
from quoth.search.duplicates import MOST_REACH
from quoth.search.duplicates_config import DuplicatesConfig
from quoth.search.searcher import Progress
from quoth.settings.config import Config, Values, build_config
from quoth.text.passages import cut_document
from quoth.text.places import find_place

if TYPE_CHECKING:
    from quoth.answer.reading_answerer import TitledPassage
    from quoth.engine.sync.plan import SyncPlan
    from quoth.engine.sync.reading import SyncSink
    from quoth.engine.sync.sync import SyncOptions, SyncReport
    from quoth.search.near import NearUnits
    from quoth.text.readers.reading import Report

_logger = logging.getLogger(__name__)


class EngineBase(ABC):
    """A collection, opened, in one piece or in shards."""

    folder: Path
    is_local = True
    """Whether all of the collection lies in its folder, so that another process can open it."""

    _asking: Asking
    _progress: Progress
    _given: Sequence[Values]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release all files."""

    @property
    def given_settings(self) -> Sequence[Values]:
        """The settings that the collection was opened with, over those it was made with."""
        return self._given

    @property
    def progress(self) -> Progress:
        """What is told how far long work has come."""
        return self._progress

    @property
    @abstractmethod
    def config(self) -> Config:
        """The settings in force."""

    @abstractmethod
    def docids(self) -> tuple[str, ...]:
        """List the docids of all documents, in the order they were added."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[tuple[SyncSink, Config]]:
        """Be the one writer while the block lasts; afterwards every index has caught up."""

    def sync(
        self,
        folders: Sequence[str] = (),
        *,
        options: SyncOptions | None = None,
        report: Report | None = None,
        is_to_stop: Callable[[], bool] = lambda: False,
    ) -> SyncReport:
        """Bring the collection in step with the folders it remembers, and with further ones.

        What is new is added, what changed updated, what is gone removed. Where much would be
        removed, it refuses unless `options` confirm that. What cannot be read goes to `report`;
        without one, the first problem stops the reading.
        """
        from quoth.engine.sync.sync import sync_folders

        return sync_folders(
            self,
            folders,
            options=options,
            report=report,
            progress=self._progress,
            is_to_stop=is_to_stop,
        )

    def plan_sync(self, folders: Sequence[str] = (), *, thorough: bool = False) -> SyncPlan:
        """Say what `sync` would do, by names, sizes and times alone."""
        from quoth.engine.sync.sync import plan_sync

        return plan_sync(self, folders, thorough=thorough)

    def find(self, request: SearchRequest) -> ShownHits:
        """Find the hits that a request asks for, with everything that is shown of them.

        Near-identical documents are shown once, unless the request or the settings say otherwise.
        """
        config = self._duplicates
        wanted = config.together if request.distinct is None else request.distinct
        is_together = wanted and request.reach <= MOST_REACH
        return self._find(request, least=config.similarity if is_together else None)

    @functools.cached_property
    def _duplicates(self) -> DuplicatesConfig:
        return build_config(*self._given).duplicates

    @abstractmethod
    def _find(self, request: SearchRequest, *, least: float | None) -> ShownHits:
        """Find the hits of a request, those that are at least so similar together; None: each."""

    @abstractmethod
    def decide(self, searcher: str, rerank: bool | None) -> tuple[str, bool]:
        """Return the searcher that a name stands for, and whether its hits are reranked."""

    @abstractmethod
    def _near(self, query: Query, docids: Sequence[str]) -> Mapping[str, NearUnits]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""

    def choose(self, searcher: str) -> str:
        """Return the best searcher that the collection has for `auto`, else the one named."""
        return self.decide(searcher, False)[0]

    @abstractmethod
    def document(self, docid: str) -> Document:
        """Fetch a document."""

    @abstractmethod
    def snippets(self, query: str, *, syntax: bool = True, max_chars: int = 240) -> CutSnippet:
        """Return what cuts snippets for a query, also after the collection was closed."""

    def search(
        self,
        text: str,
        *,
        k: int = 10,
        offset: int = 0,
        where: str = "",
        searcher: str = "auto",
        syntax: bool = True,
        rerank: bool | None = None,
    ) -> tuple[Hit, ...]:
        """Find the k best documents for a query after the first `offset`, with their passages.

        With `rerank`, a model that reads them puts the best hits into a new order; `auto` does so
        unless told otherwise. Without `syntax`, the query is plain words. Where a shard cannot be
        reached, a warning is logged; `find` returns which.
        """
        found = self.find(
            SearchRequest(
                text,
                k=k,
                offset=offset,
                where=where,
                searcher=searcher,
                syntax=syntax,
                rerank=rerank,
                snippet_chars=0,
            )
        )
        for each in found.unreachable:
            _logger.warning("%s", each)
        return tuple(each.hit for each in found.hits)

    def snippet(self, text: str, passage: Passage, *, max_chars: int = 240) -> Snippet:
        """Cut the stretch of a passage where the query's words stand, and mark them."""
        return self.snippets(text, max_chars=max_chars)(passage)

    def ask(
        self,
        question: str,
        *,
        k: int = 5,
        where: str = "",
        searcher: str = "auto",
        threshold: float | None = None,
        phrases: bool = True,
    ) -> AnswerInProgress:
        """Answer from the k best documents, piece by piece: iterate, then take `answer()`.

        Where it is more probable than `threshold` that there is no answer, the answer says so; None
        is as configured. Without `phrases`, documents are not quoted.
        """
        config = self.config
        config.answer.check(question)
        request = SearchRequest(
            question, k=k, where=where, searcher=searcher, syntax=False, feedback=False
        )
        self._progress("searching", 0, 0)
        found = self.find(request)
        self._progress("loading what answers", 0, 0)
        hits = [each.hit for each in found.hits]
        config = replace(
            config,
            answer=_with_threshold(config.answer, threshold),
            decoding=_with_phrases(config.decoding, phrases),
        )
        reads = self._asking.reads(config)
        passages = self._passages(question, hits, found.searcher) if reads else ()
        stream = self._asking.ask(question, hits, config=config, passages=passages)
        return AnswerInProgress(stream, found, self.snippets(question, syntax=False))

    def _passages(
        self, question: str, hits: Sequence[Hit], searcher: str
    ) -> Sequence[TitledPassage]:
        """List what is read for a question: the best passages of each hit's document.

        A searcher by vectors knows how near they are to the question.
        """
        from quoth.answer.passages import passages_to_read

        config = self.config
        documents = {hit.docid: self.document(hit.docid) for hit in hits}
        cut = {
            docid: (document, cut_document(document, config.passages))
            for docid, document in documents.items()
        }
        known = searcher in BY_VECTORS and bool(hits)
        units = self._near(Query("", question), list(documents)) if known else {}
        chosen = passages_to_read(
            question,
            hits,
            cut,
            per_document=config.answer.passages_per_document,
            near=nearness({docid: (*cut[docid], near.cosines) for docid, near in units.items()}),
        )
        return [_with_place(each, documents[each.passage.docid]) for each in chosen]

    def answer(
        self,
        question: str,
        *,
        k: int = 5,
        where: str = "",
        searcher: str = "auto",
        threshold: float | None = None,
        phrases: bool = True,
    ) -> Answer:
        """Answer in the documents' own words, with a citation for every quotation."""
        asked = self.ask(
            question, k=k, where=where, searcher=searcher, threshold=threshold, phrases=phrases
        )
        return asked.answer()

    def generate(
        self, prefix: str, *, k: int = 32, where: str = "", searcher: str = "auto"
    ) -> AnswerInProgress:
        """Continue a text, with the phrases of the k best documents as further vocabulary."""
        config = self.config
        config.answer.check(prefix)
        request = SearchRequest(
            prefix, k=k, where=where, searcher=searcher, syntax=False, rerank=False
        )
        self._progress("searching", 0, 0)
        found = self.find(request)
        self._progress("loading the language model", 0, 0)
        stream = self._asking.generate(prefix, [each.hit for each in found.hits], config=config)
        found = replace(found, suggestion="")  # a text is continued as it stands
        return AnswerInProgress(stream, found, self.snippets(prefix, syntax=False))

    def load_language_model(self) -> None:
        """Load what answers, so that the first question need not wait for it."""
        self._asking.ask("", [], config=self.config)


def _with_place(titled: TitledPassage, document: Document) -> TitledPassage:
    place = find_place(document, titled.passage)
    return replace(titled, passage=replace(titled.passage, place=place)) if place else titled


def _with_threshold(config: AnswerConfig, threshold: float | None) -> AnswerConfig:
    return config if threshold is None else replace(config, threshold=threshold)


def _with_phrases(config: DecodingConfig, phrases: bool) -> DecodingConfig:
    return replace(config, phrases=config.phrases and phrases)
