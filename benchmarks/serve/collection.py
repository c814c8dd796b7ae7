"""The collection that is served: all sets joined, with vectors that were encoded elsewhere.

Built once into benchmarks/.cache/serve and used again. Docids are the sets' own behind the set's
name; a collection counts rows in the order of adding, so vectors keep their order too.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.encode import load
from benchmarks.hybrid.quality import take_vectors
from benchmarks.lexical.quality import read
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.records import Document

CACHE = Path("benchmarks/.cache/serve")
_DONE = "complete"
_LONGEST_QUERY = 1_000


def make_collection(data: Path, sets: Sequence[str], *, vectors: tuple[Path, Path] | None) -> Path:
    """Build the collection of these sets unless it is there; without vectors, it has BM25 alone."""
    name = "-".join(sets) if len(sets) < 4 else f"{len(sets)}-sets"
    folder = CACHE / f"{name}{'' if vectors else '-lexical'}.quoth"
    marker = folder.with_suffix(f".{_DONE}")
    if marker.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Engine.open(folder) as engine:
        logging.info("adding %s", ", ".join(sets))
        engine.add_documents(_documents(data, sets))
        if vectors is not None:
            take_vectors(engine, _joined_vectors(data, sets, vectors))
            logging.info("encoding what is left, and calibrating")
            engine.encode()
    marker.touch()
    return folder


def sample_queries(data: Path, sets: Sequence[str], *, count: int) -> list[str]:
    """Draw queries of all sets, as many of each as it has to give, in random order."""
    seeded, drawn = random.Random(0), list[str]()
    for name in sets:
        own = [
            query.text
            for query in read_queries(data / name / "queries.jsonl.gz")
            if len(query.text) <= _LONGEST_QUERY
        ]
        drawn += seeded.sample(own, min(len(own), -(-count // len(sets))))
    seeded.shuffle(drawn)
    return drawn[:count]


def _documents(data: Path, sets: Sequence[str]) -> Iterator[Document]:
    for name in sets:
        for document in read(data / name):
            yield replace(document, docid=f"{name}/{document.docid}")


def _joined_vectors(
    data: Path, sets: Sequence[str], vectors: tuple[Path, Path]
) -> tuple[Any, Any, Any]:
    """Put the vectors of the sets one after another, rows counted on."""
    encoded, before = load(*vectors), 0
    rows, units, found = [], [], []
    for name in sets:
        own_rows, own_units, own_vectors = encoded[name]
        rows.append(own_rows + before)
        units.append(own_units)
        found.append(own_vectors)
        before += sum(1 for _document in read(data / name))
    return np.concatenate(rows), np.concatenate(units), np.concatenate(found)
