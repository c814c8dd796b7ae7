"""What a reader is trained on and judged by, opened with its neighbours, and drawn by shares."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.reader.neighbours import SubwordHybrid
from benchmarks.reader.rerank import Candidates
from quoth.models.pretrained import load_encoder
from quoth.models.reader.inputs import ReaderInputs
from quoth.training.reading.set import PAIR, ReadingSet, join_sets, open_reading_set

CACHE = Path("benchmarks/.cache/reader")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what says which examples are opened, and where they are."""
    parser.add_argument("--encoder", type=Path, required=True, help="folder of MiniLM")
    parser.add_argument("--reading", type=Path, default=CACHE / "reading.bin")
    parser.add_argument("--pairs", type=Path, default=CACHE / "pairs.bin")
    parser.add_argument("--opened", type=Path, help="what an earlier run opened, or keep it here")
    parser.add_argument("--only", default="", choices=("", "reading", "pairs"))
    parser.add_argument("--judge-reranking", type=int, default=1_500, help="held-out queries")
    parser.add_argument("--processes", type=int, default=1, help="processes that find neighbours")


def open_sets(
    given: argparse.Namespace, inputs: ReaderInputs, device: torch.device
) -> tuple[ReadingSet, list[Candidates]]:
    """Open what is trained on, with neighbours as a hybrid finds them, and what is judged."""
    if given.opened and given.opened.exists():
        kept: tuple[ReadingSet, list[Candidates]] = pickle.loads(given.opened.read_bytes())
        return kept
    encoder = load_encoder(given.encoder).to(device).eval()
    sets, judged = [], []
    for path in (given.reading, given.pairs):
        if given.only in ("", path.stem):
            hybrid = SubwordHybrid(open_reading_set(path), encoder, inputs, device)
            sets.append(hybrid.add_neighbours(given.processes))
            judged += hybrid.held_out_candidates(given.judge_reranking)
    opened = (sets[0] if len(sets) == 1 else join_sets(*sets)), judged
    if given.opened:
        part = given.opened.with_suffix(".part")
        part.write_bytes(pickle.dumps(opened))
        part.rename(given.opened)
    return opened


def training_rows(reading: ReadingSet, given: argparse.Namespace) -> NDArray[np.int64]:
    """Choose what is trained on."""
    left_out = [reading.sources.index(each) for each in given.leave_out.split(",") if each]
    used = np.flatnonzero(~reading.held_out & ~np.isin(reading.source_ids, left_out))
    if not given.shares:
        return used
    wanted = dict(each.split("=") for each in given.shares.split(",") if each)
    names = np.array(reading.sources)[reading.source_ids[used]]
    names = np.where(reading.kinds[used] == PAIR, "pairs", names)
    parts = [(float(share), used[names == name]) for name, share in wanted.items()]
    rest = 1.0 - sum(share for share, _rows in parts)
    others = used[~np.isin(names, list(wanted))]
    return draw_shares([*parts, (rest, others)], len(used), np.random.default_rng(given.seed))


def draw_shares(
    parts: Sequence[tuple[float, NDArray[np.int64]]], total: int, chance: np.random.Generator
) -> NDArray[np.int64]:
    """Draw rows by shares, each part's as evenly as can be: some again, or some not at all.

    >>> parts = [(0.75, np.arange(2)), (0.25, np.arange(5, 9))]
    >>> np.bincount(draw_shares(parts, 8, np.random.default_rng(0)))[:2].tolist()
    [3, 3]
    """
    drawn = []
    for share, rows in parts:
        count = round(share * total)
        times = range(-(-count // max(1, len(rows))))
        drawn += [np.concatenate([rows[:0], *(chance.permutation(rows) for _ in times)])[:count]]
    return np.concatenate(drawn)
