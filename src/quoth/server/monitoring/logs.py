"""One format for everything a server logs: text for people, or JSON, one object per line.

Every record has a time in UTC, a level, a logger and a message; the fields of the access log stand
beside them. Nothing that is logged can look like another record: control characters are escaped,
and further lines, such as a traceback's, are indented in text and part of a string in JSON.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from quoth.server.monitoring.standard_error import FOREIGN_LOG, LINES, captured_descriptor, copied
from quoth.settings.server import ACCESS_LOG

FIELDS = "quoth"
"""The attribute of a record that holds its fields."""

_LEVELS = {
    "": logging.WARNING,  # the root: what libraries say
    "quoth": logging.INFO,
    ACCESS_LOG: logging.NOTSET,
    "uvicorn": logging.INFO,
    "py.warnings": logging.NOTSET,
    FOREIGN_LOG: logging.NOTSET,
}
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_BARE = re.compile(r'[^\s"=\\]+')
_ENCODER = json.JSONEncoder(default=str, ensure_ascii=False, separators=(",", ":"))
_plain = logging.Formatter()
_access = logging.getLogger(ACCESS_LOG)
_warnings = logging.getLogger("py.warnings")
_logger = logging.getLogger(__name__)


def log_access(fields: Mapping[str, object]) -> None:
    """Log one answered request; fields are named otherwise than time, level, logger, message."""
    if _access.isEnabledFor(logging.INFO):  # and made by hand: nobody needs to know from where
        record = logging.LogRecord(_access.name, logging.INFO, __file__, 0, "request", (), None)
        setattr(record, FIELDS, dict(fields))
        _access.handle(record)


@contextmanager
def logging_to(
    stream: TextIO | None, log_format: str, *, capture_descriptor: bool = False
) -> Iterator[None]:
    """Log everything to a stream while the block runs, and leave all as it was found.

    With `capture_descriptor`, what other than Python code writes to standard error becomes records
    as well; it is for a process that is nothing but a server. Where standard error is closed, the
    stream is None, and nothing is logged.
    """
    with ExitStack() as stack:
        if stream is None:
            stream = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            capture_descriptor = False
        elif capture_descriptor:
            stream = stack.enter_context(copied(stream))
        handler = _Handler(stream)
        stack.callback(handler.close)
        handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
        stack.enter_context(_handled_by(handler))
        stack.enter_context(_uncaught_logged())
        if capture_descriptor:
            stack.enter_context(captured_descriptor(stream))
        yield


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object in ASCII on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        first, *rest = _message_lines(record)
        values: dict[str, Any] = {
            "time": iso_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": "\n".join((first, *rest)),
        }
        values = {**values, **_fields(record), **values}  # a field cannot pass for one of these
        trace = _trace(record)
        if trace:
            values["traceback"] = trace
        return json.dumps(values, default=str, allow_nan=False).replace("\x7f", r"\u007f")


class TextFormatter(logging.Formatter):
    """Writes a record as one line, and what has several lines indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or lines."""
        first, *rest = _message_lines(record)
        head = (iso_time(record.created), record.levelname, record.name, first)
        pairs = (f"{key}={quoted(value)}" for key, value in _fields(record).items())
        trace = _trace(record)
        below = (*rest, *(trace.split("\n") if trace else ()))
        return "\n".join((escaped(" ".join((*head, *pairs))), *(_indented(each) for each in below)))


def iso_time(seconds: float) -> str:
    """Return a time in UTC with milliseconds, as ISO 8601 has it.

    >>> iso_time(1_000_000_000.5)
    '2001-09-09T01:46:40.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + "Z"


def escaped(text: str) -> str:
    r"""Return text without characters that end a line, command a terminal or reorder the line.

    >>> print(escaped("a\nb\x1b[31m\u2028"))
    a\nb\u001b[31m\u2028
    """
    return _UNSAFE.sub(lambda found: _SHORT.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def quoted(value: object) -> str:
    r"""Return a value as it stands after `key=`: as JSON has it, without quotes where it can do.

    >>> print(quoted("/search"), quoted("two words"), quoted('"'), quoted(""), quoted(0.5))
    /search "two words" "\"" "" 0.5
    """
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else _ENCODER.encode(value)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)  # the same, sooner
    text = _ENCODER.encode(value)
    return text if _BARE.fullmatch(text) else _ENCODER.encode(text)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, and never to standard error, which may lead back here."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Log what cannot be formatted as it was given; where nothing can be written, go on."""
        as_given = logging.makeLogRecord(
            {**vars(record), "msg": _as_given(record), "args": None, FIELDS: None, LINES: None}
        )
        as_given.exc_info = sys.exc_info()
        with suppress(OSError, ValueError):
            self.stream.write(self.format(as_given) + self.terminator)
            self.flush()


def _as_given(record: logging.LogRecord) -> str:
    return f"{record.msg!r} could not be formatted" if isinstance(record.msg, str) else "a record"


@contextmanager
def _handled_by(handler: logging.Handler) -> Iterator[None]:
    """Let a handler, and no other, have what is logged."""
    loggers = {name: logging.getLogger(name) for name in _LEVELS}
    found = {name: (each.handlers[:], each.level, each.propagate) for name, each in loggers.items()}
    for name, logger in loggers.items():
        # Whoever adds a handler to the root may write to standard error: that leads nowhere else.
        is_end = name in ("", FOREIGN_LOG)
        logger.handlers[:] = [handler] if is_end else []
        logger.propagate = not is_end
        logger.setLevel(_LEVELS[name])
    try:
        yield
    finally:
        for name, (handlers, level, propagate) in found.items():
            loggers[name].handlers[:] = handlers
            loggers[name].propagate = propagate
            loggers[name].setLevel(level)


@contextmanager
def _uncaught_logged() -> Iterator[None]:
    """Log warnings, and exceptions that nobody catches."""
    show, in_thread, unraisable = warnings.showwarning, threading.excepthook, sys.unraisablehook
    warnings.showwarning = _log_warning
    threading.excepthook = _log_of_thread
    sys.unraisablehook = _log_unraisable
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = show, in_thread
        sys.unraisablehook = unraisable


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if file is not None:
        file.write(warnings.formatwarning(message, category, filename, lineno, line))
        return
    place = {"file": filename, "line": lineno}
    _warnings.warning("%s: %s", category.__name__, message, extra={FIELDS: place})


def _log_of_thread(found: threading.ExceptHookArgs) -> None:
    name = found.thread.name if found.thread is not None else "unknown"
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        _logger.error("thread %s failed", name, exc_info=found.exc_value)


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    about = found.err_msg or "an exception was ignored"
    _logger.error("%s: %s", about, type(found.object).__name__, exc_info=found.exc_value)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found = getattr(record, FIELDS, None)
    return dict(found) if isinstance(found, Mapping) else {}


def _message_lines(record: logging.LogRecord) -> tuple[str, ...]:
    """Return the message, and the lines that belong below it where it came from elsewhere."""
    return (record.getMessage(), *(getattr(record, LINES, None) or ()))


def _trace(record: logging.LogRecord) -> str:
    """Return the traceback and the stack of a record, as far as it has any."""
    found = []
    if record.exc_info and record.exc_info[0] is not None:
        found.append(_plain.formatException(record.exc_info))
    elif record.exc_text:
        found.append(record.exc_text)
    if record.stack_info:
        found.append(record.stack_info)
    return "\n".join(found)


def _indented(line: str) -> str:
    return "    " + escaped(line)
