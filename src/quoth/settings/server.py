"""Settings of `quoth serve`, and the limits that every server keeps and publishes at `/limits`.

Apart from the server itself, so that `quoth --help` needs no web framework.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import FREE, Accepts, CheckedConfig, Names, OneOf, Range, matches, not_empty

MAX_QUERY_CHARS = 1_000
MAX_QUESTION_CHARS = 4_000
MAX_K = 100
MAX_REACH = 1_000
"""Largest offset + k of a page of hits."""

MAX_CONDITIONS = 50
MAX_CONDITION_CHARS = 1_000
MAX_DOCUMENTS = 1_000
MAX_DOCID_CHARS = 4_096
MAX_BODY_BYTES = 8 * 1024 * 1024

LIMITS = {
    "query_chars": MAX_QUERY_CHARS,
    "question_chars": MAX_QUESTION_CHARS,
    "k": MAX_K,
    "offset_plus_k": MAX_REACH,
    "conditions": MAX_CONDITIONS,
    "condition_chars": MAX_CONDITION_CHARS,
    "documents_per_call": MAX_DOCUMENTS,
    "docid_chars": MAX_DOCID_CHARS,
    "body_bytes": MAX_BODY_BYTES,
}
"""What a request may hold at most, by the names that `/limits` gives them."""

ACCESS_LOG = "quoth.access"
"""The logger that gets one record per request."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


Seconds = Annotated[float, Range(above=0, most=86_400)]
Network = Annotated[str, Accepts(_is_network, "such as 127.0.0.1 or 10.0.0.0/8")]
Origin = Annotated[str, matches(r"https?://[^/]*", "such as https://example.org")]
PathPrefix = Annotated[
    str, matches(r"(?:/[A-Za-z0-9._~-]+)*", "such as /notes, without a slash at its end")
]


@dataclass(frozen=True, slots=True)
class ServerConfig(CheckedConfig, title="server"):
    """How a collection is served."""

    host: Annotated[str, not_empty("an address such as 127.0.0.1")] = "127.0.0.1"
    """Address to listen on; any address other than loopback requires keys."""

    port: Annotated[int, Range(0, 65_535)] = 8080
    """Port to listen on; 0 lets the system choose one."""

    workers: Annotated[int, Range(1, 64)] = 2
    """Number of searches that run at the same time."""

    processes: bool = True
    """Run each search worker as a process, which uses all cores; if false, as a thread, which takes
    less memory because threads share models."""

    queue: Annotated[int, Range(1, 100_000)] = 64
    """Requests that may wait for a worker; further ones get status 429."""

    patience_seconds: Seconds = 1.0
    """Longest expected wait for a worker, in seconds, estimated from recent searches; a search that
    would wait longer gets status 429."""

    timeout_seconds: Seconds = 30.0
    """Time limit of a search, in seconds from its arrival; then it gets status 503."""

    answer_workers: Annotated[int, Range(1, 64)] = 1
    """Threads that answer questions, separate from the search workers; they share one language
    model."""

    answer_patience_seconds: Seconds = 30.0
    """Longest expected wait, in seconds, before a question is started; one that would wait longer
    gets status 429."""

    answer_seconds: Seconds = 120.0
    """Time limit of an answer, in seconds from the arrival of its question; then it gets status
    503."""

    write_seconds: Seconds = 300.0
    """Time limit of a request that writes documents, in seconds; they are written even if the
    client is gone."""

    keep_alive_seconds: Annotated[int, Range(1, 86_400)] = 75
    """How long an idle connection stays open, in seconds.

    Clients keep theirs for about a minute; a request sent just as the server closes the connection
    would be lost to them."""

    requests_per_minute: Annotated[int, Range(0, 1_000_000)] = 0
    """Rate limit per key, in requests per minute, for keys without a limit of their own; 0 means
    none."""

    log_format: Annotated[str, OneOf("text", "json")] = "text"
    """Log format: text for people, or json (one object per line) for programs."""

    query_log: Annotated[str, FREE] = ""
    """File to append every query and question to, without anything about who asked; quoth learn
    --queries learns from it. Empty keeps no log."""

    max_connections: Annotated[int, Range(1, 100_000)] = 2_000
    """Maximum open connections.

    A further one replaces the connection that has been idle longest; if none is idle, it gets
    status 503. The system's limit on open files may lower this."""

    header_seconds: Seconds = 10.0
    """Time limit for receiving the request line and headers, in seconds; then the request gets
    status 408."""

    body_seconds: Seconds = 30.0
    """Time limit for receiving the body of a request, in seconds; then the request gets status 408.
    A client that reads nothing of a response for as long is disconnected."""

    shutdown_seconds: Seconds = 30.0
    """Time limit, in seconds, for open requests to finish once the server is told to stop."""

    proxies: tuple[Network, ...] = ()
    """Addresses or networks of trusted proxies, such as 127.0.0.1 or 10.0.0.0/8, whose
    X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host headers are used."""

    path_prefix: PathPrefix = ""
    """Path under which a proxy exposes the server, such as /notes; requests work with and without
    it."""

    origins: tuple[Origin, ...] = ()
    """Web origins whose pages may call the server from a browser, such as https://example.org."""

    hosts: Names = ()
    """Additional host names of the server. Without keys it accepts only the names of this computer,
    so that no other site can reach it through a name of its own (DNS rebinding)."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this computer can reach the server."""
        if self.host in _LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def own_names(self) -> frozenset[str]:
        """Return the host names that requests may be addressed to where there are no keys."""
        return frozenset((*_LOOPBACK_NAMES, self.host, *self.hosts))
