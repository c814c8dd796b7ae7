"""What every request passes first and every response last.

In order: a request id; the path and the host name are checked before anything is parsed (the key is
checked by the route that is about to run, see `server/access/policy.py`, where a crowd is expected
even before it is looked for); what nobody foresaw is logged and answered 500 without details;
headers that keep browsers strict; one record in the access log. Keys and query strings are never
logged. When the client leaves, the work for it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quoth.interruption import Interruption, interruptible
from quoth.server.access.policy import TOO_LARGE, AccessPolicy, EarlyGuards, put_policy
from quoth.server.errors import (
    CLIENT_GONE,
    BadRequest,
    RequestError,
    TooLarge,
    error_record,
    headers_of,
)
from quoth.server.monitoring.logs import log_access
from quoth.server.monitoring.metrics import Metrics
from quoth.settings.server import MAX_BODY_BYTES

_logger = logging.getLogger(__name__)
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UNDECODABLE = "\N{REPLACEMENT CHARACTER}"

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        b" font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none';"
        b" form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_OWN_NAMES = frozenset((b"x-request-id", *(name for name, _value in _HEADERS)))
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Middleware:
    """The outermost layer of the application."""

    def __init__(
        self, app: ASGIApp, *, policy: AccessPolicy, metrics: Metrics, early: EarlyGuards
    ) -> None:
        self._app = app
        self._policy = policy
        self._metrics = metrics
        self._early = early

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        exchange = _AnsweredRequest(scope, send, choose_request_id(headers.get("x-request-id", "")))
        scope.setdefault("state", {})["request_id"] = exchange.request_id
        put_policy(scope, self._policy)
        with exchange.noted(self._metrics), interruptible(Interruption()) as interruption:
            incoming = _Incoming(receive, exchange, interruption)
            try:
                _check_path(scope)
                self._policy.check_host(headers)
                self._early.check(scope)
                await self._app(scope, incoming.receive, exchange.send)
            except RequestError as error:
                await exchange.fail(error.status, error)
            except asyncio.CancelledError:
                if not incoming.forgive():
                    raise
                exchange.status = CLIENT_GONE
            except Exception:
                _logger.exception("request %s failed", exchange.request_id)
                await exchange.fail(500, None)
            finally:
                incoming.close()


class _AnsweredRequest:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.request_id = request_id
        self.status = 0
        self.is_answered = False
        self._scope = scope
        self._send = send
        self._begun = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = complete_headers(message["headers"], self.request_id)
            message = {**message, "headers": headers}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_answered = True

    async def fail(self, status: int, error: RequestError | None) -> None:
        """Answer with an error, unless an answer has begun already: then it ends unfinished."""
        if self.status:
            raise ConnectionAbortedError("the response had begun when it failed")
        self._scope["state"]["kind"] = _kind_of(error)
        headers, body = error_response(status, error, self.request_id)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    @contextlib.contextmanager
    def noted(self, metrics: Metrics) -> Iterator[None]:
        """Count the request and log it in one record, however it ends."""
        try:
            yield
        finally:
            note_answered(
                self._scope, metrics, self.request_id, status=self.status, begun=self._begun
            )


class _Incoming:
    """What comes from the client: a body of bounded length, then perhaps its leaving.

    Once the body is complete, somebody has to listen, or nobody hears that the client left. Then
    the request's work is interrupted, and whatever waits for it is cancelled.
    """

    def __init__(
        self, receive: Receive, exchange: _AnsweredRequest, interruption: Interruption
    ) -> None:
        self._receive = receive
        self._exchange = exchange
        self._interruption = interruption
        self._owner = asyncio.current_task()
        self._length = 0
        self._listening: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        """Return the next message for the application."""
        if self._listening is not None:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._length += len(message.get("body", b""))
        if self._length > MAX_BODY_BYTES:
            raise HTTPException(TooLarge.status, TOO_LARGE)
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._listening = asyncio.create_task(self._listen())
        return message

    def forgive(self) -> bool:
        """Whether a cancellation came from here, since the client left; it is then over."""
        if not self._gone.is_set() or self._owner is None:
            return False
        self._owner.uncancel()
        return True

    def close(self) -> None:
        """Stop listening; the request is answered."""
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if self._owner is not None and not self._exchange.is_answered:
            self._interruption.stop()
            self._owner.cancel()


def choose_request_id(given: str) -> str:
    """Return the id that the client gave its request, or a new one."""
    return given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)


def complete_headers(
    given: Iterable[tuple[bytes, bytes]], request_id: str
) -> list[tuple[bytes, bytes]]:
    """Add to the headers of a response what every response has."""
    kept = [each for each in given if each[0] not in _OWN_NAMES]
    if not any(name == b"cache-control" for name, _value in kept):
        kept.append((b"cache-control", b"no-store"))
    return [*kept, (b"x-request-id", request_id.encode()), *_HEADERS]


def error_response(
    status: int, error: RequestError | None, request_id: str
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return headers and body that tell of an error; None: one that nobody foresaw."""
    message = "the server failed; its log says more" if error is None else str(error)
    body = _ENCODER.encode(error_record(_kind_of(error), message, request_id)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *raw_headers(headers_of(status, error)),
    ]
    return headers, body


def _kind_of(error: RequestError | None) -> str:
    return "InternalError" if error is None else type(error).__name__


def note_answered(
    scope: Scope,
    metrics: Metrics,
    request_id: str,
    *,
    status: int,
    begun: float,
    is_logged: bool = True,
) -> None:
    """Count a request and log it in one record."""
    state = scope["state"]
    route = str(getattr(scope.get("route"), "path", "other"))
    seconds = time.perf_counter() - begun
    kind = str(state.get("kind", ""))
    metrics.count(method=scope["method"], route=route, status=status, seconds=seconds, kind=kind)
    if not is_logged:
        return
    client = scope.get("client")
    log_access(
        {
            "request_id": request_id,
            "client": client[0] if client else "",
            "key": state.get("key", ""),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 6),
            **({"kind": kind} if kind else {}),
        }
    )


def raw_headers(headers: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
    """Write headers as they are sent.

    >>> list(raw_headers({"Retry-After": "3"}))
    [(b'retry-after', b'3')]
    """
    return ((name.lower().encode(), value.encode()) for name, value in headers.items())


def _check_path(scope: Scope) -> None:
    """Refuse paths that no client sends in good faith, and that routers may read in two ways."""
    path: str = scope["path"]
    if _CONTROL.search(path):
        raise BadRequest(
            "the path has control characters; name such a document by ?docid=, escaped"
        )
    if _UNDECODABLE in path or not path.startswith("/"):
        raise BadRequest("the path is not valid: expected / and UTF-8, escaped")
