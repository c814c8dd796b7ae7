"""The queries that a collection is learned from and judged by, made of its own documents.

Documents are split first: those held out give queries to judge by and none to train on. All can be
found by either, since a search engine knows its documents; what it has not seen is the queries.

A generated query is trained on only if BM25 finds its passage for it among the first (a round trip:
what was written says something about the passage), and then that passage is its positive. A query
taken from the text itself belongs to its passage without that stretch; passages that hold the
stretch word for word, the original included, are no negatives of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from quoth.artifact import write_text_atomically
from quoth.collection.store import Store
from quoth.errors import Damaged
from quoth.jobs.context import JobContext
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.files import find_config
from quoth.models.glow.inputs import Fields
from quoth.models.pretrained import find_folder
from quoth.records import Query
from quoth.search.dense.units import cut_units
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.selfsupervision.pseudo_pairs import (
    FoundQuery,
    PseudoPairConfig,
    PseudoQuery,
    SourceText,
    find_queries,
    label_queries,
    words_of,
)
from quoth.settings.learn import LearnConfig
from quoth.text.words import Analyser

_CHUNK = 64  # passages per file of written queries: what an interruption may lose
_TAKEN = ("title", "heading")  # sentences and spans as queries made short queries worse
_VALIDATED = 0.12  # share of the training queries that decide when to stop

Write = Callable[[Sequence[str]], list[list[str]]]
"""A query generator: passages to queries for each."""

WriteChunks = Callable[[Sequence[Sequence[str]]], Iterator[list[list[str]]]]
"""Writes for chunks of passages, in their order, be it at the same time."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What has a vector: its document, its fields, and its text as a source of queries."""

    docid: str
    fields: Fields
    source: SourceText
    is_held_out: bool


def list_units(store: Store, config: GlowConfig, *, share: float, seed: int) -> list[Unit]:
    """List what has a vector, in the order of the documents."""
    held = hold_out_documents(store.all_docids(), share=share, seed=seed)
    units = []
    for stored in store.live_documents():
        document = stored.document
        for fields in cut_units(document, store.passages(document, stored.row), config):
            is_held_out = document.docid in held
            units.append(Unit(document.docid, fields, _source(fields, config), is_held_out))
    return units


def units_of(context: JobContext, encoder: str) -> list[Unit]:
    """List what an encoder gives vectors to in a collection, split for learning."""
    settings, config = find_config(find_folder(encoder)), context.config.learn
    return list_units(context.store, settings, share=config.held_out, seed=config.seed)


def hold_out_documents(docids: Sequence[str], *, share: float, seed: int) -> set[str]:
    """Choose documents to judge by: those with the smallest hashes, one at least.

    >>> len(hold_out_documents(["a", "b", "c", "d"], share=0.5, seed=0))
    2
    """

    def number(docid: str) -> bytes:
        key = f"{seed} {docid}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(key, digest_size=8).digest()

    count = max(1, round(share * len(docids)))
    return set(sorted(docids, key=lambda docid: (number(docid), docid))[:count])


def spread(count: int, most: int) -> list[int]:
    """Choose at most so many positions, evenly spread.

    >>> spread(10, 4)
    [0, 3, 6, 9]
    """
    chosen = np.linspace(0, count - 1, min(count, most)).astype(int)
    return [int(each) for each in np.unique(chosen)]


# --- writing -------------------------------------------------------------------------------------


def write_queries(
    units: Sequence[Unit],
    rows: Sequence[int],
    folder: Path,
    write: WriteChunks,
    *,
    progress: Callable[[int, int], None],
) -> None:
    """Write queries for some units, chunk by chunk; chunks that are there are not written again."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        start: folder / f"part-{start // _CHUNK:06}.jsonl" for start in range(0, len(rows), _CHUNK)
    }
    left = [start for start, path in paths.items() if not path.exists()]
    chunks = [rows[start : start + _CHUNK] for start in left]
    written = write([[units[row].source.whole for row in own] for own in chunks])
    progress(len(rows) - sum(map(len, chunks)), len(rows))
    for start, own, found in zip(left, chunks, written, strict=True):
        lines = (
            json.dumps({"row": row, "queries": queries})
            for row, queries in zip(own, found, strict=True)
        )
        write_text_atomically(paths[start], "".join(f"{line}\n" for line in lines))
        progress(min(start + _CHUNK, len(rows)), len(rows))
    progress(len(rows), len(rows))


def one_by_one(write: Write) -> WriteChunks:
    """Write here, one chunk after the other."""
    return lambda chunks: map(write, chunks)


def read_written(folder: Path) -> dict[int, list[str]]:
    """Read what was written, by the unit's row; empty queries are left out."""
    found: dict[int, list[str]] = {}
    for path in sorted(folder.glob("part-*.jsonl")):
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                found[int(entry["row"])] = [each for each in entry["queries"] if words_of(each)]
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{path} cannot be read ({error}); delete it to write it anew") from error
    return found


