"""Connections that httptools parses: the faster parser, which keeps no limits of its own."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quoth.server.connections.connections import (
    Connection,
    Connections,
    Phase,
)
from quoth.server.connections.known_heads import KnownHead
from quoth.server.connections.refusals import (
    HEAD_TOO_LARGE,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    Refusal,
    RefusesEarly,
    ambiguity_of,
)


class _Refused(Exception):
    """Ends parsing; the connection knows why."""


class _RefusedRequest:
    """Stands for a request that was answered before it was whole."""

    __slots__ = ("keep_alive", "more_body")

    response_started = response_complete = True
    disconnected = False
    message_event = asyncio.Event()  # for which nobody waits

    def __init__(self, *, more_body: bool) -> None:
        self.keep_alive = True
        self.more_body = more_body


class _JoiningTransport:
    """What a request is answered by: the head of a response leaves together with what follows.

    uvicorn writes the two one after the other, and each piece is a call of the system and wakes up
    the client. A head that nothing follows at once leaves alone.
    """

    __slots__ = ("_has_begun", "_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._has_begun = False

    def write(self, data: bytes) -> None:
        """Keep what comes first until more comes, or others have their turn."""
        if self._has_begun:
            head, self._head = self._head, b""
            self._transport.write(head + data if head else data)
        else:
            self._has_begun, self._head = True, data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close when all is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        """Be the transport in all else."""
        return getattr(self._transport, name)


class HttpToolsConnection(Connection, HttpToolsProtocol):
    """A connection that httptools parses."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        self._has_begun = False
        self._is_head = True
        self._head_bytes = 0
        self._num_headers = 0
        self._silent_bytes = 0  # fed since the parser last told of something
        self._num_begun = 0  # requests of which something was in the data that is parsed now
        self._let_in: dict[str, Any] = {}  # what is known of a request before it is parsed
        super().__init__(connections, **settings)

    def awaits_body(self) -> bool:
        """Say whether the body of the latest request is not whole yet."""
        return bool(self.cycle.more_body)

    def has_begun_head(self) -> bool:
        """Say whether something of the next request has arrived."""
        return self._has_begun

    def is_mid_response(self) -> bool:
        """Say whether something of a response was sent, or will be before the latest request's."""
        return bool(self.pipeline) or super().is_mid_response()

    def data_received(self, data: bytes) -> None:
        """Parse what came; a header without end is refused before it fills the memory."""
        rests = self._phase is Phase.REST
        if rests and self._refuse_by_head(data):
            return
        self._has_begun = True
        self._num_begun = 0
        self._silent_bytes += len(data)
        super().data_received(data)
        self._let_in = {}  # whatever became of the request that it was about
        if self._silent_bytes > MAX_HEAD_BYTES:
            self.refuse(HEAD_TOO_LARGE)
        elif rests and self._phase is Phase.REST and self._num_begun == 1:
            self._keep_head(data)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._num_begun += 1
        self._has_begun = self._is_head = True
        self._head_bytes = self._num_headers = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after the body are counted, but nobody sees them."""
        self._num_headers += 1
        self._count(len(name) + len(value) + len(": \r\n"))
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse what a proxy could have understood otherwise; begin to answer what is left."""
        self._has_begun = self._is_head = False
        problem = ambiguity_of(self.parser.get_http_version(), self.headers)
        if problem:
            self._stop(Refusal(400, "BadRequest", problem))
        if self._refuse_early():
            return
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # whose responses are over after their heads
            self.cycle.transport = cast("Any", _JoiningTransport(self.transport, self.loop))
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # the parser takes what follows for another protocol

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._silent_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is whole, even where it was answered already."""
        super().on_message_complete()
        self._silent_bytes = 0
        self._has_begun = self.cycle.more_body = False

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self.update()

    def _refuse_early(self) -> bool:
        """Answer a request that is refused anyway, where nothing else is to be seen to."""
        if self._let_in:  # it was asked before it was parsed
            self.scope = cast("Any", {**self._let_in, "headers": self.headers})
            self._let_in = {}
            return False
        early = self._all.early
        if early is None or not self._is_plain():
            return False
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["path"] = self.url.decode("latin-1")
        return self._send_refusal(early, more_body=True)

    def _refuse_by_head(self, data: bytes) -> bool:
        """Answer a request that is refused anyway, where its head is known and its body is there.

        In a crowd that is most of what a server does, so nothing is done for it that is not seen:
        the connection rests before and after.
        """
        head, early = self._all.heads.find(data), self._all.early
        if head is None or early is None or self.transport.is_closing():
            return False
        response = early.refuse_known(head, self.client, self.server_state.default_headers)
        if not response:
            return self._refuse_unparsed(head, early)
        self.cycle = self._phase_of = cast("Any", _RefusedRequest(more_body=False))
        self.transport.write(response)
        self.server_state.total_requests += 1
        self._watch_writes()
        self._all.rest_again(self)  # the timer that ends the rest looks there
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_handler()  # which sets it
        return True

    def _refuse_unparsed(self, head: KnownHead, early: RefusesEarly) -> bool:
        """Answer a request that is refused for more than want of room, its head not parsed again.

        One that is not refused is parsed, and then passed on as what it was let in as.
        """
        super().on_message_begin()
        self.scope["method"], self.scope["path"] = head.method, head.path
        self.scope["headers"] = head.headers
        if self._send_refusal(early, more_body=False):
            self.update()
            return True
        self._let_in = cast("dict[str, Any]", self.scope)
        return False

    def _send_refusal(self, early: RefusesEarly, *, more_body: bool) -> bool:
        scope = cast("dict[str, Any]", self.scope)
        response = early.refuse(scope, self.server_state.default_headers)
        if not response:
            return False
        self.cycle = cast("Any", _RefusedRequest(more_body=more_body))
        self.transport.write(response)
        super().on_response_complete()
        return True

    def _keep_head(self, data: bytes) -> None:
        """Keep what was parsed of a request that was refused."""
        method, path = self.scope["method"], self.scope["path"]
        self._all.heads.add(data, method=method, path=path, headers=self.headers)

    def _is_plain(self) -> bool:
        """Whether a request comes alone, and asks nothing of the connection but to stay."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and not self.transport.is_closing()
        )

    def _count(self, num_bytes: int) -> None:
        self._silent_bytes = 0
        self._head_bytes += num_bytes
        if self._head_bytes > MAX_HEAD_BYTES or self._num_headers > MAX_HEADERS:
            self._stop(HEAD_TOO_LARGE)

    def _stop(self, refusal: Refusal) -> None:
        self._refusal = refusal
        raise _Refused(refusal.message)
