"""The systems that are compared: each builds an index from (docid, text), and finds 10 docids.

All see the same terms: words made by Quoth's analyser. Plain tantivy stores the docid beside the
text's terms and is asked through its own query parser, as its documentation shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import bm25s
import tantivy

from quoth.engine.engine import Engine
from quoth.records import Document, Query
from quoth.text.words import Analyser, AnalyserConfig

K = 10
Passages = Iterable[tuple[str, str]]
SearchOne = Callable[[str], list[str]]

_ANALYSER = Analyser(AnalyserConfig())


def build_quoth(passages: Passages, folder: Path) -> None:
    """Add documents to a collection: durable store, passages, statistics, index, checksums."""
    with Engine.open(folder) as engine:
        engine.add_documents(Document(docid, {"text": (text,)}) for docid, text in passages)


def open_quoth(folder: Path) -> SearchOne:
    """Search through the Python API, one query per call."""
    engine = Engine.open(folder)

    def search(text: str) -> list[str]:
        return [hit.docid for hit in engine.run([Query("q", text)], k=K).hits["q"]]

    return search


def build_tantivy(passages: Passages, folder: Path) -> None:
    """Build a plain tantivy index of one field."""
    folder.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("docid", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", tokenizer_name="whitespace")
    writer = tantivy.Index(builder.build(), path=str(folder)).writer(128_000_000, 1)
    for docid, text in passages:
        writer.add_document(tantivy.Document(docid=docid, text=" ".join(_ANALYSER.terms(text))))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path) -> SearchOne:
    """Search plain tantivy through its query parser, fetching the stored docid."""
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()

    def search(text: str) -> list[str]:
        query, _errors = index.parse_query_lenient(" ".join(_ANALYSER.terms(text)), ["text"])
        hits = searcher.search(query, K, count=False).hits
        return [searcher.doc(address)["docid"][0] for _score, address in hits]

    return search


def build_bm25s(passages: Passages, folder: Path) -> None:
    """Build a bm25s index (Lucene's formula, numba backend)."""
    docids, terms = [], []
    for docid, text in passages:
        docids.append(docid)
        terms.append(_ANALYSER.terms(text))
    model = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend="numba")
    model.index(terms, show_progress=False)
    model.save(str(folder))
    (folder / "docids.json").write_text(json.dumps(docids))


def open_bm25s(folder: Path) -> SearchOne:
    """Search bm25s, memory-mapped, one query per call."""
    model = bm25s.BM25.load(str(folder), mmap=True)
    docids = json.loads((folder / "docids.json").read_text())

    def search(text: str) -> list[str]:
        found, _scores = model.retrieve([_ANALYSER.terms(text)], k=K, show_progress=False)
        return [docids[row] for row in found[0]]

    return search


BUILDERS: dict[str, Callable[[Passages, Path], None]] = {
    "quoth": build_quoth,
    "tantivy": build_tantivy,
    "bm25s": build_bm25s,
}
OPENERS: dict[str, Callable[[Path], SearchOne]] = {
    "quoth": open_quoth,
    "tantivy": open_tantivy,
    "bm25s": open_bm25s,
}
