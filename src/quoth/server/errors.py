"""Errors as a server tells them: a status, a kind, a message, and the request they belong to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from quoth.errors import (
    Busy,
    CollectionError,
    ConfigError,
    CorpusError,
    Damaged,
    FilterError,
    FormatMismatch,
    IndexMismatch,
    IndexMoved,
    Interrupted,
    MissingExtra,
    NoCollection,
    NotFound,
    OutOfDate,
    OutOfFiles,
    QuothError,
    ShardDown,
    StorageFailed,
    StorageFull,
)

CLIENT_GONE = 499
"""The status in log and metrics of a request whose client left before it was answered."""

_RETRY_SECONDS = 1
_MOST_RETRY_SECONDS = 60


class RequestError(Exception):
    """A request that is answered with an error; it never leaves the server."""

    status = 400


class BadRequest(RequestError):
    """The request is not one that HTTP, or this server, allows."""


class Overloaded(RequestError):
    """The request cannot be begun in time; it may be sent again after `retry_seconds`."""

    status = 429

    def __init__(self, message: str, *, retry_seconds: float = _RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class RateLimited(Overloaded):
    """The key has been used more often than it may."""


class TookTooLong(RequestError):
    """The work was not done in time."""

    status = 503


class Crashed(RequestError):
    """The process that did the work is gone; another takes its place."""

    status = 503


class NotReady(RequestError):
    """Models are still being loaded."""

    status = 503


class KeyRequired(RequestError):
    """A key is missing."""

    status = 401


class KeyUnknown(KeyRequired):
    """The server does not know the key that was sent."""


class KeyExpired(KeyRequired):
    """The key that was sent is past its last day."""


class NotAllowed(RequestError):
    """The key, or the server, does not allow this."""

    status = 403


class TooLarge(RequestError):
    """The body is longer than the server reads."""

    status = 413


class UnsupportedMediaType(RequestError):
    """The body is of a kind that the server does not read."""

    status = 415


_STATUSES: tuple[tuple[type[QuothError], int], ...] = (
    (FilterError, 400),
    (ConfigError, 400),
    (CorpusError, 422),
    (NoCollection, 404),
    (NotFound, 404),
    (Busy, 503),
    (IndexMoved, 503),
    (OutOfDate, 503),
    (OutOfFiles, 503),
    (StorageFailed, 503),
    (StorageFull, 503),
    (ShardDown, 503),
    (Interrupted, 503),
    (Damaged, 500),
    (FormatMismatch, 500),
    (IndexMismatch, 500),
    (MissingExtra, 400),
    (CollectionError, 400),
)


def status_of(error: QuothError | RequestError) -> int:
    """Return the HTTP status of an error of ours."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_record(kind: str, message: str, request_id: str) -> dict[str, Any]:
    """Return an error as plain values."""
    return {"error": {"kind": kind, "message": message, "request_id": request_id}}


def headers_of(status: int, error: Exception | None = None) -> dict[str, str]:
    """Return the headers that go with an error: how to get in, or when to come again.

    >>> headers_of(429, Overloaded("too many", retry_seconds=2.5))
    {'Retry-After': '3'}
    """
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    if status not in (429, 503):
        return {}
    wanted = error.retry_seconds if isinstance(error, Overloaded) else _RETRY_SECONDS
    return {"Retry-After": str(min(max(1, math.ceil(wanted)), _MOST_RETRY_SECONDS))}


def describe_invalid(problem: Mapping[str, Any]) -> str:
    """Say what is wrong with a field, or with a body that is no JSON.

    >>> describe_invalid({"type": "missing", "loc": ("body", "query"), "msg": "Field required"})
    'query: Field required'
    >>> problem = {"type": "json_invalid", "loc": ("body", 7), "ctx": {"error": "Expecting value"}}
    >>> describe_invalid(problem)
    'the body is no valid JSON: Expecting value at character 7'
    """
    if problem["type"] == "json_invalid":
        reason, at = problem["ctx"]["error"], problem["loc"][-1]
        return f"the body is no valid JSON: {reason} at character {at}"
    return f"{_place(problem['loc'])}: {problem['msg']}"


def describe_refusal(method: str, status: int, *, detail: str, allowed: str) -> str:
    """Say more than the name of a status where no route takes a request.

    >>> describe_refusal("PUT", 405, detail="Method Not Allowed", allowed="POST")
    'found PUT, expected POST; /docs lists the routes'
    """
    if detail != HTTPStatus(status).phrase:
        return detail
    if status == HTTPStatus.NOT_FOUND:
        return "there is nothing at this path; /docs lists the routes"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"found {method}, expected {allowed or 'another method'}; /docs lists the routes"
    return detail


def _place(location: tuple[int | str, ...]) -> str:
    """Name the field that a problem is in.

    >>> _place(("body", "documents", 2, "docid"))
    'documents.2.docid'
    """
    return ".".join(str(each) for each in location[1:] or location)
