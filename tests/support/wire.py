"""Clients that speak HTTP byte by byte, for tests of what a server does with broken ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

SECONDS = 300.0
"""Generous: how long a client waits before a test fails."""


@dataclass(frozen=True)
class Reply:
    """A response, and whatever the server sent after it."""

    status: int
    headers: dict[str, str]
    body: bytes
    rest: bytes

    def error(self) -> dict[str, Any]:
        """Return the error that the body holds."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


@contextmanager
def connected(url: str, *pieces: bytes) -> Iterator[socket.socket]:
    """Connect to a server and send something; closed when the block ends."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
        for piece in pieces:
            send(client, piece)
        yield client


def send(client: socket.socket, data: bytes) -> bool:
    """Send all of it; False where the server has closed the connection."""
    try:
        client.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def read_reply(client: socket.socket) -> Reply:
    """Read one response whose length is said."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(client, data)
    head, _, rest = data.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    length = int(headers["content-length"])
    body = bytearray(rest)
    while len(body) < length:
        body += _receive(client, body)
    status = int(status_line.split()[1])
    return Reply(status, headers, bytes(body[:length]), bytes(body[length:]))


def read_last_reply(client: socket.socket) -> Reply:
    """Read a response after which the server must close the connection."""
    reply = read_reply(client)
    return Reply(reply.status, reply.headers, reply.body, reply.rest + read_to_end(client))


def read_to_end(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = bytearray()
    with suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            found += piece
    return bytes(found)


def post(path: str, body: bytes = b"", *headers: str) -> bytes:
    """Return a whole request."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _receive(client: socket.socket, before: bytes | bytearray) -> bytes:
    piece = client.recv(1_048_576)
    assert piece, f"the connection was closed after {bytes(before[:1000])!r}"
    return piece
