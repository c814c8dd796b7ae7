"""Write queries for the texts of the experiment that settles GLOW, in several processes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.learn.generate import load as load_generator

NUM_FIELD_QUERIES, NUM_TRAINED = 3, 4
TEMPERATURE = 0.7
_BLOCK = 5_000

_loaded: dict[str, Any] = {}


def write_all(
    sets: Sequence[dict[str, Any]],
    passages: Sequence[Sequence[str]],
    given: argparse.Namespace,
    context: Any,
) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Write queries for all sets, and for as many passages as there is time, in several processes.

    A process writes a block at a time; none is begun when time is up.
    """
    deadline = time.time() + given.write_seconds
    start = (given.generator, given.encoder)
    both = NUM_FIELD_QUERIES + NUM_TRAINED
    blocks = [passages[at : at + _BLOCK] for at in range(0, len(passages), _BLOCK)]
    with ProcessPoolExecutor(given.writers, context, _start_writer, start) as pool:
        of_sets = [
            pool.submit(_write_block, [tuple(row) for row in own["documents"]], NUM_FIELD_QUERIES)
            for own in sets
        ]
        of_passages = [
            pool.submit(_write_block, [(row[0], row[1]) for row in block], both, deadline)
            for block in blocks
        ]
        written: list[list[str]] = []
        for each in of_passages:
            if not (own := each.result()):
                break
            written += own
            print(f"{len(written):,} passages, {given.write_seconds} s at most", flush=True)
        return [each.result() for each in of_sets], written


def _start_writer(generator: Path, encoder: Path) -> None:
    _loaded["generator"] = load_generator(generator, encoder)


def _write_block(
    rows: Sequence[tuple[str, str]], count: int, deadline: float = float("inf")
) -> list[list[str]]:
    return [] if time.time() > deadline else write_queries(_loaded["generator"], rows, count)


def write_queries(generator: Any, rows: Sequence[tuple[str, str]], count: int) -> list[list[str]]:
    """Write queries for documents, each read as the generator usually reads it: title first."""
    texts = ["\n".join(part for part in row if part) for row in rows]
    torch.backends.cuda.matmul.allow_tf32 = True
    found: list[list[str]] = generator.generate(
        texts, per_passage=count, temperature=TEMPERATURE, seed=0
    )
    return found
