"""Sum up what the laboratory judged: every state against the encoder as it was.

    python -m benchmarks.learn.lab.report OUT.json [MORE.json …]

Differences are paired by query. A state's mean is that of the collections' means; its interval is
a bootstrap over the queries of each collection. *chosen*: of the states of one arm, the one that
held-out queries like best, and only where its rise on them is beyond chance. Writes
../results/lab.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parents[1] / "results" / "lab.json"
RANKINGS = ("dense", "fused", "reranked")
BEFORE = "before"
JUDGES = ("generated fused", "items fused")
_RESAMPLES, _LEVEL = 2000, 0.9

Quality = Mapping[str, NDArray[np.float64]]
States = dict[str, dict[str, Quality]]
"""Collection → state → what was judged → nDCG@10 of each query."""


def main() -> None:
    """Read what was judged, print and write the sums."""
    rows: list[dict[str, Any]] = []
    for path in map(Path, sys.argv[1:]):
        content = json.loads(path.read_text())
        rows += content["rows"]
    found: States = {}
    for row in rows:
        own = {name: np.array(each) for name, each in row["quality"].items()}
        found.setdefault(row["set"], {})[row["state"]] = own
    states = list(dict.fromkeys(row["state"] for row in rows))
    summed = [sum_up(found, state) for state in states]
    summed += [choose(found, states, arm) for arm in arms_of(states)]
    text = ",\n".join(json.dumps(each) for each in summed)
    about = {key: content[key] for key in ("device", "settings")}
    table = ",\n".join(json.dumps(each) for each in tabulate(found))
    RESULTS.write_text(
        f'{{"about": {json.dumps(about)},\n"states": [\n{text}\n],\n"sets": [\n{table}\n]}}\n'
    )
    for each in summed:
        print(each["state"], each["sets"], each["test"])


def arms_of(states: Sequence[str]) -> list[str]:
    """Name the arms that states belong to."""
    return list(dict.fromkeys(state.split("~")[0] for state in states if "~" in state))


def tabulate(found: States) -> list[dict[str, Any]]:
    """List what each state scores on each collection."""
    return [
        {
            "set": name,
            "state": state,
            "queries": len(own["test fused"]),
            **{kind: round(float(each.mean()), 4) for kind, each in own.items()},
        }
        for name, states in found.items()
        for state, own in states.items()
    ]


def sum_up(found: States, state: str) -> dict[str, Any]:
    """Compare a state with the encoder as it was, over the collections that have it."""
    pairs = {name: (own[BEFORE], own[state]) for name, own in found.items() if state in own}
    return {"state": state, "sets": len(pairs), "test": compare(pairs)}


def compare(pairs: Mapping[str, tuple[Quality, Quality]]) -> dict[str, Any]:
    """Return mean before and after, difference, interval, and the worst collection."""
    compared: dict[str, Any] = {}
    for ranking in RANKINGS:
        key = f"test {ranking}"
        if not pairs:
            continue
        changes = {name: after[key] - before[key] for name, (before, after) in pairs.items()}
        means = {name: float(own.mean()) for name, own in changes.items()}
        low, high = interval(list(changes.values()))
        compared[ranking] = {
            "before": round(float(np.mean([old[key].mean() for old, _new in pairs.values()])), 4),
            "difference": round(float(np.mean(list(means.values()))), 4),
            "low": round(low, 4),
            "high": round(high, 4),
            "worst": min(means, key=means.__getitem__),
            "worst_difference": round(min(means.values()), 4),
        }
    return compared


def interval(changes: Sequence[NDArray[np.float64]], level: float = 0.95) -> tuple[float, float]:
    """Bootstrap the mean of the collections' means over the queries of each."""
    chance = np.random.default_rng(0)
    drawn = [own[chance.integers(len(own), size=(_RESAMPLES, len(own)))].mean(1) for own in changes]
    means = np.mean(drawn, axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def choose(found: States, states: Sequence[str], arm: str) -> dict[str, Any]:
    """Let held-out queries choose among the states of an arm, the old encoder among them."""
    pairs, taken = {}, {}
    for name, own in found.items():
        tried = [state for state in states if state.startswith(f"{arm}~") and state in own]
        if not tried:
            continue
        best = max(tried, key=lambda state: np.mean(rises(own, state)))
        low, _high = interval(changes_of(own, best), level=2 * _LEVEL - 1)
        chosen = best if low > 0 else BEFORE
        taken[name] = chosen
        pairs[name] = (own[BEFORE], own[chosen])
    return {"state": f"{arm} chosen", "sets": len(pairs), "test": compare(pairs), "taken": taken}


def rises(own: Mapping[str, Quality], state: str) -> list[float]:
    """Return the rise on each kind of held-out queries."""
    return [float(each.mean()) for each in changes_of(own, state)]


def changes_of(own: Mapping[str, Quality], state: str) -> list[NDArray[np.float64]]:
    """Return the changes on held-out queries, kind by kind."""
    return [own[state][kind] - own[BEFORE][kind] for kind in JUDGES if kind in own[BEFORE]]


if __name__ == "__main__":
    main()
