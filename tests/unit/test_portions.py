"""Portions worked on with other threads and processes: the same results and errors as without."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from quoth import portions
from quoth.portion_threads import AHEAD
from quoth.portions import kept_workers, map_portions

SHARED = 200


def _pid_of(number: int) -> tuple[int, int]:
    time.sleep(0.005)
    return number, os.getpid()


def _square(number: int) -> int:
    return number * number


def _is_collecting(_number: int) -> bool:
    return gc.isenabled()


def _meet(number: int, *, meeting: threading.Barrier) -> int:
    if number:
        meeting.wait()
    return threading.get_ident()


def _refuse(number: int, *, bad: int) -> int:
    if number == bad:
        raise ValueError(f"portion {number} is bad")
    return number


def _die_elsewhere(number: int, *, home: int) -> int:
    if os.getpid() != home and number % 7 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, SHARED])
def test_results_come_in_order_whatever_the_number_of_workers(workers: int, count: int) -> None:
    expected = [number * number for number in range(count)]
    assert list(map_portions(_square, range(count), workers=workers)) == expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, SHARED])
def test_results_of_threads_come_in_order(count: int) -> None:
    expected = [number * number for number in range(count)]
    assert list(map_portions(_square, range(count), workers=3, in_threads=True)) == expected


def test_threads_take_part_after_one_portion_and_end_with_the_work() -> None:
    before = threading.active_count()
    meeting = threading.Barrier(2, timeout=60)  # neither portion is done by one thread alone
    work = partial(_meet, meeting=meeting)
    assert len(set(map_portions(work, range(3), workers=1, in_threads=True))) == 2
    with contextlib.closing(
        map_portions(_square, range(SHARED), workers=2, in_threads=True)
    ) as results:
        for _number in range(20):
            next(results)
    assert threading.active_count() == before


def test_one_portion_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "Crew", None)
    assert list(map_portions(_square, range(1), workers=4, in_threads=True)) == [0]


def test_an_error_of_a_thread_comes_where_its_portion_would() -> None:
    found, work = [], partial(_refuse, bad=60)
    with pytest.raises(ValueError, match="portion 60 is bad"):
        for each in map_portions(work, range(SHARED), workers=2, in_threads=True):
            found.append(each)
    assert found == list(range(60))


def test_others_take_part_and_so_does_the_caller() -> None:
    found = list(map_portions(_pid_of, range(2 * SHARED), workers=1))
    assert [number for number, _pid in found] == list(range(2 * SHARED))
    assert len({pid for _number, pid in found}) == 2 and os.getpid() in {pid for _, pid in found}


def test_little_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "_start", None)
    assert list(map_portions(_square, range(2), workers=4)) == [0, 1]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_comes_where_its_portion_would(workers: int) -> None:
    found = []
    with pytest.raises(ValueError, match="portion 60 is bad"):
        for each in map_portions(partial(_refuse, bad=60), range(SHARED), workers=workers):
            found.append(each)
    assert found == list(range(60))


def test_the_caller_does_what_a_lost_process_leaves() -> None:
    work = partial(_die_elsewhere, home=os.getpid())
    assert list(map_portions(work, range(SHARED), workers=2)) == list(range(SHARED))


def test_where_no_process_can_be_started_the_caller_does_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert list(map_portions(_square, range(30), workers=2)) == [each**2 for each in range(30)]


def test_so_many_portions_are_drawn_ahead_and_no_more() -> None:
    drawn = []

    def draw() -> Iterator[int]:
        for number in range(SHARED):
            drawn.append(number)
            yield number

    with contextlib.closing(map_portions(_square, draw(), workers=1)) as results:
        for at, _result in enumerate(results):
            assert len(drawn) <= at + 1 + 2 * AHEAD
            if at == 50:
                break


@pytest.mark.parametrize("in_threads", [False, True])
@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_source_comes_after_what_it_gave(
    workers: int, count: int, *, in_threads: bool
) -> None:
    def draw() -> Iterator[int]:
        yield from range(count)
        raise ValueError("the source broke")

    found = []
    with pytest.raises(ValueError, match="the source broke"):
        for each in map_portions(_square, draw(), workers=workers, in_threads=in_threads):
            found.append(each)
    assert found == [number * number for number in range(count)]


def test_what_cannot_be_sent_is_worked_on_here() -> None:
    unsendable = [lambda: 1] * 60
    assert list(map_portions(callable, unsendable, workers=1)) == [True] * 60


def test_processes_end_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def note(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    with contextlib.closing(map_portions(_square, range(SHARED), workers=2)) as results:
        for _number in range(20):
            next(results)
    assert len(started) == 2 and all(each.poll() is not None for each in started)


def test_kept_processes_take_part_from_the_first_portion_of_other_work_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kept_workers():
        list(map_portions(_square, range(SHARED), workers=1))
        monkeypatch.setattr(portions, "_ALONE", SHARED)  # none would take part otherwise
        pids = {pid for _number, pid in map_portions(_pid_of, range(SHARED), workers=1)}
    assert len(pids) == 2


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("is_wanted", [False, True])
def test_garbage_is_collected_afterwards_as_before(workers: int, *, is_wanted: bool) -> None:
    (gc.enable if is_wanted else gc.disable)()
    try:
        found = list(map_portions(_is_collecting, range(SHARED), workers=workers))
        assert gc.isenabled() == is_wanted and not any(found)
        with pytest.raises(ValueError, match="portion 1 is bad"):
            list(map_portions(partial(_refuse, bad=1), range(SHARED), workers=workers))
        assert gc.isenabled() == is_wanted
    finally:
        gc.enable()


def test_kept_processes_do_other_work_and_end_with_the_block() -> None:
    with kept_workers():
        with contextlib.closing(map_portions(_pid_of, range(SHARED), workers=1)) as given_up:
            first = {pid for _number, pid in (next(given_up) for _each in range(50))}
        second = {pid for _number, pid in map_portions(_pid_of, range(SHARED), workers=1)}
        squares = list(map_portions(_square, range(SHARED), workers=1))
    assert first == second and len(first) == 2
    assert squares == [number * number for number in range(SHARED)]
    with pytest.raises(ProcessLookupError):
        os.kill((first - {os.getpid()}).pop(), 0)


_ORPHANING = """
import sys
sys.path[:] = {path!r}
import os, itertools
from quoth.portion_workers import ProcessCrew
crew = ProcessCrew(1)
print(crew._processes[0][0].pid, flush=True)
results = crew.run(abs, itertools.count())
for _ in range(20):
    next(results)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks the system about a process by /proc")
def test_no_process_outlives_a_caller_that_is_killed() -> None:
    code = _ORPHANING.format(path=sys.path)
    killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert killed.returncode == -signal.SIGKILL
    orphan = Path("/proc") / killed.stdout.decode().strip()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for _attempt in range(6_000):
            if "Z" in (orphan / "stat").read_text().rpartition(")")[2][:3]:
                return  # it has ended, and nobody has asked after it yet
            time.sleep(0.01)
        pytest.fail("the process is still there after a minute")
