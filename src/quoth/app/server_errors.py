"""Errors as a server tells them: a status, a kind, a message, and the request they belong to."""

from __future__ import annotations

from typing import Any

from quoth.errors import (
    Busy,
    CollectionError,
    ConfigError,
    CorpusError,
    FilterError,
    IndexMoved,
    MissingExtra,
    NoCollection,
    QuothError,
    ShardDown,
    StorageFull,
)

RETRY_SECONDS = 1


class RequestError(Exception):
    """A request that is answered with an error; it never leaves the server."""

    status = 400


class Overloaded(RequestError):
    """Too much waits already."""

    status = 429


class TookTooLong(RequestError):
    """The work was not done in time."""

    status = 503


class NotReady(RequestError):
    """Models are still being loaded."""

    status = 503


class KeyRequired(RequestError):
    """A key is missing or unknown."""

    status = 401


class NotAllowed(RequestError):
    """The key, or the server, does not allow this."""

    status = 403


class NotFound(RequestError):
    """There is no such thing here."""

    status = 404


class TooLarge(RequestError):
    """The body is longer than the server reads."""

    status = 413


_STATUSES: tuple[tuple[type[QuothError], int], ...] = (
    (FilterError, 400),
    (ConfigError, 400),
    (CorpusError, 422),
    (NoCollection, 404),
    (Busy, 503),
    (IndexMoved, 503),
    (StorageFull, 503),
    (ShardDown, 503),
    (MissingExtra, 400),
    (CollectionError, 400),
)


def status_of(error: QuothError | RequestError) -> int:
    """Give the HTTP status of an error of ours."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_record(kind: str, message: str, request_id: str) -> dict[str, Any]:
    """Give an error as plain values."""
    return {"error": {"kind": kind, "message": message, "request_id": request_id}}


def headers_of(status: int) -> dict[str, str]:
    """Give the headers that go with an error's status."""
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503) else {}
