"""A collection in shards, opened: what `Engine` offers, over all shards at once.

engine = ShardedEngine.open("notes.shards")
engine.find(SearchRequest("owls that hunt at dusk")).hits

Rankings are those of the collection in one piece (see search/merged.py for what is exact).
Searching goes through ports, which may stand for shards elsewhere; writing, and whatever looks at a
collection as a whole, opens the folders themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from quoth.collection.shards import open_shards
from quoth.collection.store import Written
from quoth.engine.adding import AddReport, add_in_batches, add_sources
from quoth.engine.answering import Asking, OpenModel
from quoth.engine.base import EngineBase
from quoth.engine.finding import CutSnippet, Ranking
from quoth.engine.models import LoadedModels
from quoth.engine.verify import Damage, lock_to_verify
from quoth.engine.writing import locked
from quoth.errors import NotFound, OutOfDate, ShardDown
from quoth.records import (
    Attention,
    Document,
    Part,
    Query,
    Run,
    SearchRequest,
    ShownHits,
)
from quoth.search.fan_out import FanOut, ShardPort
from quoth.search.hybrid.calibration import Calibration
from quoth.search.near import NearUnits
from quoth.search.searcher import Progress, Timed, ignore_progress, untimed
from quoth.settings.config import Config, Values, build_config
from quoth.shards.encoding import encode_together
from quoth.shards.finding import ShardFinder
from quoth.shards.found import FoundRun, out_of_reach, warn
from quoth.shards.global_statistics import exchange_is_due
from quoth.shards.port import LocalPort, ShardEngine
from quoth.shards.searchers import ShardSearchers, coverage
from quoth.shards.status import describe_all, join_damage
from quoth.shards.writing import (
    ShardWriter,
    calibrate_shards,
    exchange_statistics,
    sync_statistics,
    writing_shards,
)
from quoth.text.readers.reading import Report

_T = TypeVar("_T")


class ShardedEngine(EngineBase):
    """All shards of one collection, opened."""

    def __init__(
        self,
        folder: Path,
        given: Sequence[Values],
        progress: Progress,
        ports: Sequence[ShardPort] | None,
        *,
        models: LoadedModels | None = None,
        open_model: OpenModel | None = None,
        timed: Timed = untimed,
    ) -> None:
        self.folder = folder
        self.shards = open_shards(folder)
        self._given = given
        self._progress = progress
        self._timed = timed
        turn = threading.RLock() if models is None else models.turn
        models = models or LoadedModels()
        self._engines = [
            ShardEngine(path, given, progress, models=models) for path in self.shards.shards
        ]
        self._local = [LocalPort(engine, turn) for engine in self._engines]
        self.is_local = ports is None
        asked: Sequence[ShardPort] = self._local if ports is None else ports
        self._asks_once = len(asked) == 1 or any(port.is_costly for port in asked)
        self._fan_out = FanOut(asked)
        self._searchers = ShardSearchers(self.shards, self._local, self._fan_out)
        self._asking = Asking(folder, models=models, open_model=open_model)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        settings: Sequence[Values] = (),
        progress: Progress = ignore_progress,
        ports: Sequence[ShardPort] | None = None,
    ) -> Self:
        """Open a collection in shards; `ports` say where the shards are asked, if not here.

        An exchange of statistics that a killed writer left undone is finished, unless a writer is
        at work.
        """
        build_config(*settings)
        engine = cls(Path(folder), settings, progress, ports)
        engine._exchange_if_due()
        return engine

    def beside(
        self,
        models: LoadedModels,
        *,
        open_model: OpenModel,
        timed: Timed,
        settings: Sequence[Values] = (),
    ) -> ShardedEngine:
        """Open it once more for another thread, with models and ports elsewhere that are shared."""
        return ShardedEngine(
            self.folder,
            (*self._given, *settings),
            ignore_progress,
            None if self.is_local else list(self._fan_out.ports.values()),
            models=models,
            open_model=open_model,
            timed=timed,
        )

    def close(self) -> None:
        """Release all files; ports that were given stay open."""
        self._fan_out.close()
        self._asking.close()
        for port in self._local:
            port.close()

    # Writing ---------------------------------------------------------------------------------

    def add(self, sources: Sequence[str], *, report: Report | None = None) -> AddReport:
        """Read sources and add or update their documents, each in its shard.

        What cannot be read goes to `report`; without one, the first problem stops the reading.
        """
        with self.writing() as (writer, config):
            return add_sources(sources, writer, config, report=report, progress=self._progress)

    def add_documents(self, documents: Iterable[Document]) -> Written:
        """Add or update documents made by the caller."""
        with self.writing() as (writer, config):
            return add_in_batches(documents, writer, config, progress=self._progress)

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        with self.writing() as (writer, _config):
            return writer.remove(docids)

    def writing(self) -> AbstractContextManager[tuple[ShardWriter, Config]]:
        """Be the one writer of all shards; afterwards statistics are exchanged."""
        wait, progress = self._wait, self._progress
        return writing_shards(self.shards, self._engines, wait_seconds=wait, progress=progress)

    def exchange(self) -> None:
        """Sum up the statistics of all shards for each, after they were written to one by one."""
        with locked(self.folder, wait_seconds=self._wait):
            exchange_statistics(self.shards, self._engines, progress=self._progress)

    # Searching -------------------------------------------------------------------------------

    def _find(self, request: SearchRequest, *, least: float | None) -> ShownHits:
        """Find the hits within reach that a request asks for, with all that is shown of them."""
        searcher, rerank = self.decide(request.searcher, request.rerank)
        request = replace(request, searcher=searcher, rerank=rerank)

        def look() -> ShownHits:
            sides = self._searchers.sides(searcher, where=request.where, syntax=request.syntax)
            using = self._searchers.get(
                searcher,
                sides,
                rerank=rerank,
                syntax=request.syntax,
                feedback=request.feedback,
            )
            finder = ShardFinder(
                Ranking(request, using),
                sides["lexical"],
                lambda docids: self.attention(request.query, docids, searcher=searcher),
                self._timed,
                asks_once=self._asks_once,
            )
            shown = finder.find() if least is None else finder.find_distinct(least=least)
            unreachable = out_of_reach(self.shards, sides.values())
            by = self.config.rerank.by if rerank else ""
            better = self._engines[0].suggest(request)
            return ShownHits(shown, searcher, unreachable, by, better, coverage(searcher, sides))

        with self._timed("search"):
            return self._read(look)

    def _near(self, query: Query, docids: Sequence[str]) -> Mapping[str, NearUnits]:
        side = self._searchers.sides("dense", where="", syntax=False)["dense"]
        return self._read(lambda: side.near(query, docids))

    def decide(self, searcher: str, rerank: bool | None) -> tuple[str, bool]:
        """Return the searcher that a name stands for, and whether its hits are reranked."""
        return self._searchers.decide(searcher, rerank)

    def find_many(
        self,
        queries: Sequence[Query],
        *,
        k: int = 1000,
        where: str = "",
        searcher: str = "auto",
        syntax: bool = False,
        rerank: bool | None = None,
    ) -> FoundRun:
        """Search many queries within reach; hits carry no passages."""
        chosen, is_reranked = self.decide(searcher, rerank)

        def look() -> FoundRun:
            sides = self._searchers.sides(chosen, where=where, syntax=syntax)
            using = self._searchers.get(chosen, sides, rerank=is_reranked, syntax=syntax)
            run = using.search(queries, k=k, allowed=None)
            return FoundRun(run, out_of_reach(self.shards, sides.values()))

        return self._read(look)

    def run(
        self,
        queries: Sequence[Query],
        *,
        k: int = 1000,
        where: str = "",
        searcher: str = "auto",
        syntax: bool = False,
        rerank: bool | None = None,
    ) -> Run:
        """Search many queries, as plain words unless `syntax` is set; hits carry no passages."""
        found = self.find_many(
            queries, k=k, where=where, searcher=searcher, syntax=syntax, rerank=rerank
        )
        warn(found.unreachable)
        return found.run

    def explain(
        self,
        text: str,
        docids: Sequence[str],
        *,
        k: int = 10,
        where: str = "",
        searcher: str = "auto",
        rerank: bool | None = None,
    ) -> tuple[Part, ...]:
        """Say what each hit's score is made of; the parts add up to it."""
        chosen, is_reranked = self.decide(searcher, rerank)
        documents = [self.document(docid) for docid in docids]

        def look() -> tuple[Part, ...]:
            sides = self._searchers.sides(chosen, where=where, syntax=True)
            using = self._searchers.get(chosen, sides, rerank=is_reranked, syntax=True)
            return using.explain(Query("", text), documents, k=k)

        with self._timed("explain"):
            return self._read(look)

    def attention(
        self, text: str, docids: Sequence[str], *, searcher: str = "dense"
    ) -> tuple[Attention | None, ...]:
        """Say which words of query and document the encoder looked at; None without vectors."""
        searcher = self.choose(searcher)

        def look() -> tuple[Attention | None, ...]:
            ports = (self._local[self.shards.shard_of(docid)] for docid in docids)
            pairs = zip(ports, docids, strict=True)
            return tuple(
                port.attention(text, [docid], searcher=searcher)[0] for port, docid in pairs
            )

        return self._read(look)

    def snippets(self, query: str, *, syntax: bool = True, max_chars: int = 240) -> CutSnippet:
        """Return what cuts snippets for a query; every shard would cut the same."""
        first = self._engines[0]
        return self._read(lambda: first.snippets(query, syntax=syntax, max_chars=max_chars))

    def document(self, docid: str) -> Document:
        """Fetch a document; raises where its shard is out of reach."""
        shard, ask = self.shards.shard_of(docid), self._fan_out.ask
        place = self._fan_out.place(shard)
        asked = self._read(lambda: ask(lambda port: port.fetch([docid]), [place]))
        if shard in asked.unreachable:
            raise ShardDown(shard, asked.unreachable[shard])
        (found,) = asked.answers.values()
        if not found:
            raise NotFound(f"there is no document {docid!r} in {self.folder.name}")
        return found[0]

    def docids(self) -> tuple[str, ...]:
        """List the docids of all documents, in the order they were added."""
        found = [each for engine in self._engines for each in engine.docids_by_row().items()]
        return tuple(docid for _row, docid in sorted(found))

    # Learning and looking after --------------------------------------------------------------

    def encode(self, *, seed: int = 0) -> Calibration:
        """Give every document its vectors, and find out how to fuse them with BM25 over all.

        Interrupted, it resumes where it stopped. From then on writing keeps the vectors in step.
        """
        with locked(self.folder, wait_seconds=self._wait):
            if exchange_is_due(self.shards):
                exchange_statistics(self.shards, self._engines, progress=self._progress)
            encode_together(self._engines, anew=True, progress=self._progress)
            calibration = calibrate_shards(
                self.shards, self._local, self.config, seed=seed, progress=self._progress
            )
            for engine in self._engines:
                engine.keep_calibration(calibration)
        return calibration

    def status(self) -> dict[str, Any]:
        """Describe the collection, and each shard of it."""
        ask = self._fan_out.ask
        return describe_all(self.shards, self._read(lambda: ask(lambda port: port.status())))

    def verify(self, *, repair: bool = False) -> Damage:
        """Check every shard, and what they have exchanged; `repair` mends what differs."""
        lock = locked(self.folder, wait_seconds=self._wait)
        with lock_to_verify(self.folder, lock, repair=repair):
            found = [engine.verify(repair=repair) for engine in self._engines]
            is_due = exchange_is_due(self.shards)
            if repair and is_due and not any(each.store for each in found):
                exchange_statistics(self.shards, self._engines, progress=self._progress)
        return join_damage(self.shards, found, exchange_is_due=is_due, repair=repair)

    @property
    def config(self) -> Config:
        """The settings in force: given ones over those the collection was made with."""
        return self._engines[0].config

    # Inner workings --------------------------------------------------------------------------

    @property
    def _wait(self) -> float:
        return build_config(*self._given).collection.wait_seconds

    def _read(self, look: Callable[[], _T]) -> _T:
        """Look; again, where statistics had to be exchanged first and nobody else was at it."""
        try:
            return look()
        except OutOfDate:
            if not self._exchange_if_due():
                raise
        return look()

    def _exchange_if_due(self) -> bool:
        """Finish what a killed writer left, unless one is at work; tells whether it did."""
        return sync_statistics(self.shards, self._engines, progress=self._progress)
