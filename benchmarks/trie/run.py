"""The trie at ten million identifiers: building, memory, changing, and decoding by every method.

    OMP_NUM_THREADS=1 python -m benchmarks.trie.run [--identifiers 10000000] [--queries 100]

Needs about 6 GB of memory and the short texts; identifiers and queries are simulated from them
(see `simulate.py`). Times are of one thread, and of two for the exact method, on a machine that may
do other things: `wall` is what a clock says, `cpu` what the asking thread used, `load` how many
processes wanted to run. Recall compares with the exact method: the share of its 10 and 100 best
that were found. Writes results/trie.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trie.simulate import (
    Head,
    cut_texts,
    draw_owners,
    make_head,
    make_query,
    read_texts,
    splice,
)
from quoth import __version__
from quoth.index.trie.build import build_trie, update_trie
from quoth.index.trie.files import open_trie, save_trie
from quoth.index.trie.trie import ARRAYS, Sequences, Trie
from quoth.search.generative.decode.config import DecodeConfig
from quoth.search.generative.decode.decoder import Decoded, Decoder
from quoth.search.generative.decode.score_table import PhraseScores

RESULTS = Path(__file__).parent / "results" / "trie.json"
SHORTLISTS = (20_000, 100_000)
METHODS = (("exact", 1), ("exact", 2), ("skim", 1), ("beam", 1), ("best_first", 1))  # and threads
ORDERS = ("ordered", "perm_slots", "bag", "pooled", "bag_cos")
NUM_SLOTS = 10
DEPTH = 100
FEW_QUERIES = 10  # for the method that takes a second each

Queries = list[tuple[PhraseScores, PhraseScores]]


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--texts", type=Path, default=Path("../shared/data/text/short_texts.tsv.zst")
    )
    parser.add_argument("--identifiers", type=int, default=10_000_000)
    parser.add_argument("--phrases", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    texts = cut_texts(read_texts(given.texts), num_phrases=given.phrases)
    with tempfile.TemporaryDirectory() as scratch:
        built = measure_build(texts, given.identifiers, given.phrases, Path(scratch))
        trie = open_trie(Path(scratch))
        head = make_head(texts, trie, seed=2)
        decoding = [
            row
            for num_shortlisted in SHORTLISTS
            for row in measure_decoding(trie, head, num_shortlisted, given.queries)
        ]
    content = {
        "quoth": __version__,
        "machine": platform.machine(),
        "build": built,
        "slots": NUM_SLOTS,
        "depth": DEPTH,
        "reach": DecodeConfig().reach,
        "beam": DecodeConfig().beam,
        "decoding": decoding,
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_build(texts: Sequences, count: int, num_phrases: int, folder: Path) -> dict[str, Any]:
    """Build, save and change a trie; it stays in the folder."""
    sequences = splice(texts, count=2 * count, seed=0)
    owners = draw_owners(2 * count, per_owner=20, seed=1)
    build_trie(_head(sequences, 9), owners=owners[:9], num_phrases=num_phrases)  # compiled by now
    trie, seconds = _time(lambda: build_trie(sequences, owners=owners, num_phrases=num_phrases))
    if len(trie) > count:  # splicing gives doubles: cut to the number asked for
        rows = np.sort(np.random.default_rng(3).permutation(len(trie))[:count])
        sequences, owners = trie.sequences(rows), draw_owners(count, per_owner=20, seed=1)
        trie, seconds = _time(lambda: build_trie(sequences, owners=owners, num_phrases=num_phrases))
    _, saved = _time(lambda: save_trie(trie, folder))
    added, gone = _head(splice(texts, count=20_000, seed=5), 20_000), np.arange(1_000)
    new_owners = draw_owners(20_000, per_owner=20, seed=6) + len(owners)
    update_trie(trie, added=_head(added, 9), owners=new_owners[:9], removed=gone)
    _, changed = _time(lambda: update_trie(trie, added=added, owners=new_owners, removed=gone))
    size_by_array = {name: getattr(trie, name).nbytes for name in ARRAYS}
    raw = trie.phrase_ids.nbytes
    postings = size_by_array["owners"] + size_by_array["owner_starts"]
    found = {
        "identifiers": len(trie),
        "phrases": num_phrases,
        "mean_length": len(trie.phrase_ids) / len(trie),
        "build_seconds": seconds,
        "save_seconds": saved,
        "change_seconds": changed,
        "raw_bytes": raw,
        "bytes": size_by_array,
        "trie_over_raw": (sum(size_by_array.values()) - postings) / raw,
        "postings_over_raw": postings / raw,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    logging.info("%s", found)
    return found


def measure_decoding(
    trie: Trie, head: Head, num_shortlisted: int, num_queries: int
) -> list[dict[str, Any]]:
    """Decode the same queries by every method in every order."""
    queries = [
        make_query(trie, head, num_shortlisted=num_shortlisted, num_slots=NUM_SLOTS, seed=seed)
        for seed in range(num_queries)
    ]
    rows = []
    for order in ORDERS:
        truth: list[Decoded] = []
        for method, threads in METHODS:
            config = DecodeConfig(method=method, order=order, depth=DEPTH)
            own = queries[:FEW_QUERIES] if method == "best_first" else queries
            decoder = Decoder(trie, config, norms=head.norms, threads=threads)
            found, wall, cpu = _decode(decoder, own, order)
            truth = truth or found
            row = {
                "shortlist": num_shortlisted,
                "order": order,
                "method": method,
                "threads": threads,
                "queries": len(own),
                **{f"wall_{name}": value for name, value in _percentiles(wall).items()},
                **{f"cpu_{name}": value for name, value in _percentiles(cpu).items()},
                "load": os.getloadavg()[0],
                "recall_10": _recall(found, truth, 10),
                "recall_100": _recall(found, truth, 100),
            }
            logging.info("%s", row)
            rows.append(row)
    return rows


def _decode(
    decoder: Decoder, queries: Queries, order: str
) -> tuple[list[Decoded], list[float], list[float]]:
    """Decode one query after the other; gives milliseconds by the clock and of this thread."""
    own = [cosines if order == "bag_cos" else scores for scores, cosines in queries]
    decoder.decode(own[:3])
    found, wall, cpu = [], [], []
    for scores in own:
        start, own_start = time.perf_counter(), time.thread_time()
        found += decoder.decode([scores])
        cpu.append(1e3 * (time.thread_time() - own_start))
        wall.append(1e3 * (time.perf_counter() - start))
    return found, wall, cpu


def _percentiles(values: list[float]) -> dict[str, float]:
    return {"p50_ms": float(np.median(values)), "p99_ms": float(np.percentile(values, 99))}


def _recall(found: list[Decoded], truth: list[Decoded], k: int) -> float:
    shares = [
        np.isin(best.rows[:k], own.rows[:k]).mean()
        for own, best in zip(found, truth, strict=False)
        if len(best.rows)
    ]
    return float(np.mean(shares))


def _head(sequences: Sequences, count: int) -> Sequences:
    """Take the first sequences."""
    offsets = sequences.offsets[: count + 1]
    return Sequences(sequences.ids[: offsets[-1]], offsets)


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start


if __name__ == "__main__":
    main()
