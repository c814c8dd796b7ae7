"""What every request passes first and every response last.

In order: a request id; the host name, the key and the length of the body are checked before
anything is parsed; what nobody foresaw is logged and answered 500 without details; headers that
keep browsers strict; one line of JSON in the access log. Keys and query strings are never logged.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quoth.app.server_config import ACCESS_LOG, MAX_BODY_BYTES
from quoth.app.server_errors import (
    KeyRequired,
    NotAllowed,
    RequestError,
    TooLarge,
    error_record,
    headers_of,
)
from quoth.app.server_keys import Keys, Right
from quoth.app.server_metrics import Metrics

TOO_LARGE = f"the body is longer than {MAX_BODY_BYTES:,} bytes; send less at a time"

_logger = logging.getLogger(__name__)
_access = logging.getLogger(ACCESS_LOG)
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_OPEN = re.compile(r"/|/docs|/openapi\.json|/limits|/health/(?:live|ready)|/assets/[^/]*")
_WRITTEN_TO = re.compile(r"/documents(?:/.*)?", re.DOTALL)
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none';"
        " form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Gate:
    """Who may do what: hosts to answer to (None: any), keys (None: none needed), writes or not."""

    hosts: frozenset[str] | None
    keys: Keys | None
    writes: bool

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse a request that is not allowed, before anything of it is parsed."""
        self._check_host(headers.get("host", ""))
        if _OPEN.fullmatch(path):
            return
        writes = _WRITTEN_TO.fullmatch(path) is not None and method not in _SAFE_METHODS
        needed: Right = "write" if writes else "read"
        if self.keys is not None:
            self._check_key(self.keys, headers.get("authorization", ""), needed)
        if writes and not self.writes:
            raise NotAllowed("this server takes no documents; start it with --allow-writes")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > MAX_BODY_BYTES:
            raise TooLarge(TOO_LARGE)

    def _check_host(self, host: str) -> None:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.hosts is not None and name.strip("[]").lower() not in self.hosts:
            raise NotAllowed(
                f"this server does not answer to the host name {name[:100]!r};"
                " use 127.0.0.1, or start it with --server.hosts"
            )

    def _check_key(self, keys: Keys, authorization: str, needed: Right) -> None:
        scheme, _, key = authorization.partition(" ")
        right = keys.right_of(key.strip()) if scheme.lower() == "bearer" else None
        if right is None:
            raise KeyRequired('a key is needed: send the header "Authorization: Bearer KEY"')
        if needed == "write" and right != "write":
            raise NotAllowed("this key may read, but not write")


class Edge:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, *, gate: Gate, metrics: Metrics) -> None:
        self._app = app
        self._gate = gate
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        exchange = _Exchange(
            scope, send, given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)
        )
        scope.setdefault("state", {})["request_id"] = exchange.request_id
        try:
            self._gate.check(scope["method"], scope["path"], headers)
            await self._app(scope, _limited(receive), exchange.send)
        except RequestError as error:
            await exchange.fail(error.status, type(error).__name__, str(error))
        except Exception:
            _logger.exception("request %s failed", exchange.request_id)
            await exchange.fail(500, "InternalError", "the server failed; its log says more")
        finally:
            exchange.note(self._metrics)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.request_id = request_id
        self._scope = scope
        self._send = send
        self._status = 0
        self._begun = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.request_id
            headers.setdefault("Cache-Control", "no-store")
            for name, value in _HEADERS.items():
                headers[name] = value
        await self._send(message)

    async def fail(self, status: int, kind: str, message: str) -> None:
        """Answer with an error, unless an answer has begun already: then it ends unfinished."""
        if self._status:
            raise ConnectionAbortedError("the response had begun when it failed")
        response = JSONResponse(
            error_record(kind, message, self.request_id), status, headers_of(status)
        )
        await response(self._scope, _nothing, self.send)

    def note(self, metrics: Metrics) -> None:
        """Count the request, and log it in one line."""
        route = str(getattr(self._scope.get("route"), "path", "other"))
        method = self._scope["method"] if self._scope["method"].isalpha() else "other"
        seconds = time.perf_counter() - self._begun
        metrics.count(method=method, route=route, status=self._status)
        metrics.stages.note("request", seconds)
        client = self._scope.get("client")
        line: Mapping[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": self.request_id,
            "client": client[0] if client else "",
            "method": method,
            "path": self._scope["path"],
            "status": self._status,
            "seconds": round(seconds, 6),
        }
        _access.info("%s", json.dumps(line))


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body as they come; too many end the request."""
    total = 0

    async def count() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > MAX_BODY_BYTES:
            raise HTTPException(TooLarge.status, TOO_LARGE)
        return message

    return count


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
