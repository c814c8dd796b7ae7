"""Sum up what the laboratory judged: every state against the encoder as it was.

    python -m benchmarks.learn.lab.report OUT.json [MORE.json …] [--to rivals]

Differences are paired by query. A state's mean is that of the collections' means; its interval is
a bootstrap over the queries of each collection. *chosen*: of the states of one arm, the one that
held-out queries like best, and only where its rise on them is beyond chance. *voices*: who else
reads the first hits of the encoder as it was. Writes ../results/lab.json, or a file of another
name beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.lab.fusion import WIDTH, ndcg

RESULTS = Path(__file__).parents[1] / "results"
RANKINGS = ("dense", "fused", "reranked")
BEFORE = "before"
JUDGES = ("generated fused", "items fused")
LIKELY_WIDTH = 40.0
VOICES: tuple[dict[str, Any], ...] = (
    {"name": "fused alone", "reader": "none", "likelihood": 0.0},
    {"name": "reader", "reader": "read", "likelihood": 0.0},
    {"name": "fitted reader", "reader": "adapted", "likelihood": 0.0},
    {"name": "reader fitted half the way", "reader": "half adapted", "likelihood": 0.0},
    {"name": "reader, likelihood 0.1", "reader": "read", "likelihood": 0.1},
    {"name": "reader, likelihood 0.2", "reader": "read", "likelihood": 0.2},
    {"name": "half the way, likelihood 0.1", "reader": "half adapted", "likelihood": 0.1},
    {"name": "half the way, likelihood 0.2", "reader": "half adapted", "likelihood": 0.2},
)
_RESAMPLES, _LEVEL = 2000, 0.9

Quality = Mapping[str, NDArray[np.float64]]
States = dict[str, dict[str, Quality]]
"""Collection → state → what was judged → nDCG@10 of each query."""


def main() -> None:
    """Read what was judged, print and write the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("judged", type=Path, nargs="+")
    parser.add_argument("--to", default="lab")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    voices: dict[str, Any] = {}
    for path in given.judged:
        content = json.loads(path.read_text())
        rows += content["rows"]
        voices |= content["voices"]
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
    heard = [hear(voices, **each) for each in VOICES]
    spoken = ",\n".join(json.dumps(each) for each in heard)
    (RESULTS / f"{given.to}.json").write_text(
        f'{{"about": {json.dumps(about)},\n"states": [\n{text}\n],\n"voices": [\n{spoken}\n],\n'
        f'"sets": [\n{table}\n]}}\n'
    )
    for each in (*summed, *heard):
        print(each)


def hear(voices: Mapping[str, Any], *, name: str, reader: str, likelihood: float) -> dict[str, Any]:
    """Compare a mix of voices with what is reranked by the reader as it was."""
    changes = {
        each: mix_voices(own, reader, likelihood) - mix_voices(own, "read", 0.0)
        for each, own in voices.items()
    }
    means = {each: float(own.mean()) for each, own in changes.items()}
    low, high = interval(list(changes.values()))
    return {
        "voices": name,
        "sets": len(means),
        "before": round(fmean(mix_voices(own, "read", 0.0).mean() for own in voices.values()), 4),
        "difference": round(fmean(means.values()), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "worst": min(means, key=means.__getitem__),
        "worst_difference": round(min(means.values()), 4),
        "by_set": {each: round(mean, 4) for each, mean in means.items()},
    }


def mix_voices(own: Mapping[str, Any], reader: str, likelihood: float) -> NDArray[np.float64]:
    """Return nDCG@10 of each query, its first hits mixed as the product would."""
    share = own["share"] if reader != "none" else 0.0
    fused, read, likely = (
        np.array(own[each]) for each in ("fused", "read" if share == 0 else reader, "likelihood")
    )
    mixed = (1 - share) * fused + share * (read - read.min(1, keepdims=True)) / WIDTH
    mixed = mixed + likelihood * (likely - likely.min(1, keepdims=True)) / LIKELY_WIDTH
    order = np.argsort(-mixed, axis=1, kind="stable")
    return ndcg(
        np.take_along_axis(np.array(own["grades"], float), order, 1), np.array(own["ideal"])
    )


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
