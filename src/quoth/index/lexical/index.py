"""BM25 over tantivy: one tantivy field per document field, and one for the whole document.

Where documents have one field alone, the two are the same, and tantivy has one field for both.
Terms arrive from our own Analyser, so tantivy only splits at spaces; it stores no text. Each
document is its row. tantivy removes lazily: its statistics count dead documents until their segment
is merged. `num_dead` says how many there are, and `state` tells what tantivy scores with meanwhile
(see search/lexical/searcher.py).

On disk: `artifact.json` names the current tantivy folder, its fields, its analyser and a checksum
per file. Segment files never change, so each is hashed once. While tantivy may be ahead of
`artifact.json`, a file named `unfinished` stands beside it: without that file, a `meta.json` other
than the recorded one is damage.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import tantivy

from quoth.artifact import Artifact, find_damage, open_artifact, require_uncut, seal_file
from quoth.errors import Damaged, IndexMoved
from quoth.index.lexical.postings import Postings
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.interruption import check_interruption
from quoth.open_files import can_open_files, out_of_files, says_out_of_files
from quoth.storage_failures import says_storage_failed, storage_failed
from quoth.vocabulary.term_counts import EVERYTHING

KIND = "lexical index"
VERSION = 2
ROW = "row"
ALL = "all"
TOKENIZER = "spaces"
META = "meta.json"
UNFINISHED = "unfinished"

MARGIN = 4
"""Hits that are looked at beyond those asked for: tantivy scores all that match anyway."""

_READ_VERSIONS = (1,)  # which has a field of its own for an only field; nobody asks it
_OPEN_ATTEMPTS = 10
_MAX_SEEN_TERMS = 200_000
_MAX_BUILT_CLAUSES = 5_000  # some 6 MB where documents have 24 fields
_MAX_TERM_SET = 20_000
_MANY = 1 << 30
_LAST_ROW = (1 << 63) - 1  # as SQLite counts
_ROWS_AT_ONCE = 65_536  # some 17 MB; each time tantivy looks at all rows, which is soon done
_FAILURES = (ValueError, OSError, RuntimeError, LookupError, TypeError, OverflowError)

Scored = tuple[int, float]
"""A row and its score."""

Subquery = tuple[tantivy.Occur, tantivy.Query]
"""A part of a query as tantivy takes it."""

Boost = Callable[[Clause, str], float]
"""Factor on a clause's weight in a view."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """What tantivy scores with: its own number of documents and mean length in one view."""

    num_documents: int
    average_length: float


def view_names(fields: Sequence[str]) -> dict[str, str]:
    """Name the tantivy field of each view, since document fields may be called anything.

    >>> view_names(["title", "text"]), view_names(["text"])
    ({'*': 'all', 'title': 'f0', 'text': 'f1'}, {'*': 'all', 'text': 'all'})
    """
    if len(fields) == 1:
        return {EVERYTHING: ALL, fields[0]: ALL}
    return {EVERYTHING: ALL, **{field: f"f{at}" for at, field in enumerate(fields)}}


def is_failure(error: BaseException) -> bool:
    """Whether tantivy raised this; its panics are no `Exception`, and their class has no name."""
    return isinstance(error, _FAILURES) or type(error).__name__ == "PanicException"


@contextlib.contextmanager
def tantivy_errors(path: Path) -> Iterator[None]:
    """Turn every failure of tantivy, panics included, into a report of damage or of its reason."""
    try:
        yield
    except BaseException as error:
        if not is_failure(error):
            raise
        if says_out_of_files(error) or not can_open_files():
            raise out_of_files(path) from error
        if says_storage_failed(error):
            raise storage_failed(path, error) from error
        raise Damaged(
            f"{path} cannot be used as an index ({error});"
            f' run "quoth verify {path.parent.parent} --repair"'
        ) from error


