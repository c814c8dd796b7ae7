"""What a connection is told before any application sees a request, and which heads are refused.

Responses are written as they are, in the shape of every other error of the server. Parsers of HTTP
differ in what they let pass; what is judged here holds for all of them.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from quoth.server.connections.known_heads import KnownHead
from quoth.server.errors import error_record, headers_of

MAX_HEAD_BYTES = 128 * 1024
"""Request line and headers; room for the longest docid, every character of it escaped."""

MAX_HEADERS = 100

_LOOSE_LINE = re.compile(rb"(?<!\r)\n|\n[ \t]")


Client = tuple[str, int] | None
"""The address of whoever asks."""


class RefusesEarly(Protocol):
    """Says who is refused before the application hears of it.

    Both return the whole response to a request that is refused. The second one is asked first
    where the head is known, and may leave it to the other.
    """

    def refuse(
        self, scope: dict[str, Any], default_headers: Sequence[tuple[bytes, bytes]]
    ) -> bytes:
        """Judge a request by its head; nothing where the application may have it."""

    def refuse_known(
        self, head: KnownHead, client: Client, default_headers: Sequence[tuple[bytes, bytes]]
    ) -> bytes:
        """Judge a request with a head that came before; nothing where it has to be looked at."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that ends a connection."""

    status: int
    kind: str
    message: str

    def response(self) -> bytes:
        """Return the whole response, with a request id of its own."""
        request_id = secrets.token_hex(8)
        body = json.dumps(error_record(self.kind, self.message, request_id)).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Request-ID": request_id,
            **headers_of(self.status),
        }
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


OVERLOADED = Refusal(
    503, "Overloaded", "the server holds as many connections as it can; try again in a moment"
)
ENDING = Refusal(503, "Ending", "the server is shutting down; try again in a moment")
TIMED_OUT = Refusal(408, "RequestTimeout", "the request did not arrive in time; send it again")
MALFORMED = Refusal(400, "BadRequest", "this is not a valid HTTP/1.1 request")
HEAD_TOO_LARGE = Refusal(
    431,
    "TooLarge",
    f"the request line and headers are longer than {MAX_HEAD_BYTES:,} bytes,"
    f" or there are more than {MAX_HEADERS} headers; send less",
)


def ambiguity_of(version: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Say why a proxy could see another end or another host in this request; "" where none could.

    >>> ambiguity_of("1.1", [(b"host", b"a"), (b"content-length", b"5")])
    ''
    >>> ambiguity_of("1.1", [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")])
    'Content-Length and Transfer-Encoding exclude each other; send one of them'
    """
    names = [name.lower() for name, _value in headers]
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            return "Content-Length and Transfer-Encoding exclude each other; send one of them"
        if version != "1.1":
            return f"HTTP/{version} has no Transfer-Encoding; send Content-Length"
    for name in (b"Content-Length", b"Transfer-Encoding", b"Host"):
        if names.count(name.lower()) > 1:
            return f"there is more than one {name.decode()}; send one"
    return ""


def has_loose_lines(head: bytes) -> bool:
    r"""Say whether a line ends without a carriage return, or goes on in the next one.

    >>> has_loose_lines(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    False
    >>> has_loose_lines(b"GET / HTTP/1.1\nHost: a\r\n\r\n")
    True
    >>> has_loose_lines(b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n")
    True
    """
    return _LOOSE_LINE.search(head) is not None
