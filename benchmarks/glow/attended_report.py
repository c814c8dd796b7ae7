"""Sum up what `attended` judged: shares of question words with intervals over documents.

Scores of a document are averaged over seeds first; then documents are drawn again, and differences
to no weights are paired by document, trained with trained and untrained with untrained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from quoth.evaluation.significance import difference_interval, mean_interval

AGAINST = "none"
UNTRAINED = ", untrained"
SCORES = ("attention", "products", "RR@10")

Run = Mapping[str, Any]


def sum_up(
    runs: Sequence[Run], controls: Mapping[str, Sequence[float]]
) -> dict[str, list[dict[str, Any]]]:
    """Return a row for each arm, trained or not, and one for each control."""
    runs_by_arm: dict[str, list[Run]] = {}
    for run in runs:
        name = run["arm"] if run["steps"] else run["arm"] + UNTRAINED
        runs_by_arm.setdefault(name, []).append(run)
    arms = [describe(arm, runs_by_arm) for arm in runs_by_arm]
    return {
        "arms": arms
        + [{"arm": name, "attention": told(scores)} for name, scores in controls.items()]
    }


def describe(arm: str, runs_by_arm: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Return the means of an arm, what it differs by from no weights, and what is shown of it."""
    own = runs_by_arm[arm]
    row: dict[str, Any] = {"arm": arm, "seeds": sorted(run["seed"] for run in own)}
    against = AGAINST + (UNTRAINED if arm.endswith(UNTRAINED) else "")
    both = shared_seeds(own, runs_by_arm.get(against, ()))
    for name in SCORES:
        row[name] = told(over_seeds(own, name))
        if arm != against and both:
            first = over_seeds([run for run in own if run["seed"] in both], name)
            second = [run for run in runs_by_arm[against] if run["seed"] in both]
            row[f"{name} against none"] = compared(first, over_seeds(second, name))
    if own[0]["steps"]:
        row["seconds"] = round(fmean(run["seconds"] for run in own), 1)
        row["loss"] = round(fmean(run["loss"] for run in own), 4)
    row["shown"] = min(own, key=lambda run: int(run["seed"]))["shown"]
    return row


def shared_seeds(first: Sequence[Run], second: Sequence[Run]) -> set[int]:
    """Return the seeds that both have."""
    return {run["seed"] for run in first} & {run["seed"] for run in second}


def over_seeds(runs: Sequence[Run], name: str) -> list[float]:
    """Average the scores of each document over seeds.

    >>> runs = [{"scores": {"rr": [1.0, 0.0]}}, {"scores": {"rr": [0.5, 0.0]}}]
    >>> over_seeds(runs, "rr")
    [0.75, 0.0]
    """
    return [fmean(scores) for scores in zip(*(run["scores"][name] for run in runs), strict=True)]


def told(scores: Sequence[float]) -> dict[str, float]:
    """Return the mean and its interval."""
    interval = mean_interval(scores)
    return {
        "mean": round(fmean(scores), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


def compared(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """Return the mean difference and its interval, paired by document."""
    interval = difference_interval(first, second)
    return {
        "difference": round(fmean(first) - fmean(second), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }
