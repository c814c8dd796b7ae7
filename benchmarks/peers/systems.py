"""The systems that are compared: each indexes (docid, text), finds 10 hits, and shows them.

Each is used as its documentation shows, with its own English stemmer. What a system has no snippets
for is timed without.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tantivy

from quoth.engine.engine import Engine
from quoth.records import Document, Query, SearchRequest

K = 10
SNIPPET_CHARS = 240
Passages = Iterable[tuple[str, str]]
Search = Callable[[str], list[Any]]


@dataclass(frozen=True)
class System:
    """One opened system; None where it has no snippets of its own."""

    find: Search
    show: Search | None


def build_quoth(passages: Passages, folder: Path) -> None:
    """Add documents to a collection."""
    with Engine.open(folder) as engine:
        engine.add_documents(Document(docid, {"text": (text,)}) for docid, text in passages)


def open_quoth(folder: Path) -> System:
    """Search through the Python API; shown hits have passage, snippet, title and metadata."""
    engine = Engine.open(folder)
    return System(
        lambda text: [
            hit.docid for hit in engine.run([Query("", text)], k=K, searcher="lexical").hits[""]
        ],
        lambda text: list(
            engine.find(SearchRequest(text, k=K, searcher="lexical", syntax=False)).hits
        ),
    )


def build_tantivy(passages: Passages, folder: Path) -> None:
    """Index one stored field with tantivy's English stemmer."""
    folder.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("docid", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
    writer = tantivy.Index(builder.build(), path=str(folder)).writer(128_000_000, 1)
    for docid, text in passages:
        writer.add_document(tantivy.Document(docid=docid, text=text))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path) -> System:
    """Search through its query parser; snippets are those of its generator."""
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()

    def hits(text: str) -> tuple[Any, list[Any]]:
        query, _errors = index.parse_query_lenient(_words(text), ["text"])
        return query, searcher.search(query, K, count=False).hits

    def find(text: str) -> list[Any]:
        return [searcher.doc(address)["docid"][0] for _score, address in hits(text)[1]]

    def show(text: str) -> list[Any]:
        query, found = hits(text)
        generator = tantivy.SnippetGenerator.create(searcher, query, index.schema, "text")
        generator.set_max_num_chars(SNIPPET_CHARS)
        shown = []
        for score, address in found:
            document = searcher.doc(address)
            snippet = generator.snippet_from_doc(document)
            shown.append((document["docid"][0], score, snippet.fragment(), snippet.highlighted()))
        return shown

    return System(find, show)


def build_fts5(passages: Passages, folder: Path) -> None:
    """Index with SQLite's FTS5 and its Porter stemmer."""
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "fts5.db")
    connection.execute(
        "CREATE VIRTUAL TABLE passages USING fts5(docid UNINDEXED, text, tokenize='porter')"
    )
    connection.executemany("INSERT INTO passages VALUES (?, ?)", passages)
    connection.commit()
    connection.close()


def open_fts5(folder: Path) -> System:
    """Search for any of the words, ranked by bm25(); snippets are those of snippet()."""
    connection = sqlite3.connect(folder / "fts5.db")
    found = "FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT ?"

    def ask(columns: str, text: str) -> list[Any]:
        words = " OR ".join(f'"{word}"' for word in _words(text).split())
        return connection.execute(f"SELECT {columns} {found}", (words, K)).fetchall()

    return System(
        lambda text: ask("docid", text),
        lambda text: ask("docid, rank, snippet(passages, 1, '[', ']', '…', 40)", text),
    )


def build_bm25s(passages: Passages, folder: Path) -> None:
    """Index with bm25s (numba), stemmed by Snowball."""
    import bm25s
    import Stemmer

    docids, texts = zip(*passages, strict=True)
    terms = bm25s.tokenize(list(texts), stemmer=Stemmer.Stemmer("english"), show_progress=False)
    model = bm25s.BM25(method="lucene", backend="numba")
    model.index(terms, show_progress=False)
    model.save(str(folder))
    (folder / "docids.json").write_text(json.dumps(docids))


def open_bm25s(folder: Path) -> System:
    """Search bm25s, memory-mapped; it shows nothing."""
    import bm25s
    import Stemmer

    model = bm25s.BM25.load(str(folder), mmap=True)
    docids = json.loads((folder / "docids.json").read_text())
    stemmer = Stemmer.Stemmer("english")

    def find(text: str) -> list[Any]:
        terms = bm25s.tokenize([text], stemmer=stemmer, return_ids=False, show_progress=False)
        if not terms[0]:  # stop words alone
            return []
        found, _scores = model.retrieve(terms, k=K, show_progress=False)
        return [docids[row] for row in found[0]]

    return System(find, None)


def build_lancedb(passages: Passages, folder: Path) -> None:
    """Index with LanceDB's own full-text search, English stemmer."""
    import lancedb

    rows = [{"docid": docid, "text": text} for docid, text in passages]
    table = lancedb.connect(str(folder)).create_table("passages", rows)
    table.create_fts_index("text", use_tantivy=False, language="English", stem=True)


def open_lancedb(folder: Path) -> System:
    """Search LanceDB by words; it has no snippets, so hits come with their whole text."""
    import lancedb

    table = lancedb.connect(str(folder)).open_table("passages")

    def ask(text: str, columns: list[str]) -> list[Any]:
        asked = table.search(_words(text), query_type="fts").limit(K).select(columns)
        return list(asked.to_list())

    return System(
        lambda text: ask(text, ["docid", "_score"]),
        lambda text: ask(text, ["docid", "text", "_score"]),
    )


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


BUILDERS: dict[str, Callable[[Passages, Path], None]] = {
    "quoth": build_quoth,
    "tantivy": build_tantivy,
    "fts5": build_fts5,
    "bm25s": build_bm25s,
    "lancedb": build_lancedb,
}
OPENERS: dict[str, Callable[[Path], System]] = {
    "quoth": open_quoth,
    "tantivy": open_tantivy,
    "fts5": open_fts5,
    "bm25s": open_bm25s,
    "lancedb": open_lancedb,
}
