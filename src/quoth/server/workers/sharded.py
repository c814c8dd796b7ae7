"""The engine of one worker of a server, over a collection in shards.

A shard out of reach takes its documents along; what is found without it is served, and the worker
says which shards the last search had to do without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from quoth.collection.store import Written
from quoth.engine.answering import Asking
from quoth.records import Attention, Document, Hit, Part, Passage, Query, Snippet
from quoth.search.merged import MergedSearcher
from quoth.search.searcher import ignore_progress
from quoth.search.snippets import make_snippet
from quoth.server.errors import NotFound
from quoth.server.monitoring.timings import Stages
from quoth.server.workers.searchers import SharedModels
from quoth.server.workers.worker import (
    SNIPPET_CHARS,
    AnswerInMaking,
    Served,
    choose_searcher,
    for_answering,
    join_conditions,
)
from quoth.shards.engine import ShardedEngine
from quoth.shards.found import OutOfReach
from quoth.text.words import Analyser


class ServedShards(ShardedEngine):
    """All shards for one worker; it keeps what each side found last, to say who found a hit."""

    sides: dict[str, MergedSearcher]

    @classmethod
    def beside(cls, first: ShardedEngine, models: SharedModels) -> Self:
        """Open the same collection once more, through the same ports where they lead elsewhere."""
        ports = None if first._is_local else list(first._fan_out.ports.values())
        engine = cls(first.folder, first._given, ignore_progress, ports)
        for own, port in zip(engine._engines, engine._local, strict=True):
            own._models, port._turn = models, models.generative_turn
        engine._asking = Asking(first.folder, open_model=models.language_model)
        engine.sides = {}
        return engine

    @property
    def is_encoded(self) -> bool:
        """Whether the collection has vectors."""
        return self._engines[0].with_searchers(lambda searchers: searchers.is_encoded)

    @property
    def asking(self) -> Asking:
        """What answers questions."""
        return self._asking

    def standings(self, docid: str) -> dict[str, tuple[int, float]]:
        """Return rank and score of a document with each side that found it in the last search."""
        return {
            name: (rank, hit.score)
            for name, side in self.sides.items()
            for run in side._found.values()
            for hits in run.hits.values()
            for rank, hit in enumerate(hits, start=1)
            if hit.docid == docid
        }

    def fetch(self, docids: Sequence[str]) -> dict[str, Document]:
        """Fetch documents that are there and within reach, by docid."""
        own: dict[int, list[str]] = {}
        for docid in docids:
            own.setdefault(self.shards.shard_of(docid), []).append(docid)
        asked = self._fan_out.ask(lambda port: port.fetch(own[port.number]), own)
        return {each.docid: each for found in asked.answers.values() for each in found}

    def fetch_one(self, docid: str) -> Document | None:
        """Fetch a document, None where there is none; raises where its shard is out of reach."""
        found = self._fan_out.ports[self.shards.shard_of(docid)].fetch([docid])
        return found[0] if found else None

    def term_weights(self, query: Query, *, syntax: bool) -> dict[str, float]:
        """Return the idf of each wanted term, which every shard would say the same of."""
        return self._engines[0].with_searchers(
            lambda searchers: searchers.lexical(syntax=syntax).term_weights(query)
        )

    def _sides(self, *, where: str, syntax: bool) -> dict[str, MergedSearcher]:
        self.sides = super()._sides(where=where, syntax=syntax)
        return self.sides


class ShardedWorker:
    """An engine over all shards, for one thread."""

    def __init__(self, engine: ServedShards, stages: Stages) -> None:
        self.stages = stages
        self.unreachable: tuple[OutOfReach, ...] = ()
        self._engine = engine
        self.status = engine.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all files."""
        self._engine.close()

    def choose(self, searcher: str) -> str:
        """Return the best searcher that the collection has where it may choose."""
        return choose_searcher(searcher, is_encoded=lambda: self._engine.is_encoded)

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
        """Find hits `offset` + 1 to `offset` + k within reach, with all that is shown of them."""
        condition = join_conditions(where)
        with self.stages.timed("search"):
            with self.stages.timed(f"search {searcher}"):
                found = self._engine.find(
                    query, k=offset + k, where=condition, searcher=searcher, syntax=syntax
                )
            self.unreachable = found.unreachable
            ranked = list(enumerate(found.hits, start=1))[offset:]
            standings = [self._found_by(searcher, rank, hit) for rank, hit in ranked]
            with self.stages.timed("show"):
                documents = self._engine.fetch([hit.docid for _rank, hit in ranked])
                passages = [hit.passage for _rank, hit in ranked]
                snippets = self._snippets(query, passages, syntax=syntax)
            parts: Sequence[Part | None] = [None] * len(ranked)
            if explain and ranked:
                docids = [hit.docid for _rank, hit in ranked]
                with self.stages.timed("explain"):
                    parts = self._engine.explain(
                        query, docids, k=offset + k, where=condition, searcher=searcher
                    )
        shown = zip(ranked, snippets, standings, parts, strict=True)
        return tuple(
            Served(rank, hit, _shown(documents, hit.docid), snippet, found_by, part)
            for (rank, hit), snippet, found_by, part in shown
        )

    def explain_hits(
        self, query: str, docids: Sequence[str], *, searcher: str
    ) -> tuple[tuple[Part, Attention | None], ...]:
        """Say what scores are made of, and where the encoder looked."""
        for docid in docids:
            self.require(docid)
        with self.stages.timed("explain"):
            parts = self._engine.explain(query, docids, searcher=searcher)
            looks = self._engine.attention(query, docids, searcher=searcher)
        return tuple(zip(parts, looks, strict=True))

    def require(self, docid: str) -> Document:
        """Fetch a document, or say that there is none, or that its shard is out of reach."""
        found = self._engine.fetch_one(docid)
        if found is None:
            raise NotFound(f"there is no document {docid!r}")
        return found

    def put(self, documents: Sequence[Document]) -> Written:
        """Add or update documents, none of them where one cannot be stored."""
        with self.stages.timed("write"):
            return self._engine.add_documents(documents)

    def take_out(self, docid: str) -> None:
        """Remove a document, or say that there is none."""
        with self.stages.timed("write"):
            if self._engine.remove([docid]):
                raise NotFound(f"there is no document {docid!r}")

    def begin_answer(
        self, question: str, *, k: int, searcher: str, threshold: float | None, phrases: bool
    ) -> AnswerInMaking:
        """Search, and begin to answer from what was found."""
        config = self._engine.config
        hits = self.find(question, k=k, searcher=searcher, syntax=False)
        stream = self._engine.asking.ask(
            question, [each.hit for each in hits], config=for_answering(config, phrases=phrases)
        )
        least = config.answer.threshold if threshold is None else threshold
        return AnswerInMaking(stream, hits, threshold=least)

    def load_language_model(self) -> None:
        """Load what answers, so that the first question need not wait for it."""
        self._engine.asking.ask("", [], config=for_answering(self._engine.config, phrases=True))

    def show_passages(self, question: str, passages: Sequence[Passage]) -> list[Snippet | None]:
        """Cut what is shown of the passages that an answer is made from."""
        return self._snippets(question, passages, syntax=False)

    # Inner workings --------------------------------------------------------------------------

    def _found_by(self, searcher: str, rank: int, hit: Hit) -> dict[str, tuple[int, float]]:
        if searcher == "hybrid":
            return self._engine.standings(hit.docid)
        return {searcher: (rank, hit.score)}

    def _snippets(
        self, query: str, passages: Sequence[Passage | None], *, syntax: bool
    ) -> list[Snippet | None]:
        weights = self._engine.term_weights(Query("", query), syntax=syntax)
        analyser = Analyser(self._engine.config.analyser)
        return [
            None
            if passage is None
            else make_snippet(passage, weights, analyser=analyser, max_chars=SNIPPET_CHARS)
            for passage in passages
        ]


def _shown(documents: Mapping[str, Document], docid: str) -> Document:
    """Return a document, an empty one where its shard was lost after it had been found."""
    return documents.get(docid) or Document(docid, {})
