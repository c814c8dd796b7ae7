"""Plain text, Markdown and reStructuredText."""

from __future__ import annotations

import gzip

import pytest

from quoth.text.readers.markup import find_markdown_title, find_rst_title
from quoth.text.readers.outcomes import too_large


def test_plain_text_is_kept_as_written(read_bytes):
    document = read_bytes("a.txt", b"\xef\xbb\xbfone\r\n\ttwo \x00\n").document
    assert document.docid == "a.txt"
    assert document.fields == {"text": ("one\r\n\ttwo \0\n",)}
    assert document.metadata == {"path": "a.txt", "format": "txt"}


def test_markdown(read_bytes):
    document = read_bytes("a.md", b"# Title #\n\nText *here*\n").document
    assert document.fields == {"title": ("Title",), "text": ("# Title #\n\nText *here*\n",)}
    assert document.metadata == {"path": "a.md", "format": "md"}


def test_rst(read_bytes):
    document = read_bytes("a.rst", b"Title\n=====\n\nText\n").document
    assert document.fields == {"title": ("Title",), "text": ("Title\n=====\n\nText\n",)}
    assert document.metadata["format"] == "rst"


def test_front_matter(read_bytes):
    matter = (
        '---\nyear: 1843\n# remark\ntitle: "Notes: a"\ntags:\n  - x\n  - 2\nlist: [a, b]\n'
        "draft: false\nnone:\nnested:\n  deep: 1\nurl: http://x/y\npath: mine\n---\n"
    )
    document = read_bytes("a.md", f"{matter}\n# Heading\n\nText".encode()).document
    assert document.fields == {"title": ("Notes: a",), "text": ("\n# Heading\n\nText",)}
    assert document.metadata == {
        "year": 1843,
        "tags": ("x", 2),
        "list": ("a", "b"),
        "draft": False,
        "url": "http://x/y",
        "path": "a.md",
        "format": "md",
    }


@pytest.mark.parametrize("text", ["---\nno pairs here\n---\nText", "---\nyear: 1\nText", "--- x"])
def test_what_only_looks_like_front_matter_is_text(read_bytes, text):
    document = read_bytes("a.md", text.encode()).document
    assert document.fields["text"] == (text,)
    assert set(document.metadata) == {"path", "format"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Second\n# First", "Second"),
        ("Setext\n---\n", "Setext"),
        ("~~~\n# code\n~~~\n\nAfter\n===", "After"),
        ("````\n```\n# code\n````\n# Yes", "Yes"),
        ("#hashtag\n", ""),
        ("- item\n---\n", ""),
        ("a\nb\n---\n", ""),
        ("\n---\n", ""),
        ("#\n# Real", "Real"),
        ("", ""),
    ],
)
def test_markdown_titles(text, title):
    assert find_markdown_title(text) == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Title\n=====", "Title"),
        ("#####\n Tit\n#####", "Tit"),
        ("text\n\nLater\n~~~~~\n", "Later"),
        ("Title\n===", ""),
        ("====  ====\na     b\n====  ====", ""),
        ("word\nword\n====", ""),
        ("----\n\n----", ""),
    ],
)
def test_rst_titles(text, title):
    assert find_rst_title(text) == title


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html"])
@pytest.mark.parametrize(
    ("data", "place"),
    [(b"one\ntwo\n\xffthree", ":3"), ("one\ntwo\n".encode("utf-16") + b"\x00\xd8\x41", ":3")],
)
def test_bad_byte_is_a_problem_at_its_line(read_bytes, name, data, place):
    assert read_bytes(name, data).problem.startswith(f"{name}{place}: not valid utf-")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst"])
def test_other_encodings(read_bytes, name):
    assert read_bytes(name, "é".encode("utf-16")).document.fields["text"] == ("é",)
    assert read_bytes(name, b"\xe9", encoding="latin-1").document.fields["text"] == ("é",)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html", "a.pdf", "a.docx"])
def test_empty_blank_and_too_large(read_bytes, name):
    assert read_bytes(name, b"").problem == f"{name}: empty file"
    assert read_bytes(name, b" \n ").problem.startswith(f"{name}: ")
    problem = read_bytes(name, b"x" * 11, max_file_bytes=10).problem
    assert problem == f"{name}: {too_large('11 bytes', 10)}"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html", "a.json"])
def test_compressed_text_is_read_as_it_is_uncompressed(read_bytes, name):
    text = b'{"id": "a", "text": "Owls hunt."}' if name == "a.json" else b"Owls hunt at dusk."
    plain, packed = read_bytes(name, text), read_bytes(f"{name}.gz", gzip.compress(text))
    assert packed.document.fields == plain.document.fields


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gzip.compress(b"Owls hunt at dusk.")[:-9], "cannot be read: Compressed file ended"),
        (b"no archive", "cannot be read: Not a gzipped file"),
        (
            gzip.compress(bytes(2_000)),
            "too large: more than 1,000 bytes unpacked",
        ),
    ],
    ids=["cut", "no archive", "bomb"],
)
def test_a_compressed_file_that_is_broken_or_a_bomb_is_reported(read_bytes, data, why):
    assert why in read_bytes("a.txt.gz", data, max_file_bytes=1_000).problem
