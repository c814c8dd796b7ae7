"""Hostile connections to a running server, and whether new clients are served beside them.

    python -m benchmarks.serve.hostile URL --idle 500 --half 500 --seconds 20

Opens `--idle` connections that send nothing and `--half` that send half a request, in turn half the
headers and half the body; each is opened again when the server closes it. Meanwhile new clients
search, one after another, each with a connection of its own, as before and after. Prints one JSON
object: for each of the three times, what became of the clients and how long they waited.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import time
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_PATIENCE_SECONDS = 30.0
_CALM_SECONDS = 3.0
_SETTLING_SECONDS = 2.0


@dataclass
class Clients:
    """What became of new clients; waits are of answered ones, in seconds."""

    waits: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        waits = sorted(self.waits)
        quantiles = {
            name: waits[min(len(waits) - 1, int(share * len(waits)))] * 1000 if waits else None
            for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
        }
        return {"outcomes": dict(self.outcomes), **quantiles}


@dataclass(frozen=True)
class Target:
    """The server, and a search of it."""

    host: str
    port: int
    request: bytes

    @classmethod
    def parse(cls, url: str, query: str, key: str) -> Target:
        """Take apart an address as http://127.0.0.1:8080."""
        found = urllib.parse.urlsplit(url)
        assert found.hostname is not None and found.port is not None, url
        body = json.dumps({"query": query}).encode()
        lines = [
            "POST /search HTTP/1.1",
            f"Host: {found.hostname}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *([f"Authorization: Bearer {key}"] if key else []),
        ]
        return cls(found.hostname, found.port, "\r\n".join([*lines, "", ""]).encode() + body)


async def search_for(target: Target, seconds: float, *, pause: float) -> Clients:
    """Search with one new client after another."""
    clients, end = Clients(), time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        outcome = await _search_once(target)
        clients.outcomes[outcome] += 1
        if outcome == "200":
            clients.waits.append(time.perf_counter() - begun)
        await asyncio.sleep(pause)
    return clients


async def _search_once(target: Target) -> str:
    """Return the status of the answer, or what happened instead of one."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection(target.host, target.port)
            try:
                writer.write(target.request)
                line = await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return type(error).__name__
    return line.split()[1].decode() if line else "closed"


async def annoy(target: Target, part: bytes) -> None:
    """Hold a connection with part of a request, and open another one when it is closed."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(target.host, target.port)
            try:
                writer.write(part)
                while await reader.read(65_536):
                    pass
            finally:
                writer.close()
        await asyncio.sleep(0.1)


async def annoy_all(target: Target, parts: Sequence[bytes]) -> None:
    """Hold a connection with each of these parts of a request."""
    await asyncio.gather(*(annoy(target, part) for part in parts))


def measure(target: Target, *, idle: int, half: int, seconds: float) -> dict[str, Any]:
    """Measure new clients before, beside and after hostile ones, which are another process."""
    before = asyncio.run(search_for(target, _CALM_SECONDS, pause=0.01))
    parts = [b""] * idle
    parts += [target.request[: 40 if at % 2 else -5] for at in range(half)]
    hostile = multiprocessing.Process(target=_annoy, args=(target, parts), daemon=True)
    hostile.start()
    time.sleep(_SETTLING_SECONDS)
    beside = asyncio.run(search_for(target, seconds, pause=0.05))
    hostile.terminate()
    hostile.join()
    time.sleep(_SETTLING_SECONDS)
    after = asyncio.run(search_for(target, _CALM_SECONDS, pause=0.01))
    return {
        "idle": idle,
        "half": half,
        "seconds": seconds,
        "before": before.record(),
        "beside": beside.record(),
        "after": after.record(),
    }


def _annoy(target: Target, parts: Sequence[bytes]) -> None:
    asyncio.run(annoy_all(target, parts))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line; a key is taken from QUOTH_KEY."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("url")
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--half", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--query", default="owl")
    given = parser.parse_args(arguments)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = Target.parse(given.url, given.query, os.environ.get("QUOTH_KEY", ""))
    found = measure(target, idle=given.idle, half=given.half, seconds=given.seconds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
