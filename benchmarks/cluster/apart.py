"""Run one step of a benchmark in a process of its own, and say what it took."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster.build import disk_megabytes
from benchmarks.lexical.speed import peak_megabytes

Step = Callable[[], dict[str, Any]]
"""What can be sent to a process: a function of a module, with arguments."""

_WATCH_SECONDS = 0.5


def run_apart(name: str, step: Step, folder: Path) -> dict[str, Any]:
    """Run a step in a process of its own; gives its result, time, work, memory and disk."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    load = os.getloadavg()[0]
    process = context.Process(target=_run, args=(step, send))
    process.start()
    send.close()
    try:
        found: dict[str, Any] = receive.recv()
    except EOFError:
        raise SystemExit(f"{name} failed; start again to go on from it") from None
    finally:
        process.join()
    row = {**found, "disk_mb": disk_megabytes(folder), "load_before": load, "commit": _commit()}
    logging.info("%s: %s", name, row)
    return row


def _run(step: Step, send: Any) -> None:
    """Run a step in this process and watch its memory."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    watch = _Watch()
    watch.start()
    begun = time.perf_counter()
    found = step()
    seconds = time.perf_counter() - begun
    watch.stop()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    send.send(
        {
            **found,
            "seconds": seconds,
            "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used),
            "peak_mb": peak_megabytes(),
            "peak_own_mb": watch.peak_mb,
        }
    )


class _Watch(threading.Thread):
    """Notes the most memory of its own that this process has, mapped files not counted."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self._done = threading.Event()

    def run(self) -> None:
        """Look from time to time."""
        while not self._done.wait(_WATCH_SECONDS):
            self.peak_mb = max(self.peak_mb, own_megabytes())

    def stop(self) -> None:
        """Look once more, and end."""
        self._done.set()
        self.join()
        self.peak_mb = max(self.peak_mb, own_megabytes())


def own_megabytes() -> float:
    """Read the memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return peak_megabytes()


def _commit() -> str:
    """Name the commit that this runs from."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return made.stdout.strip()
