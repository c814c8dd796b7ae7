"""A collection that an earlier release wrote is searched, checked and written to as any other.

`tests/data/collection-0.1.0.zip` was written by Quoth 0.1.0: documents 0 to 29 of `damaging`, of
which two were removed and one was changed. Its lexical folder has no terms of passages yet.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import damaging
import pytest
import reference

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.split_and_merge import split_collection

ARCHIVES = sorted((Path(__file__).parent.parent / "data").glob("collection-*.zip"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the collection of an earlier release."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path / "c.quoth")
    return tmp_path / "c.quoth"


def _expected() -> dict[str, Document]:
    made = {f"d{number}": damaging.make_document(number) for number in range(30)}
    made["d5"] = Document("d5", {"text": ("changed owl d5",)})
    return {docid: each for docid, each in made.items() if docid not in ("d3", "d4")}


def _assert_reads_back(engine: Engine, documents: dict[str, Document]) -> None:
    assert {docid: engine.document(docid) for docid in engine.docids()} == documents
    for query, where in zip(damaging.QUERIES, damaging.FILTERS, strict=True):
        every = reference.search(documents, query, k=999, where=where)
        hits = engine.search(query, k=10, where=where)
        reference.assert_same_hits(hits, every[:10], all_hits=every)


def test_it_is_searched_and_checked_before_anything_is_written(old: Path) -> None:
    with Engine.open(old) as engine:
        _assert_reads_back(engine, _expected())
        assert engine.verify().lines() == ()


def test_it_is_written_to_and_stays_exact(old: Path) -> None:
    documents = _expected()
    later = Document("later", {"text": ("a later owl in the barn",)})
    with Engine.open(old, settings=damaging.SETTINGS) as engine:
        engine.add_documents([later])
        engine.remove(["d7"])
        del documents["d7"]
        _assert_reads_back(engine, {**documents, "later": later})
        assert engine.verify().lines() == ()
    assert (old / "lexical" / "passages.db").exists()


def test_it_is_repaired_and_cut_into_shards(old: Path, tmp_path: Path) -> None:
    damaging.truncate(next((old / "lexical").rglob("*.idx")))
    with Engine.open(old) as engine:
        assert engine.verify(repair=True).is_clean
        _assert_reads_back(engine, _expected())
    assert split_collection(old, tmp_path / "out", count=2).count == 2


def test_what_an_earlier_release_wrote_meanwhile_is_completed(old: Path) -> None:
    """An earlier release keeps the documents and the index, and knows no terms of passages."""
    later = Document("later", {"text": ("a later owl in the barn",)})
    with Engine.open(old, settings=damaging.SETTINGS) as engine:
        engine.add_documents([])
        kept = (old / "lexical" / "passages.db").read_bytes()
        engine.add_documents([later])
    (old / "lexical" / "passages.db").write_bytes(kept)  # as it was before that write
    expected = {**_expected(), "later": later}
    with Engine.open(old, settings=damaging.SETTINGS) as engine:
        _assert_reads_back(engine, expected)
        assert engine.verify().lines() == ()
        engine.add_documents([])
        assert engine.verify().lines() == ()
        _assert_reads_back(engine, expected)
    assert (old / "lexical" / "passages.db").read_bytes() != kept
