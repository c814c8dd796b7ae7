"""What late interaction adds to what people see, before `quoth learn` and after it.

    python -m benchmarks.learn.late [--data ../shared/data/ir] [--sets cisi,scifact] [--seeds 0,1]
    python -m benchmarks.learn.late --join FILE …

Whole collections, through `Engine`, as `benchmarks.learn.after` does: add, encode (which
calibrates), search by `auto`. *without* is the default; the other states differ from it in
`rerank.late_interaction` and `rerank.late_hits` alone. *learned* is *1 of 8* after `learn`, once
for each seed, used only where held-out queries show a gain. Training queries, where a set has
some, choose among the settings; test queries only judge.

Where there is a GPU, networks read and train on it. `--join` puts together what several processes
wrote, each for its own sets. Writes results/late.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learn.after import CHOSEN_ON, Trial
from benchmarks.learn.voices import contrast
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth import __version__
from quoth.engine.models import LoadedModels
from quoth.engine.reranking import identify_reranker
from quoth.models.pretrained import find_shipped

RESULTS = Path(__file__).parent / "results" / "late.json"
BEFORE, WITHOUT, HYBRID, LEARNED = "1 of 8", "without", "hybrid", "learned"

_Settings = dict[str, dict[str, Any]]


def weighted(weight: float, hits: int) -> _Settings:
    """Return the settings of one state."""
    return {"rerank": {"late_interaction": weight, "late_hits": hits}}


STATES: Mapping[str, _Settings] = {
    BEFORE: weighted(1.0, 8),
    WITHOUT: weighted(0.0, 8),
    "0.5 of 8": weighted(0.5, 8),
    "2 of 8": weighted(2.0, 8),
    "1 of 4": weighted(1.0, 4),
    "1 of 16": weighted(1.0, 16),
    "1 of 30": weighted(1.0, 30),
}
"""Weight, and how many of the best hits are compared."""


def main() -> None:
    """Measure the sets that were asked for, or put together what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--seeds", default="0,1", help="Of learning; empty: nothing is learned.")
    parser.add_argument("--join", type=Path, nargs="*", help="Files to put together.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if given.join:
        parts = [json.loads(path.read_text()) for path in given.join]
        write([row for part in parts for row in part["rows"]], given.out, parts[0]["device"])
        return
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    device = name_device()
    models = GpuModels() if read_on_gpu() else LoadedModels()
    rows: list[dict[str, Any]] = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(given.data / name, Path(scratch), models, most=given.queries)
            seeds = given.seeds.split(",") if given.seeds else []
            for row in trial.measure(
                STATES, {LEARNED: {}}, seeds, voices=False, learned=STATES[BEFORE]
            ):
                write([*rows, row], given.out, device)
            rows.append(row)


def name_device() -> str:
    """Say where networks read."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def write(rows: Sequence[Mapping[str, Any]], path: Path, device: str) -> None:
    """Write what was measured and its sums, a row to a line."""
    ordered = sorted(rows, key=lambda each: str(each["set"]))
    about = {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "device": device,
        "chosen_on": CHOSEN_ON,
        "training": sum_up(ordered, chooses=True),
        "test": sum_up(ordered, chooses=False),
        "learning": sum_up_learning(ordered),
    }
    head = json.dumps(about, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in ordered)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def sum_up(rows: Iterable[Mapping[str, Any]], *, chooses: bool) -> list[dict[str, Any]]:
    """Compare every state with none, paired by query: means of sets, and an interval."""
    changes: dict[str, dict[str, Any]] = {}
    means: dict[str, list[float]] = {}
    for row in rows:
        for split, found in row["by_query"].items():
            if WITHOUT not in found or (CHOSEN_ON.get(row["set"]) == split) != chooses:
                continue
            for state in (HYBRID, *STATES):
                own = np.array(found[state])
                means.setdefault(state, []).append(float(own.mean()))
                changes.setdefault(state, {})[row["set"]] = own - np.array(found[WITHOUT])
    return [
        {"state": state, "mean": round(float(np.mean(means[state])), 4), **contrast(own)}
        for state, own in changes.items()
    ]


def sum_up_learning(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare what learning installs with what was before, on the queries that only judge."""
    changes: dict[str, dict[str, Any]] = {}
    means: dict[str, list[float]] = {}
    for row in rows:
        for split, found in row["by_query"].items():
            if CHOSEN_ON.get(row["set"]) == split:
                continue
            before = np.array(found[BEFORE])
            for state in (each for each in found if each.startswith(LEARNED)):
                used = row["used"].get(state, False)
                own = np.array(found[state]) if used else before
                means.setdefault(state, []).append(float(own.mean()))
                changes.setdefault(state, {})[row["set"]] = own - before
    return [
        {"state": state, "mean": round(float(np.mean(means[state])), 4), **contrast(own)}
        for state, own in changes.items()
    ]


if __name__ == "__main__":
    main()
