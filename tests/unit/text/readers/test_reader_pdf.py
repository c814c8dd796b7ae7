"""PDF files, written by hand."""

from __future__ import annotations

import io

import pytest


def encrypt(data: bytes, *, password: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer, stream = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt(password, "owner", algorithm="RC4-128")
    writer.write(stream)
    return stream.getvalue()


def test_pages_are_joined(read_bytes, make_pdf):
    data = make_pdf([b"First page", b"", b"Third page"], title="A Title")
    document = read_bytes("a.pdf", data).document
    assert document.docid == "a.pdf"
    assert document.fields == {"title": ("A Title",), "text": ("First page\n\n\f\n\n\fThird page",)}
    assert document.metadata == {"path": "a.pdf", "format": "pdf", "pages": 3}


def test_no_title(read_bytes, make_pdf):
    assert set(read_bytes("a.pdf", make_pdf([b"Text"])).document.fields) == {"text"}


def test_broken_page_is_named_and_the_others_are_kept(read_bytes, make_pdf):
    reading = read_bytes("a.pdf", make_pdf([b"One", b"Two", b"Three"], spoil=[1]))
    [document], [problem] = reading.documents, reading.problems
    assert document.fields["text"] == ("One\n\n\f\n\n\fThree",)
    assert str(problem).startswith("a.pdf: page 2 cannot be read")


def test_encrypted(read_bytes, make_pdf):
    data = make_pdf([b"Secret"])
    assert "a.pdf: encrypted" in read_bytes("a.pdf", encrypt(data, password="secret")).problem
    unlocked = read_bytes("b.pdf", encrypt(data, password="")).document
    assert unlocked.fields["text"] == ("Secret",)


def test_scan_without_text(read_bytes, make_pdf):
    assert "no text on any of 2 pages" in read_bytes("a.pdf", make_pdf([b"", b""])).problem


@pytest.mark.parametrize("data", [b"hello", b"PK\x03\x04", b"%PDF-1.4\n", b"\x00" * 1000])
def test_not_a_pdf(read_bytes, data):
    assert read_bytes("a.pdf", data).problem.startswith("a.pdf: not a readable PDF")


def test_truncated(read_bytes, make_pdf):
    data = make_pdf([b"One", b"Two"])
    for size in range(0, len(data), 37):
        reading = read_bytes("a.pdf", data[:size])
        assert reading.located or reading.problems


def test_complaints_of_the_parser_are_reported_with_the_name(read_bytes, make_pdf, capfd):
    data = make_pdf([b"First page", b"Second page"])
    place = data.rindex(b"startxref") + len(b"startxref\n")
    reading = read_bytes("a.pdf", data[:place] + b"7\n%%EOF\n")
    (located,) = reading.located
    assert located.document.fields["text"] == ("First page\n\n\fSecond page",)
    assert "a.pdf: damaged PDF, text may be missing: incorrect startxref pointer" in str(
        reading.problems[0]
    )
    reading = read_bytes("a.pdf", data[: data.rindex(b"%%EOF")])
    assert "a.pdf: not a readable PDF" in reading.problem and "EOF marker" in reading.problem
    assert capfd.readouterr().err == ""
