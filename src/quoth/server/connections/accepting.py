"""Accepting connections: each gets a place, or an answer that says that there is none.

The loops of asyncio and uvloop accept whatever comes; where the process runs out of descriptors,
the one stops accepting for a second and the other resets all who wait. Here a connection is
accepted only into a free place, and one descriptor is kept in reserve to answer with.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from quoth.server.connections.connections import LINGER_SECONDS, Connection, Connections, Notices
from quoth.server.connections.refusals import OVERLOADED

_AT_ONCE = 8  # connections that are accepted before others have their turn
_PAUSE_SECONDS = 0.2
_UNREAD_BYTES = 64 * 1024
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts the connections of one listening socket until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        make: Callable[[], Connection],
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._turned_away: deque[socket.socket] = deque()
        self._most_turned_away = max(8, connections.config.max_connections // 8)
        most = connections.config.max_connections
        self._notices = Notices(
            f"all {most:,} connections are in use; turned away with 503 since the last line: %d;"
            " raise server.max_connections, or the limit of open files (ulimit -n)"
        )
        self._spare: int | None = None
        self._is_open = True
        self._start()

    def close(self) -> None:
        """Accept no more."""
        self._is_open = False
        self._loop.remove_reader(self._listening)
        self._release_spare()
        self._notices.close()
        while self._turned_away:
            _close(self._turned_away.popleft())

    async def wait_closed(self) -> None:
        """Return at once: nothing of it goes on once it is closed."""

    def _start(self) -> None:
        if self._is_open:
            self._listening.setblocking(False)
            self._keep_spare()
            self._loop.add_reader(self._listening, self._accept_some)

    def _accept_some(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._accept_with_spare()
                return
            self._admit(accepted)

    def _admit(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if self._connections.make_room(self._loop.time()):
            task = self._loop.create_task(self._open(self._make(), accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        else:
            self._turn_away(accepted)

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # the client has gone already
            self._connections.leave(connection)
            accepted.close()

    def _turn_away(self, accepted: socket.socket) -> None:
        """Answer 503, and leave the client a while to read it."""
        self._notices.add()
        with suppress(OSError):
            accepted.send(OVERLOADED.response())
            accepted.shutdown(socket.SHUT_WR)
        if len(self._turned_away) >= self._most_turned_away:
            _close(self._turned_away.popleft())
        self._turned_away.append(accepted)
        self._loop.call_later(LINGER_SECONDS, self._forget, accepted)

    def _forget(self, accepted: socket.socket) -> None:
        if accepted in self._turned_away:
            self._turned_away.remove(accepted)
            _close(accepted)

    # The last descriptor -------------------------------------------------------------------------

    def _accept_with_spare(self) -> None:
        """Answer one client with the descriptor in reserve; without it, wait for a free one."""
        self._notices.add()
        if self._spare is None:
            self._loop.remove_reader(self._listening)
            self._loop.call_later(_PAUSE_SECONDS, self._start)
            return
        self._release_spare()
        with suppress(OSError):
            accepted, _address = self._listening.accept()
            accepted.setblocking(False)
            with suppress(OSError):
                accepted.send(OVERLOADED.response())
            _close(accepted)
        self._keep_spare()

    def _keep_spare(self) -> None:
        if self._spare is None:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def _release_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def _close(accepted: socket.socket) -> None:
    """Close a connection; what was not read is read first, else the system resets it."""
    with suppress(OSError):
        accepted.recv(_UNREAD_BYTES)
    accepted.close()
