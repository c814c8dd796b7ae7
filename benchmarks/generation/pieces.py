"""Training texts: how they are read, cut into passages and held out, with nothing but Python."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from quoth.text.passages import PassageConfig, cut_text

PIECE = PassageConfig(max_words=120)
HELD_OUT = 0.02


def cut_pieces(text: str) -> list[str]:
    """Cut a text into passages; white space becomes single spaces."""
    cut = (text[span.start : span.end] for span in cut_text(text, PIECE))
    return [joined for each in cut if (joined := " ".join(each.split()))]


def read_pairs(folder: Path) -> list[tuple[str, str]]:
    """Read the training questions' ids with the documents that answer them."""
    with gzip.open(folder / "qrels" / "train.tsv.gz", "rt", encoding="utf-8") as stream:
        next(stream)
        rows = [line.rstrip("\n").split("\t") for line in stream]
    return [(qid, docid) for qid, docid, grade in rows if int(grade) > 0]


def read_articles(path: Path) -> Iterator[dict[str, Any]]:
    """Read compressed articles."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)


def read_lines(path: Path) -> Iterable[dict[str, Any]]:
    """Read compressed JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def is_held_out(text: str) -> bool:
    """Hold out passages by their text, so that one is always on the same side."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return number % 10_000 < HELD_OUT * 10_000
