"""The server under test: `quoth serve` as a process of its own, and the load as another."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START_SECONDS = 300.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Load:
    """What came of a load, and the time of day when its last query was sent."""

    record: dict[str, Any]
    last_sent: float


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def memory(self) -> dict[str, float]:
        """Return resident memory, now and at its peak, in megabytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        values = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
        return {
            "now_mb": int(values["VmRSS"].split()[0]) / 1024,
            "peak_mb": int(values["VmHWM"].split()[0]) / 1024,
        }

    def processor_seconds(self) -> float:
        """Return the processor time of the server and of the processes that search for it."""
        parents, seconds = dict[int, int](), dict[int, float]()
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # one that has just ended
                fields = path.read_text().rpartition(")")[2].split()
                own = int(path.parent.name)
                parents[own] = int(fields[1])
                seconds[own] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return sum(
            spent for own, spent in seconds.items() if self.process.pid in _line_of(own, parents)
        )

    def is_ready(self) -> bool:
        """Whether models are loaded."""
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=10) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def serving(
    collection: Path, log: Path, *settings: str, program: Sequence[str] = ()
) -> Iterator[Server]:
    """Serve a collection, writes allowed, until the block ends; it must end by itself when asked.

    `program` is what to start instead of the installed `quoth`. Raises SystemExit where the server
    does not start; its output is in `log`.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*(program or [str(Path(sys.executable).with_name("quoth"))])]
    command += ["serve", str(collection)]
    command += ["--port", str(port), "--allow-writes", *settings]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    server = Server(f"http://127.0.0.1:{port}", process)
    try:
        _wait_until_ready(server, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def put_load(server: Server, queries: Path, kind: str, **options: float | str) -> Load:
    """Put a load on a server from another process and give what came of it."""
    command = [sys.executable, "-m", "benchmarks.serve.load", server.url, str(queries), kind]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    return Load(record, record.pop("last_sent"))


def _line_of(process: int, parents: dict[int, int]) -> list[int]:
    """List a process, its parent, its parent's parent and so on."""
    line = [process]
    while (parent := parents.get(line[-1], 0)) > 0:
        line.append(parent)
    return line


def _wait_until_ready(server: Server, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not server.is_ready():
        if not server.is_alive or time.monotonic() > end:
            raise SystemExit(f"the server did not start:\n{log.read_text()[-2_000:]}")
        time.sleep(0.1)
