"""Word files, written with python-docx."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def fill(document: Any) -> None:
    document.add_paragraph("Before")
    document.add_heading("Chapter", level=1)
    document.add_paragraph("Body text")
    table = document.add_table(rows=2, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "b\nc"
    table.cell(1, 0).merge(table.cell(1, 1)).text = "wide"
    document.add_heading("Part", level=2)
    document.add_paragraph("")
    document.add_paragraph("After\twith tab")


def swap_body(data: bytes, body: str) -> bytes:
    """Put other XML between the body tags of a Word file."""
    source, stream = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with source, zipfile.ZipFile(stream, "w") as target:
        for name in source.namelist():
            xml = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
            target.writestr(name, xml if name == "word/document.xml" else source.read(name))
    return stream.getvalue()


def test_order_headings_and_tables(read_bytes, make_docx):
    document = read_bytes("a.docx", make_docx(fill)).document
    assert document.fields == {
        "title": ("Chapter",),
        "text": (
            "Before\n\n# Chapter\n\nBody text\n\na | b c\nwide\n\n## Part\n\nAfter\twith tab",
        ),
    }
    assert document.metadata == {"path": "a.docx", "format": "docx"}


def test_titles(read_bytes, make_docx):
    def titled(document: Any) -> None:
        document.core_properties.title = "Of the file"
        document.add_heading("Of the page", level=0)

    document = read_bytes("a.docx", make_docx(titled)).document
    assert document.fields == {"title": ("Of the file",), "text": ("# Of the page",)}


def test_insertions_controls_and_links_are_read_and_deletions_are_not(read_bytes, make_docx):
    body = (
        "<w:sdt><w:sdtContent><w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>control</w:t>"
        "</w:r></w:p></w:sdtContent></w:sdt><w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del>"
        "<w:r><w:delText>old</w:delText></w:r></w:del><w:r><w:br/><w:t>line</w:t></w:r></w:p>"
    )
    document = read_bytes("a.docx", swap_body(make_docx(fill), body)).document
    assert document.fields["text"] == ("control\n\nnew\nline",)


def test_no_text(read_bytes, make_docx):
    assert "no text" in read_bytes("a.docx", make_docx(lambda _: None)).problem


def test_unpacked_size_is_bounded(read_bytes, make_docx):
    data = make_docx(lambda document: document.add_paragraph("x" * 2_000_000))
    assert len(data) < 200_000
    assert "bytes unpacked" in read_bytes("a.docx", data, max_file_bytes=200_000).problem


def test_not_a_word_file(read_bytes, make_docx):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as package:
        package.writestr("a.txt", "hello")
    whole = make_docx(fill)
    for data in (b"hello", b"PK\x03\x04", stream.getvalue(), whole[: len(whole) // 2]):
        assert read_bytes("a.docx", data).problem.startswith("a.docx: not a readable Word file")


@pytest.mark.parametrize("xml", ["<w:p>", "<w:p></w:q>", "&boom;"])
def test_broken_xml(read_bytes, make_docx, xml):
    assert (
        "not a readable Word file" in read_bytes("a.docx", swap_body(make_docx(fill), xml)).problem
    )
