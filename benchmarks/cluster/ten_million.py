"""Ten million passages in four shards on one machine, step by step.

    python -m benchmarks.cluster.ten_million FOLDER [--passages 10000000] [--rounds 10] [--shards 4]

FOLDER takes the collection (about 45 GB at ten million, the merged one and the one that was added
in one piece included). `rounds.py` says how the passages are made, `mixtures.py` how their vectors.
Passages are added round by round, so that a cost which grows with the collection shows. Each step
is a process of its own and is written to FOLDER/steps when it is done; a second start goes on with
what is missing. A step that was killed is done again, and finds what it had written. Vectors, and
the collection in one piece that the work of shards is compared with, can be made meanwhile by a
second process (`--steps sample,vectors-0,…`, `--steps whole-0,…`). After each step,
results/ten_million.json holds all that are done.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import platform
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cluster import big_steps, mixtures
from benchmarks.cluster.apart import Step, run_apart
from benchmarks.cluster.build import WORDS
from quoth import __version__
from quoth.artifact import write_text_atomically

RESULTS = Path(__file__).parent / "results" / "ten_million.json"
BY_VECTORS = ("lexical", "dense", "hybrid")


def main() -> None:
    """Do the steps that were not done yet."""
    given = make_parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    kept = given.folder / "steps"
    kept.mkdir(parents=True, exist_ok=True)
    steps = list_steps(given)
    for name in given.steps.split(",") if given.steps else steps:
        path = kept / f"{name}.json"
        if not path.exists():
            row = run_apart(name, steps[name], given.folder)
            write_text_atomically(path, json.dumps(row, indent=1) + "\n")
        collect(given, list(steps))


def make_parser() -> argparse.ArgumentParser:
    """Say what can be asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=10, help="passages are added in")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--steps", default="", help="only these, in the order given")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser


def list_steps(given: argparse.Namespace) -> dict[str, Step]:
    """List all steps in their order."""
    shards, merged = given.folder / "shards.quoth", given.folder / "merged.quoth"
    whole, vectors = given.folder / "whole.quoth", given.folder / "vectors"
    data, rounds, num_shards = given.data, given.rounds, given.shards
    count = given.passages // rounds
    find = partial(big_steps.search, data=data, num_queries=given.queries)
    sample = partial(
        mixtures.encode_sample, vectors, data, count=count, rounds=rounds, num_shards=num_shards
    )
    return {
        **{
            f"add-{number}": partial(
                big_steps.add_round, shards, data, number, count=count, num_shards=num_shards
            )
            for number in range(rounds)
        },
        "search": partial(find, shards, searchers=("lexical",)),
        **{
            f"whole-{number}": partial(
                big_steps.add_round, whole, data, number, count=count, num_shards=0
            )
            for number in range(rounds)
        },
        "work-whole": partial(big_steps.work, shards, whole, data=data, num_queries=given.queries),
        "remove": partial(big_steps.remove_tenth, shards, data, count=count, rounds=rounds),
        "search-removed": partial(find, shards, searchers=("lexical",)),
        "verify": partial(big_steps.verify, shards),
        "sample": sample,
        **{
            f"vectors-{number}": partial(mixtures.build_vectors, vectors, number)
            for number in range(num_shards)
        },
        "search-codes": partial(
            mixtures.search_codes,
            vectors,
            data,
            num_queries=given.queries,
            num_shards=num_shards,
        ),
        "install": partial(mixtures.install_vectors, vectors, shards),
        "search-vectors": partial(find, shards, searchers=BY_VECTORS),
        "verify-vectors": partial(big_steps.verify, shards),
        "merge": partial(big_steps.merge, shards, merged),
        "search-merged": partial(find, merged, searchers=BY_VECTORS),
        "work": partial(big_steps.work, shards, merged, data=data, num_queries=given.queries),
        "verify-merged": partial(big_steps.verify, merged),
    }


def collect(given: argparse.Namespace, names: list[str]) -> None:
    """Write all steps that are done into one file."""
    paths = {name: given.folder / "steps" / f"{name}.json" for name in names}
    done: dict[str, Any] = {
        name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()
    }
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "passages": given.passages,
        "shards": given.shards,
        "rounds": given.rounds,
        "words": WORDS,
        "sample": mixtures.SAMPLE,
        "steps": done,
    }
    given.out.parent.mkdir(exist_ok=True)
    write_text_atomically(given.out, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
