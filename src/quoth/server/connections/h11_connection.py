"""Connections that h11 parses: the parser without compiled code, which forgives more."""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from quoth.server.connections.connections import Connection, Connections
from quoth.server.connections.refusals import (
    HEAD_TOO_LARGE,
    MALFORMED,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    Refusal,
    ambiguity_of,
    has_loose_lines,
)


class H11Connection(Connection, H11Protocol):
    """A connection that h11 parses."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(connections, **settings)
        self.conn = _StrictParser(h11.SERVER, MAX_HEAD_BYTES)

    def awaits_body(self) -> bool:
        """Say whether the body of the latest request is not whole yet."""
        return self.conn.their_state is h11.SEND_BODY

    def has_begun_head(self) -> bool:
        """Say whether something of the next request has arrived."""
        return bool(self.conn.trailing_data[0])

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused, with its reason."""
        assert isinstance(self.conn, _StrictParser)
        self.refuse(self.conn.refusal)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self.update()


class _StrictParser(h11.Connection):
    """h11 without what it forgives: loose lines, ambiguous ends, and any number of headers."""

    refusal = MALFORMED

    def next_event(self) -> Any:
        """Parse the next part of a request."""
        before = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            is_large = error.error_status_hint == HEAD_TOO_LARGE.status
            self.refusal = HEAD_TOO_LARGE if is_large else MALFORMED
            raise
        if isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            self._check(head, event)
        return event

    def _check(self, head: bytes, request: h11.Request) -> None:
        problem = ambiguity_of(request.http_version.decode("ascii"), list(request.headers))
        if len(head) > MAX_HEAD_BYTES or len(request.headers) > MAX_HEADERS:
            self._stop(HEAD_TOO_LARGE)
        if has_loose_lines(head):
            self._stop(MALFORMED)
        if problem:
            self._stop(Refusal(400, "BadRequest", problem))

    def _stop(self, refusal: Refusal) -> None:
        self.refusal = refusal
        raise h11.RemoteProtocolError(refusal.message, refusal.status)
