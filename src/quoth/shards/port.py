"""One shard in this process: an engine that scores with the statistics of all shards."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from quoth.collection.lock import hold_writer_lock
from quoth.collection.shards import is_sharded, shard_number
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.lookup import HitDocuments, allowed_rows, find_newest, newest
from quoth.engine.models import LoadedModels
from quoth.engine.searchers import Searchers
from quoth.errors import Busy, CollectionError
from quoth.records import Attention, Document, Hit, Part, Query, SearchRequest, ShownHit, ShownHits
from quoth.search.coverage import HeldVectors
from quoth.search.hybrid.calibration import Calibration
from quoth.search.near import NearUnits
from quoth.search.searcher import Progress, ScoringSearcher, Timed, ignore_progress, untimed
from quoth.search.shard_questions import ShardHits, ShardQuestion, as_columns
from quoth.settings.config import Config, Values
from quoth.shards.global_statistics import EXCHANGED_FILE, out_of_date, read_exchange

if TYPE_CHECKING:
    from quoth.search.dense.searcher import DenseSearcher

_T = TypeVar("_T")


class ShardEngine(Engine):
    """A shard, opened. Written to, its vectors wait for the exchange that follows."""

    def __init__(
        self,
        folder: Path,
        given: Sequence[Values],
        progress: Progress,
        *,
        models: LoadedModels | None = None,
        timed: Timed = untimed,
    ) -> None:
        """Open a shard; `models` are those that it shares with the others."""
        super().__init__(folder, given, progress, models=models, timed=timed)
        number = shard_number(folder)
        if number is None:
            raise CollectionError(f"{folder} is a collection of its own, not a shard of another")
        self.number = number
        self._exchanged = folder / EXCHANGED_FILE
        self._exchange_path = str(self._exchanged)  # looked at several times a search
        self._looked_at: tuple[int, int] | None = None

    # For a port ------------------------------------------------------------------------------

    def find_each(self, request: SearchRequest) -> ShownHits:
        """Find hits, each document for itself: who asks all shards puts the same together."""
        return self._find(request, least=None)

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits that were found among all shards; what is gone is left out."""
        return self._read(lambda store: self._finder(store).show(request, hits), request.searcher)

    def show_settled(self, request: SearchRequest, docids: Sequence[str]) -> tuple[ShownHit, ...]:
        """Score documents by words exactly, and show them; what is gone is left out."""

        def look(store: Store) -> tuple[ShownHit, ...]:
            lexical = self._searchers.lexical(syntax=request.syntax)
            scores = lexical.settle(Query("", request.query), docids)
            pairs = zip(docids, scores, strict=True)
            hits = [Hit(docid, score) for docid, score in pairs if score is not None]
            return self._finder(store).show(request, hits)

        return self._read(look, request.searcher)

    def suggest(self, request: SearchRequest) -> str:
        """Write the query with words of all shards for those it lacks; empty without any."""
        return self._read(lambda store: self._finder(store).suggest(request))

    def answer_question(self, question: ShardQuestion) -> tuple[ShardHits, ...]:
        """Find the best documents of the shard for each query."""

        def look(store: Store) -> tuple[ShardHits, ...]:
            own, queries, k = self._searchers, question.queries, question.k
            if question.prepared is not None:
                asked = _asked_of(own, question.searcher, queries, question.syntax)
                _PREPARED[question.searcher][1](own, asked, question)
            allowed = allowed_rows(store, question.where)
            if question.searcher == "lexical" and not question.exactly:
                lexical = own.lexical(syntax=question.syntax)
                return lexical.propose(queries, k=k, allowed=allowed)
            using = own.get(question.searcher, syntax=question.syntax)
            run = using.search(queries, k=k, allowed=allowed)
            return tuple(as_columns(run.hits[query.qid]) for query in queries)

        return self._read(look, question.searcher)

    def explain_hits(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool
    ) -> tuple[Part, ...]:
        """Say what scores are made of."""

        def look(store: Store) -> tuple[Part, ...]:
            documents = newest(store, docids)
            return self._searchers.get(searcher, syntax=syntax).explain(query, documents)

        return self._read(look, searcher)

    def sign(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Return what tells near-identical documents, of those that are there."""

        def look(store: Store) -> dict[str, bytes]:
            hits = [Hit(docid, 0.0) for docid in store.rows(docids)]
            signatures = HitDocuments(store).signatures(hits)
            return {hit.docid: each for hit, each in zip(hits, signatures, strict=True)}

        return self._read(look)

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Fetch the documents that are there."""

        def look(store: Store) -> tuple[Document, ...]:
            found = find_newest(store, docids)
            return tuple(found[docid].document for docid in docids if docid in found)

        return self._read(look)

    def with_searchers(self, look: Callable[[Searchers], _T], searcher: str = "lexical") -> _T:
        """Look at the searchers of the shard."""
        return self._read(lambda _store: look(self._searchers), searcher)

    # For the exchange ------------------------------------------------------------------------

    def fields(self) -> tuple[str, ...]:
        """Names of all fields of the shard, in order."""
        with contextlib.closing(Store.open(self.folder)) as store:
            return store.fields()

    def docids_by_row(self) -> dict[int, str]:
        """Map the rows of all documents to their docids."""
        with contextlib.closing(Store.open(self.folder)) as store, store.snapshot():
            return store.docids(sorted(store.live_rows()))

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[Store, Config]]:
        """Be the one writer; afterwards the lexical index has caught up."""
        with self._writing() as opened:
            yield opened

    def adopt_fields(self, fields: Sequence[str]) -> None:
        """Know these fields, and bring the lexical index up to date."""
        with self._writing() as (store, _config):
            store.put_fields(fields)

    def follow_exchange(self) -> None:
        """Bring vectors and identifiers up to date with new statistics."""
        with self._locked(), contextlib.closing(Store.create(self.folder)) as store:
            super()._catch_up(store)
        self._let_go()

    @contextlib.contextmanager
    def filling(self, *, anew: bool) -> Iterator[tuple[Store, DenseSearcher] | None]:
        """Be the one writer of vectors; None where there are to be none, or all are there.

        With `anew`, the first are wanted, and those of another model are given up.
        """
        with self._locked(), contextlib.closing(Store.create(self.folder)) as store:
            searchers = self.make_searchers(store, self._require_stored_settings(store))
            if anew and searchers.dense_side().is_foreign():
                searchers.dense_side().discard()
            is_due = anew or searchers.is_encoded
            has_all = is_due and searchers.dense_side().is_complete(store.change)
            yield (store, searchers.dense_side()) if is_due and not has_all else None
            searchers.close()
        self._let_go()

    def keep_calibration(self, calibration: Calibration) -> None:
        """Save what was found out about fusing, for the shard alone and for all."""
        with self._locked(), contextlib.closing(Store.create(self.folder)) as store:
            searchers = self.make_searchers(store)
            searchers.keep_calibration(calibration)
            searchers.close()
        self._let_go()

    # Inner workings --------------------------------------------------------------------------

    def _catch_up(self, store: Store) -> None:
        searchers = self.make_searchers(store)
        searchers.catch_up(store, searcher="lexical", progress=self._progress)
        searchers.close()

    def _read(self, look: Callable[[Store], _T], searcher: str = "lexical") -> _T:
        state = self._exchange_state()
        if state != self._looked_at:  # other shards may have changed while this one has not
            self._let_go()
            self._looked_at = state
        return super()._read(look, searcher)

    def _exchange_state(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._exchange_path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _follow(self, store: Store, searcher: str) -> None:
        exchange = read_exchange(self.folder)
        if exchange is not None and exchange.covers_store(self.number, store):
            super()._follow(store, searcher)
        elif exchange is None or not self._is_being_written():
            raise out_of_date(self.folder)
        else:  # until its writer exchanges, search goes on with the statistics before
            self._let_go()

    def _is_being_written(self) -> bool:
        """Whether somebody is at work who will exchange when done."""
        if not is_sharded(self.folder.parent):
            return False
        try:
            with hold_writer_lock(self.folder.parent, wait_seconds=0.0):
                exchange, store = read_exchange(self.folder), self._reader()
                is_done = exchange is not None and exchange.covers_store(self.number, store)
                return is_done  # just now
        except Busy:
            return True


def _asked_of(own: Searchers, searcher: str, queries: Sequence[Query], syntax: bool) -> list[Query]:
    """Return the queries that ask a searcher for anything, as it reads them."""
    if searcher != "lexical":
        queries = [own.plain(query, syntax=syntax) for query in queries]
    return [query for query in queries if query.text.strip()]


_Make = Callable[[Searchers, Sequence[Query], bool], Any]
_Take = Callable[[Searchers, Sequence[Query], ShardQuestion], None]
_PREPARED: Mapping[str, tuple[_Make, _Take]] = {
    "lexical": (
        lambda own, queries, syntax: own.lexical(syntax=syntax).query_statistics(queries),
        lambda own, queries, asked: own.lexical(syntax=asked.syntax).know_statistics(
            queries, asked.prepared
        ),
    ),
    "dense": (
        lambda own, queries, _syntax: own.dense().query_vectors(queries),
        lambda own, queries, asked: own.dense().know_vectors(queries, asked.prepared),
    ),
    "generative": (
        lambda own, queries, _syntax: own.generative().phrase_scores(queries),
        lambda own, queries, asked: own.generative().know_scores(queries, asked.prepared),
    ),
}
"""By searcher: what makes of queries what is the same for all shards, and who takes it."""


class LocalPort:
    """A shard in this process; one question at a time."""

    is_costly = False
    is_here = True

    def __init__(
        self, engine: ShardEngine, turn: contextlib.AbstractContextManager[object] | None = None
    ) -> None:
        """Offer a shard; those that share models take turns at searching with them."""
        self.number = engine.number
        self.shards: tuple[int, ...] = (engine.number,)
        self.engine = engine
        self._lock = threading.Lock()
        self._turn = turn or threading.RLock()

    @classmethod
    def open(cls, folder: str | Path, *, settings: Sequence[Values] = ()) -> Self:
        """Open a shard alone, to be asked from elsewhere."""
        return cls(ShardEngine(Path(folder), settings, ignore_progress))

    def prepare(self, searcher: str, queries: Sequence[Query], syntax: bool) -> Any:
        """Make of queries what every shard would make of them before it looks into itself."""
        if searcher not in _PREPARED:
            return None

        def make(own: Searchers) -> Any:
            asked = _asked_of(own, searcher, queries, syntax)
            return _PREPARED[searcher][0](own, asked, syntax) if asked else None

        with self._having_turn(searcher):
            return self.engine.with_searchers(make, searcher)

    def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
        """Find the best documents of the shard by several searchers, for each query of each."""
        found = []
        for question in questions:
            with self._having_turn(question.searcher):
                found.append(self.engine.answer_question(question))
        return tuple(found)

    def settle(
        self, question: ShardQuestion, docids: Sequence[Sequence[str]]
    ) -> tuple[tuple[float | None, ...], ...]:
        """Score documents that were proposed for each query exactly; None where one is gone."""

        def look(searchers: Searchers) -> tuple[tuple[float | None, ...], ...]:
            lexical = searchers.lexical(syntax=question.syntax)
            pairs = zip(question.queries, docids, strict=True)
            return tuple(lexical.settle(query, own) if own else () for query, own in pairs)

        with self._having_turn(question.searcher):
            return self.engine.with_searchers(look, question.searcher)

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        """Find the best documents of the shard, with all that is shown of them."""
        with self._having_turn(request.searcher):
            return self.engine.find_each(request).hits

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        """Show hits of the shard that were found for a request."""
        with self._having_turn(request.searcher):
            return self.engine.show(request, hits)

    def show_settled(self, request: SearchRequest, docids: Sequence[str]) -> tuple[ShownHit, ...]:
        """Score documents that were proposed for a request exactly, and show them."""
        with self._having_turn(request.searcher):
            return self.engine.show_settled(request, docids)

    def sign(self, docids: Sequence[str]) -> dict[str, bytes]:
        """Return what tells near-identical documents; those that are not there are left out."""
        with self._lock:
            return self.engine.sign(docids)

    def near(self, query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""
        with self._having_turn("dense"):
            return self.engine.with_searchers(lambda own: dict(own.near(query, docids)), "dense")

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> tuple[Part, ...]:
        """Say what scores are made of."""
        with self._having_turn(searcher):
            return self.engine.explain_hits(query, docids, searcher=searcher, syntax=syntax)

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Fetch documents of the shard; those that are not there are left out."""
        with self._lock:
            return self.engine.fetch(docids)

    def held(self) -> HeldVectors:
        """Count the vectors of the shard, and those it will have."""
        with self._having_turn("dense"):
            return self.engine.with_searchers(lambda own: own.dense().held(), "dense")

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        """Say which of these documents of the shard have no vector yet."""
        with self._having_turn("dense"):
            return self.engine.with_searchers(lambda own: own.dense().lacking(docids), "dense")

    def attention(
        self, text: str, docids: Sequence[str], *, searcher: str
    ) -> tuple[Attention | None, ...]:
        """Say which words the encoder looked at."""
        with self._having_turn(searcher):
            return self.engine.attention(text, docids, searcher=searcher)

    def score(
        self, queries: Sequence[Query], documents: Sequence[Document], *, searcher: str
    ) -> tuple[float, ...]:
        """Score each document for its own query as if it were in the collection."""

        def look(searchers: Searchers) -> tuple[float, ...]:
            using: ScoringSearcher = (
                searchers.dense() if searcher == "dense" else searchers.lexical(syntax=False)
            )
            return using.score(queries, documents)

        with self._having_turn(searcher):
            return self.engine.with_searchers(look, searcher)

    def status(self) -> dict[str, Any]:
        """Describe the shard."""
        with self._lock:
            return self.engine.status()

    def close(self) -> None:
        """Release all files."""
        with self._lock:
            self.engine.close()

    @contextlib.contextmanager
    def _having_turn(self, searcher: str) -> Iterator[None]:
        shared = contextlib.nullcontext() if searcher == "lexical" else self._turn
        with self._lock, shared:
            yield
