"""The connections of a server: how many there are, what each waits for, and for how long it may.

A connection is always in one phase. Phases in which the client keeps the server waiting have a
limit of time, which trickling bytes do not extend. At the limit of connections a new one takes the
place of one that keeps the server from nothing: one that rests between requests, or one whose
request has been on its way for too long already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from quoth.server.connections.known_heads import KnownHeads
from quoth.server.connections.refusals import (
    ENDING,
    MALFORMED,
    TIMED_OUT,
    Refusal,
    RefusesEarly,
)
from quoth.settings.server import ServerConfig

LINGER_SECONDS = 1.0
"""How long a connection that was answered for the last time stays, so that the client reads it."""

_LINGER_BYTES = 16 * 1024 * 1024  # more than any body may have
_NOTICE_SECONDS = 5.0
_SOON_SECONDS = 0.1
_logger = logging.getLogger(__name__)


class Phase(Enum):
    """What a connection waits for."""

    LINGER = "the client, to read the last answer"
    REST = "the next request"
    DRAIN = "the rest of a body that nobody needs any more"
    HEAD = "the request line and headers"
    BODY = "the body of a request"
    WORK = "the server"


_GIVES_WAY_AFTER_SECONDS = {
    Phase.LINGER: 0.0,
    Phase.REST: 0.1,  # less is hardly rest: the next request may be on its way
    Phase.DRAIN: 0.1,
    Phase.HEAD: 1.0,
    Phase.BODY: 5.0,
}


class Notices:
    """Writes at most one line every few seconds about something that may happen very often."""

    def __init__(self, message: str) -> None:
        """Take a message with one %d, for how often it happened since the last line."""
        self._message = message
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> None:
        """Count one more."""
        self._count += 1
        if self._timer is None:
            self._write()

    def close(self) -> None:
        """Write what was not written yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()
            self._timer = None

    def _write(self) -> None:
        self._timer = None
        if self._count:
            _logger.warning(self._message, self._count)
            self._count = 0
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_NOTICE_SECONDS, self._write)


class Connections:
    """All connections of a server, by phase, each phase in the order in which it was entered."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.are_ending = False
        self.early: RefusesEarly | None = None
        self.heads = KnownHeads()
        self.late = Notices("requests that did not arrive in time, since the last line: %d")
        self._since: dict[Phase, dict[Connection, float]] = {phase: {} for phase in Phase}

    def __len__(self) -> int:
        return sum(len(each) for each in self._since.values())

    def seconds_of(self, phase: Phase) -> float | None:
        """Return the limit of a phase; uvicorn ends rest by itself, and work has its own limits."""
        if phase is Phase.HEAD:
            return self.config.header_seconds
        if phase in (Phase.BODY, Phase.DRAIN):
            return self.config.body_seconds
        return LINGER_SECONDS if phase is Phase.LINGER else None

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Note that a connection is in this phase from now on."""
        self.leave(connection)
        self._since[phase][connection] = connection.loop.time()

    def rest_again(self, connection: Connection) -> None:
        """Note that a connection which rests was used for a moment."""
        resting = self._since[Phase.REST]
        resting.pop(connection, None)  # the order is that of entering
        resting[connection] = connection.loop.time()

    def rested_since(self, connection: Connection) -> float | None:
        """Return since when a connection rests; None where it does not."""
        return self._since[Phase.REST].get(connection)

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        for each in self._since.values():
            each.pop(connection, None)

    def make_room(self, now: float) -> bool:
        """Say whether one more connection may be opened; another one is closed for it if it can."""
        if len(self) < self.config.max_connections:
            return True
        for phase, seconds in _GIVES_WAY_AFTER_SECONDS.items():
            oldest = next(iter(self._since[phase].items()), None)
            if oldest is not None and now - oldest[1] >= seconds:
                oldest[0].give_way()
                self.leave(oldest[0])
                return True
        return False

    def end_all(self) -> None:
        """Close every connection now, those whose requests are under way as well."""
        for each in [one for ones in self._since.values() for one in ones]:
            each.end()


