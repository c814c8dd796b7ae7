"""Requests on kept connections, all in one thread, which waits for whichever is answered first.

As little as HTTP needs and no event loop beside it, since the load runs on the cores of the server
that it measures. One request at a time is under way on a connection, so that a response belongs to
the request before it, and its length has to be said: more or less than that is an error.
"""

from __future__ import annotations

import itertools
import select
import socket
import time
import urllib.parse
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush

PATIENCE_SECONDS = 120.0
"""Where nothing at all happened for so long, what is under way is taken to be lost."""

_PIECE_BYTES = 262_144
_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"

Told = Callable[[int], None]
"""Is told the status of a response; 0 where there was none."""


class Exchanges:
    """What is under way between clients and one server, and what is due later."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.address = parts.hostname or "", parts.port or 80
        self.num_under_way = 0
        self._connections: dict[int, Connection] = {}  # by descriptor
        self._events = select.epoll()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Call something when it is due, by `time.perf_counter`."""
        heappush(self._due, (moment, next(self._numbers), call))

    def run(self) -> None:
        """See to everything until nothing is due any more and nothing under way."""
        while self._due or self.num_under_way:
            if not self._wait() and not self._due:
                for connection in tuple(self._connections.values()):
                    connection.fail()
            now = time.perf_counter()
            while self._due and self._due[0][0] <= now:
                heappop(self._due)[2]()

    def watch(self, connection: Connection, descriptor: int, *, writing: bool) -> None:
        """Look out for what a connection receives, and for whether it takes more."""
        events = select.EPOLLIN | (select.EPOLLOUT if writing else 0)
        if descriptor in self._connections:
            self._events.modify(descriptor, events)
        else:
            self._connections[descriptor] = connection
            self._events.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Look out for a connection no more, which is about to be closed."""
        del self._connections[descriptor]

    def _wait(self) -> bool:
        """Wait until something comes or is due; an epoll by itself counts in milliseconds."""
        left = self._due[0][0] - time.perf_counter() if self._due else PATIENCE_SECONDS
        events = self._events.poll(0)
        if not events and left > 0.0:
            select.select((self._events,), (), (), left)
            events = self._events.poll(0)
        for descriptor, _event in events:
            connection = self._connections.get(descriptor)
            if connection is not None:
                connection.go_on()
        return bool(events)


class Connection:
    """A client's connection, which is opened when it is first used and whenever it was closed."""

    __slots__ = (
        *("_exchanges", "_has_answered", "_is_writing", "_left"),
        *("_received", "_request", "_socket", "_told"),
    )

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._socket: socket.socket | None = None
        self._has_answered = self._is_writing = False
        self._request = self._left = self._received = b""
        self._told: Told | None = None

    def ask(self, request: bytes, told: Told) -> None:
        """Send a request, and tell the status of its response once that has arrived.

        A server may close a connection that rests just when it is used again; what was sent on one
        that is then closed without a word is sent anew.
        """
        self._request, self._told = request, told
        self._exchanges.num_under_way += 1
        self._begin()

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._exchanges.forget(self._socket.fileno())
            self._socket.close()
        self._socket, self._has_answered, self._is_writing = None, False, False

    def fail(self) -> None:
        """Give up; whoever asked hears of it soon, and not at once, since it may ask again."""
        self.close()
        told = self._told
        if told is not None:
            self._told = None
            self._exchanges.num_under_way -= 1
            self._exchanges.at(time.perf_counter(), lambda: told(0))

    def go_on(self) -> None:
        """Send what is left, and take what has arrived."""
        assert self._socket is not None
        try:
            if self._is_writing:
                self._send()
            self._take(self._socket.recv(_PIECE_BYTES))
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self._end()

    def _begin(self) -> None:
        self._left, self._received = self._request, b""
        try:
            if self._socket is None:
                self._open()
            self._send()
        except OSError:
            self._end()

    def _open(self) -> None:
        self._socket = socket.socket()
        self._exchanges.watch(self, self._socket.fileno(), writing=False)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.connect_ex(self._exchanges.address)

    def _send(self) -> None:
        """Send as much as the system takes; nothing as long as the connection is being made."""
        assert self._socket is not None
        with suppress(BlockingIOError):
            self._left = self._left[self._socket.send(self._left) :]
        if bool(self._left) != self._is_writing:
            self._is_writing = bool(self._left)
            self._exchanges.watch(self, self._socket.fileno(), writing=self._is_writing)

    def _take(self, piece: bytes) -> None:
        """Take a piece of the response, and tell its status once it is whole."""
        if not piece or self._told is None:
            raise ConnectionResetError("closed, or told what nobody asked")
        self._received += piece
        end = self._received.find(_END)
        if end < 0:
            return
        head = self._received[:end].lower()
        at = head.find(_LENGTH)
        length = 0 if at < 0 else int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        missing = end + len(_END) + length - len(self._received)
        if missing < 0:
            raise ValueError("more has come than was said to")
        if missing == 0:
            self._tell(int(head[9:12]), is_last=b"\r\nconnection: close" in head)

    def _tell(self, status: int, *, is_last: bool) -> None:
        told, self._told, self._has_answered = self._told, None, True
        assert told is not None
        self._exchanges.num_under_way -= 1
        if is_last:
            self.close()
        told(status)

    def _end(self) -> None:
        """The connection is gone: fail, unless it was closed while it rested."""
        if self._has_answered and self._told is not None and not self._received:
            self.close()
            self._begin()
        else:
            self.fail()
