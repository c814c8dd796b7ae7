"""What a source string means: files, folders, globs, standard input."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest

from quoth.errors import ConfigError, CorpusError
from quoth.records import Problem
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*paths: str, text: str = "text") -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def test_folder_is_walked_in_order(read):
    write("notes/b.txt", "notes/a.md", "notes/sub/c.rst", "notes/.hidden.md", "notes/.git/d.md")
    assert read("notes").docids == ["notes/a.md", "notes/b.txt", "notes/sub/c.rst"]
    assert read("notes").problems == []
    assert read("./notes/../notes/").docids == read("notes").docids
    assert read(".").docids == read("notes").docids
    assert read(os.path.abspath("notes")).docids[0] == os.path.abspath("notes/a.md")
    assert read("notes/.hidden.md").docids == ["notes/.hidden.md"]


def test_unknown_formats_are_reported(read):
    write("notes/a.md", "notes/b.exe", "notes/README")
    reading = read("notes")
    assert reading.docids == ["notes/a.md"]
    assert reading.places == ["notes/README", "notes/b.exe"]
    assert ".docx" in reading.problems[0].message
    assert read("notes/b.exe").places == ["notes/b.exe"]


@pytest.mark.parametrize(
    "source", ["nowhere", "nowhere/*.md", "", "a\0b", "x[", "empty", "empty/*"]
)
def test_nothing_is_a_problem(read, source):
    Path("empty").mkdir()
    reading = read(source)
    assert reading.places == [source] and reading.located == []


def test_beir_folder(read):
    write("set/queries.jsonl", "set/qrels/test.tsv", "set/notes.md", text="no document")
    write("set/corpus.jsonl", text='{"_id": "d", "title": "", "text": "t", "metadata": {}}')
    assert read("set").docids == ["d"]
    assert read(".").docids == ["d"]
    assert read(".").problems == []


def test_beir_folder_with_archive(read):
    write("set/queries.jsonl")
    Path("set/corpus.jsonl.gz").write_bytes(b"no archive")
    assert read("set").places == ["set/corpus.jsonl.gz:1"]


def test_globs(read):
    write("n/a.md", "n/b.txt", "n/s/c.md", "n/s/t/d.md", "n/.h.md", "n/.g/e.md", "top.md")
    assert read("n/*.md").docids == ["n/a.md"]
    assert read("n/?.[mt]*").docids == ["n/a.md", "n/b.txt"]
    assert read("n/**/*.md").docids == ["n/a.md", "n/s/c.md", "n/s/t/d.md"]
    assert read("**/*.md").docids == ["n/a.md", "n/s/c.md", "n/s/t/d.md", "top.md"]
    assert read("n/*").docids == ["n/a.md", "n/b.txt", "n/s/c.md", "n/s/t/d.md"]
    assert read("n/**").docids == read("n").docids
    assert read("n/**/**/s").docids == ["n/s/c.md", "n/s/t/d.md"]
    assert read("n/.*.md").docids == ["n/.h.md"]
    assert read(f"{os.getcwd()}/t*.md").docids == [f"{os.getcwd()}/top.md"]


def test_a_path_that_exists_wins_over_the_glob(read):
    write("a[1].md", "a1.md")
    assert read("a[1].md").docids == ["a[1].md"]
    assert read("a[2].md", "a[0-9].md").docids == ["a1.md"]


def test_symbolic_link_loops_end(read):
    write("n/a.md", "n/s/b.md")
    for name in ("n/s/up", "n/s/again", "n/self", "n/other"):
        os.symlink(os.path.abspath("n"), name)
    os.symlink("loop", "loop")
    os.symlink("gone.md", "n/z.md")
    reading = read("n")
    assert reading.docids == ["n/a.md", "n/s/b.md"]
    assert reading.places == ["n/z.md"]
    assert set(read("n/**/*.md").docids) >= {"n/a.md", "n/s/b.md"}
    assert read("loop").places == ["loop"]


def test_special_files_are_not_opened(read):
    os.mkfifo("pipe.jsonl")
    assert read("pipe.jsonl").problem == "pipe.jsonl: not a regular file"


def test_names_that_are_not_utf_8(read):
    write("n/a.md")
    Path(os.fsdecode(b"n/caf\xe9.md")).write_text("text")
    reading = read("n")
    assert reading.docids == ["n/a.md"]
    assert reading.places == ["n/caf\\xe9.md"]
    assert read(os.fsdecode(b"no\xff")).places == ["no\\xff"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_locked_folders_and_files(read):
    write("n/a.md", "n/s/b.md")
    os.chmod("n/a.md", 0)
    os.chmod("n/s", 0)
    assert read("n").places == ["n/a.md", "n/s"]
    assert read("n/s/*.md").places == ["n/s"]


def test_folder_that_cannot_be_listed(read, monkeypatch):
    write("n/a.md", "n/s/b.md")
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path == "n/s":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(os, "access", lambda path, _: path != "n/s")
    reading = read("n")
    assert (reading.docids, reading.places) == (["n/a.md"], ["n/s"])
    assert read("n/*/*.md").places == ["n/s"]


def test_standard_input(read):
    lines = read("-", stdin=b' \n\n{"id": 1, "text": "x"}\n{"id": 2}\n{"text": "y"}')
    assert lines.docids == ["1"]
    assert lines.places == ["-:4", "-:5"]
    assert str(lines.located[0].place) == "-:3"
    text = read("-", stdin=b"plain text").document
    assert (text.docid, text.fields) == ("-", {"text": ("plain text",)})
    assert read("-", stdin='{"id": 1, "text": "é"}'.encode("utf-16")).docids == ["1"]
    assert read("-", stdin=b'{"text": "x"}', id_key="#line").docids == ["-:1"]


def test_words_that_man_parts_are_joined_where_no_hyphen_is_their_own(read):
    page = "By hand\u2010\n       book or\r\n line: dis\u2010\r\ncussion."
    parted = [page, page + " A well\u2010known one.", "5\u2010\n6", "-\u2010\n  x"]
    parted.append("counter\u2010\n  revolu\u2010\n  tion")
    found = [read("-", stdin=each.encode()).document.fields["text"] for each in parted]
    assert found[0] == ("By handbook\n or\r\n line: discussion.\r\n",)
    assert [text.count("\n") for (text,) in found] == [text.count("\n") for text in parted]
    assert found[1:] == [(each,) for each in parted[1:]]


@pytest.mark.parametrize("stdin", [b"", b" \n ", b"\xff", b"x" * 20])
def test_bad_standard_input(read, stdin):
    assert read("-", stdin=stdin, max_file_bytes=19).problem.startswith("-")


def test_sources_come_in_the_order_given(read):
    write("a.md", "b.md")
    assert read("b.md", "nowhere", "a.md", "b.md").docids == ["b.md", "a.md", "b.md"]


def test_report_may_raise(read):
    write("a.jsonl", text='{"id": 1, "text": "x"}\nbad\n{"id": 2, "text": "x"}')

    def refuse(problem: Problem) -> None:
        raise CorpusError(str(problem))

    documents = read_documents(["a.jsonl"], config=ReaderConfig(), report=refuse)
    assert next(documents).document.docid == "1"
    with pytest.raises(CorpusError, match=r"a\.jsonl:2"):
        next(documents)


def test_report_may_raise_what_readers_catch_themselves():
    def refuse(problem: Problem) -> None:
        raise UnicodeError(str(problem))

    for name in ("a.jsonl.gz", "a.pdf", "a.docx", "a.html", "-"):
        write(name, text=" ")
        with pytest.raises(UnicodeError, match=r"a\.|-"):
            list(
                read_documents(
                    [name], config=ReaderConfig(), report=refuse, standard_input=BytesIO(b" ")
                )
            )


def test_all_settings_are_checked_at_once():
    with pytest.raises(ConfigError) as caught:
        ReaderConfig(
            id_key="id",
            metadata_keys=("id", "", "x", "x"),
            max_line_bytes=0,
            max_file_bytes=-1,
            encoding="klingon",
        )
    words = (
        "metadata_keys has ''",
        "twice",
        "docid",
        "max_line_bytes",
        "max_file_bytes",
        "klingon",
    )
    for word in words:
        assert word in str(caught.value)
    for encoding in ("rot13", "hex", "undefined"):
        with pytest.raises(ConfigError):
            ReaderConfig(encoding=encoding)