class Connection(asyncio.Protocol):
    """One connection: what the protocols of uvicorn lack. Comes before one of them in a class."""

    cycle: Any  # the latest request with its response; every parser has a class of its own
    flow: Any
    loop: asyncio.AbstractEventLoop
    timeout_keep_alive_task: asyncio.TimerHandle | None
    transport: asyncio.Transport
    _unset_keepalive_if_required: Callable[[], None]

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._all = connections
        self._phase = Phase.HEAD
        self._phase_of: object = None  # the request that the phase belongs to
        self._limit: asyncio.TimerHandle | None = None
        self._writes: asyncio.TimerHandle | None = None
        self._refusal: Refusal | None = None
        self._discarded_bytes = 0
        self._enter(Phase.HEAD)

    # What a parser knows -------------------------------------------------------------------------

    def awaits_body(self) -> bool:
        """Say whether the body of the latest request is not whole yet."""
        raise NotImplementedError

    def has_begun_head(self) -> bool:
        """Say whether something of the next request has arrived."""
        raise NotImplementedError

    def is_mid_response(self) -> bool:
        """Say whether something of a response was sent, but not all."""
        cycle = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    # Events --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the server ends."""
        super().connection_made(transport)
        if self._all.are_ending:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all about it."""
        super().connection_lost(exc)
        for timer in (self._limit, self._writes):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        self._all.leave(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came; after the last answer, discard it."""
        if self._phase is not Phase.LINGER:
            super().data_received(data)
            self._let_linger()
            self.update()
            return
        self._discarded_bytes += len(data)
        if self._discarded_bytes > _LINGER_BYTES:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Note that the client does not keep up with reading."""
        super().pause_writing()
        self._watch_writes()

    def resume_writing(self) -> None:
        """Note that the client keeps up again."""
        super().resume_writing()
        if self._writes is not None:
            self._writes.cancel()
            self._writes = None

    def update(self) -> None:
        """Enter the phase that the state of the parser and of the response calls for."""
        phase = self._current_phase()
        if self.cycle is not None and self.cycle.response_complete:
            self._watch_writes()
        if self._phase is Phase.LINGER or (phase, self.cycle) == (self._phase, self._phase_of):
            return
        self._enter(phase)

    # Ends ----------------------------------------------------------------------------------------

    def refuse(self, refusal: Refusal) -> None:
        """Answer for the last time, then close as soon as the client has had time to read it.

        A connection that closes while the client still sends is reset, and the answer lost.
        """
        if self.is_mid_response():
            self.transport.abort()
        elif self._phase is not Phase.LINGER and not self.transport.is_closing():
            self._disconnect()
            self.transport.write(refusal.response())
            self.linger(LINGER_SECONDS)

    def linger(self, seconds: float) -> None:
        """Send nothing more, and discard what comes, until the client closes or time is over."""
        self._enter(Phase.LINGER, seconds=seconds)
        with suppress(OSError):  # the client has gone, and the loop does not know yet
            self.transport.write_eof()
        self.flow.resume_reading()

    def close(self) -> None:
        """Close without an answer, once what was written has been sent."""
        self._enter(Phase.LINGER)
        self.transport.close()

    def give_way(self) -> None:
        """Close at once, because another connection needs the place."""
        if self._is_half_sent() and not self.is_mid_response():
            self._all.late.add()
            self._disconnect()
            self.transport.write(TIMED_OUT.response())
            self.close()
        elif self.flow is not None:
            self.transport.abort()

    def end(self) -> None:
        """Close at once, because the server ends; what is under way is answered 503."""
        if self._phase is Phase.WORK and not self.is_mid_response():
            self.refuse(ENDING)
        elif self.flow is not None:
            self.transport.abort()

    def shutdown(self) -> None:
        """Close as soon as the request under way is answered, at once where none is whole."""
        if self._phase is Phase.WORK:
            self.cycle.keep_alive = False
        elif self._is_half_sent():
            self.refuse(ENDING)
        elif self._phase is not Phase.LINGER:
            self.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused; uvicorn calls this."""
        self.refuse(self._refusal or MALFORMED)

    def timeout_keep_alive_handler(self) -> None:
        """End the rest between two requests, unless it was interrupted; uvicorn calls this."""
        since, limit = self._all.rested_since(self), self._all.config.keep_alive_seconds
        left = 0.0 if since is None else since + limit - self.loop.time()
        if left > _SOON_SECONDS:
            self.timeout_keep_alive_task = self.loop.call_later(
                left, self.timeout_keep_alive_handler
            )
        elif not self.transport.is_closing():
            self.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is served as if it had asked for no other protocol."""

    # Phases --------------------------------------------------------------------------------------

    def _current_phase(self) -> Phase:
        if self.cycle is None:
            return Phase.HEAD
        if self.awaits_body():
            return Phase.DRAIN if self.cycle.response_complete else Phase.BODY
        if not self.cycle.response_complete:
            return Phase.WORK
        return Phase.HEAD if self.has_begun_head() else Phase.REST

    def _is_half_sent(self) -> bool:
        return self._phase is Phase.BODY or (self._phase is Phase.HEAD and self.has_begun_head())

    def _let_linger(self) -> None:
        """Let the answer to the latest request end the connection only as the client can bear."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not self.awaits_body():
            return
        if not isinstance(cycle.transport, _LingeringTransport):
            seconds = self._all.config.body_seconds
            cycle.transport = _LingeringTransport(cycle, self, seconds=seconds)

    def _enter(self, phase: Phase, *, seconds: float | None = None) -> None:
        self._phase, self._phase_of = phase, self.cycle
        self._all.enter(self, phase)
        if self._limit is not None:
            self._limit.cancel()
        seconds = self._all.seconds_of(phase) if seconds is None else seconds
        self._limit = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        """End a phase that took too long."""
        if self.flow is None:  # it was never made
            self._all.leave(self)
        elif self._phase is Phase.LINGER:
            self.transport.abort()
        elif self._phase is Phase.BODY and self.flow.read_paused:
            self._enter(Phase.BODY)  # the server itself held it up
        elif self._is_half_sent():
            self._all.late.add()
            self.refuse(TIMED_OUT)
        else:
            self.close()

    def _disconnect(self) -> None:
        """Tell the application, where it waits for the rest of a request, that none will come."""
        self._unset_keepalive_if_required()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _watch_writes(self) -> None:
        """See to it that the client takes what is written."""
        left = self.transport.get_write_buffer_size()
        if left and self._writes is None:
            seconds = self._all.config.body_seconds
            self._writes = self.loop.call_later(seconds, self._check_writes, self.cycle, left)

    def _check_writes(self, cycle: object, before: int) -> None:
        self._writes = None
        if self.cycle is cycle and self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._watch_writes()


class _LingeringTransport:
    """What a request whose body is still on its way is answered by.

    uvicorn closes once it has answered a client that keeps no connection. While that client still
    sends, closing would reset the connection, and the answer be lost.
    """

    def __init__(self, cycle: Any, connection: Connection, *, seconds: float) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._connection = connection
        self._seconds = seconds

    def close(self) -> None:
        """Close, at once only where the request has arrived."""
        if self._cycle.more_body:
            self._connection.linger(self._seconds)
        else:
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Be the transport in all else."""
        return getattr(self._transport, name)
