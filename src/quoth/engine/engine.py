"""The opened collection: the Python API, and what every command and route is one call on.

engine = Engine.open("notes.quoth")
engine.add(["notes/"])
for hit in engine.search("owls that hunt at dusk"):
    print(hit.docid, hit.passage.text)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from quoth.collection.schema import require_collection
from quoth.collection.store import FILE_NAME, Store, Written
from quoth.engine.adding import AddReport, add_in_batches, add_sources
from quoth.engine.answering import Asking, OpenModel
from quoth.engine.base import EngineBase
from quoth.engine.encoding import encode_all
from quoth.engine.finding import CutSnippet, Finder
from quoth.engine.lookup import allowed_rows, newest
from quoth.engine.models import LoadedModels
from quoth.engine.searchers import AUTO, Searchers
from quoth.engine.status import describe
from quoth.engine.verify import Damage, open_to_verify, unfinished_repairs, verify
from quoth.engine.writing import after_storing, locked, require_index, require_stored_settings
from quoth.errors import Busy, CollectionError, Damaged, IndexMoved, NotFound, StorageFailed
from quoth.portions import kept_workers
from quoth.records import Attention, Document, Part, Query, Run, SearchRequest, ShownHits
from quoth.search.near import NearUnits
from quoth.search.searcher import Progress, Timed, ignore_progress, untimed
from quoth.settings.config import Config, Values, build_config
from quoth.settings.stored import stored_settings

if TYPE_CHECKING:
    from quoth.search.hybrid.calibration import Calibration
    from quoth.text.readers.reading import Report

_ATTEMPTS = 5
_T = TypeVar("_T")


class Engine(EngineBase):
    """One collection, opened. Searching needs no lock; writing takes it for as long as it lasts."""

    _exchanged: Path | None = None
    """The statistics that a shard scores with; None for those of the collection itself."""

    def __init__(
        self,
        folder: Path,
        given: Sequence[Values],
        progress: Progress,
        *,
        models: LoadedModels | None = None,
        open_model: OpenModel | None = None,
        timed: Timed = untimed,
    ) -> None:
        self.folder = folder
        self._given = given
        self._progress = progress
        self._store: Store | None = None
        self._cached_searchers: Searchers | None = None
        self._models = models or LoadedModels()
        self._asking = Asking(folder, models=self._models, open_model=open_model)
        self._timed = timed
        self._seen: set[tuple[int, str]] = set()

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        settings: Sequence[Values] = (),
        progress: Progress = ignore_progress,
    ) -> Self:
        """Open a collection; the first `add` makes it. Later settings override earlier ones."""
        engine = cls(Path(folder), settings, progress)
        build_config(*settings)  # report every problem before anything is touched
        return engine

    def beside(
        self,
        models: LoadedModels,
        *,
        open_model: OpenModel,
        timed: Timed,
        settings: Sequence[Values] = (),
    ) -> Engine:
        """Open the same collection once more for another thread, with models that are shared."""
        return Engine(
            self.folder,
            (*self._given, *settings),
            ignore_progress,
            models=models,
            open_model=open_model,
            timed=timed,
        )

    def close(self) -> None:
        """Release all files."""
        self._let_go()
        self._asking.close()
        if self._store is not None:
            self._store.close()
            self._store = None

    # Writing ---------------------------------------------------------------------------------

    def add(self, sources: Sequence[str], *, report: Report | None = None) -> AddReport:
        """Read sources and add or update their documents; each batch is durable before the next.

        What cannot be read goes to `report`; without one, the first problem stops the reading.
        """
        with self._writing() as (store, config):
            return add_sources(sources, store, config, report=report, progress=self._progress)

    def add_documents(self, documents: Iterable[Document]) -> Written:
        """Add or update documents made by the caller."""
        with self._writing() as (store, config):
            return add_in_batches(documents, store, config, progress=self._progress)

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        require_collection(self.folder, FILE_NAME)
        with self._writing() as (store, _config):
            return store.remove(docids)

    # Searching -------------------------------------------------------------------------------

    def _find(self, request: SearchRequest, *, least: float | None) -> ShownHits:
        """Find the hits of a request; an explained one scores the sum of its parts."""

        def look(store: Store, searcher: str, rerank: bool) -> ShownHits:
            asked = replace(request, searcher=searcher, rerank=rerank)
            found = self._finder(store).answer(asked, least=least)
            return replace(found, reranked_by=self.config.rerank.by) if rerank else found

        with self._timed("search"):
            return self._read_by(look, request.searcher, request.rerank)

    def decide(self, searcher: str, rerank: bool | None) -> tuple[str, bool]:
        """Return the searcher that a name stands for, and whether its hits are reranked."""
        if searcher != AUTO:
            return searcher, bool(rerank)
        return self._read(lambda _store: self._searchers.decide(searcher, rerank))

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

        def look(store: Store, chosen: str, is_reranked: bool) -> Run:
            using = self._searchers.get(chosen, syntax=syntax, rerank=is_reranked)
            return using.search(queries, k=k, allowed=allowed_rows(store, where))

        return self._read_by(look, searcher, rerank)

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

        def look(store: Store, chosen: str, is_reranked: bool) -> tuple[Part, ...]:
            documents = newest(store, docids)
            using = self._searchers.get(chosen, syntax=True, rerank=is_reranked)
            allowed = allowed_rows(store, where)
            return using.explain(Query("", text), documents, k=k, allowed=allowed)

        with self._timed("explain"):
            return self._read_by(look, searcher, rerank)

    def attention(
        self, text: str, docids: Sequence[str], *, searcher: str = "dense"
    ) -> tuple[Attention | None, ...]:
        """Say which words of query and document the encoder looked at; None without vectors."""
        chosen, query = self.choose(searcher), Query("", text)
        return self._read(
            lambda store: self._searchers.attention(chosen, query, newest(store, docids)), chosen
        )

    def _near(self, query: Query, docids: Sequence[str]) -> Mapping[str, NearUnits]:
        return self._read(lambda _store: self._searchers.near(query, docids), "dense")

    def snippets(self, query: str, *, syntax: bool = True, max_chars: int = 240) -> CutSnippet:
        """Return what cuts snippets for a query, also after the collection was closed."""
        return self._read(
            lambda store: self._finder(store).snippets(query, syntax=syntax, max_chars=max_chars)
        )

    def document(self, docid: str) -> Document:
        """Fetch a document."""
        found = self._read(lambda store: store.get(docid))
        if found is None:
            raise NotFound(f"there is no document {docid!r} in {self.folder.name}")
        return found

    def docids(self) -> tuple[str, ...]:
        """List the docids of all documents, in the order they were added."""
        return self._read(lambda store: store.all_docids())

    # Learning --------------------------------------------------------------------------------

    def encode(self, *, seed: int = 0) -> Calibration:
        """Give every document its vectors, which writing keeps in step, and calibrate their fusion.

        Interrupted, it resumes where it stopped.
        """
        require_collection(self.folder, FILE_NAME)
        with self.writing() as (store, config), closing(self.make_searchers(store)) as searchers:
            calibration = encode_all(searchers, store, config, seed=seed, progress=self._progress)
            searchers.keep_calibration(calibration)
        return calibration

    @contextmanager
    def writing(self) -> Iterator[tuple[Store, Config]]:
        """Be the one writer while a job lasts; afterwards every index has caught up."""
        with self._writing() as opened:
            yield opened
        self._let_go()

    # Looking after ---------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Describe the collection: sizes, fields, settings, and how current each index is."""
        return self._read(
            lambda store: describe(self.folder, store, self._searchers, config=self.config)
        )

    def verify(self, *, repair: bool = False) -> Damage:
        """Check every checksum, every index against the store; `repair` rebuilds what differs."""
        require_collection(self.folder, FILE_NAME)
        self.close()
        with open_to_verify(self.folder, self._locked(), repair=repair) as store:
            config = self._resolve(store) if repair else self._require_stored_settings(store)
            searchers = self.make_searchers(store).kept(lost=unfinished_repairs(store))
            return verify(store, config, searchers, repair=repair, progress=self._progress)

    @property
    def config(self) -> Config:
        """The settings in force: given ones over those the collection was made with."""
        return self._resolve(self._reader())

    # Inner workings --------------------------------------------------------------------------

    def _finder(self, store: Store) -> Finder:
        return Finder(store, self._searchers, self._timed)

    def _resolve(self, store: Store) -> Config:
        return build_config(*stored_settings(store, self.folder), *self._given)

    def _reader(self) -> Store:
        if self._store is not None and self._store.is_outdated():
            self._let_go()
            self._store.close()
            self._store = None
        if self._store is None:
            self._store = Store.open(self.folder)
        return self._store

    def _locked(self, wait_seconds: float | None = None) -> AbstractContextManager[None]:
        wait = build_config(*self._given).collection.wait_seconds
        return locked(self.folder, wait_seconds=wait if wait_seconds is None else wait_seconds)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Store, Config]]:
        """Be the one writer; afterwards every index has caught up, even if the writing failed."""
        with self._locked(), kept_workers(), closing(Store.create(self.folder)) as store:
            config = self._require_stored_settings(store)
            try:
                yield store, config
            except BaseException:
                store.undo_unfinished()
                with suppress(CollectionError, OSError):  # the next search catches up
                    self._catch_up(store)
                raise
            with after_storing():
                self._catch_up(store)

    def _require_stored_settings(self, store: Store) -> Config:
        config = self._resolve(store)
        require_stored_settings(self.folder, store, config)
        return config

    def _catch_up(self, store: Store) -> None:
        """Bring every index up to date, then let go of content that no index needs any more."""
        searchers = self.make_searchers(store)
        searchers.follow_writing(store, progress=self._progress)
        searchers.close()
        store.forget(upto=store.change)

    def _read(self, look: Callable[[Store], _T], searcher: str = "lexical") -> _T:
        """Look at one consistent state; again, if a writer replaced it meanwhile."""
        return self._read_by(lambda store, *_decided: look(store), searcher, False)

    def _read_by(
        self, look: Callable[[Store, str, bool], _T], searcher: str, rerank: bool | None
    ) -> _T:
        """Look at such a state by what a searcher's name stands for there.

        What turns out damaged, or cannot be read, is closed: the next look finds what was mended.
        """
        try:
            return self._look(look, searcher, rerank)
        except (Damaged, StorageFailed):
            self.close()
            raise

    def _look(
        self, look: Callable[[Store, str, bool], _T], searcher: str, rerank: bool | None
    ) -> _T:
        store, chosen, followed, is_known = self._reader(), "lexical", "", True
        for _attempt in range(2 * _ATTEMPTS):
            with suppress(IndexMoved), store.snapshot():
                chosen, is_reranked = self._searchers.decide(searcher, rerank)
                is_known = chosen == followed or (store.change, chosen) in self._seen
                if is_known:
                    return look(store, chosen, is_reranked)
            if is_known:  # but replaced meanwhile
                self._seen.clear()
            else:
                self._follow(store, chosen)
            followed = "" if is_known else chosen
        raise IndexMoved(f"{self.folder} is being rewritten all the time; search again")

    def _follow(self, store: Store, searcher: str) -> None:
        """Look at the newest state; finish what a killed writer left, unless one is at work."""
        change = store.change
        if not any(seen == change for seen, _name in self._seen):
            self._let_go()
        is_newest = self._searchers.is_current(change, searcher=searcher)
        if not is_newest:
            try:
                with self._locked(0.0), closing(Store.create(self.folder)) as writable:
                    self._require_stored_settings(writable)
                    searchers = self.make_searchers(writable)
                    searchers.catch_up(writable, searcher=searcher, progress=self._progress)
                    searchers.close()
                    writable.forget(upto=writable.change)
                    is_newest = True
            except Busy as error:
                require_index(self.folder, error)
            self._let_go()
        if is_newest:  # or else a writer is still at it: look again next time
            self._seen.add((change, searcher))

    def _let_go(self) -> None:
        """Close what was read with the settings of an earlier state."""
        if self._cached_searchers is not None:
            self._cached_searchers.close()
        self._cached_searchers = None
        self._seen.clear()

    @property
    def _searchers(self) -> Searchers:
        """The searchers of what is being read."""
        if self._cached_searchers is None:
            self._cached_searchers = self.make_searchers(self._reader())
        return self._cached_searchers

    def make_searchers(self, store: Store, config: Config | None = None) -> Searchers:
        """Make the searchers of a store, by the settings in force or by others."""
        return Searchers(
            self.folder,
            store,
            config or self._resolve(store),
            load_encoder=lambda chosen: self._models.encoder(chosen.dense.encoder),
            load_generator=self._models.generator,
            load_generative=self._models.generative,
            load_reranker=self._models.reranker,
            load_scorer=self._models.scorer,
            turn=self._models.turn,
            timed=self._timed,
            exchanged=self._exchanged,
        )
