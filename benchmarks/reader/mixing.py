"""What a reranker says, mixed with the first search in any share, and what that is worth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

READ = 50
"""Documents that are read for a query."""
SHARES = tuple(round(0.1 * step, 1) for step in range(11))
Read = dict[str, NDArray[Any]]
"""What was read for each query: `fused`, `relevance`, `margins` and `grades` (Q, READ), NaN and 0
where fewer were found; `ideal` (Q,), the best DCG at 10 that all judged documents allow."""


def save_read(path: Path, read: Mapping[str, Read]) -> None:
    """Keep what was read of each collection."""
    arrays = {f"{name}/{key}": value for name, own in read.items() for key, value in own.items()}
    np.savez_compressed(path, **arrays)


def open_read(path: Path) -> dict[str, Read]:
    """Open what `save_read` wrote."""
    found: dict[str, Read] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            name, part = key.split("/")
            found.setdefault(name, {})[part] = arrays[key]
    return found


def mixed_quality(
    own: Read, *, share: float, depth: int, width: float = 0.0
) -> NDArray[np.float64]:  # (Q,)
    """Return nDCG@10 of each query, its first `depth` documents mixed anew.

    With a width, relevance counts in units of it, above that of the least relevant document, and
    fused scores as they are; without one, both reach from 0 to 1 for every query.
    """
    fused, relevance = own["fused"][:, :depth], own["relevance"][:, :depth]
    if width:
        mixed = (1 - share) * fused + share * (relevance - _least(relevance)) / width
    else:
        mixed = (1 - share) * _scale(fused) + share * _scale(relevance)
    order = np.argsort(-np.nan_to_num(mixed, nan=-9.0), axis=1, kind="stable")[:, :10]
    gains = np.take_along_axis(np.maximum(own["grades"][:, :depth], 0), order, axis=1)
    reached = (gains / np.log2(2 + np.arange(gains.shape[1]))).sum(1)
    return np.divide(reached, own["ideal"], out=np.zeros_like(reached), where=own["ideal"] > 0)


def usual_width(read: Iterable[Read]) -> float:
    """Return how far the relevance of a query's documents usually reaches."""
    widths = [np.nanmax(own["relevance"], axis=1) - _least(own["relevance"])[:, 0] for own in read]
    return float(np.median(np.concatenate(widths)))


def _least(scores: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.nanmin(scores, axis=1, keepdims=True))


def _scale(scores: NDArray[Any]) -> NDArray[Any]:
    width = np.nanmax(scores, axis=1, keepdims=True) - _least(scores)
    return np.where(width > 0, (scores - _least(scores)) / np.where(width > 0, width, 1.0), 1.0)


def make_table(read: Mapping[str, Read], *, depth: int, width: float) -> dict[str, list[float]]:
    """Return nDCG@10 of each collection for every share."""
    return {
        name: [
            float(mixed_quality(own, share=share, depth=depth, width=width).mean())
            for share in SHARES
        ]
        for name, own in read.items()
    }


def print_table(path: Path, *, width: float = 0.0) -> None:
    """Print nDCG@10 by share and depth, and what the best share of each collection gives."""
    for depth in (30, READ):
        table = make_table(open_read(path), depth=depth, width=width)
        print(f"first {depth}: nDCG@10 by share of the reranker")
        print(f"{'':24}" + "".join(f"{share:7}" for share in SHARES))
        rows = np.array(list(table.values()))
        for name, row in zip([*table, "mean"], [*rows, rows.mean(0)], strict=True):
            print(f"{name:24}" + "".join(f"{value:7.4f}" for value in row))
        print(f"{'best share of each set':24}{rows.max(1).mean():7.4f}", flush=True)


def write_results(held_out: Path, collections: Path, out: Path) -> None:
    """Write the tables of held-out training queries and of the collections, mixed both ways."""
    read = {"held_out": open_read(held_out), "collections": open_read(collections)}
    width = usual_width(read["held_out"].values())
    lines = [json.dumps({"shares": SHARES, "usual_width": width})]
    for kind, own in read.items():
        for depth in (30, READ):
            for normalise, used in (("min_max", 0.0), ("range", width)):
                for name, row in make_table(own, depth=depth, width=used).items():
                    about = {"of": kind, "depth": depth, "normalise": normalise, "set": name}
                    values = [round(value, 4) for value in row]
                    lines.append(json.dumps({**about, "ndcg10": values}))
    out.write_text("[\n" + ",\n".join(lines) + "\n]\n")