# --- what is trained on --------------------------------------------------------------------------


class PassageLookup:
    """BM25's best units: the best documents, and of each the unit that holds most of the query."""

    def __init__(
        self, units: Sequence[Unit], lexical: LexicalSearcher, *, analyser: Analyser
    ) -> None:
        self._units = units
        self._lexical = lexical
        self._analyser = analyser
        self._terms: dict[int, frozenset[str]] = {}
        self._rows_by_docid: dict[str, list[int]] = {}
        for row, unit in enumerate(units):
            self._rows_by_docid.setdefault(unit.docid, []).append(row)

    def best_unit(self, text: str, docid: str) -> int | None:
        """Find the unit of a document that holds most of a query, None without such a document."""
        if docid not in self._rows_by_docid:
            return None
        return next(self._best_units(Query("", text), [docid]))

    def top_k(self, texts: Sequence[str], depth: int) -> list[list[int]]:
        """Find the best units of queries, one per document."""
        queries = [Query(str(at), text) for at, text in enumerate(texts)]
        found = self._lexical.search(queries, k=depth, allowed=None)
        return [
            list(self._best_units(query, [hit.docid for hit in found.hits[query.qid]]))
            for query in queries
        ]

    def _best_units(self, query: Query, docids: Sequence[str]) -> Iterator[int]:
        weights: dict[str, float] = {}
        for docid in docids:
            rows = self._rows_by_docid[docid]
            if len(rows) > 1 and not weights:
                weights = self._lexical.term_weights(query)
            yield max(rows, key=lambda row: (self._weigh(row, weights), -row))

    def _weigh(self, row: int, weights: Mapping[str, float]) -> float:
        if not weights:
            return 0.0
        if row not in self._terms:
            self._terms[row] = frozenset(self._analyser.terms(self._units[row].source.whole))
        return sum(weight for term, weight in weights.items() if term in self._terms[row])


def make_training_queries(
    units: Sequence[Unit],
    written: Mapping[int, Sequence[str]],
    lookup: PassageLookup,
    config: LearnConfig,
    *,
    judged: Sequence[str],
    logged: Sequence[str] = (),
) -> list[PseudoQuery]:
    """Make and label the queries of all documents that are not held out, no judged one again.

    What people asked, without answers, joins them: BM25's best passage is its positive.
    """
    pairs = PseudoPairConfig(
        per_passage=max(1, config.corpus_queries),
        kinds=_TAKEN,
        hold_out=_TAKEN,
        held_out_share=_VALIDATED,
        seed=config.seed,
    )
    sources = [unit.source for unit in units]
    found = list(find_queries(sources, pairs)) if config.corpus_queries else []
    found += [
        FoundQuery(text, "generated", row) for row, own in sorted(written.items()) for text in own
    ]
    found += [FoundQuery(text, "log") for text in logged]
    known = {tuple(words_of(text)) for text in judged}
    kept = [
        query
        for query in found
        if not (query.source_row >= 0 and units[query.source_row].is_held_out)
        and tuple(words_of(query.text)) not in known
    ]
    labelled = label_queries(kept, sources, top_k=lookup.top_k, config=pairs)
    return [each for query in labelled if (each := _by_round_trip(query)) is not None]


def _by_round_trip(query: PseudoQuery) -> PseudoQuery | None:
    """Put the source of a generated query first; None where BM25 did not find it.

    >>> _by_round_trip(PseudoQuery("owls?", "generated", 4, (7, 4))).lexical_rows
    (4, 7)
    """
    if query.kind != "generated":
        return query
    if query.source_row not in query.lexical_rows:
        return None
    others = (row for row in query.lexical_rows if row != query.source_row)
    return replace(query, lexical_rows=(query.source_row, *others))


def _source(fields: Fields, config: GlowConfig) -> SourceText:
    """Return a unit's text: what its encoder reads, the body apart from what stands before it."""
    before = [text for name in config.fields[:-1] for text in fields.get(name, ())]
    return SourceText(" ".join(fields.get(config.fields[-1], ())), " ".join(before))
