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
    """Address to listen at; any other than this computer's own needs keys."""

    port: Annotated[int, Range(0, 65_535)] = 8080
    """Port to listen at; 0 lets the system choose one."""

    workers: Annotated[int, Range(1, 64)] = 2
    """How many searches are done at a time."""

    processes: bool = True
    """Whether each of them is done in a process of its own, which uses all cores; without, in a
    thread, which takes less memory, since threads share models."""

    queue: Annotated[int, Range(1, 100_000)] = 64
    """Requests that may wait for a worker; more are answered 429, try again later."""

    patience_seconds: Seconds = 1.0
    """Longest wait for a worker that a search is let in for, by how long searches took of late;
    where it would be longer, it is answered 429 as well."""

    timeout_seconds: Seconds = 30.0
    """Longest wait for a search, from its arrival; then it is answered 503."""

    answer_workers: Annotated[int, Range(1, 64)] = 1
    """Threads that answer questions, apart from those that search; they share one language
    model."""

    answer_patience_seconds: Seconds = 30.0
    """Longest wait until a question is begun; where it would be longer, it is answered 429."""

    answer_seconds: Seconds = 120.0
    """Longest wait for an answer to a question, from its arrival; then it is answered 503."""

    write_seconds: Seconds = 300.0
    """Longest wait for documents to be written; they are written even if nobody waits any more."""

    keep_alive_seconds: Annotated[int, Range(1, 86_400)] = 75
    """How long a connection may rest before the server closes it. Clients keep theirs for about a
    minute; a request that crosses with the closing would be lost to them."""

    requests_per_minute: Annotated[int, Range(0, 1_000_000)] = 0
    """How often each key may be used, where it has no limit of its own; 0 sets none."""

    log_format: Annotated[str, OneOf("text", "json")] = "text"
    """How records are logged: text for people, or json, one object per line, for programs."""

    query_log: Annotated[str, FREE] = ""
    """File that every query and question is added to, nothing else about who asks; quoth learn
    --queries learns from it. Empty keeps none."""

    max_connections: Annotated[int, Range(1, 100_000)] = 2_000
    """Connections that may be open at a time. A further one takes the place of the one that rested
    longest between requests; where none rests, it is answered 503, try again later. The system's
    limit of open files may lower this."""

    header_seconds: Seconds = 10.0
    """Longest wait for the whole request line and headers; then the request is answered 408."""

    body_seconds: Seconds = 30.0
    """Longest wait for the whole body of a request; then the request is answered 408. A client
    that takes nothing of a response for as long is disconnected."""

    shutdown_seconds: Seconds = 30.0
    """How long requests under way may take to finish once the server is told to end."""

    proxies: tuple[Network, ...] = ()
    """Addresses or networks of proxies, as 127.0.0.1 or 10.0.0.0/8, whose X-Forwarded-For,
    X-Forwarded-Proto and X-Forwarded-Host are believed."""

    path_prefix: PathPrefix = ""
    """Path under which a proxy shows the server, as /notes; requests are served with and without
    it."""

    origins: tuple[Origin, ...] = ()
    """Web origins whose pages may use the server from a browser, as https://example.org."""

    hosts: Names = ()
    """Further host names the server goes by; without keys it answers to those of this computer
    only, so that no foreign page can reach it under a name of its own."""

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
