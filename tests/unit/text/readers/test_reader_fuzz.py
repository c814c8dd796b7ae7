"""Any bytes under any name: no crash, and nothing lost in silence."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quoth.text.readers.files import FORMAT_BY_SUFFIX

LENIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
FRAGMENTS = [
    *(b'{"_id": "a", "text": "t"}', b'{"id": 1', b"id,text\n", b"id\ttext\n", b'"', b",", b"\t"),
    *(b"\n", b"\r\n", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"---\n", b"# T\n", b"===\n"),
    *(b"<p>", b"<html>", b"<meta charset=utf-7>", b"&#0;", b"%PDF-1.4\n", b"1 0 obj\n<<>>\nendobj"),
    *(
        b"trailer\n<</Root 1 0 R>>",
        b"startxref\n0\n%%EOF",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"[",
        b"{",
    ),
]
bites = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(FRAGMENTS)).map(b"".join))


@pytest.mark.parametrize("suffix", FORMAT_BY_SUFFIX)
@settings(deadline=None, derandomize=True, max_examples=20, suppress_health_check=LENIENT)
@given(data=bites)
def test_any_bytes_give_documents_or_problems(read_bytes, suffix, data):
    reading = read_bytes(f"fuzz{suffix}", data)
    assert reading.located or reading.problems
    assert all(place.startswith(f"fuzz{suffix}") for place in reading.places)


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".csv.gz"])
@settings(deadline=None, derandomize=True, max_examples=20, suppress_health_check=LENIENT)
@given(data=bites, cut=st.integers(0, 40))
def test_any_bytes_in_an_archive(read_bytes, suffix, data, cut):
    packed = gzip.compress(data, mtime=0)
    reading = read_bytes(f"fuzz{suffix}", packed[: len(packed) - cut])
    assert reading.located or reading.problems


@settings(deadline=None, derandomize=True, max_examples=30, suppress_health_check=LENIENT)
@given(data=bites)
def test_every_line_counts(read_bytes, data):
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"\xef\xbb\xbf")):
        return
    num_lines = sum(1 for line in data.split(b"\n") if line.strip(b" \t\r"))
    reading = read_bytes("fuzz.jsonl", data)
    assert len(reading.located) + len(reading.problems) == max(1, num_lines)


@settings(deadline=None, derandomize=True, max_examples=30, suppress_health_check=LENIENT)
@given(data=bites)
def test_any_standard_input(read, data):
    reading = read("-", stdin=data)
    assert reading.located or reading.problems


@settings(deadline=None, derandomize=True, max_examples=30, suppress_health_check=LENIENT)
@given(position=st.floats(0, 0.999), patch=st.binary(max_size=8), width=st.integers(0, 40))
@pytest.mark.parametrize("suffix", [".pdf", ".docx"])
def test_damaged_files(read_bytes, make_pdf, make_docx, suffix, position, patch, width):
    data = make_pdf([b"One", b"Two"]) if suffix == ".pdf" else make_docx(_fill)
    start = int(position * len(data))
    reading = read_bytes(f"fuzz{suffix}", data[:start] + patch + data[start + width :])
    assert reading.located or reading.problems


def _fill(document: object) -> None:
    document.add_heading("Title", level=1)  # type: ignore[attr-defined]
    document.add_paragraph("Text")  # type: ignore[attr-defined]
