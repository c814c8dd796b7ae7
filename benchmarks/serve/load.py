"""Load on a server, from a process of its own: real queries, bounded in time.

    python -m benchmarks.serve.load URL QUERIES closed --clients 8 --seconds 10
    python -m benchmarks.serve.load URL QUERIES open --rate 200 --seconds 10

*closed*: so many clients, each asking its next query when the last one is answered. *open*: queries
come at a rate, whether or not those before are answered, which is what overload is. *crowd*: so
many clients who together ask at a rate, as far as they are answered. QUERIES holds one query per
line as JSON. Prints one JSON object: counts by kind, throughput, latency quantiles, and what the
load itself took of the processor while it went on. Times run from when a query was due, so a load
that is late itself does not look faster for it.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import time
import urllib.parse
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.serve.exchanges import Connection, Exchanges, Told

MAX_OPEN = 2_000
"""Most requests of an open load under way at a time; beyond, queries are counted as not sent."""

TICK_SECONDS = 0.002
"""At high rates, queries that are due within it go together, for an open load wakes up as seldom as
it can: it would take the cores from what it measures. Times still run from when each was due."""

REFUSED = 429
_MANNERS_SECONDS = 0.05


@dataclass
class Tally:
    """What became of requests; latencies are of answered ones, in seconds."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    errors: int = 0
    unsent: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    last_sent: float = 0.0
    """When the last query was sent, by the clock of the machine."""

    def note(self, status: int, seconds: float) -> None:
        """Note one response; status 0 where there was none."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200:
            self.latencies.append(seconds)
        elif status == REFUSED:
            self.refused += 1
        else:
            self.errors += 1

    def record(self, seconds: float) -> dict[str, Any]:
        """Return plain values."""
        return {
            "seconds": seconds,
            "sent": len(self.latencies) + self.refused + self.errors,
            "answered": len(self.latencies),
            "refused": self.refused,
            "errors": self.errors,
            "unsent": self.unsent,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "throughput": len(self.latencies) / seconds,
            **quantiles_ms(self.latencies),
        }


def quantiles_ms(latencies: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, p99 and the mean in milliseconds; of nothing, nothing."""
    if not latencies:
        return {}
    ordered = sorted(latencies)
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {
        f"{name}_ms": ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000
        for name, share in named.items()
    }
    return found | {"mean_ms": sum(ordered) / len(ordered) * 1000}


def ask(connection: Connection, request: bytes, tally: Tally, *, since: float, then: Told) -> None:
    """Ask one query and note what became of it, whose time runs from when it was due."""
    tally.last_sent = time.time()

    def told(status: int) -> None:
        tally.note(status, time.perf_counter() - since)
        then(status)

    connection.ask(request, told)


def load_closed(
    exchanges: Exchanges, requests: Iterator[bytes], *, clients: int, seconds: float
) -> Tally:
    """Keep so many clients busy; a refused one waits a little, as its manners ask."""
    tally, end = Tally(), time.perf_counter() + seconds

    def begin(connection: Connection) -> None:
        now = time.perf_counter()
        if now >= end:
            connection.close()
            return

        def then(status: int) -> None:
            if status == REFUSED:
                exchanges.at(time.perf_counter() + _MANNERS_SECONDS, partial(begin, connection))
            else:
                begin(connection)

        ask(connection, next(requests), tally, since=now, then=then)

    for _number in range(clients):
        begin(Connection(exchanges))
    exchanges.run()
    return tally


def load_open(
    exchanges: Exchanges, requests: Iterator[bytes], *, rate: float, seconds: float
) -> Tally:
    """Send queries at a rate, however long answers take."""
    tally, idle, begun = Tally(), list[Connection](), time.perf_counter()
    dues = deque(begun + number / rate for number in range(int(rate * seconds)))

    def send_due() -> None:
        now = time.perf_counter()
        while dues and dues[0] <= now:
            due = dues.popleft()
            if exchanges.num_under_way >= MAX_OPEN:
                tally.unsent += 1
                continue
            connection = idle.pop() if idle else Connection(exchanges)
            then = partial(_append, idle, connection)
            ask(connection, next(requests), tally, since=due, then=then)
        if dues:
            exchanges.at(max(dues[0], now + TICK_SECONDS), send_due)

    send_due()
    exchanges.run()
    for connection in idle:
        connection.close()
    return tally


def _append(idle: list[Connection], connection: Connection, _status: int) -> None:
    idle.append(connection)


def load_crowd(
    exchanges: Exchanges, requests: Iterator[bytes], *, clients: int, rate: float, seconds: float
) -> Tally:
    """Let so many clients ask at a rate together, each its next query when it is due and free."""
    tally, begun = Tally(), time.perf_counter()
    pause = clients / rate

    def begin(connection: Connection, due: float, free: float) -> None:
        if due >= begun + seconds:
            connection.close()
            return

        def then(_status: int) -> None:
            now = time.perf_counter()
            late = max(0, int((now - due - pause) / pause))
            tally.unsent += late  # it was still waiting when these were due
            following = due + pause + late * pause
            exchanges.at(following, partial(begin, connection, following, now))

        ask(connection, next(requests), tally, since=max(due, free), then=then)

    for number in range(clients):
        due = begun + number / rate
        exchanges.at(due, partial(begin, Connection(exchanges), due, due))
    exchanges.run()
    return tally


def bodies_of(queries: Sequence[str], *, searcher: str) -> list[bytes]:
    """Write what is asked for queries."""
    return [json.dumps({"query": text, "k": 10, "searcher": searcher}).encode() for text in queries]


def requests_of(bodies: Sequence[bytes], *, url: str) -> Iterator[bytes]:
    """Write whole requests, over and over."""
    host = urllib.parse.urlsplit(url).netloc
    head = f"POST /search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return itertools.cycle(
        [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]
    )


def main() -> None:
    """Put one load on a server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("queries", type=Path)
    parser.add_argument("kind", choices=["closed", "open", "crowd"])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--searcher", default="hybrid")
    parser.add_argument("--raw", action="store_true", help="QUERIES holds whole requests")
    given = parser.parse_args()
    lines = given.queries.read_text().splitlines()
    bodies = (
        [line.encode() for line in lines]
        if given.raw
        else bodies_of([json.loads(line) for line in lines], searcher=given.searcher)
    )
    requests = requests_of(bodies, url=given.url)
    gc.disable()  # nothing here is a circle
    begun, spent = time.perf_counter(), time.process_time()
    tally = put(given, requests)
    record = tally.record(time.perf_counter() - begun)
    own = {"last_sent": tally.last_sent, "processor_seconds": time.process_time() - spent}
    print(json.dumps(record | own))


def put(given: argparse.Namespace, requests: Iterator[bytes]) -> Tally:
    """Put the load that is asked for on a server."""
    exchanges, seconds = Exchanges(given.url), given.seconds
    if given.kind == "closed":
        return load_closed(exchanges, requests, clients=given.clients, seconds=seconds)
    if given.kind == "crowd":
        clients, rate = given.clients, given.rate
        return load_crowd(exchanges, requests, clients=clients, rate=rate, seconds=seconds)
    return load_open(exchanges, requests, rate=given.rate, seconds=seconds)


if __name__ == "__main__":
    main()
