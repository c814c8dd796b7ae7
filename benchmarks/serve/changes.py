"""A writer that changes a group of documents at once, and a reader that must never see half of it.

All documents of the group carry the same version in title and text; one request changes all of
them. A reader that finds the group must find all of it, in one version, no older than what was
acknowledged before it asked.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from benchmarks.serve.load import quantiles_ms
from quoth import Client
from quoth.records import Document

GROUP = 10
_WORD = "quothservegroup"  # stands in no real document


@dataclass
class Watch:
    """What writer and reader saw."""

    acknowledged: int = 0
    write_seconds: list[float] = field(default_factory=list)
    reads: int = 0
    versions: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "group": GROUP,
            "writes": len(self.write_seconds),
            "write": quantiles_ms(self.write_seconds),
            "reads": self.reads,
            "versions_seen": len(self.versions),
            "faults": self.faults[:10],
            "num_faults": len(self.faults),
        }


def write_and_watch(url: str, *, seconds: float) -> dict[str, Any]:
    """Write and read for so long; the group is removed in the end."""
    watch = Watch()
    _write(url, watch, 1)
    reader = threading.Thread(target=_guarded, args=(_read_on, url, watch))
    writer = threading.Thread(target=_guarded, args=(_write_on, url, watch))
    reader.start()
    writer.start()
    time.sleep(seconds)
    watch.stopped.set()
    writer.join()
    reader.join()
    with Client(url) as client:
        client.remove([_docid(number) for number in range(GROUP)])
    return watch.record()


def _guarded(work: Any, url: str, watch: Watch) -> None:
    """A writer or reader that fails is a fault, too."""
    try:
        work(url, watch)
    except Exception as error:
        watch.faults.append(f"{work.__name__}: {error!r}")


def _write_on(url: str, watch: Watch) -> None:
    version = 1
    while not watch.stopped.is_set():
        version += 1
        _write(url, watch, version)


def _write(url: str, watch: Watch, version: int) -> None:
    begun = time.perf_counter()
    with Client(url, timeout=120.0) as client:
        client.add_documents(_group(version))
    watch.write_seconds.append(time.perf_counter() - begun)
    watch.acknowledged = version


def _read_on(url: str, watch: Watch) -> None:
    body = json.dumps({"query": _WORD, "k": 2 * GROUP, "searcher": "lexical"}).encode()
    headers = {"Content-Type": "application/json"}
    while not watch.stopped.is_set():
        least = watch.acknowledged
        request = urllib.request.Request(f"{url}/search", body, headers)
        with urllib.request.urlopen(request, timeout=120) as response:
            hits = json.load(response)["hits"]
        watch.reads += 1
        shown = {(hit["title"], _version_in(hit["passage"]["text"])) for hit in hits}
        versions = {version for _title, version in shown}
        watch.versions |= versions
        if len(hits) != GROUP or len(shown) != 1 or min(versions) < least:
            watch.faults.append(f"{len(hits)} hits of {sorted(shown)}, acknowledged {least}")
        elif any(title != f"Version {version}" for title, version in shown):
            watch.faults.append(f"title and text differ: {sorted(shown)}")


def _group(version: int) -> list[Document]:
    text = f"{_WORD} stands here. The version is {version}."
    return [
        Document(_docid(number), {"title": (f"Version {version}",), "text": (text,)})
        for number in range(GROUP)
    ]


def _docid(number: int) -> str:
    return f"{_WORD}/{number}"


def _version_in(text: str) -> int:
    return int(text.rsplit(" ", 1)[-1].rstrip("."))
