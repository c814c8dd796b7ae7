"""Load on a server, from a process of its own: real queries, bounded in time.

    python -m benchmarks.serve.load URL QUERIES closed --clients 8 --seconds 10
    python -m benchmarks.serve.load URL QUERIES open --rate 200 --seconds 10

*closed*: so many clients, each asking its next query when the last one is answered. *open*: queries
come at a rate, whether or not those before are answered, which is what overload is. *crowd*: so
many clients who together ask at a rate, as far as they are answered. QUERIES holds one query per
line as JSON. Prints one JSON object: counts by kind, throughput, latency quantiles, and what the
load itself took of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_OPEN = 2_000
"""Most requests of an open load under way at a time; beyond, queries are counted as not sent."""


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
        elif status == 429:
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


class _Open(asyncio.Protocol):
    """An open connection: one request at a time, whose response is handed to whoever waits.

    As little as HTTP needs, since the load runs on the cores of the server that it measures.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = bytearray()
        self._response: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take a piece of the response."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        at = head.find(b"\r\ncontent-length:")
        length = 0 if at < 0 else int(head[at + 17 :].split(b"\r\n", 1)[0])
        if len(self._received) < end + 4 + length:
            return
        body = bytes(self._received[end + 4 : end + 4 + length])
        del self._received[: end + 4 + length]
        self.is_over = self.is_over or b"\r\nconnection: close" in head
        if self._response is not None and not self._response.done():
            self._response.set_result((int(head.split(b" ", 2)[1]), body))

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits that nothing comes any more."""
        self.is_over = True
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionResetError("closed without a response"))

    async def send(self, message: bytes) -> tuple[int, bytes]:
        """Send a request and give status and body."""
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(message)
        return await self._response


class Connection:
    """One kept connection that speaks as much HTTP as is needed."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._open: _Open | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request and give status and body.

        A server may close a connection that rests just when it is used again; what was sent on one
        that is then closed without a word is sent anew.
        """
        message = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        if self._open is not None and not self._open.is_over:
            with contextlib.suppress(ConnectionError):
                return await self._open.send(message)
        self.close()
        loop = asyncio.get_running_loop()
        _transport, self._open = await loop.create_connection(_Open, self._host, self._port)
        return await self._open.send(message)

    def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            self._open.transport.close()
        self._open = None


async def ask(connection: Connection, body: bytes, tally: Tally) -> None:
    """Ask one query and note what became of it."""
    begun, tally.last_sent = time.perf_counter(), time.time()
    try:
        async with asyncio.timeout(120):
            status, _content = await connection.post("/search", body)
    except (OSError, EOFError, ValueError, IndexError, TimeoutError):
        connection.close()
        status = 0
    tally.note(status, time.perf_counter() - begun)


async def load_closed(url: str, bodies: Iterator[bytes], *, clients: int, seconds: float) -> Tally:
    """Keep so many clients busy; a refused one waits a little, as its manners ask."""
    tally, end = Tally(), time.perf_counter() + seconds

    async def client() -> None:
        connection = Connection(url)
        while time.perf_counter() < end:
            before = tally.refused
            await ask(connection, next(bodies), tally)
            if tally.refused > before:
                await asyncio.sleep(0.05)
        connection.close()

    await asyncio.gather(*(client() for _number in range(clients)))
    return tally


async def load_open(url: str, bodies: Iterator[bytes], *, rate: float, seconds: float) -> Tally:
    """Send queries at a rate, however long answers take."""
    tally, idle, under_way = Tally(), [Connection(url)], set[asyncio.Task[None]]()

    async def one(body: bytes) -> None:
        connection = idle.pop() if idle else Connection(url)
        await ask(connection, body, tally)
        idle.append(connection)

    begun = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
        if len(under_way) >= MAX_OPEN:
            tally.unsent += 1
            continue
        task = asyncio.create_task(one(next(bodies)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    for connection in idle:
        connection.close()
    return tally


async def load_crowd(
    url: str, bodies: Iterator[bytes], *, clients: int, rate: float, seconds: float
) -> Tally:
    """Let so many clients ask at a rate together, each its next query when it is due and free."""
    tally, begun = Tally(), time.perf_counter()

    async def client(number: int) -> None:
        connection = Connection(url)
        due = begun + number / rate
        while due < begun + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await ask(connection, next(bodies), tally)
            due += clients / rate
            if due < time.perf_counter():
                late = int((time.perf_counter() - due) * rate / clients)
                tally.unsent += late  # it was still waiting when these were due
                due += late * clients / rate
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return tally


def bodies_of(queries: Sequence[str], *, searcher: str) -> Iterator[bytes]:
    """Write requests for queries, over and over."""
    asked = [
        json.dumps({"query": text, "k": 10, "searcher": searcher}).encode() for text in queries
    ]
    return itertools.cycle(asked)


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
    queries = [json.loads(line) for line in lines]
    bodies = (
        itertools.cycle([line.encode() for line in lines])
        if given.raw
        else bodies_of(queries, searcher=given.searcher)
    )
    begun = time.perf_counter()
    if given.kind == "closed":
        load = load_closed(given.url, bodies, clients=given.clients, seconds=given.seconds)
    elif given.kind == "crowd":
        load = load_crowd(
            given.url, bodies, clients=given.clients, rate=given.rate, seconds=given.seconds
        )
    else:
        load = load_open(given.url, bodies, rate=given.rate, seconds=given.seconds)
    tally = asyncio.run(load)
    record = tally.record(time.perf_counter() - begun)
    own = {"last_sent": tally.last_sent, "processor_seconds": time.process_time()}
    print(json.dumps(record | own))


if __name__ == "__main__":
    main()
