"""Study what improves the order of reranked hits, on the tables of `ranking.table`.

    python -m benchmarks.learn.ranking.study --tables FOLDER --measured FOLDER

Ideas are compared on queries that may choose, of six collections; what these chose is looked at on
queries that only judge. `--measured` has what `benchmarks.learn.ranking.measure` wrote: search by
the product's own path, before and after learning. Writes results/ranking.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learn.after import CHOSEN_ON
from benchmarks.learn.ranking.orders import Array, Table, counted, mixed, ndcg, raised
from benchmarks.learn.voices import contrast

RESULTS = Path(__file__).parents[1] / "results" / "ranking.json"
SEEDS = (0, 1)
Order = Callable[[Table], Array]
HITS, LATE, LIKELIHOOD = 10, 0.5, 0.004
"""What was chosen: hits looked at, and what either voice weighs."""
SIGNS: Mapping[str, tuple[Callable[[Table], Array], Sequence[float]]] = {
    "best span": (lambda t: t["span"], (0.005, 0.01)),
    "best span − not here": (lambda t: t["span"] - t["start here"] - t["end here"], (0.005, 0.01)),
    "not here": (lambda t: -t["start here"] - t["end here"], (0.005, 0.01)),
    "best evidence − not here": (
        lambda t: t["best evidence"] - t["evidence here"],
        (0.005, 0.01, 0.02),
    ),
    "relevance of a second passage": (
        lambda t: np.fmax(t["relevance of other 0"], -12.0),
        (0.01, 0.02),
    ),
    "length, log of subwords": (lambda t: np.log(t["subwords"] + 1), (0.02, 0.05, 0.1)),
    "hubness of vectors, 256 other queries": (lambda t: t["bank top"], (-0.5, -1.0)),
    "relevance for 4 other queries": (
        lambda t: np.mean([t[f"relevance for bank {at}"] for at in range(4)], axis=0),
        (-0.01, -0.02, -0.03),
    ),
    "cosine": (lambda t: t["cosine"], (0.25, 0.5)),
    "late interaction": (lambda t: t["late"], (0.25, 0.5, 1.0)),
    "log p(query given passage)": (lambda t: t["likelihood"], (0.003, 0.006, 0.012)),
}
"""Signs of a hit and the weights they were given, added before feedback."""


def main() -> None:
    """Study the tables and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing, where nothing was found
    tables = [Table.read(path) for path in sorted(given.tables.glob("*.npz"))]
    found = [json.loads(path.read_text()) for path in sorted(given.measured.glob("*.json"))]
    content = {
        "chosen": {"hits": HITS, "late_interaction": LATE, "late_likelihood": LIKELIHOOD},
        "queries": {t.name: [int(t.chooses.sum()), int(t.judges.sum())] for t in tables},
        "training": [compare(name, order, tables) for name, order in ideas()],
        "looks": [look_row(*key, tables) for key in _grid()],
        "left_out": leave_out(tables),
        "test": [compare(name, order, tables, judge=True) for name, order in chosen()],
        "product": sum_up(found),
        "rows": found,
    }
    given.out.write_text(_by_lines(content))


def plain(table: Table) -> Array:
    """Order hits as the product does before learning."""
    return raised(table, mixed(table))


def with_sign(sign: Callable[[Table], Array], weight: float) -> Order:
    """Order hits with one more sign of each."""

    def order(table: Table) -> Array:
        scores = mixed(table)
        return raised(table, scores + weight * counted(sign(table), scores))

    return order


def with_look(late: float, likelihood: float, *, hits: int = HITS) -> Order:
    """Order hits with a second look at the best ones."""

    def order(table: Table) -> Array:
        scores = mixed(table)
        voices = late * table["late"] + likelihood * table["likelihood"]
        return raised(table, scores + counted(voices, scores, hits=hits))

    return order


def ideas() -> Iterator[tuple[str, Order]]:
    """Yield every idea with the order it leads to."""
    for name, (sign, weights) in SIGNS.items():
        for weight in weights:
            yield f"{name}, {weight:g}", with_sign(sign, weight)
    for hits in (1, 3, 5):
        yield f"feedback from {hits} hits", _with_feedback(hits)
    for depth in (20, 40, 50):
        yield f"{depth} hits read", _with_depth(depth)
    for shift in (-0.1, 0.1):
        yield f"share {shift:+g}", _with_share(shift)
    for slope in (0.05, 0.1):
        yield f"share + {slope:g} · log₂(words / 10)", _with_words(slope)


