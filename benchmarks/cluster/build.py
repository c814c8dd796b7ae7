"""Passages of real texts, and the collections made of them: in one piece, and in shards.

The texts are those under ../shared/data: the corpora of all retrieval sets, Wikipedia articles, the
passages of natural pairs, and acts of the EU. Each is cut into stretches of 48 words, none of which
overlap, in this order until there are as many as wanted. Every collection is built in a process of
its own, so that peak memory is its own, and kept under benchmarks/.cache/cluster with what building
it took; what is there is not built again.
"""

from __future__ import annotations

import gzip
import json
import logging
import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.lexical.quality import join, read
from benchmarks.lexical.speed import peak_megabytes
from quoth.collection.shards import create_shards
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.engine import ShardedEngine

CACHE = Path("benchmarks/.cache/cluster")
WORDS = 48
PLAIN = "plain"
_STEP = 100_000


def passages(data: Path, count: int) -> Iterator[Document]:
    """Yield the first `count` passages, the same every time."""
    yield from islice(_cut(real_texts(data)), count)


def build(data: Path, count: int, system: str) -> dict[str, Any]:
    """Build one collection unless it is there; gives what that took."""
    folder = folder_of(count, system)
    record = folder.with_suffix(".json")
    if record.exists():
        found: dict[str, Any] = json.loads(record.read_text())
        return found
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    found = _build_apart(data, count, system)
    record.write_text(json.dumps(found, indent=1) + "\n")
    return found


def folder_of(count: int, system: str) -> Path:
    """Name the folder of a collection."""
    return CACHE / str(count) / f"{system}.quoth"


def num_shards(system: str) -> int:
    """Say how many shards a system has, 0 for the collection in one piece.

    >>> num_shards("plain"), num_shards("shards-4")
    (0, 4)
    """
    return 0 if system == PLAIN else int(system.rpartition("-")[2])


def disk_megabytes(folder: Path) -> float:
    """Add up the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _build_apart(data: Path, count: int, system: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    load = os.getloadavg()[0]
    process = context.Process(target=_build, args=(data, count, system, send))
    process.start()
    seconds, cpu_seconds, peak = receive.recv()
    process.join()
    logging.info("%s: %.1f s, %.1f s of work, %.0f MB", system, seconds, cpu_seconds, peak)
    return {
        "system": system,
        "passages": count,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mb": peak,
        "disk_mb": disk_megabytes(folder_of(count, system)),
        "load_before": load,
    }


def _build(data: Path, count: int, system: str, send) -> None:  # type: ignore[no-untyped-def]
    """Build in this process; reading and cutting the texts counts, equally for all."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder, shards = folder_of(count, system), num_shards(system)
    begun = time.perf_counter()
    documents = _counted(passages(data, count), system)
    if shards:
        create_shards(folder, count=shards)
        with ShardedEngine.open(folder) as sharded:
            sharded.add_documents(documents)
    else:
        with Engine.open(folder) as engine:
            engine.add_documents(documents)
    send.send((time.perf_counter() - begun, time.process_time(), peak_megabytes()))


def _counted(documents: Iterator[Document], system: str) -> Iterator[Document]:
    """Say from time to time how many have passed."""
    for number, document in enumerate(documents, start=1):
        if number % _STEP == 0:
            logging.info("%s: %s documents read", system, f"{number:,}")
        yield document


def _cut(texts: Iterator[tuple[str, str]]) -> Iterator[Document]:
    """Cut texts into stretches; a docid is the text's own name and the number of the stretch."""
    for name, text in texts:
        words = text.split()
        for number, start in enumerate(range(0, len(words), WORDS)):
            stretch = " ".join(words[start : start + WORDS])
            yield Document(f"{name}#{number}", {"text": (stretch,)})


def real_texts(data: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts: the retrieval sets, Wikipedia, natural pairs, acts of the EU."""
    for folder in sorted(path for path in (data / "ir").iterdir() if path.is_dir()):
        for document in map(join, read(folder)):
            yield f"{folder.name}/{document.docid}", document.fields["text"][0]
    sources = (
        ("wikipedia", "lm_train.jsonl.zst", "text"),
        ("pairs", "pairs.jsonl.zst", "passage"),
        ("eurlex", "eurlex_acts.jsonl.gz", "text"),
    )
    for name, file, field in sources:
        for number, record in enumerate(_records(data / "text" / file)):
            yield f"{name}/{number}", record[field]


def _records(path: Path) -> Iterator[dict[str, str]]:
    """Read a compressed JSONL file."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            yield from map(json.loads, stream)
        return
    command = ["zstd", "-dc", "--long=27", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
        process.stdout.close()
