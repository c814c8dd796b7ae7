"""`quoth export` and `quoth import`: everything comes back, from shards and into them, too."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import BIRDS, Quoth, make_runner, write_lines

from quoth.engine.engine import Engine
from quoth.errors import CollectionError, Interrupted
from quoth.interchange import exporting
from quoth.interchange.exporting import export_file, stream_documents
from quoth.records import Document
from quoth.shards.opening import open_engine

ODD = [
    Document("ключ/1", {"title": ("Œuvre",), "text": ("one", "two\nlines")}, {"tags": ("a", 1)}),
    Document("2", {"fields": ("a field of that name",), "id": ("seven",)}, {"ok": True, "x": 0.5}),
    Document(" spaced docid ", {"name": ("Owl",), "summary": ("Night bird.",)}),
]


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


@pytest.fixture
def notes(quoth: Quoth, tmp_path: Path) -> Path:
    notes = tmp_path / "notes.quoth"
    assert not quoth("add", notes, write_lines(tmp_path / "b.jsonl", BIRDS), "--no-encode").code
    with Engine.open(notes) as engine:
        engine.add_documents(ODD)
        engine.remove(["hen"])
    return notes


def _all(folder: Path) -> list[Document]:
    with open_engine(folder) as engine:
        return [engine.document(docid) for docid in engine.docids()]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet", "out.beir"])
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_round_trip(quoth: Quoth, notes: Path, tmp_path: Path, name: str, sharded: bool) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    source, copy = notes, tmp_path / "copy.quoth"
    if sharded:
        source, empty = tmp_path / "notes.shards", tmp_path / "empty.quoth"
        assert quoth("shard", notes, "--shards", 3, "--out", source).code == 0
        with Engine.open(empty) as engine:
            engine.add_documents([])
        copy = tmp_path / "copy.shards"
        assert quoth("shard", empty, "--shards", 2, "--out", copy).code == 0
    out, options = tmp_path / name, ["--format", "beir"] if name.endswith("beir") else []
    assert quoth("export", source, out, *options, "--json").json()["documents"] == 6
    done = quoth("import", copy, out, "--no-encode", "--json").json()
    assert done == {"added": 6, "updated": 0, "unchanged": 0, "skipped": 0, "problems": []}
    assert sorted(_all(copy), key=str) == sorted(_all(notes), key=str)
    again = quoth("import", copy, out, "--no-encode", "--json").json()
    assert again["unchanged"] == 6 and not again["updated"]


def test_the_order_is_that_of_adding(notes: Path) -> None:
    assert [each.docid for each in stream_documents(notes)] == [each.docid for each in _all(notes)]


def test_add_reads_what_export_wrote(quoth: Quoth, notes: Path, tmp_path: Path) -> None:
    quoth("export", notes, tmp_path / "out.jsonl")
    assert quoth("add", tmp_path / "c.quoth", tmp_path / "out.jsonl", "--no-encode").code == 0
    found = {each.docid: each for each in _all(tmp_path / "c.quoth")}
    plain = [each for each in _all(notes) if "fields" not in each.fields]
    assert len(plain) == 5 and all(found[each.docid] == each for each in plain)


def test_beir_has_queries_and_judgements(quoth: Quoth, notes: Path, tmp_path: Path) -> None:
    queries = write_lines(tmp_path / "q.jsonl", [{"_id": "q1", "text": "owls"}])
    (tmp_path / "qrels.txt").write_text("q1 0 owl 2\n")
    given = ["--queries", queries, "--qrels", tmp_path / "qrels.txt"]
    assert quoth("export", notes, tmp_path / "set", "--format", "beir", *given).code == 0
    rows = (tmp_path / "set" / "qrels" / "test.tsv").read_text().splitlines()
    assert rows == ["query-id\tcorpus-id\tscore", "q1\towl\t2"]
    judged = ["--queries", tmp_path / "set" / "queries.jsonl"]
    judged += ["--qrels", tmp_path / "set" / "qrels" / "test.tsv"]
    assert quoth("evaluate", notes, *judged, "--with", "lexical").code == 0
    refused = quoth("export", notes, tmp_path / "x.jsonl", "--queries", queries)
    refused.assert_fails(2, "--queries and --qrels need --format beir")


def test_standard_output_and_input(quoth: Quoth, notes: Path, tmp_path: Path) -> None:
    lines = quoth("export", notes, "-").out
    assert [json.loads(line)["_id"] for line in lines.splitlines()][-1] == ODD[-1].docid
    copy = tmp_path / "d.quoth"
    assert quoth("import", copy, "-", "--no-encode", stdin=lines.encode()).code == 0
    assert _all(copy) == _all(notes)
    quoth("export", notes, "-", "--format", "beir").assert_fails(2, "standard output takes jsonl")


def test_gzip_is_the_same_every_time(quoth: Quoth, notes: Path, tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        quoth("export", notes, tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert first == second and gzip.decompress(first).count(b"\n") == 6


def test_an_output_that_exists_is_kept(quoth: Quoth, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("mine")
    quoth("export", notes, tmp_path / "out.jsonl").assert_fails(3, "exists already")
    assert (tmp_path / "out.jsonl").read_text() == "mine"


@pytest.mark.parametrize("error", [Interrupted("enough"), KeyboardInterrupt()])
def test_an_interrupted_export_leaves_nothing(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def broken(folder: Path) -> Iterator[Document]:
        yield from list(stream_documents(folder))[:2]
        raise error

    monkeypatch.setattr(exporting, "stream_documents", broken)
    out = tmp_path / "out"
    for name, format in (("a.jsonl", "jsonl"), ("a.parquet", "parquet")):
        if format == "parquet":
            pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        with pytest.raises(type(error)):
            export_file(notes, out / name, format=format, told=lambda *_: None)
    with pytest.raises(type(error)):
        exporting.export_beir(notes, out / "beir", told=lambda *_: None)
    assert list(out.iterdir()) == []


def test_bad_records_are_skipped_with_their_place(quoth: Quoth, tmp_path: Path) -> None:
    lines = ['{"_id": "a", "text": "Owls."}', "{", '{"text": "no id"}', '{"_id": "b", "text": ""}']
    source = write_lines(tmp_path / "in.jsonl", lines)
    outcome = quoth("import", tmp_path / "n.quoth", source, "--no-encode", "--json")
    assert outcome.code == 1 and outcome.json()["added"] == 1
    problems = outcome.json()["problems"]
    assert [each.removeprefix(f"{source}:")[0] for each in problems] == ["2", "3", "4"]
    strict = quoth("import", tmp_path / "m.quoth", source, "--strict", "--no-encode")
    strict.assert_fails(4, f"{source}:2: not valid JSON")


def test_what_cannot_be_imported_says_what_to_do(quoth: Quoth, tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    run = ["import", tmp_path / "n.quoth"]
    quoth(*run, tmp_path / "a.docx").assert_fails(4, "quoth add reads other files")
    quoth(*run, tmp_path / "none.jsonl").assert_fails(4, "no such file or folder")
    quoth(*run, tmp_path).assert_fails(4, "holds no corpus.jsonl")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    quoth(*run, tmp_path / "bad.parquet").assert_fails(4, "not a Parquet file")


def test_no_collection(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"none\.quoth"):
        list(stream_documents(tmp_path / "none.quoth"))
