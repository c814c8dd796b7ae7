"""The opened collection: the Python API, and what every command and route is one call on.

engine = Engine.open("notes.quoth")
engine.add(["notes/"])
for hit in engine.search("owls that hunt at dusk"):
    print(hit.docid, hit.passage.text)
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from quoth.app.config import KEPT_SECTIONS, Config, Values, as_values, build_config
from quoth.app.intake import AddReport, pass_once, raise_problem, take_in
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.lock import hold_writer_lock
from quoth.collection.schema import require_collection
from quoth.collection.store import FILE_NAME, Store, Written
from quoth.errors import Busy, CollectionError, ConfigError, IndexMismatch, IndexMoved
from quoth.records import Document, Hit, Part, Passage, Problem, Query, Run, Snippet
from quoth.search.lexical import LexicalSearcher
from quoth.search.searcher import Progress, ignore_progress
from quoth.search.snippets import best_passage, make_snippet
from quoth.text.passages import cut_document
from quoth.text.readers.reading import Report, read_documents
from quoth.text.words import Analyser

SEARCHERS = ("lexical",)
"""Ways of searching, by the names that `--with` takes."""

_ATTEMPTS = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Damage:
    """What `verify` found, and whether it could be mended."""

    store: tuple[str, ...]
    indexes: tuple[str, ...]
    repaired: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.store and (not self.indexes or self.repaired)

    def verdict(self) -> str:
        """Sum up in one sentence."""
        if self.is_clean:
            return "repaired: rebuilt what differed" if self.indexes else "everything is as written"
        if self.store:
            return "documents are damaged; restore collection.db from a backup or add them again"
        return "indexes are damaged; --repair rebuilds them from the documents"


class Engine:
    """One collection, opened. Searching needs no lock; writing takes it for as long as it lasts."""

    def __init__(self, folder: Path, given: Sequence[Values], progress: Progress) -> None:
        self.folder = folder
        self._given = given
        self._progress = progress
        self._store: Store | None = None
        self._searchers: dict[tuple[str, bool], LexicalSearcher] = {}
        self._seen_change = -1

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

    def close(self) -> None:
        """Release all files."""
        self._let_go()
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # Writing ---------------------------------------------------------------------------------

    def add(self, sources: Sequence[str], *, report: Report | None = None) -> AddReport:
        """Read sources and add or update their documents; each batch is durable before the next.

        What cannot be read goes to `report`; without one, the first problem stops the reading.
        """
        skipped = 0

        def tell(problem: Problem) -> None:
            nonlocal skipped
            skipped += 1
            (raise_problem if report is None else report)(problem)

        with self._writing() as (store, config):
            read = read_documents(sources, config=config.readers, report=tell)
            written = take_in(pass_once(read, tell), store, config, progress=self._progress)
        return AddReport(written.added, written.updated, written.unchanged, skipped)

    def add_documents(self, documents: Iterable[Document]) -> Written:
        """Add or update documents made by the caller."""
        with self._writing() as (store, config):
            return take_in(documents, store, config, progress=self._progress)

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        require_collection(self.folder, FILE_NAME)
        with self._writing() as (store, _config):
            return store.remove(docids)

    # Searching -------------------------------------------------------------------------------

    def search(
        self, text: str, *, k: int = 10, where: str = "", searcher: str = "lexical"
    ) -> tuple[Hit, ...]:
        """Find the k best documents for a query, each with its best passage.

        Scores are those that `explain` adds up to, in double precision.
        """
        query = Query("", text)

        def look(store: Store) -> tuple[Hit, ...]:
            using = self._searcher(searcher, syntax=True)
            found = using.search([query], k=k, allowed=_allowed(store, where)).hits[query.qid]
            stored = [_newest(store, hit.docid) for hit in found]
            parts = using.explain(query, [document for _row, document in stored])
            weights = self._words().term_weights(query)
            hits = (
                Hit(document.docid, part.value, self._best(store, row, document, weights))
                for (row, document), part in zip(stored, parts, strict=True)
            )
            return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.docid)))

        return self._read(look)

    def run(
        self,
        queries: Sequence[Query],
        *,
        k: int = 1000,
        where: str = "",
        searcher: str = "lexical",
        syntax: bool = False,
    ) -> Run:
        """Search many queries, as plain words unless `syntax` is set; hits carry no passages."""

        def look(store: Store) -> Run:
            using = self._searcher(searcher, syntax=syntax)
            return using.search(queries, k=k, allowed=_allowed(store, where))

        return self._read(look)

    def explain(
        self, text: str, docids: Sequence[str], *, searcher: str = "lexical"
    ) -> tuple[Part, ...]:
        """Say what each document's score for a query is made of; the parts add up to it."""

        def look(store: Store) -> tuple[Part, ...]:
            documents = [_newest(store, docid)[1] for docid in docids]
            return self._searcher(searcher, syntax=True).explain(Query("", text), documents)

        return self._read(look)

    def snippet(self, text: str, passage: Passage, *, max_chars: int = 240) -> Snippet:
        """Cut the stretch of a passage where the query's words stand, and mark them."""
        weights = self._read(lambda _store: self._words().term_weights(Query("", text)))
        return make_snippet(passage, weights, analyser=self._analyser, max_chars=max_chars)

    def document(self, docid: str) -> Document:
        """Fetch a document."""
        return self._read(lambda store: _newest(store, docid)[1])

    def docids(self) -> tuple[str, ...]:
        """List the docids of all documents, in the order they were added."""
        return self._read(lambda store: store.all_docids())

    # Looking after ---------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Describe the collection: sizes, fields, settings, and how current each index is."""
        return self._read(self._describe)

    def verify(self, *, repair: bool = False) -> Damage:
        """Check every checksum, every index against the store; `repair` rebuilds what differs."""
        require_collection(self.folder, FILE_NAME)
        self.close()
        with self._locked():
            store = Store.create(self.folder)
            try:
                config = self._resolve(store) if repair else self._require_kept_settings(store)
                return self._verify(store, config, repair=repair)
            finally:
                store.close()

    @property
    def config(self) -> Config:
        """The settings in force: given ones over those the collection was made with."""
        return self._resolve(self._reader())

    # Inner workings --------------------------------------------------------------------------

    @functools.cached_property
    def _analyser(self) -> Analyser:
        return Analyser(self.config.analyser)

    def _resolve(self, store: Store) -> Config:
        return build_config(store.setting("config") or {}, *self._given)

    def _reader(self) -> Store:
        if self._store is None:
            self._store = Store.open(self.folder)
        return self._store

    @contextlib.contextmanager
    def _locked(self, wait_seconds: float | None = None) -> Iterator[None]:
        wait = build_config(*self._given).collection.wait_seconds
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CollectionError(
                f"{self.folder} cannot hold a collection ({error.strerror}); name another folder"
            ) from error
        with hold_writer_lock(
            self.folder, wait_seconds=wait if wait_seconds is None else wait_seconds
        ):
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[Store, Config]]:
        """Be the one writer; afterwards every index has caught up, even if the writing failed."""
        with self._locked():
            store = Store.create(self.folder)
            try:
                config = self._require_kept_settings(store)
                try:
                    yield store, config
                finally:
                    self._catch_up(store)
            finally:
                store.close()

    def _require_kept_settings(self, store: Store) -> Config:
        config = self._resolve(store)
        wanted, kept = as_values(config, KEPT_SECTIONS), store.setting("config")
        if kept is None:
            store.set_setting("config", wanted)
        elif kept != wanted:
            differing = [
                f"{section}.{key} = {kept[section].get(key)!r} (now {value!r})"
                for section in KEPT_SECTIONS
                for key, value in wanted[section].items()
                if kept[section].get(key) != value
            ]
            raise IndexMismatch(
                f"{self.folder} was made with {', '.join(differing)}; leave that setting out, or"
                f' change the whole collection with "quoth verify {self.folder} --repair" and the'
                " setting"
            )
        return config

    def _catch_up(self, store: Store) -> None:
        """Bring every index up to date, then let go of content that no index needs any more."""
        for name in SEARCHERS:
            searcher = self._make_searcher(name, store, syntax=True)
            searcher.catch_up(store, progress=self._progress)
        store.forget(upto=store.change)

    def _read(self, look: Callable[[Store], _T]) -> _T:
        """Look at one consistent state; again, if a writer replaced it meanwhile."""
        store = self._reader()
        for attempt in range(_ATTEMPTS):
            if store.change != self._seen_change:
                self._follow(store)
            try:
                with store.snapshot():
                    return look(store)
            except IndexMoved:
                self._seen_change = -1
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _follow(self, store: Store) -> None:
        """Look at the newest state; finish what a killed writer left, unless one is at work."""
        self._let_go()
        change = store.change
        if any(not self._searcher(name, syntax=True).is_current(change) for name in SEARCHERS):
            with contextlib.suppress(Busy), self._locked(wait_seconds=0.0):
                writable = Store.create(self.folder)
                try:
                    self._require_kept_settings(writable)
                    self._catch_up(writable)
                finally:
                    writable.close()
            self._let_go()
        self._seen_change = change

    def _let_go(self) -> None:
        """Close what was read with the settings of an earlier state."""
        for searcher in self._searchers.values():
            searcher.close()
        self._searchers = {}
        self.__dict__.pop("_analyser", None)

    def _words(self) -> LexicalSearcher:
        return self._searcher("lexical", syntax=True)

    def _searcher(self, name: str, *, syntax: bool) -> LexicalSearcher:
        key = (name, syntax)
        if key not in self._searchers:
            store = self._reader()
            self._searchers[key] = self._make_searcher(name, store, syntax=syntax)
        return self._searchers[key]

    def _make_searcher(self, name: str, store: Store, *, syntax: bool) -> LexicalSearcher:
        if name not in SEARCHERS:
            raise ConfigError(f"there is no searcher {name!r}; there are {', '.join(SEARCHERS)}")
        config = self._resolve(store)
        return LexicalSearcher(
            self.folder / name,
            store,
            analyser=Analyser(config.analyser),
            config=config.lexical,
            syntax=syntax,
        )

    def _best(
        self, store: Store, row: int, document: Document, weights: Mapping[str, float]
    ) -> Passage | None:
        return best_passage(store.passages(document, row), weights, analyser=self._analyser)

    def _describe(self, store: Store) -> dict[str, Any]:
        return {
            "collection": str(self.folder),
            "documents": store.num_documents,
            "passages": store.num_passages,
            "fields": list(store.fields()),
            "change": store.change,
            "bytes": {name: _size(self.folder / name) for name in (FILE_NAME, *SEARCHERS)},
            "indexes": {name: self._searcher(name, syntax=True).describe() for name in SEARCHERS},
            "settings": as_values(self.config, KEPT_SECTIONS),
        }

    def _verify(self, store: Store, config: Config, *, repair: bool) -> Damage:
        cut = functools.partial(cut_document, config=config.passages)
        wanted = as_values(config, KEPT_SECTIONS)
        in_indexes: list[str] = []
        if repair and store.setting("config") != wanted:
            in_indexes.append(f"{self.folder}: passages were cut with other settings")
            store.recut(cut=cut, config=wanted)
        self._progress("checking documents", 0, 0)
        in_store = tuple(store.find_damage(cut=cut))
        for name in SEARCHERS:
            searcher = self._make_searcher(name, store, syntax=True)
            found = searcher.find_damage(store, progress=self._progress)
            in_indexes += found
            if found and repair:
                shutil.rmtree(self.folder / name, ignore_errors=True)
                searcher.rebuild(store, progress=self._progress)
        return Damage(in_store, tuple(in_indexes), repaired=repair)


def _allowed(store: Store, where: str) -> set[int] | None:
    return store.allowed_rows(parse_filter(where)) if where.strip() else None


def _newest(store: Store, docid: str) -> tuple[int, Document]:
    row = store.rows([docid]).get(docid)
    if row is None:
        raise CollectionError(f"there is no document {docid!r} in {store.path.parent}")
    return row, store.documents([row])[row]


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.exists() else 0
