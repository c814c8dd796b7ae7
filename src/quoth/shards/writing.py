"""Writing to all shards of a collection: each document to its own, then statistics exchanged."""

from __future__ import annotations

import contextlib
import heapq
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quoth.collection.content import find_problem
from quoth.collection.preparing import CutDocument, Prepared
from quoth.collection.shards import ShardSet
from quoth.collection.store import Store, Written
from quoth.collection.store_reader import StoredDocument
from quoth.engine.calibrating import RerankingTrial, calibrate_fusion
from quoth.engine.writing import locked
from quoth.errors import Busy, CorpusError, IndexMismatch, MissingExtra
from quoth.records import Document, Query
from quoth.search.fan_out import FanOut
from quoth.search.hybrid.calibration import Calibration
from quoth.search.merged import MergedSearcher
from quoth.search.searcher import Progress
from quoth.settings.config import Config
from quoth.shards.encoding import encode_together
from quoth.shards.found import read_shown
from quoth.shards.global_statistics import agree_on_fields, exchange_is_due, write_sums
from quoth.shards.installing import finish_installing, is_installing
from quoth.shards.port import LocalPort, ShardEngine
from quoth.text.words import Analyser

_logger = logging.getLogger(__name__)


class ShardWriter:
    """All shards, opened for writing.

    Rows are numbered through all shards, so that their order is that of the collection in one
    piece. A batch is durable in each shard when `add` returns; a kill may leave it in some shards
    only, and adding again brings the rest.
    """

    def __init__(self, shards: ShardSet, stores: Sequence[Store]) -> None:
        self._shards = shards
        self._stores = stores
        self._last_row = max(store.last_row for store in stores)
        self._fields = list(stores[0].fields())

    def digests(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Map docids to the digests of what is stored of them; others are left out."""
        return {
            docid: own for store in self._stores for docid, own in store.digests(docids).items()
        }

    def add(
        self, documents: Sequence[Document], *, cut: CutDocument, prepared: Prepared | None = None
    ) -> Written:
        """Add or update a batch, each document in its shard."""
        for document in documents:
            if problem := find_problem(document):
                raise CorpusError(f"document {document.docid!r} {problem}")
        self._know_fields(documents)
        by_shard: dict[int, list[tuple[Document, int]]] = {}
        for document in documents:
            self._last_row += 1
            number = self._shards.shard_of(document.docid)
            by_shard.setdefault(number, []).append((document, self._last_row))
        counts = [
            self._stores[number].add(
                [document for document, _row in own],
                cut=cut,
                rows=[row for _document, row in own],
                prepared=prepared,
            )
            for number, own in sorted(by_shard.items())
        ]
        return Written(
            sum(each.added for each in counts),
            sum(each.updated for each in counts),
            sum(each.unchanged for each in counts),
        )

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there, in the order given."""
        by_shard: dict[int, list[str]] = {}
        for docid in docids:
            by_shard.setdefault(self._shards.shard_of(docid), []).append(docid)
        missing = {
            number: iter(self._stores[number].remove(own)) for number, own in by_shard.items()
        }
        heads = {number: next(each, None) for number, each in missing.items()}
        ordered = []
        for docid in docids:
            number = self._shards.shard_of(docid)
            if heads[number] == docid:
                ordered.append(docid)
                heads[number] = next(missing[number], None)
        return tuple(ordered)

    def put_identifiers(
        self, texts_by_docid: Mapping[str, Sequence[str]], *, origin: str
    ) -> tuple[str, ...]:
        """Replace one origin's identifiers of documents; returns docids that were not there."""
        by_shard: dict[int, dict[str, Sequence[str]]] = {}
        for docid, texts in texts_by_docid.items():
            by_shard.setdefault(self._shards.shard_of(docid), {})[docid] = texts
        missing = [
            self._stores[number].put_identifiers(own, origin=origin)
            for number, own in sorted(by_shard.items())
        ]
        return tuple(docid for each in missing for docid in each)

    def setting(self, name: str) -> Any:
        """Read a value that is kept with every shard."""
        return self._stores[0].setting(name)

    def set_setting(self, name: str, value: object) -> None:
        """Keep a value with every shard."""
        for store in self._stores:
            store.set_setting(name, value)

    def _know_fields(self, documents: Sequence[Document]) -> None:
        """Number new fields in order of appearance, the same in every shard."""
        names = dict.fromkeys(name for document in documents for name in document.fields)
        if fresh := [name for name in names if name not in self._fields]:
            self._fields += fresh
            for store in self._stores:
                store.put_fields(self._fields)


@contextlib.contextmanager
def writing_shards(
    shards: ShardSet, engines: Sequence[ShardEngine], *, wait_seconds: float, progress: Progress
) -> Iterator[tuple[ShardWriter, Config]]:
    """Be the one writer of all shards; afterwards statistics are exchanged, even if it failed."""
    with locked(shards.folder, wait_seconds=wait_seconds):
        finish_installing(shards)
        if exchange_is_due(shards):
            exchange_statistics(shards, engines, progress=progress)
        try:
            with contextlib.ExitStack() as opened:
                pairs = [opened.enter_context(engine.writing()) for engine in engines]
                yield ShardWriter(shards, [store for store, _config in pairs]), pairs[0][1]
        finally:
            if exchange_is_due(shards):
                exchange_statistics(shards, engines, progress=progress)


def sync_statistics(
    shards: ShardSet, engines: Sequence[ShardEngine], *, progress: Progress
) -> bool:
    """Exchange statistics if that is due and nobody is writing; tells whether they are current."""
    if not exchange_is_due(shards) and not is_installing(shards):
        return True
    try:
        with locked(shards.folder, wait_seconds=0.0):
            finish_installing(shards)
            exchange_statistics(shards, engines, progress=progress)
    except Busy:
        return False
    return True


def calibrate_shards(
    shards: ShardSet, ports: Sequence[LocalPort], config: Config, *, seed: int, progress: Progress
) -> Calibration:
    """Find out how to fuse, over all shards: the same as for the collection in one piece."""
    with contextlib.ExitStack() as opened:
        stores = [
            opened.enter_context(contextlib.closing(Store.open(path))) for path in shards.shards
        ]
        fan_out = FanOut(ports)
        opened.callback(fan_out.close)
        return calibrate_fusion(
            _AllDocuments(shards, stores),
            [_Scoring(name, fan_out, ports[0], shards) for name in ("lexical", "dense")],
            analyser=Analyser(config.analyser),
            fusion=config.fusion,
            reranking=_reranking(fan_out, ports[0], shards),
            seed=seed,
            progress=progress,
        )


def _reranking(fan_out: FanOut, port: LocalPort, shards: ShardSet) -> RerankingTrial | None:
    side = MergedSearcher("lexical", fan_out, shard_of=shards.shard_of, syntax=False)
    read = read_shown(side, searcher="hybrid", syntax=False)
    return port.engine.with_searchers(lambda searchers: searchers.reranking_trial(read), "hybrid")


class _AllDocuments:
    """The documents of all shards in the order of their rows, as if they were in one."""

    def __init__(self, shards: ShardSet, stores: Sequence[Store]) -> None:
        self._shards = shards
        self._stores = stores

    def live_documents(self) -> Iterator[StoredDocument]:
        """Yield all documents in row order."""
        return heapq.merge(
            *(store.live_documents() for store in self._stores),
            key=lambda stored: (stored.row, stored.document.docid),
        )

    def rows(self, docids: Sequence[str]) -> dict[str, int]:
        """Map docids to rows."""
        return {
            docid: row
            for docid in docids
            for row in self._stores[self._shards.shard_of(docid)].rows([docid]).values()
        }

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map rows to documents."""
        return {row: each for store in self._stores for row, each in store.documents(rows).items()}


class _Scoring(MergedSearcher):
    """A merged searcher that also scores documents which are in no shard."""

    def __init__(self, name: str, fan_out: FanOut, any_port: LocalPort, shards: ShardSet) -> None:
        super().__init__(
            name, fan_out, shard_of=shards.shard_of, syntax=False, prepare=any_port.prepare
        )
        self._any_port = any_port

    def score(self, queries: Sequence[Query], documents: Sequence[Document]) -> tuple[float, ...]:
        """Score each document for its own query; every shard would say the same."""
        return self._any_port.score(queries, documents, searcher=self.name)


def exchange_statistics(
    shards: ShardSet, engines: Sequence[ShardEngine], *, progress: Progress
) -> None:
    """Sum up the statistics of all shards for each; the caller holds the lock of the set.

    First every shard gets the same fields and a current lexical index; at the end vectors and
    identifiers follow, as documents may be encoded with the sums.
    """
    fields = agree_on_fields([engine.fields() for engine in engines])
    for engine in engines:
        engine.adopt_fields(fields)
    write_sums(shards)
    try:
        encode_together(engines, anew=False, progress=progress)
    except (MissingExtra, IndexMismatch):
        _logger.debug("vectors wait; each shard will say so")
    for engine in engines:
        engine.follow_exchange()
