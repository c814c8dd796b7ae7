"""The engine of one worker of a server: it shares models with the others, and shows whole results.

Everything that one request shows is read in one snapshot, so a document that a writer changes
meanwhile is seen as it was or as it is, never half.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from quoth.collection.content import find_problem
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store, Written
from quoth.engine.answering import Asking
from quoth.engine.engine import Engine
from quoth.errors import CorpusError
from quoth.records import Answer, Attention, Document, Hit, Part, Passage, Query, Snippet
from quoth.search.searcher import ignore_progress
from quoth.search.snippets import make_snippet
from quoth.server.errors import NotFound
from quoth.server.monitoring.timings import Stages
from quoth.server.workers.searchers import ServedHybrid, ServedSearchers, SharedModels
from quoth.settings.config import Config
from quoth.settings.server import MAX_QUESTION_CHARS
from quoth.shards.found import OutOfReach

if TYPE_CHECKING:
    from quoth.answer.answerer import AnswerStream
    from quoth.answer.cite import Piece

AUTO = "auto"
"""The searcher to name where the collection may choose."""

SNIPPET_CHARS = 240
"""Longest stretch that is shown of a passage."""

_NEVER_SILENT = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """A hit with everything that a response shows of it."""

    rank: int
    hit: Hit
    document: Document
    snippet: Snippet | None
    found_by: dict[str, tuple[int, float]]
    explanation: Part | None = None


class WorkerEngine(Engine):
    """An engine for one thread."""

    stages: Stages
    unreachable: tuple[OutOfReach, ...] = ()
    """Always: a collection in one piece is whole."""

    @classmethod
    def beside(cls, first: Engine, models: SharedModels, stages: Stages) -> Self:
        """Open the same collection with the same settings once more."""
        engine = cls(first.folder, first._given, ignore_progress)
        engine._models = models
        engine._asking = Asking(first.folder, open_model=models.language_model)
        engine.stages = stages
        return engine

    def choose(self, searcher: str) -> str:
        """Return the best searcher that the collection has where it may choose."""
        return choose_searcher(
            searcher, is_encoded=lambda: self._read(lambda _store: self._searchers.is_encoded)
        )

    def find(
        self,
        query: str,
        *,
        k: int,
        offset: int = 0,
        where: Sequence[str] = (),
        searcher: str,
        explain: bool = False,
        syntax: bool = True,
    ) -> tuple[Served, ...]:
        """Find hits `offset` + 1 to `offset` + k, with all that is shown of them."""
        condition = join_conditions(where)

        def look(store: Store) -> tuple[Served, ...]:
            with self._generating(searcher), self.stages.timed(f"search {searcher}"):
                hits = self.search(
                    query, k=offset + k, where=condition, searcher=searcher, syntax=syntax
                )[offset:]
            ranked = enumerate(hits, start=offset + 1)
            standings = [self._found_by(searcher, syntax, *each) for each in ranked]
            docids = [hit.docid for hit in hits]
            parts: Sequence[Part | None] = [None] * len(hits)
            if explain and hits:
                with self._generating(searcher), self.stages.timed("explain"):
                    parts = self.explain(
                        query, docids, k=offset + k, where=condition, searcher=searcher
                    )
            with self.stages.timed("show"):
                documents = _fetch(store, docids)
                passages = [hit.passage for hit in hits]
                snippets = self._snippets(query, passages, syntax=syntax)
            shown = zip(hits, documents, snippets, standings, parts, strict=True)
            return tuple(Served(rank, *each) for rank, each in enumerate(shown, start=offset + 1))

        with self.stages.timed("search"):
            return self._read(look, searcher)

    def explain_hits(
        self, query: str, docids: Sequence[str], *, searcher: str
    ) -> tuple[tuple[Part, Attention | None], ...]:
        """Say what scores are made of, and where the encoder looked."""

        def look(store: Store) -> tuple[tuple[Part, Attention | None], ...]:
            missing = [docid for docid in docids if store.get(docid) is None]
            if missing:
                raise NotFound(f"there is no document {missing[0]!r}")
            with self._generating(searcher), self.stages.timed("explain"):
                parts = self.explain(query, docids, searcher=searcher)
                attentions = self.attention(query, docids, searcher=searcher)
            return tuple(zip(parts, attentions, strict=True))

        return self._read(look, searcher)

    def require(self, docid: str) -> Document:
        """Fetch a document, or say that there is none."""
        found = self._read(lambda store: store.get(docid))
        if found is None:
            raise NotFound(f"there is no document {docid!r}")
        return found

    def put(self, documents: Sequence[Document]) -> Written:
        """Add or update documents, none of them where one cannot be stored."""
        for document in documents:
            if problem := find_problem(document):
                raise CorpusError(f"document {document.docid!r} {problem}")
        with self.stages.timed("write"):
            return self.add_documents(documents)

    def take_out(self, docid: str) -> None:
        """Remove a document, or say that there is none."""
        with self.stages.timed("write"):
            if self.remove([docid]):
                raise NotFound(f"there is no document {docid!r}")

    def begin_answer(
        self, question: str, *, k: int, searcher: str, threshold: float | None, phrases: bool
    ) -> AnswerInMaking:
        """Search, and begin to answer from what was found."""
        config = self.config
        hits = self.find(question, k=k, searcher=searcher, syntax=False)
        stream = self._asking.ask(
            question, [each.hit for each in hits], config=for_answering(config, phrases=phrases)
        )
        least = config.answer.threshold if threshold is None else threshold
        return AnswerInMaking(stream, hits, threshold=least)

    def load_language_model(self) -> None:
        """Load what answers, so that the first question need not wait for it."""
        self._asking.ask("", [], config=for_answering(self.config, phrases=True))

    def show_passages(self, question: str, passages: Sequence[Passage]) -> list[Snippet | None]:
        """Cut what is shown of the passages that an answer is made from."""
        return self._read(lambda _store: self._snippets(question, passages, syntax=False))

    # Inner workings --------------------------------------------------------------------------

    def _found_by(
        self, searcher: str, syntax: bool, rank: int, hit: Hit
    ) -> dict[str, tuple[int, float]]:
        using = self._searchers.get(searcher, syntax=syntax)
        if isinstance(using, ServedHybrid):
            return using.found_by(hit.docid)
        return {searcher: (rank, hit.score)}

    def _snippets(
        self, query: str, passages: Sequence[Passage | None], *, syntax: bool
    ) -> list[Snippet | None]:
        weights = self._searchers.lexical(syntax=syntax).term_weights(Query("", query))
        analyser = self._analyser
        return [
            None
            if passage is None
            else make_snippet(passage, weights, analyser=analyser, max_chars=SNIPPET_CHARS)
            for passage in passages
        ]

    def _generating(self, searcher: str) -> contextlib.AbstractContextManager[object]:
        """Take turns with other threads where identifiers are generated."""
        searchers, models = self._searchers, self._models
        assert isinstance(searchers, ServedSearchers) and isinstance(models, SharedModels)
        return (
            models.generative_turn
            if searchers.uses_generative(searcher)
            else contextlib.nullcontext()
        )

    def make_searchers(self, store: Store, config: Config | None = None) -> ServedSearchers:
        """Make the searchers of a store, by the settings in force or by others."""
        searchers = ServedSearchers(
            self.folder,
            store,
            config or self._resolve(store),
            load_encoder=lambda chosen: self._models.encoder(chosen.dense.encoder),
            load_generator=self._models.generator,
            load_generative=self._models.generative,
        )
        searchers.stages = self.stages
        return searchers


def choose_searcher(searcher: str, *, is_encoded: Callable[[], bool]) -> str:
    """Return the best searcher that a collection has where one may be chosen."""
    if searcher != AUTO:
        return searcher
    has_torch = importlib.util.find_spec("torch") is not None
    return "hybrid" if has_torch and is_encoded() else "lexical"


def join_conditions(where: Sequence[str]) -> str:
    """Join conditions that must all hold; each is checked alone, so that errors point into it.

    >>> join_conditions(["year > 2000", "", "lang == 'en' or lang == 'de'"])
    "(year > 2000) and (lang == 'en' or lang == 'de')"
    """
    given = [each for each in where if each.strip()]
    for each in given:
        parse_filter(each)
    return " and ".join(f"({each})" for each in given)


def _fetch(store: Store, docids: Sequence[str]) -> list[Document]:
    """Fetch documents that were just found in the same snapshot, in their order."""
    row_by_docid = store.rows(docids)
    documents = store.documents(list(row_by_docid.values()))
    return [documents[row_by_docid[docid]] for docid in docids]


def make_engines(first: Engine, stages: Stages) -> Callable[[], WorkerEngine]:
    """Return what opens an engine for a worker; all of them share models."""
    models = SharedModels(stages)
    return lambda: WorkerEngine.beside(first, models, stages)


def for_answering(config: Config, *, phrases: bool) -> Config:
    """Fix what a request may not vary, so that few answerers are kept: it decides on silence.

    The server's limit on questions stands in place of the command line's.
    """
    return replace(
        config,
        answer=replace(
            config.answer, threshold=_NEVER_SILENT, max_question_chars=MAX_QUESTION_CHARS
        ),
        decoding=replace(config.decoding, phrases=config.decoding.phrases and phrases),
    )


class AnswerInMaking:
    """A stream of pieces that falls silent where an answer is too improbable.

    The threshold is the request's own and is decided on here, so that requests with different ones
    share what answers.
    """

    def __init__(self, stream: AnswerStream, hits: Sequence[Served], *, threshold: float) -> None:
        self.hits = hits
        self.notice = stream.notice
        self._stream = stream
        self._threshold = threshold

    def pieces(self) -> Iterator[Piece]:
        """Yield pieces; their support is known when the first one comes."""
        for piece in self._stream:
            if 1.0 - self._stream.support > self._threshold:
                self._stream.abstains = True
                self._stream.source = iter(())
                return
            yield piece

    def answer(self) -> Answer:
        """Return the whole, generating what was not taken yet."""
        for _piece in self.pieces():
            pass
        return self._stream.answer()
