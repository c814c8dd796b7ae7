"""What a server logs: one format for all, in which no record can pass for another."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from quoth.server.monitoring.logs import log_access, logging_to
from quoth.server.monitoring.standard_error import group_lines
from quoth.settings.server import ACCESS_LOG

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS = {
    "request_id": "a1",
    "client": "127.0.0.1",
    "method": "GET",
    "path": "/documents/owl",
    "status": 200,
    "seconds": 0.0125,
}
PANIC = (
    "thread '<unnamed>' panicked at src/segment.rs:4:5:\n"
    "index out of bounds\n"
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
)
NAMES = ("", "quoth", ACCESS_LOG, "uvicorn", "py.warnings", "stderr")


def _logged(log_format: str, act: Callable[[], object]) -> list[str]:
    stream = io.StringIO()
    with logging_to(stream, log_format):
        act()
    assert stream.getvalue().endswith("\n")
    return stream.getvalue()[:-1].split("\n")


def _records(act: Callable[[], object]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _logged("json", act)]


def _fail(message: str = "no such owl") -> None:
    try:
        raise ValueError(message)
    except ValueError:
        logging.getLogger("quoth.server.middleware").exception("request a1 failed")


# The format ------------------------------------------------------------------------------------


def test_the_access_log_has_its_fields_beside_the_others() -> None:
    (record,) = _records(lambda: log_access(FIELDS))
    assert TIME.fullmatch(record.pop("time"))
    assert record == {"level": "INFO", "logger": "quoth.access", "message": "request", **FIELDS}


def test_text_has_the_fields_after_the_message() -> None:
    (line,) = _logged("text", lambda: log_access({**FIELDS, "path": 'a "b" c', "stage": ""}))
    time, rest = line.split(" ", 1)
    assert TIME.fullmatch(time)
    assert rest == (
        "INFO quoth.access request request_id=a1 client=127.0.0.1 method=GET"
        r' path="a \"b\" c" status=200 seconds=0.0125 stage=""'
    )


def test_a_field_cannot_pass_for_time_level_logger_or_message() -> None:
    forged = {"time": "never", "level": "FATAL", "logger": "x", "message": "y", "status": 200}
    (record,) = _records(lambda: log_access(forged))
    assert TIME.fullmatch(record.pop("time"))
    assert record == {
        "level": "INFO",
        "logger": "quoth.access",
        "message": "request",
        "status": 200,
    }


def test_an_exception_is_one_record() -> None:
    (record,) = _records(_fail)
    assert (record["level"], record["message"]) == ("ERROR", "request a1 failed")
    first, *_frames, last = record["traceback"].split("\n")
    assert first == "Traceback (most recent call last):" and last == "ValueError: no such owl"
    head, *below = _logged("text", _fail)
    assert head.endswith("ERROR quoth.server.middleware request a1 failed")
    assert len(below) >= 3 and all(line.startswith("    ") for line in below)


HOSTILE = "a\n2030-01-01T00:00:00.000Z INFO quoth forged\r\x00\x1b[2J\x7f\x85\u2028\u202eb\ud800"


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "act",
    [
        lambda: logging.getLogger("quoth").warning("not ready: %s", HOSTILE),
        lambda: log_access({"path": HOSTILE}),
        lambda: log_access({"path": ["a", {"b": HOSTILE}]}),
        lambda: _fail(HOSTILE),
        lambda: logging.getLogger("quoth" + HOSTILE).warning("a name"),
    ],
)
def test_logged_text_cannot_forge_a_record(act: Callable[[], object], log_format: str) -> None:
    head, *below = _logged(log_format, act)
    assert TIME.match(head if log_format == "text" else json.loads(head)["time"])
    assert all(line.startswith("    ") for line in below)
    assert (
        re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", head + "".join(below)) is None
    )


def test_control_characters_are_kept_in_json_and_shown_in_text() -> None:
    (record,) = _records(lambda: log_access({"path": HOSTILE}))
    assert record["path"] == HOSTILE
    (line,) = _logged("text", lambda: logging.getLogger("quoth").info("a\tb\x1bc"))
    assert line.endswith(r"a\tb\u001bc")


def test_every_logger_has_the_same_format_and_libraries_say_less() -> None:
    def act() -> None:
        logging.getLogger("quoth.server.run").info("serving %s", "owls")
        logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
        logging.getLogger("asyncio").warning("slow")
        logging.getLogger("asyncio").info("not shown")

    other = logging.getLogger("uvicorn.error")
    before = other.level
    other.setLevel(logging.NOTSET)  # servers of other tests may have set it
    try:
        names = [record["logger"] for record in _records(act)]
    finally:
        other.setLevel(before)
    assert names == ["quoth.server.run", "uvicorn.error", "asyncio"]


def test_a_warning_is_one_record() -> None:
    def act() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("careful\nnow", UserWarning, stacklevel=1)

    (record,) = _records(act)
    assert record["message"] == "UserWarning: careful\nnow"
    assert (record["logger"], record["level"]) == ("py.warnings", "WARNING")
    assert record["file"] == __file__ and record["line"] > 0


def test_an_exception_that_ends_a_thread_is_one_record() -> None:
    def act() -> None:
        thread = threading.Thread(target=lambda: json.loads("{"), name="quoth-read_0")
        thread.start()
        thread.join()

    (record,) = _records(act)
    assert record["message"] == "thread quoth-read_0 failed"
    assert "JSONDecodeError" in record["traceback"]


def test_a_record_that_cannot_be_formatted_is_logged_as_it_was_given() -> None:
    def act() -> None:
        logging.getLogger("quoth").info("%d owls", "two")
        log_access({"seconds": float("nan")})

    first, second = _records(act)
    assert first["message"] == "'%d owls' could not be formatted"
    assert "TypeError" in first["traceback"]
    assert second["logger"] == "quoth.access" and "ValueError" in second["traceback"]


def test_a_broken_stream_stops_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with logging_to(Broken(), "json"):
        log_access(FIELDS)
    with logging_to(None, "json", capture_descriptor=True):
        log_access(FIELDS)
    assert capsys.readouterr() == ("", "")


def test_everything_is_left_as_it_was_found() -> None:
    def state() -> list[object]:
        found: list[object] = [warnings.showwarning, threading.excepthook, sys.unraisablehook]
        for name in NAMES:
            logger = logging.getLogger(name)
            found.append((logger.handlers[:], logger.level, logger.propagate))
        return found

    before = state()
    with pytest.raises(KeyError), logging_to(io.StringIO(), "text"):
        assert state() != before
        raise KeyError
    assert state() == before


# Descriptor 2 ----------------------------------------------------------------------------------

_BEGIN = """
import ctypes, faulthandler, logging, os, signal, subprocess, sys, threading, warnings
from quoth.server.monitoring.logs import log_access, logging_to
from quoth.server.signals import termination_unwinds
"""


def _run(
    script: str, *, log_format: str = "json", capture: bool = True, code: int = 0
) -> list[str]:
    """Run a script while a process of its own logs; returns the lines of its standard error."""
    body = textwrap.indent(textwrap.dedent(script).strip(), "    ")
    opening = f"logging_to(sys.stderr, {log_format!r}, capture_descriptor={capture})"
    done = subprocess.run(
        [sys.executable, "-c", f"{_BEGIN}\nwith termination_unwinds(), {opening}:\n{body}\n"],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stderr.decode().splitlines()


def _run_for_records(script: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _run(script, **options)]


def test_everything_that_reaches_standard_error_is_a_record() -> None:
    records = _run_for_records(
        f"""
        log = logging.getLogger("quoth.server.run")
        log.info("serving %s at %s", "owls.quoth", "http://127.0.0.1:1")
        log_access({FIELDS!r})
        warnings.warn("careful")
        try:
            {{}}["owl"]
        except KeyError:
            log.exception("failed")
        os.write(2, {PANIC.encode()!r} + b"libowl: a warning\\n")
        print("printed", file=sys.stderr)
        subprocess.run(["sh", "-c", "echo a child >&2"], check=True)
        """
    )
    by_logger: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        assert TIME.fullmatch(record["time"])
        by_logger.setdefault(record["logger"], []).append(record)
    serving, failed = by_logger["quoth.server.run"]
    assert serving["message"] == "serving owls.quoth at http://127.0.0.1:1"
    assert failed["traceback"].endswith("KeyError: 'owl'")
    assert by_logger["quoth.access"][0]["path"] == FIELDS["path"]
    assert by_logger["py.warnings"][0]["message"] == "UserWarning: careful"
    assert [(each["level"], each["message"]) for each in by_logger["stderr"]] == [
        ("ERROR", PANIC.strip()),
        ("WARNING", "libowl: a warning"),
        ("WARNING", "printed"),
        ("WARNING", "a child"),
    ]


def test_a_panic_in_text_is_one_record() -> None:
    head, *below = _run(f"os.write(2, {PANIC.encode()!r})", log_format="text")
    assert head.endswith("ERROR stderr " + PANIC.split("\n")[0])
    assert below == ["    " + line for line in PANIC.split("\n")[1:-1]]


def test_what_c_code_writes_is_logged() -> None:
    (record,) = _run_for_records('ctypes.CDLL(None).perror(b"libowl")')
    assert record["logger"] == "stderr" and record["message"].startswith("libowl: ")


def test_the_last_words_are_logged_and_then_the_descriptor_is_given_back() -> None:
    *lines, line, last = _run(
        """
        threading.Event().wait(0.3)  # so that it has become quiet
        os.write(2, b"without an end")
        raise ValueError("shown as ever")
        """,
        code=1,
    )
    assert json.loads(lines[0])["message"] == "without an end"
    assert last == "ValueError: shown as ever" and not line.startswith("{")


def test_a_flood_is_logged_whole_and_in_order() -> None:
    records = _run_for_records(
        """
        def write(name):
            for number in range(1_500):
                os.write(2, b"%s %d %s\\n" % (name, number, b"owl " * 50))
        threads = [threading.Thread(target=write, args=(name,)) for name in (b"first", b"second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    )
    for name in ("first", "second"):
        found = [
            int(m[1]) for each in records if (m := re.match(rf"{name} (\d+)", each["message"]))
        ]
        assert found == list(range(1_500))


def test_a_line_without_an_end_is_cut_not_kept() -> None:
    records = _run_for_records('os.write(2, b"x" * 1_000_000)')
    assert sum(len(each["message"]) for each in records) == 1_000_000
    assert len(records) > 1


def test_bytes_that_are_no_text_are_logged() -> None:
    (record,) = _run_for_records('os.write(2, b"a \\xff\\x00 b\\r\\n")')
    assert record["message"] == "a \\xff\x00 b"


def test_a_child_that_lives_on_does_not_hold_up_the_end() -> None:
    records = _run_for_records(
        """
        child = subprocess.Popen(["sleep", "600"])
        logging.getLogger("quoth").info("child %d", child.pid)
        def end():
            child.kill()
        __import__("atexit").register(end)
        """
    )
    assert len(records) == 1


def test_a_fatal_signal_is_told_to_standard_error_itself() -> None:
    lines = _run("faulthandler._sigsegv()", code=-11)
    assert lines[0] == "Fatal Python error: Segmentation fault"


def test_a_closed_log_does_not_stop_the_server() -> None:
    script = """
        os.write(1, b"x")
        os.read(0, 1)  # until the reader of the log has gone
        for number in range(2_000):
            logging.getLogger("quoth").info("%d", number)
            os.write(2, b"foreign %d\\n" % number)
        os.write(1, b"y")
        """
    body = textwrap.indent(textwrap.dedent(script).strip(), "    ")
    command = f"{_BEGIN}\nwith logging_to(sys.stderr, 'json', capture_descriptor=True):\n{body}\n"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        assert process.stdout.read(1) == b"x"
        process.stderr.close()
        process.stdin.write(b"z")
        process.stdin.flush()
        assert process.stdout.read(1) == b"y"
        assert process.wait(300) is not None


def test_termination_leaves_nothing_unlogged() -> None:
    records = _run_for_records(
        """
        os.write(2, b"the last word\\n")
        signal.raise_signal(signal.SIGTERM)
        """
    )
    assert [each["message"] for each in records] == ["the last word"]


def test_without_capture_the_descriptor_is_left_alone() -> None:
    first, second = _run(
        """
        os.write(2, b"as it is\\n")
        logging.getLogger("quoth").info("a record")
        """,
        capture=False,
    )
    assert first == "as it is" and json.loads(second)["message"] == "a record"


def test_panics_and_tracebacks_are_told_apart() -> None:
    traceback = ["Traceback (most recent call last):", '  File "a.py", line 1', "OSError: no"]
    lines = [*PANIC.strip().split("\n"), "plain", *traceback, "", "plain", *PANIC.split("\n")[:2]]
    groups = group_lines(lines)
    assert [len(each.lines) for each in groups] == [3, 1, 3, 1, 2]
    assert [each.level == logging.ERROR for each in groups] == [True, False, True, False, True]
    assert [each.lines[0] for each in group_lines(["", " ", "a\r", "b"])] == ["a", "b"]
