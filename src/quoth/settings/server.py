"""Settings of `quoth serve`, and the limits that every server keeps and publishes at `/limits`.

Apart from the server itself, so that `quoth --help` needs no web framework.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from quoth.errors import ConfigError

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

LOG_FORMATS = ("text", "json")

_DURATIONS = (
    "answer_patience_seconds",
    "patience_seconds",
    "timeout_seconds",
    "answer_seconds",
    "write_seconds",
    "header_seconds",
    "body_seconds",
    "shutdown_seconds",
)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a collection is served."""

    host: str = "127.0.0.1"
    """Address to listen at; any other than this computer's own needs keys."""

    port: int = 8080
    """Port to listen at; 0 lets the system choose one."""

    workers: int = 2
    """How many searches are done at a time."""

    processes: bool = True
    """Whether each of them is done in a process of its own, which uses all cores; without, in a
    thread, which takes less memory, since threads share models."""

    queue: int = 64
    """Requests that may wait for a worker; more are answered 429, try again later."""

    patience_seconds: float = 1.0
    """Longest wait for a worker that a search is let in for, by how long searches took of late;
    where it would be longer, it is answered 429 as well."""

    timeout_seconds: float = 30.0
    """Longest wait for a search, from its arrival; then it is answered 503."""

    answer_workers: int = 1
    """Threads that answer questions, apart from those that search; they share one language
    model."""

    answer_patience_seconds: float = 30.0
    """Longest wait until a question is begun; where it would be longer, it is answered 429."""

    answer_seconds: float = 120.0
    """Longest wait for an answer to a question, from its arrival; then it is answered 503."""

    write_seconds: float = 300.0
    """Longest wait for documents to be written; they are written even if nobody waits any more."""

    keep_alive_seconds: int = 75
    """How long a connection may rest before the server closes it. Clients keep theirs for about a
    minute; a request that crosses with the closing would be lost to them."""

    requests_per_minute: int = 0
    """How often each key may be used, where it has no limit of its own; 0 sets none."""

    log_format: str = "text"
    """How records are logged: text for people, or json, one object per line, for programs."""

    max_connections: int = 2_000
    """Connections that may be open at a time. A further one takes the place of the one that rested
    longest between requests; where none rests, it is answered 503, try again later. The system's
    limit of open files may lower this."""

    header_seconds: float = 10.0
    """Longest wait for the whole request line and headers; then the request is answered 408."""

    body_seconds: float = 30.0
    """Longest wait for the whole body of a request; then the request is answered 408. A client
    that takes nothing of a response for as long is disconnected."""

    shutdown_seconds: float = 30.0
    """How long requests under way may take to finish once the server is told to end."""

    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies, as 127.0.0.1 or 10.0.0.0/8, whose X-Forwarded-For,
    X-Forwarded-Proto and X-Forwarded-Host are believed."""

    path_prefix: str = ""
    """Path under which a proxy shows the server, as /notes; requests are served with and without
    it."""

    origins: tuple[str, ...] = ()
    """Web origins whose pages may use the server from a browser, as https://example.org."""

    hosts: tuple[str, ...] = ()
    """Further host names the server goes by; without keys it answers to those of this computer
    only, so that no foreign page can reach it under a name of its own."""

    def __post_init__(self) -> None:
        problems = []
        if not self.host:
            problems.append("host is empty, expected an address such as 127.0.0.1")
        if not 0 <= self.port <= 65_535:
            problems.append(f"port is {self.port}, expected 0 to 65,535")
        if not 1 <= self.workers <= 64:
            problems.append(f"workers is {self.workers}, expected 1 to 64")
        if not 1 <= self.answer_workers <= 64:
            problems.append(f"answer_workers is {self.answer_workers}, expected 1 to 64")
        if not 0 <= self.requests_per_minute <= 1_000_000:
            found = self.requests_per_minute
            problems.append(f"requests_per_minute is {found}, expected 0 to 1,000,000")
        if not 1 <= self.queue <= 100_000:
            problems.append(f"queue is {self.queue}, expected 1 to 100,000")
        for name in _DURATIONS:
            if not 0.0 < getattr(self, name) <= 86_400.0:
                problems.append(f"{name} is {getattr(self, name)}, expected above 0, up to 86,400")
        if not 1 <= self.keep_alive_seconds <= 86_400:
            found = self.keep_alive_seconds
            problems.append(f"keep_alive_seconds is {found}, expected 1 to 86,400")
        if self.log_format not in LOG_FORMATS:
            expected = " or ".join(LOG_FORMATS)
            problems.append(f"log_format is {self.log_format!r}, expected {expected}")
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                problems.append(f"origins has {origin!r}, expected such as https://example.org")
        problems += self._connection_problems()
        if problems:
            raise ConfigError("server: " + "; ".join(problems))

    def _connection_problems(self) -> Iterator[str]:
        if not 1 <= self.max_connections <= 100_000:
            yield f"max_connections is {self.max_connections}, expected 1 to 100,000"
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                yield f"proxies has {proxy!r}, expected such as 127.0.0.1 or 10.0.0.0/8"
        if not _PREFIX.fullmatch(self.path_prefix):
            found = repr(self.path_prefix)
            yield f"path_prefix is {found}, expected such as /notes, without a slash at its end"

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
