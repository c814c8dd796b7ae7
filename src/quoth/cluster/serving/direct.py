"""A short way to a replica: one message there and one back, past Ray.

Ray Serve finds replicas, starts and replaces them, and is asked where this way is closed. But each
question through it costs milliseconds on both sides, more than a shard takes to answer. So a
replica listens beside, and the router keeps connections to it. Both sides prove that they know a
key, which the router drew and Ray brought to the replica, before any message is read: messages are
pickled, as Ray's own are.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
    wait,
)
from typing import Any

from quoth.cluster.serving.hedging import Hedging

Address = tuple[str, int]
"""Where a replica listens."""

Answer = Callable[[str, Sequence[Any], dict[str, Any]], Any]
"""Calls a method with its arguments and options."""

_PROTOCOL = pickle.HIGHEST_PROTOCOL
_MOST_BYTES = 256 << 20
_LOST = (EOFError, OSError, AuthenticationError)
_logger = logging.getLogger(__name__)


class Lost(Exception):
    """No replica can be reached this way; nothing was changed."""


class Late(Exception):
    """A replica took the question, and did not answer in time."""


class Listening:
    """A replica's side: answers whoever knows the key, each connection on a thread of its own."""

    def __init__(self, host: str, answer: Answer, *, key: bytes) -> None:
        self._answer = answer
        self._key = key
        self._listener = Listener((host, 0), family="AF_INET", backlog=128)
        threading.Thread(target=self._accept, name="quoth-listening", daemon=True).start()

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port = self._listener.address
        return str(host), int(port)

    def close(self) -> None:
        """Take no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            while True:
                method, arguments, options = pickle.loads(connection.recv_bytes(_MOST_BYTES))
                found = self._answer(method, arguments, options)
                connection.send_bytes(pickle.dumps(found, protocol=_PROTOCOL))
        except _LOST:
            _logger.debug("a router went away")
        finally:
            connection.close()


@dataclass(slots=True)
class _Call:
    """A question that was put to a replica, over a connection that nobody else uses."""

    address: Address
    connection: Connection[Any, Any]
    give_up_at: float = 0.0
    """When to stop waiting for an answer that is no longer wanted."""


class DirectLine:
    """A router's side: connections to the replicas of one shard; any number of threads may ask."""

    def __init__(
        self,
        find: Callable[[], Address],
        *,
        count: int,
        key: bytes,
        hedging: Hedging | None = None,
    ) -> None:
        """`find` asks some replica where it listens, or raises `Lost`; there are `count`."""
        self._find = find
        self._count = count
        self._key = key
        self.hedging = hedging or Hedging(0.0)
        self._lock = threading.Lock()
        self._free: dict[Address, list[Connection[Any, Any]]] = {}
        self._under_way: dict[Address, int] = {}
        self._unwanted: list[_Call] = []
        self._is_closed = threading.Event()
        self._is_looking = False

    def ask(self, message: bytes, *, wait_seconds: float) -> Any:
        """Ask the replica with the fewest questions under way; a second one if it is slow."""
        self._take_in_unwanted()
        self.hedging.begin()
        begun = time.monotonic()
        until = begun + wait_seconds
        calls = [self._send(message)]
        first = calls[0]
        try:
            if self._is_slow(first, wait_seconds) and self.hedging.take():
                with contextlib.suppress(Lost):
                    calls.append(self._send(message, besides=first.address))
            call, found = self._receive(calls, until=until)
        except BaseException:
            for each in calls:
                each.connection.close()
                self._give_back(each)
            raise
        self.hedging.note(time.monotonic() - begun, by_second=call is not first)
        self._give_back(call)
        self._leave([each for each in calls if each is not call], until=until)
        return found

    def _is_slow(self, call: _Call, wait_seconds: float) -> bool:
        """Wait as long as most answers take; whether there is none yet, and who else to ask."""
        patience = self.hedging.patience
        if patience >= wait_seconds or len(self._free) < 2:
            return False
        return not wait([call.connection], patience)

    def _send(self, message: bytes, besides: Address | None = None) -> _Call:
        """Put a question to a replica, another than the one that was asked already."""
        address, connection = self._take(besides)
        try:
            if connection is None:
                connection = Client(address, family="AF_INET", authkey=self._key)
            connection.send_bytes(message)
        except BaseException as error:
            self._release(address, connection)
            if not isinstance(error, _LOST):
                raise
            self._forget(address)
            raise Lost from error
        return _Call(address, connection)

    def _receive(self, calls: list[_Call], *, until: float) -> tuple[_Call, Any]:
        """Wait for the first answer; calls to replicas that are lost meanwhile are taken out."""
        while calls:
            ready = wait([each.connection for each in calls], max(0.0, until - time.monotonic()))
            if not ready:
                raise Late
            call = next(each for each in calls if each.connection is ready[0])
            try:
                return call, pickle.loads(call.connection.recv_bytes(_MOST_BYTES))
            except _LOST as error:
                calls.remove(call)
                call.connection.close()
                self._give_back(call)
                self._forget(call.address)
                lost = error
        raise Lost from lost

    def _leave(self, calls: Sequence[_Call], *, until: float) -> None:
        """Let replicas finish what is no longer wanted; until then they count as busy."""
        for call in calls:
            call.give_up_at = until
        with self._lock:
            self._unwanted += calls

    def _take_in_unwanted(self) -> None:
        """Drop answers that came too late, and use their connections again."""
        if not self._unwanted:
            return
        with self._lock:
            calls, self._unwanted = self._unwanted, []
        now, waiting = time.monotonic(), []
        for call in calls:
            try:
                if call.connection.poll(0.0):
                    call.connection.recv_bytes(_MOST_BYTES)
                elif now < call.give_up_at and not self._is_closed.is_set():
                    waiting.append(call)
                    continue
                else:
                    call.connection.close()
            except _LOST:
                call.connection.close()
            self._give_back(call)
        with self._lock:
            self._unwanted += waiting

    def look_for_replicas(self) -> None:
        """Find the addresses of all replicas, beside whatever is asked meanwhile."""
        with self._lock:
            if self._is_looking or self._is_closed.is_set():
                return
            self._is_looking = True
        threading.Thread(target=self._look, name="quoth-replicas", daemon=True).start()

    def close(self) -> None:
        """Close all connections that nobody uses."""
        self._is_closed.set()
        with self._lock:
            for address in list(self._free):
                self._drop(address)
        self._take_in_unwanted()

    def _take(self, besides: Address | None = None) -> tuple[Address, Connection[Any, Any] | None]:
        with self._lock:
            known = [each for each in self._free if each != besides]
            if not known:
                raise Lost
            address = min(known, key=lambda each: self._under_way.get(each, 0))
            self._under_way[address] = self._under_way.get(address, 0) + 1
            free = self._free[address]
            return address, free.pop() if free else None

    def _give_back(self, call: _Call) -> None:
        self._release(call.address, call.connection)

    def _release(self, address: Address, connection: Connection[Any, Any] | None) -> None:
        with self._lock:
            self._under_way[address] -= 1
            if connection is None or connection.closed:
                return
            if address in self._free:
                self._free[address].append(connection)
            else:
                connection.close()

    def _forget(self, address: Address) -> None:
        """Give up a replica that is gone, and look for the one in its place."""
        with self._lock:
            self._drop(address)
        self.look_for_replicas()

    def _drop(self, address: Address) -> None:
        for connection in self._free.pop(address, ()):
            connection.close()

    def _look(self) -> None:
        """Ask where replicas listen until all are known; Ray chooses who answers."""
        pause = 0.05
        while not self._is_closed.is_set():
            try:
                address = self._find()
            except Lost:
                _logger.debug("no replica says where it listens")
            else:
                with self._lock:
                    self._free.setdefault(address, [])
            with self._lock:
                if len(self._free) >= self._count:
                    self._is_looking = False
                    return
            self._is_closed.wait(pause)
            pause = min(2 * pause, 2.0)
        with self._lock:
            self._is_looking = False
