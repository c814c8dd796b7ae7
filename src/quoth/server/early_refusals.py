"""Refusals as soon as the head of a request is read, for routes that crowds come to.

Where more ask than can be served, most of what a server does is to refuse. So whoever is refused is
answered by the connection itself, with the same bytes that the application would send: no task is
made, no layer passed and no body read. Who may pass is not asked again. Many heads may be read
before the first who passed joins the queue, so those who passed are counted meanwhile. Writing a
line of the log for each would take a quarter of the time, so of those who are turned away for want
of room only some are logged in any second, and the number of the others once it is over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Scope

from quoth.server.access.policy import AccessPolicy, Admits, EarlyGuards, put_policy
from quoth.server.errors import RequestError
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


class EarlyRefusals:
    """Asks the guards of an application before it sees a request."""

    def __init__(self, guards: EarlyGuards, policy: AccessPolicy, metrics: Metrics) -> None:
        self._guards = guards
        self._policy = policy
        self._metrics = metrics
        self._let_in = Counter[Admits]()  # since the loop last let tasks run
        self._turned_away = 0  # in this second

    def refuse(self, scope: Scope, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the whole response to a request that is refused; nothing where it is not."""
        route = self._guards.find(scope)
        if route is None:
            return b""
        begun, headers = time.perf_counter(), Headers(scope=scope)
        put_policy(scope, self._policy)
        try:
            self._policy.check_host(headers)
            self._guards.check(scope, ahead=self._let_in[route.admits])
        except RequestError as error:
            request_id = choose_request_id(headers)
            scope["state"]["kind"] = type(error).__name__
            own, body = error_response(error.status, error, request_id)
            lines = [f"HTTP/1.1 {error.status} {_PHRASES[error.status]}".encode()]
            lines += [
                name + b": " + value
                for name, value in (*default_headers, *complete_headers(own, request_id))
            ]
            is_logged = error.status not in _WANT_OF_ROOM or self._is_logged()
            note_answered(
                scope,
                self._metrics,
                request_id,
                status=error.status,
                begun=begun,
                is_logged=is_logged,
            )
            return b"\r\n".join((*lines, b"", body))
        if not self._let_in:
            asyncio.get_running_loop().call_soon(self._let_in.clear)
        self._let_in[route.admits] += 1
        return b""

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
