"""Whether what fine-tuning the reranker does to a collection repeats, and whether one could know.

    python -m benchmarks.learn.repeats

Reads what `benchmarks.learn.after` and `benchmarks.learn.late` measured (results/after.json,
seeds.json, late.json): trials of the default of `quoth learn` on whole collections, with both seeds
and in several runs. For each collection it lists what every trial changed on the queries that only
judge. Over all trials it correlates that with what held-out queries had shown before, by kind,
which is all that the gate of `quoth learn` sees; with the other trials of the same collection; and
with what reranking had gained there before, which only judgements can tell.
Writes results/repeats.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.learn.after import CHOSEN_ON
from benchmarks.learn.late import BEFORE as WITH_LATE

FOLDER = Path(__file__).parent / "results"
RESULTS = FOLDER / "repeats.json"
SOURCES = {"after": "before", "seeds": "before", "late": WITH_LATE}
"""Result files, and the state that each one's trials began with."""

ARMS = ("learned", "learned, seed 1")
KINDS = ("pseudo-queries", "known items")


class LearningTrial(NamedTuple):
    """One fine-tuning of one collection's reranker."""

    set: str
    change: float
    """Of nDCG@10, mean of the queries that only judge."""

    is_used: bool
    held_out: Mapping[str, float]
    """What held-out queries showed, by kind."""

    reranking: float = 0.0
    """What the reranker gained over the hybrid before it was fine-tuned, on the same queries."""


def main() -> None:
    """Put the trials together and write one JSON file."""
    trials = [each for name, base in SOURCES.items() for each in read_trials(name, base)]
    RESULTS.write_text(json.dumps(sum_up(trials), indent=1) + "\n")


def read_trials(name: str, base: str, *, chooses: bool = False) -> Iterator[LearningTrial]:
    """Yield the trials of one result file, on the queries that only judge or on those that choose.

    Sets without training queries have none that choose.
    """
    for row in json.loads((FOLDER / f"{name}.json").read_text())["rows"]:
        training = CHOSEN_ON.get(row["set"], "")
        splits = [each for each in row["by_query"] if (each == training) == chooses]
        found = row["by_query"][splits[0]] if splits else {}
        for arm in ARMS:
            if arm in found:
                shown = row[arm].get("held_out", {})  # which the first trials did not note
                yield LearningTrial(
                    row["set"],
                    float(np.mean(found[arm]) - np.mean(found[base])),
                    bool(row["used"].get(arm)),
                    {kind: after - before for kind, (before, after) in shown.items()},
                    float(np.mean(found[base]) - np.mean(found["hybrid"])),
                )


def sum_up(trials: Sequence[LearningTrial]) -> dict[str, Any]:
    """Say what the trials changed, and what goes along with it."""
    used = [each.change for each in trials if each.is_used]
    by_set: dict[str, list[float]] = {}
    for each in trials:
        by_set.setdefault(each.set, []).append(round(each.change, 4))
    ordered = sorted(by_set, key=lambda name: -statistics.fmean(by_set[name]))
    return {
        "trials": len(trials),
        "mean": round(statistics.fmean(each.change for each in trials), 4),
        "used": len(used),
        "mean_used": round(statistics.fmean(used), 4),
        "lowest": min(used),
        "highest": max(used),
        "correlation": {
            **{kind: correlate_held_out(trials, kind) for kind in KINDS},
            "other trials": correlate_others(by_set),
            "gain of reranking": correlate((each.reranking, each.change) for each in trials),
        },
        "by_set": {name: by_set[name] for name in ordered},
    }


def correlate_held_out(trials: Sequence[LearningTrial], kind: str) -> float:
    """Correlate what held-out queries of a kind showed with what came of it."""
    return correlate((own.held_out[kind], own.change) for own in trials if kind in own.held_out)


def correlate_others(by_set: Mapping[str, Sequence[float]]) -> float:
    """Correlate each trial with the mean of the others of its collection.

    >>> correlate_others({"a": [0.1, 0.2], "b": [-0.1, -0.2]})
    0.8
    """
    return correlate(
        (own, statistics.fmean([*changes[:at], *changes[at + 1 :]]))
        for changes in by_set.values()
        for at, own in enumerate(changes)
        if len(changes) > 1
    )


def correlate(pairs: Iterable[tuple[float, float]]) -> float:
    """Correlate two lists of numbers."""
    return round(float(np.corrcoef(np.array(list(pairs)).T)[0, 1]), 3)


if __name__ == "__main__":
    main()