@contextlib.contextmanager
def _lockable(path: Path) -> Iterator[Path]:
    """Yield a folder to open an index in: tantivy makes a lock there even to read.

    Where this user may not, links in a folder of its own do, until the files are mapped. tantivy
    may still write there while it is removed, and what is left then does no harm.
    """
    if os.access(path, os.W_OK) or not path.is_dir():
        yield path
        return
    place = tempfile.TemporaryDirectory(prefix="quoth-index-", ignore_cleanup_errors=True)
    with place as scratch:
        for each in path.resolve().iterdir():
            if each.suffix != ".lock":
                (Path(scratch) / each.name).symlink_to(each)
        yield Path(scratch)


def open_tantivy(path: Path) -> tantivy.Index:
    """Open a tantivy folder with our tokenizer; readers reload only when told."""
    with tantivy_errors(path):
        index = tantivy.Index.open(str(path))
        register_tokenizer(index)
        index.config_reader("manual")
    return index


def read_artifact(folder: Path) -> Artifact | None:
    """Read the description of an index, None where none was finished."""
    return open_artifact(folder, kind=KIND, version=VERSION, others=_READ_VERSIONS)


def register_tokenizer(index: tantivy.Index) -> None:
    """Teach tantivy to split at spaces and do nothing else."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    index.register_tokenizer(TOKENIZER, builder.build())


def read_segments(path: Path) -> list[dict[str, Any]]:
    """List the live segments of a tantivy folder."""
    try:
        segments: list[dict[str, Any]] = json.loads((path / META).read_text())["segments"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if says_out_of_files(error):
            raise out_of_files(path) from error
        if says_storage_failed(error):
            raise storage_failed(path, error) from error
        raise Damaged(
            f"{path / META} cannot be read ({error});"
            f' run "quoth verify {path.parent.parent} --repair"'
        ) from error
    return segments


class LexicalIndex:
    """A lexical index opened for reading: one consistent state until opened anew."""

    def __init__(self, folder: Path, artifact: Artifact) -> None:
        self.folder = folder
        self.artifact = artifact
        self.fields: tuple[str, ...] = tuple(artifact.config["fields"])
        self.path = folder / artifact.config["folder"]
        self._names = view_names(self.fields)
        self._seen_terms: dict[str, frozenset[str]] = {}
        self._built: dict[Clause, tuple[Subquery, ...]] = {}
        self._meta = str(self.path / META)
        self._settled: tuple[tuple[int, ...], bool] | None = None
        self._mapped = {
            name: seal for name, seal in artifact.files.items() if Path(name).name != META
        }
        self._require_whole()
        with _lockable(self.path) as path, tantivy_errors(self.path):
            index = open_tantivy(path)
            self._schema = index.schema
            self._searcher = index.searcher()
        self.postings = Postings.open(folder, artifact)
        self.num_dead = sum(
            (each["deletes"] or {}).get("num_deleted_docs", 0) for each in read_segments(self.path)
        )

    @property
    def num_removed(self) -> int:
        """Documents removed since the index was built, those that merges dropped included."""
        return int(self.artifact.config.get("removed", self.num_dead))

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Open the index, None where none was finished."""
        for _attempt in range(_OPEN_ATTEMPTS):
            artifact = read_artifact(folder)
            if artifact is None:
                return None
            try:
                return cls(folder, artifact)
            except Damaged:
                is_at_rest = not (folder / UNFINISHED).exists()
                # A writer that replaced files meanwhile has recorded it before coming to rest.
                if is_at_rest and read_artifact(folder) == artifact:
                    raise
        raise IndexMoved(f"a writer kept replacing {folder} while it was opened; search again")

    @property
    def is_settled(self) -> bool:
        """Whether tantivy is in the recorded state; not so during a write or after a crash."""
        try:
            found = os.stat(self._meta)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if self._settled is None or self._settled[0] != stamp:
                recorded = self.artifact.files.get(f"{self.path.name}/{META}")
                self._settled = (stamp, recorded == seal_file(self.path / META))
            return self._settled[1]
        except OSError as error:
            if says_out_of_files(error):
                raise out_of_files(self.path) from error
            if says_storage_failed(error):
                raise storage_failed(self.path, error) from error
            return False

    @property
    def num_documents(self) -> int:
        """Live documents."""
        return self._searcher.num_docs

    def require_uncut(self) -> None:
        """Notice a segment that was cut short since it was opened, which tantivy does not."""
        require_uncut(self.folder, self._mapped)

    def rows(self, *, first: int = 0, last: int = _LAST_ROW, most: int = _MANY) -> list[int]:
        """List the live rows from one to another, in order; `most` of them where there are more."""
        between = tantivy.Query.range_query(
            self._schema, ROW, tantivy.FieldType.Unsigned, lower_bound=first, upper_bound=last
        )
        return sorted(row for row, _score in self._collect(between, most))

    def holds(self, rows: Iterable[int]) -> bool:
        """Whether the live rows are just these, given in order; some at a time are compared."""
        remaining, count = iter(rows), 0
        while some := list(islice(remaining, _ROWS_AT_ONCE)):
            first, last = some[0], some[-1]
            # A flipped bit can make a row negative, and tantivy has no such number.
            if first < 0 or some != self.rows(first=first, last=last, most=len(some) + 1):
                return False
            count += len(some)
        return count == self.num_documents  # so there is none before, between or after them

    def top_k(
        self, query: LexicalQuery, k: int, *, allowed: set[int] | None, boost: Boost | None = None
    ) -> list[Scored]:
        """Find the k best rows, and all that tie with the last of them, best first.

        `allowed` restricts before ranking. The order among ties is not defined here.
        """
        if not query.wanted or (allowed is not None and not allowed):
            return []
        few, limit = allowed is not None and len(allowed) <= _MAX_TERM_SET, k + MARGIN
        built = self._build(query, boost, allowed if few else None)
        while True:
            check_interruption()
            if allowed is not None and limit > len(allowed):  # to name them is the shorter way
                few, built = True, self._build(query, boost, allowed)
            found = self._collect(built, limit)
            kept = found if few or allowed is None else [hit for hit in found if hit[0] in allowed]
            if len(found) < limit or (len(kept) > k and kept[k - 1][1] > found[-1][1]):
                last = kept[k - 1][1] if len(kept) > k else float("-inf")
                return [hit for hit in kept if hit[1] >= last]
            limit *= 4

    def fitting(self, query: LexicalQuery) -> set[int] | None:
        """Return the rows that hold what must occur and not what must not; None where all may."""
        occurs = {"must": tantivy.Occur.Must, "must_not": tantivy.Occur.MustNot}
        signed = [each for each in query.clauses if each.occur in occurs]
        if not signed:
            return None
        parts = [(tantivy.Occur.Must, tantivy.Query.all_query())]
        parts += [(occurs[each.occur], self._match(each.view, each.terms)) for each in signed]
        found = self._collect(tantivy.Query.boolean_query(parts), _MANY)
        return {row for row, _score in found}

    def has_view(self, view: str) -> bool:
        """Whether the view is indexed on its own."""
        return view in self._names

    def document_frequencies(self, view: str, terms: Iterable[str]) -> dict[str, int]:
        """Documents with each term as tantivy counts them, dead ones included."""
        name, count = self._names[view], self._searcher.doc_freq
        with tantivy_errors(self.path):
            return {term: count(name, term) for term in terms}

    def state(self, view: str, term: str) -> IndexState | None:
        """Read from an explanation what tantivy scores with, None where it scores nothing."""
        if view not in self._views_with((term,)):
            return None
        query = tantivy.Query.term_query(self._schema, self._names[view], term)
        with tantivy_errors(self.path):
            found = self._searcher.search(query, 1, False).hits
            if not found:
                return None
            leaves = dict(_leaves(json.loads(query.explain(self._searcher, found[0][1]).to_json())))
            return IndexState(int(leaves["N"]), leaves["avgdl"])

    def _require_whole(self) -> None:
        """Compare sizes with those recorded, unless a writer is, or was stopped, in between."""
        if self.is_settled:
            problems = find_damage(self.folder, self.artifact, deep=False)
        elif not (self.folder / UNFINISHED).exists():
            problems = (f"{self.path / META} is missing or not the one that was written",)
        else:
            problems = ()
        if problems:
            raise Damaged(f'{problems[0]}; run "quoth verify {self.folder.parent} --repair"')

    def _collect(self, query: tantivy.Query, limit: int) -> list[Scored]:
        with tantivy_errors(self.path):
            hits = self._searcher.search(query, min(limit, max(1, self.num_documents)), False).hits
            rows = self._searcher.fast_field_values(ROW, [address for _score, address in hits])
        return [(int(row or 0), score) for row, (score, _address) in zip(rows, hits, strict=True)]

    def _build(
        self, query: LexicalQuery, boost: Boost | None, allowed: set[int] | None
    ) -> tantivy.Query:
        parts = [part for clause in query.clauses for part in self._subqueries(clause, boost)]
        if allowed is not None:
            rows = tantivy.Query.term_set_query(self._schema, ROW, sorted(allowed))
            parts.append((tantivy.Occur.Must, tantivy.Query.const_score_query(rows, 0.0)))
            if not any(clause.occur == "must" for clause in query.clauses):
                # A lone Must would make every Should optional, so group what is wanted.
                wanted = [part for part in parts if part[0] == tantivy.Occur.Should]
                others = [part for part in parts if part[0] != tantivy.Occur.Should]
                parts = [(tantivy.Occur.Must, tantivy.Query.boolean_query(wanted)), *others]
        return tantivy.Query.boolean_query(parts)

    def _subqueries(self, clause: Clause, boost: Boost | None) -> Iterable[Subquery]:
        """Build a clause, once where it is not boosted: most words were in queries before."""
        if boost is not None:
            return self._build_clause(clause, boost)
        built = self._built.get(clause)
        if built is None:
            if len(self._built) >= _MAX_BUILT_CLAUSES:
                self._built.clear()
            built = self._built[clause] = tuple(self._build_clause(clause, boost))
        return built

    def _build_clause(self, clause: Clause, boost: Boost | None) -> Iterator[Subquery]:
        if clause.occur == "must_not":
            yield tantivy.Occur.MustNot, self._match(clause.view, clause.terms)
            return
        views = self._views_with(clause.terms)
        for view, weight in clause.weights:
            is_required = clause.occur == "must" and view == clause.view
            if not is_required and view not in views:
                continue
            factor = weight if boost is None else weight * boost(clause, view)
            match = self._match(view, clause.terms)
            yield (
                tantivy.Occur.Must if is_required else tantivy.Occur.Should,
                match if factor == 1.0 else tantivy.Query.boost_query(match, factor),
            )

    def _views_with(self, terms: tuple[str, ...]) -> frozenset[str]:
        """Return the views in which every term stands somewhere, looked up once for each.

        Most terms stand in few of a collection's fields, and every clause left out saves time.
        """
        known = self._seen_terms
        for term in terms:
            if term not in known:
                if len(known) >= _MAX_SEEN_TERMS:
                    known.clear()
                known[term] = self._find_views(term)
        if len(terms) == 1:
            return known[terms[0]]
        return frozenset(self._names).intersection(*(known[term] for term in terms))

    def _find_views(self, term: str) -> frozenset[str]:
        """Look a term up in every view."""
        count = self._searcher.doc_freq
        with tantivy_errors(self.path):  # once for all: entering it takes longer than one look
            return frozenset(view for view, name in self._names.items() if count(name, term))

    def _match(self, view: str, terms: tuple[str, ...]) -> tantivy.Query:
        name = self._names[view]
        if len(terms) == 1:
            return tantivy.Query.term_query(self._schema, name, terms[0])
        return tantivy.Query.phrase_query(self._schema, name, list(terms))


def _leaves(node: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield str(node["description"]).split(",")[0], float(node["value"])
    for child in node.get("details", ()):
        yield from _leaves(child)