def chosen() -> Iterator[tuple[str, Order]]:
    """Yield what is looked at on queries that judge."""
    yield "late interaction alone", with_look(LATE, 0.0)
    yield "log p(query given passage) alone", with_look(0.0, LIKELIHOOD)
    yield "both", with_look(LATE, LIKELIHOOD)
    yield "both, 16 hits", with_look(LATE, LIKELIHOOD, hits=16)


def _with_feedback(hits: int) -> Order:
    return lambda table: raised(table, mixed(table), hits=hits)


def _with_depth(depth: int) -> Order:
    return lambda table: raised(table, mixed(table, depth=depth))


def _with_share(shift: float) -> Order:
    return lambda table: raised(table, mixed(table, share=table.about["share"] + shift))


def _with_words(slope: float) -> Order:
    def order(table: Table) -> Array:
        logs = np.log2(np.maximum(table["words"], 1) / 10)
        shares = np.clip(table.about["share"] + slope * logs, 0.1, 0.9)[:, None]
        return raised(table, mixed(table, share=shares))

    return order


def compare(
    name: str, order: Order, tables: Sequence[Table], *, judge: bool = False
) -> dict[str, Any]:
    """Compare an order with the product's, on queries that choose or on those that judge."""
    changes = {}
    for table in tables:
        asked = table.judges if judge else table.chooses
        if asked.any():
            changes[table.name] = (ndcg(table, order(table)) - ndcg(table, plain(table)))[asked]
    return {"idea": name, **contrast(changes)}


def _grid() -> Iterator[tuple[int, float, float]]:
    for hits in (8, 10, 12, 16):
        for late in (0.0, 0.25, 0.5, 0.75):
            for likelihood in (0.0, 0.002, 0.004, 0.006):
                if late or likelihood:
                    yield hits, late, likelihood


def look_row(hits: int, late: float, likelihood: float, tables: Sequence[Table]) -> dict[str, Any]:
    """Compare one setting of the second look on queries that choose."""
    found = compare("", with_look(late, likelihood, hits=hits), tables)
    return {"hits": hits, "late": late, "likelihood": likelihood, **found}


def leave_out(tables: Sequence[Table]) -> dict[str, float]:
    """Choose the weights on all collections but one, and return what that one gains."""
    rows = [look_row(*key, tables) for key in _grid() if key[0] == HITS]
    names = list(rows[0]["by_set"])

    def mean_without(row: Mapping[str, Any], name: str) -> float:
        return statistics.fmean(own for other, own in row["by_set"].items() if other != name)

    return {
        name: max(rows, key=lambda row: mean_without(row, name))["by_set"][name] for name in names
    }


def sum_up(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare the product's states with the one before learning, on queries that judge.

    A state that a collection lacks, as its reranker stayed as it was, is that without fine-tuning.
    Where time ran out before queries were written down, a set's mean alone is known.
    """
    sums = []
    for seed in SEEDS:
        for state in (f"learned {seed}", f"learned {seed}, once"):
            changes, means = {}, {}
            for row in rows:
                own = row["by_query"][_judging(row)]
                before = np.array(own["before"])
                instead = "before" if "once" in state else "before, twice"
                if state in own or f"learned {seed}" in row:
                    found = np.array(own.get(state, own[instead]))
                    changes[row["set"]], means[row["set"]] = found - before, float(found.mean())
                elif state in row.get("means", {}):
                    means[row["set"]] = row["means"][state]
            sums.append(_row(state, changes, means))
    twice = {r["set"]: _scores(r, "before, twice") - _scores(r, "before") for r in rows}
    means = {r["set"]: float(_scores(r, "before, twice").mean()) for r in rows}
    start = {r["set"]: float(_scores(r, "before").mean()) for r in rows}
    return [
        {"state": "before", "mean": round(statistics.fmean(start.values()), 4), "means": start},
        _row("before, twice", twice, means),
        *sums,
    ]


def _row(state: str, changes: Mapping[str, Array], means: Mapping[str, float]) -> dict[str, Any]:
    mean = round(statistics.fmean(means.values()), 4)
    return {"state": state, "mean": mean, "means": dict(means), **contrast(changes)}


def _scores(row: Mapping[str, Any], state: str) -> Array:
    return np.array(row["by_query"][_judging(row)][state])


def _judging(row: Mapping[str, Any]) -> str:
    splits: list[str] = list(row["by_query"])
    return next(split for split in splits if split != CHOSEN_ON.get(row["set"]))


def _by_lines(content: Mapping[str, Any]) -> str:
    """Write a list's rows a line each."""
    parts = []
    for name, own in content.items():
        text = json.dumps(own)
        if isinstance(own, list):
            text = "[\n" + ",\n".join(json.dumps(each) for each in own) + "\n]"
        parts.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
