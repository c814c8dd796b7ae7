"""Refusals as soon as the head of a request is read, for routes that crowds come to.

Where more ask than can be served, most of what a server does is to refuse. So whoever is refused is
answered by the connection itself, with the same bytes that the application would send: no task is
made, no layer passed and no body read. Who may pass is not asked again, heads that are alike are
judged once where there are no keys, and responses that are alike are written once, but for the
request's id. Many heads may be read before the first who passed joins the queue, so those who
passed are counted meanwhile. Writing a line of the log for each would take a quarter of the time,
so of those who are turned away for want of room only some are logged in any second, and the number
of the others once it is over.

To wake up for each of them takes longer than to refuse them, and a worker has to step aside each
time. So in a crowd the loop waits two milliseconds after it refused somebody, and finds the next
ones together. Nobody is kept from anything: those who were let in wait far longer for their turn.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Scope

from quoth.server.access.passed_heads import PassedHeads, header_by_name, key_of_head
from quoth.server.access.policy import (
    AccessPolicy,
    Admits,
    EarlyGuards,
    GuardedRoute,
    put_policy,
)
from quoth.server.connections.known_heads import KnownHead
from quoth.server.connections.refusals import Client
from quoth.server.errors import Overloaded, RequestError, headers_of
from quoth.server.middleware import (
    choose_request_id,
    complete_headers,
    error_response,
    note_answered,
)
from quoth.server.monitoring.metrics import Metrics

logger = logging.getLogger(__name__)

LOGGED_A_SECOND = 20
"""How many of those turned away for want of room are logged one by one, in a second."""

_WANT_OF_ROOM = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_PHRASES = {each.value: each.phrase for each in HTTPStatus}
_BLANK = "\x7f"  # stands for a letter of an id; of one byte in JSON, too, and in no message of ours
_MOST_TEMPLATES = 256
_MOST_HEADS = 512
_ID_BYTES = 8
_GATHER_SECONDS = 0.002
_TOGETHER = 16


class EarlyRefusals:
    """Asks the guards of an application before it sees a request."""

    def __init__(self, guards: EarlyGuards, policy: AccessPolicy, metrics: Metrics) -> None:
        self._guards = guards
        self._policy = policy
        self._metrics = metrics
        self._passed = PassedHeads()
        self._responses = _Responses()
        self._judged: dict[KnownHead, GuardedRoute] = {}  # where only room can be wanting
        self._let_in = Counter[Admits]()  # since the loop last let tasks run
        self._turned_away = 0  # in this second
        self._refused_together = 0  # since the loop last waited for more

    def refuse_known(
        self, head: KnownHead, client: Client, default_headers: Sequence[tuple[bytes, bytes]]
    ) -> bytes:
        """Return the response to a request without room whose head has passed before.

        Nothing where there is room, or where the head has to be looked at.
        """
        route = self._judged.get(head) or self._judge(head)
        if route is None:
            return b""
        begun = time.perf_counter()
        try:
            route.admits(self._let_in.get(route.admits, 0))
        except RequestError as error:
            request_id = secrets.token_hex(_ID_BYTES)
            scope = {"method": head.method, "path": head.path, "client": client, "route": route}
            self._note({**scope, "state": {}}, error, request_id, begun=begun)
            return self._responses.write(error, request_id, default_headers)
        return b""

    def _judge(self, head: KnownHead) -> GuardedRoute | None:
        """Return the route of a head that may always pass, None where nobody knows yet."""
        scope = {"method": head.method, "path": head.path, "headers": head.headers}
        route = self._guards.find(scope)
        if route is None or self._policy.keys is not None or not route.takes_body(head.method):
            return None
        if not self._passed.has(key_of_head(scope, header_by_name(scope))):
            return None
        if len(self._judged) >= _MOST_HEADS:
            self._judged.clear()
        self._judged[head] = route
        return route

    def refuse(self, scope: Scope, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the whole response to a request that is refused; nothing where it is not."""
        route = self._guards.find(scope)
        if route is None:
            return b""
        begun, headers = time.perf_counter(), header_by_name(scope)
        try:
            self._check_head(scope, route, headers)
            self._guards.check_room(scope, route, ahead=self._let_in.get(route.admits, 0))
        except RequestError as error:
            request_id = choose_request_id(headers.get(b"x-request-id", b"").decode("latin-1"))
            self._note(scope, error, request_id, begun=begun)
            return self._responses.write(error, request_id, default_headers)
        if not self._let_in:
            asyncio.get_running_loop().call_soon(self._let_in.clear)
        self._let_in[route.admits] += 1
        return b""

    def _check_head(self, scope: Scope, route: GuardedRoute, headers: dict[bytes, bytes]) -> None:
        """Refuse a request that is not allowed, unless one that is judged alike has passed."""
        key = None if self._policy.keys is not None else key_of_head(scope, headers)
        if self._passed.has(key):
            return
        put_policy(scope, self._policy)
        self._policy.check_host(Headers(scope=scope))
        scope["route"] = route  # which a refusal is counted for
        route.check_head(scope)
        self._passed.add(key)

    def _note(self, scope: Scope, error: RequestError, request_id: str, *, begun: float) -> None:
        scope["state"]["kind"] = type(error).__name__
        is_logged = error.status not in _WANT_OF_ROOM or self._is_logged()
        note_answered(
            scope,
            self._metrics,
            request_id,
            status=error.status,
            begun=begun,
            is_logged=is_logged,
        )
        if not is_logged and type(error) is Overloaded:
            self._gather()

    def _gather(self) -> None:
        """See to it that more of a crowd come before the loop looks again."""
        self._refused_together += 1
        if self._refused_together == 1:
            asyncio.get_running_loop().call_soon(self._wait_for_more)

    def _wait_for_more(self) -> None:
        """Wait a moment where few came together; those who were refused have been told by now."""
        are_few, self._refused_together = self._refused_together < _TOGETHER, 0
        if are_few:
            time.sleep(_GATHER_SECONDS)

    def _is_logged(self) -> bool:
        """Whether one more of those turned away in this second is logged by itself."""
        if not self._turned_away:
            asyncio.get_running_loop().call_later(1.0, self._end_second)
        self._turned_away += 1
        return self._turned_away <= LOGGED_A_SECOND

    def _end_second(self) -> None:
        """Log how many were not logged by themselves, and begin anew."""
        if (others := self._turned_away - LOGGED_A_SECOND) > 0:
            logger.info("%d more requests were turned away in a second for want of room", others)
        self._turned_away = 0


