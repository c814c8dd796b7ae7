"""Bounded lines, broken archives, flat memory."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.records import Problem
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.lines import Line, read_lines
from quoth.text.readers.reading import read_documents

FIRST = b'{"id": "first", "text": "x"}\n'
LAST = b'{"id": "last", "text": "x"}\n'
MEGABYTE = 1 << 20


def write_long_line(path: Path, megabytes: int) -> None:
    """Write a short line, one of many megabytes, and a short one again."""
    is_packed = path.suffix == ".gz"
    with gzip.open(path, "wb", compresslevel=1) if is_packed else path.open("wb") as stream:
        stream.write(FIRST)
        for _ in range(megabytes):
            stream.write(b"x" * MEGABYTE)
        stream.write(b"\n" + LAST)


@settings(derandomize=True)
@given(
    chunks=st.lists(st.binary(max_size=12), max_size=8),
    limit=st.integers(1, 8),
)
def test_lines_equal_those_of_the_whole(chunks, limit):
    whole = b"".join(chunks)
    if whole[:2] in (b"\xff\xfe", b"\xfe\xff") or whole[:3] == b"\xef\xbb\xbf":
        return
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    found = list(read_lines(chunks, path="a", encoding="latin-1", max_line_bytes=limit))
    assert len(found) == len(expected)
    for number, (line, data) in enumerate(zip(found, expected, strict=True), start=1):
        if len(data) <= limit:
            assert line == Line(number, data, "latin-1")
        else:
            assert isinstance(line, Problem) and line.place.line == number


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_too_long_is_skipped_without_being_held(tmp_path, name):
    write_long_line(tmp_path / name, 40)
    problems: list[Problem] = []
    config = ReaderConfig(max_line_bytes=MEGABYTE)
    tracemalloc.start()
    try:
        located = list(
            read_documents([str(tmp_path / name)], config=config, report=problems.append)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [found.document.docid for found in located] == ["first", "last"]
    assert [problem.place.line for problem in problems] == [2]
    assert f"{40 * MEGABYTE:,} bytes" in problems[0].message
    assert peak < 4 * MEGABYTE


PROGRAM = """
import sys
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1])

before, problems, count = peak(), [], 0
for found in read_documents(sys.argv[1:], config=ReaderConfig(), report=problems.append):
    count += 1
print(count, found.document.docid, *[problem.place.line for problem in problems], peak() - before)
"""


def read_apart(path: Path) -> list[str]:
    """Read in another process: count, last docid, lines of problems, and kilobytes grown by."""
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_default_limit_holds_against_a_line_of_300_megabytes(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as stream:
        stream.write(FIRST)
        stream.seek(300 * MEGABYTE, 1)
        stream.write(b"\n" + LAST)
    *found, grown = read_apart(path)
    assert found == ["2", "last", "2"]
    assert int(grown) < 80_000  # the limit itself allows a line of 32 megabytes to be held


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_lines_stream_in_flat_memory(tmp_path):
    path = tmp_path / "many.jsonl"
    words = "some words to read " * 20
    with path.open("w") as stream:
        for number in range(40_000):
            stream.write(f'{{"id": {number}, "text": "{words}", "year": 2020}}\n')
    assert path.stat().st_size > 15 * MEGABYTE
    *found, grown = read_apart(path)
    assert found == ["40000", "39999"]
    assert int(grown) < 4_000


def packed_lines(count: int) -> bytes:
    """Pack lines that do not compress well, so that a cut falls between many of them."""
    noise = random.Random(0)
    return gzip.compress(
        b"".join(b'{"id": %d, "text": "%x"}\n' % (i, noise.getrandbits(400)) for i in range(count))
    )


def test_truncated_archive_keeps_what_came_before(read_bytes):
    packed = packed_lines(2000)
    reading = read_bytes("a.jsonl.gz", packed[: len(packed) // 2])
    assert 900 < len(reading.located) < 1100
    assert reading.docids == [str(i) for i in range(len(reading.located))]
    assert reading.places == [f"a.jsonl.gz:{len(reading.located) + 1}"]


def test_corrupt_archive_keeps_what_came_before(read_bytes):
    packed = bytearray(packed_lines(20_000))
    packed[len(packed) // 2 : len(packed) // 2 + 8] = b"\xff" * 8
    reading = read_bytes("a.jsonl.gz", bytes(packed))
    assert 9_000 < len(reading.located) < 11_000
    assert reading.problems[-1].place.line > len(reading.located)
    assert "cannot be read past this line" in reading.problems[-1].message


def test_wrong_checksum_is_a_problem(read_bytes):
    packed = bytearray(gzip.compress(FIRST))
    packed[-8] ^= 1
    reading = read_bytes("a.jsonl.gz", bytes(packed))
    assert reading.docids == ["first"]
    assert reading.places == ["a.jsonl.gz:2"]


def test_not_an_archive_at_all(read_bytes):
    assert read_bytes("a.jsonl.gz", FIRST).problem.startswith("a.jsonl.gz:1: ")
    assert read_bytes("a.csv.gz", b"id,text\n").problems[0].place.line == 1


def test_an_archive_bomb_is_only_long_lines(read_bytes):
    reading = read_bytes("a.jsonl.gz", gzip.compress(bytes(20 * MEGABYTE)), max_line_bytes=1000)
    assert reading.problem.startswith("a.jsonl.gz:1: line of 20,971,520 bytes")
