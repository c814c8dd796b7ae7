"""Searchers of a server: they share models, and tell how long each took and what each found."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from quoth.engine.models import LoadedModels
from quoth.engine.searchers import Searchers
from quoth.records import Query, Run
from quoth.search.hybrid.searcher import HybridSearcher
from quoth.server.monitoring.timings import Stages

if TYPE_CHECKING:
    from quoth.engine.language_model import OpenedModel
    from quoth.models.glow.encoder import GlowEncoder
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.search.generative.files import GenerativeModel


class SharedModels(LoadedModels):
    """Models for several engines: each is loaded once, by whichever thread comes first."""

    def __init__(self, stages: Stages) -> None:
        super().__init__()
        self._stages = stages
        self._lock = threading.Lock()
        self._language_models: WeakValueDictionary[str, OpenedModel] = WeakValueDictionary()
        self.generative_turn = threading.Lock()
        """Held while identifiers are generated: one query at a time."""

    def encoder(self, name: str) -> GlowEncoder:
        """Return an encoder that joins the queries of several threads."""
        with self._lock:
            loaded = super().encoder(name)
            from quoth.server.workers.batching_encoder import BatchingEncoder

            if not isinstance(loaded, BatchingEncoder):
                loaded = BatchingEncoder.around(loaded, self._stages)
                self._encoders[name] = loaded
            return loaded

    def generator(self, name: str) -> QueryGenerator:
        """Return a query generator."""
        with self._lock:
            return super().generator(name)

    def generative(self, folder: Path) -> GenerativeModel:
        """Return a model for generative search."""
        with self._lock:
            return super().generative(folder)

    def language_model(self, name: str) -> OpenedModel:
        """Return a language model, kept for as long as a worker answers with it."""
        from quoth.engine.language_model import open_language_model

        with self._lock:
            opened = self._language_models.get(name)
            if opened is None:
                opened = self._language_models[name] = open_language_model(name)
            return opened


class ServedSearchers(Searchers):
    """The searchers of one worker; fused ones remember what each side found."""

    stages: Stages

    def uses_generative(self, searcher: str) -> bool:
        """Whether a way of searching generates identifiers."""
        return self._uses_generative(searcher)

    def _make_hybrid(self, *, syntax: bool) -> HybridSearcher:
        return ServedHybrid.around(super()._make_hybrid(syntax=syntax), self.stages)


class ServedHybrid(HybridSearcher):
    """Fuses like any other, asks each side once per search, and says who found what.

    A search is followed by its explanation, which asks the sides the same again. All searchers of
    a worker are made anew when the collection changes, so what was found stays right until then.
    """

    stages: Stages
    _asked: tuple[object, ...] | None = None
    _allowed: set[int] | None = None
    _found: list[Run]

    @classmethod
    def around(cls, hybrid: HybridSearcher, stages: Stages) -> Self:
        """Take over the sides, weights and ranges of a searcher."""
        served = cls(
            hybrid._searchers,
            config=hybrid._config,
            weights=hybrid._weights,
            ranges=hybrid._ranges,
        )
        served.stages = stages
        served._found = []
        return served

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query by the fused score."""
        runs = self._runs(queries, k=k, allowed=allowed, silent=self._silent())
        begun = time.perf_counter()
        run = super().search(queries, k=k, allowed=allowed)
        self.stages.note("fuse", time.perf_counter() - begun)
        assert runs is self._found
        return run

    def found_by(self, docid: str) -> dict[str, tuple[int, float]]:
        """Return rank and score of a document with each side that found it in the last search."""
        return {
            run.name: (rank, hit.score)
            for run in self._found
            for hits in run.hits.values()
            for rank, hit in enumerate(hits, start=1)
            if hit.docid == docid
        }

    def _runs(
        self,
        queries: Sequence[Query],
        *,
        k: int,
        allowed: set[int] | None,
        silent: Set[str] = frozenset(),
    ) -> list[Run]:
        asked = (tuple(queries), self._depth(k), frozenset(silent))
        if asked != self._asked or allowed is not self._allowed:
            self._found = []
            for each in self._searchers:
                if each.name in silent:
                    self._found.append(Run(each.name, {query.qid: () for query in queries}))
                    continue
                with self.stages.timed(f"search {each.name}"):
                    self._found.append(each.search(queries, k=self._depth(k), allowed=allowed))
            self._asked, self._allowed = asked, allowed
        return self._found
