"""A file that makes its parser hang, swell or crash is reported, and the next one is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from quoth.records import Located, Problem
from quoth.text.readers import apart
from quoth.text.readers.apart import Limits, Worker, WorkerLost, read_apart
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.outcomes import Whole
from quoth.text.readers.reading import read_documents

PAGE = b"<html><title>Owls</title><body><p>The barn owl hunts at night.</p></body></html>"
USUAL = Limits(600.0, 2_000_000_000)
STAND_IN = """
import os, sys, time
sys.path[:] = {path!r}
from quoth.text.readers import apart, reading
def read(whole):
    if b"hang" in whole.data:
        time.sleep(3600)
    if b"crash" in whole.data:
        os.abort()
    if b"swell" in whole.data:
        bytearray(1 << 34)
    yield from original(whole)
original = reading.WHOLE_READERS["html"]
reading.WHOLE_READERS["html"] = read
apart.serve(reading.WHOLE_READERS, {most})
"""


@pytest.fixture
def _unreliable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process that reads do what the file says."""
    apart._reused.end()
    monkeypatch.setattr(apart, "_START", STAND_IN)
    yield
    apart._reused.end()


def _whole(data: bytes) -> Whole:
    return Whole("a.html", data, "utf-8", 1_000_000)


def _read(data: bytes, limits: Limits = USUAL) -> list[Located | Problem]:
    found = read_apart("html", _whole(data), limits)
    assert found is not None
    return found


def test_what_is_read_apart_is_what_is_read_here(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.html").write_bytes(PAGE)
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    problems: list[Problem] = []
    read = {
        seconds: list(
            read_documents(
                [str(tmp_path)],
                config=ReaderConfig(max_seconds=seconds),
                report=problems.append,
            )
        )
        for seconds in (0.0, 600.0)
    }
    assert read[0.0] == read[600.0] and len(read[0.0]) == 1
    assert len(problems) == 2 and problems[0] == problems[1]


@pytest.mark.usefixtures("_unreliable")
@pytest.mark.parametrize("harm", [b"crash", b"swell"])
def test_a_parser_that_breaks_costs_one_file(harm: bytes) -> None:
    (problem,) = _read(harm + PAGE, Limits(600.0, 1_000_000_000))
    assert isinstance(problem, Problem) and problem.place.path == "a.html"
    (located,) = _read(PAGE, Limits(600.0, 1_000_000_000))
    assert isinstance(located, Located) and located.document.title == "Owls"


@pytest.mark.usefixtures("_unreliable")
def test_a_parser_that_hangs_is_stopped() -> None:
    (problem,) = _read(b"hang" + PAGE, Limits(0.5, 2_000_000_000))
    assert isinstance(problem, Problem) and "readers.max_seconds (0.5 s)" in problem.message
    (located,) = _read(PAGE)
    assert isinstance(located, Located)


def test_where_no_process_can_be_started_files_are_read_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "_reused", apart._Reused())
    monkeypatch.setattr(sys, "executable", "/dev/null/python")
    assert read_apart("html", _whole(PAGE), USUAL) is None


def test_a_process_that_speaks_otherwise_is_not_believed() -> None:
    with pytest.raises(WorkerLost):
        Worker([sys.executable, "-c", "print('hello')"])
