"""Hits that are shown by what was kept of their passages are those shown by analysing them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import corpora
import pytest

from quoth.engine.engine import Engine
from quoth.index.lexical.passage_terms import FILE_NAME, PassageTermsFile
from quoth.records import Document, SearchRequest, ShownHit
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

SETTINGS: dict[str, Any] = {"lexical": {"compact_share": 1.0}, "passages": {"max_words": 20}}
REQUESTS = ("t0 t1", "t3 t7 t12 t1", '"t0 t1" t2', "+t4 -t2 t5", "title:t1 t30", "東京 t0", "é t1")


def _random_documents(count: int, *, seed: int) -> Iterable[Document]:
    """Make documents, some of them in scripts without spaces, or without any space at all."""
    chance = random.Random(seed)
    for at in range(count):
        made = corpora.as_document(f"d{at:03}", corpora.random_fields(chance, longest=80))
        text = made.fields["text"][0]
        others = {0: f"{text} 東京へ行く。京都も見る。" * 9, 1: f"café {text}", 2: "t0/t1," * 900}
        yield Document(made.docid, {**made.fields, "text": (others.get(at % 9, text),)})


def _docstrings(count: int) -> list[Document]:
    read = read_documents(["python:stdlib"], config=ReaderConfig(), report=lambda _problem: None)
    return [located.document for located in islice(read, count)]


def _shown(folder: Path, queries: Iterable[str]) -> list[tuple[ShownHit, ...]]:
    with Engine.open(folder) as engine:
        return [engine.find(SearchRequest(each, k=20)).hits for each in queries]


def _require_same_without(folder: Path, queries: Iterable[str]) -> None:
    queries, kept = list(queries), folder / "lexical" / FILE_NAME
    expected = _shown(folder, queries)
    kept.rename(kept.with_suffix(".aside"))
    assert _shown(folder, queries) == expected
    assert sum(map(len, expected)) > len(queries)
    kept.with_suffix(".aside").rename(kept)


@pytest.mark.parametrize("overlap", [0, 3])
def test_random_documents_with_removed_ones(tmp_path: Path, overlap: int) -> None:
    passages = {**SETTINGS["passages"], "overlap_words": overlap}
    with Engine.open(tmp_path / "c", settings=[{**SETTINGS, "passages": passages}]) as engine:
        engine.add_documents(_random_documents(90, seed=1))
        engine.remove([f"d{at:03}" for at in range(0, 90, 7)])
        engine.add_documents(_random_documents(9, seed=2))
        assert engine.verify().is_clean
    _require_same_without(tmp_path / "c", REQUESTS)


def test_docstrings(tmp_path: Path) -> None:
    documents = _docstrings(300)
    with Engine.open(tmp_path / "c") as engine:
        engine.add_documents(documents)
    lines = [
        " ".join(each.fields["text"][0].split()[:5]) for each in documents if "text" in each.fields
    ]
    _require_same_without(tmp_path / "c", lines[:: len(lines) // 30])


def test_a_collection_that_kept_none_gets_all_with_the_next_write(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Engine.open(folder) as engine:
        engine.add_documents([Document(docid, {"text": ("an owl",)}) for docid in "ab"])
    (folder / "lexical" / FILE_NAME).unlink()
    with Engine.open(folder) as engine:
        assert [hit.docid for hit in engine.search("owl")] == ["a", "b"]
        engine.add_documents([Document("c", {"text": ("an owl",)})])
    records = PassageTermsFile.open(folder / "lexical" / FILE_NAME)
    assert sorted(records.read(range(9))) == [1, 2, 3]
    records.close()


def test_a_damaged_record_is_found_and_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("a", {"title": ("birds",), "text": ("an owl",)})])
        expected = engine.find(SearchRequest("owl")).hits
    records = PassageTermsFile.open(folder / "lexical" / FILE_NAME, write=True)
    ((row, record),) = records.all_records()
    records.begin()
    records.put([(row, record[:-1] + bytes([record[-1] ^ 1]))])
    change, log = records.reached
    records.commit(basis=records.basis, change=change, log=log)
    assert not records.read([row])
    records.close()
    with Engine.open(folder) as engine:
        assert engine.find(SearchRequest("owl")).hits == expected
        assert any(FILE_NAME in line for line in engine.verify().indexes)
        assert engine.verify(repair=True).is_clean and engine.verify().is_clean
