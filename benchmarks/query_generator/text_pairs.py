"""Pairs of query and passage as texts, in a few small files that can be carried elsewhere.

Texts suit every tokenizer: what is trained and what is compared with it reads the same pairs.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.query_generator.recipe import QueryPair

_SHARE = 3.2  # characters that become one byte, at least


@dataclass(frozen=True)
class TextPairs:
    """Pairs, and which of them belong to held-out documents."""

    pairs: list[QueryPair]
    held_out: NDArray[np.bool_]

    def only(self, *, held_out: bool) -> list[QueryPair]:
        """Return the pairs that are held out, or those that are not."""
        return [
            pair
            for pair, is_held in zip(self.pairs, self.held_out.tolist(), strict=True)
            if is_held == held_out
        ]


def save_text_pairs(folder: Path, found: TextPairs, *, most: int) -> list[Path]:
    """Write pairs into files of at most so many bytes; files of an earlier run are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("pairs-*.xz"):
        old.unlink()
    paths = []
    for number, rows in enumerate(_cut(found.pairs, characters=int(most * _SHARE))):
        content = json.dumps(_columns(found, rows), ensure_ascii=False, separators=(",", ":"))
        path = folder / f"pairs-{number}.xz"
        path.write_bytes(lzma.compress(content.encode(), preset=9))
        if path.stat().st_size > most:
            raise ValueError(f"{path} takes {path.stat().st_size:,} bytes, {most:,} are allowed")
        paths.append(path)
    return paths


def load_text_pairs(folder: Path) -> TextPairs:
    """Read what `save_text_pairs` wrote."""
    pairs: list[QueryPair] = []
    held_out: list[bool] = []
    for path in sorted(folder.glob("pairs-*.xz")):
        content = json.loads(lzma.decompress(path.read_bytes()))
        for row, query, source, is_held in zip(
            content["rows"], content["queries"], content["sources"], content["held"], strict=True
        ):
            pairs.append(QueryPair(content["passages"][row], query, content["names"][source]))
            held_out.append(bool(is_held))
    if not pairs:
        raise FileNotFoundError(f"{folder} holds no pairs-*.xz; run query_generator.pack_texts")
    return TextPairs(pairs, np.array(held_out))


def _cut(pairs: Sequence[QueryPair], *, characters: int) -> Iterator[list[int]]:
    """Group pairs in their order, so that the texts of each group take so many characters.

    >>> pairs = [QueryPair("abc", "d"), QueryPair("abc", "e"), QueryPair("efg", "h")]
    >>> list(_cut(pairs, characters=6))
    [[0, 1], [2]]
    """
    rows: list[int] = []
    seen: set[str] = set()
    size = 0
    for row, pair in enumerate(pairs):
        added = len(pair.query) + (0 if pair.passage in seen else len(pair.passage))
        if rows and size + added > characters:
            yield rows
            rows, seen, size = [], set(), 0
            added = len(pair.query) + len(pair.passage)
        rows.append(row)
        seen.add(pair.passage)
        size += added
    if rows:
        yield rows


def _columns(found: TextPairs, rows: Sequence[int]) -> dict[str, list[object]]:
    """List pairs column by column; a passage is written once."""
    chosen = [found.pairs[row] for row in rows]
    passages = {pair.passage: 0 for pair in chosen}
    names = {pair.source: 0 for pair in chosen}
    for known in (passages, names):
        known.update({text: at for at, text in enumerate(known)})
    return {
        "passages": list(passages),
        "names": list(names),
        "rows": [passages[pair.passage] for pair in chosen],
        "queries": [pair.query for pair in chosen],
        "sources": [names[pair.source] for pair in chosen],
        "held": [int(found.held_out[row]) for row in rows],
    }