class _Responses:
    """Writes responses that tell of errors; those that are alike differ in the id alone.

    An id stands in the headers and in the body, whose length depends on that of the id. So there is
    a template for each error and length of an id.
    """

    def __init__(self) -> None:
        self._templates: dict[object, tuple[bytes, list[bytes]]] = {}
        self._defaults: Sequence[tuple[bytes, bytes]] = ()
        self._default_lines = b""

    def write(
        self, error: RequestError, request_id: str, default_headers: Sequence[tuple[bytes, bytes]]
    ) -> bytes:
        """Return the whole response; the default headers, such as the date, come first in it."""
        if default_headers is not self._defaults:  # uvicorn makes them anew each second
            self._defaults, self._default_lines = default_headers, _lines_of(default_headers)
        retry = headers_of(error.status, error).get("Retry-After")
        key = type(error), error.args, retry, len(request_id)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = _template_of(error, _BLANK * len(request_id))
        first, rest = template
        return first + self._default_lines + request_id.encode().join(rest)


def _template_of(error: RequestError, blank: str) -> tuple[bytes, list[bytes]]:
    """Return the first line of a response, and the pieces of all else between its ids."""
    own, body = error_response(error.status, error, blank)
    first = f"HTTP/1.1 {error.status} {_PHRASES[error.status]}\r\n".encode()
    rest = _lines_of(complete_headers(own, blank)) + b"\r\n" + body
    return first, rest.split(blank.encode())


def _lines_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(name + b": " + value + b"\r\n" for name, value in headers)
