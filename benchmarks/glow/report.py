"""Sum up what `run_gpu` measured: means over sets and seeds, and whether differences are real.

    python -m benchmarks.glow.report results-1.json [results-2.json …]

Files with the same settings are joined; what results/glow.json
holds of other settings stays. Each set counts the same, whatever its number of queries.
A variant is compared with `none` (variants with fields also with `fields_none`) on the seeds that
both have: scores are averaged over seeds per query, then paired by query; p-values are corrected
after Holm over all comparisons of one setting. Writes results/glow.json.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from quoth.evaluation.significance import difference_interval, holm, randomisation_test

RESULTS = Path(__file__).parent / "results" / "glow.json"
MEASURES = {"nDCG@10": "ndcg", "RR@10": "mrr"}
SETTINGS = ("loss", "start", "towers", "pooling", "steps", "batch_size", "learning_rate")
LATER_SETTINGS = ("layers", "layout", "idf")  # those that early results do not name

Run = dict[str, Any]


def main() -> None:
    """Read results, sum them up, print them and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    experiments = [sum_up(own) for own in join(given.results)]
    experiments = replace_equal(given.out, experiments)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"experiments": experiments}, indent=1) + "\n")
    for each in experiments:
        print(render(each))


def join(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Join the runs of files with the same settings; of equal runs the last counts."""
    joined: dict[str, dict[str, Any]] = {}
    for path in paths:
        content = json.loads(path.read_text())
        settings = {name: content["settings"][name] for name in SETTINGS}
        settings |= {
            name: content["settings"][name]
            for name in LATER_SETTINGS
            if name in content["settings"]
        }
        own = joined.setdefault(json.dumps(settings), content | {"settings": settings, "runs": {}})
        own["runs"] |= {(run["variant"], run["seed"]): run for run in content["runs"]}
    return list(joined.values())


def replace_equal(path: Path, experiments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep what the file holds of other settings, in its place, and append what is new."""
    known = json.loads(path.read_text())["experiments"] if path.exists() else []
    made = {json.dumps(each["settings"]): each for each in experiments}
    kept = [made.pop(json.dumps(each["settings"]), each) for each in known]
    return kept + list(made.values())


def sum_up(experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the means and the comparisons of one setting."""
    runs_by_variant: dict[str, dict[int, Run]] = defaultdict(dict)
    for (variant, seed), run in experiment["runs"].items():
        runs_by_variant[variant][seed] = run
    rows = [describe(variant, runs) for variant, runs in runs_by_variant.items()]
    comparisons = [
        compare(variant, against, runs_by_variant)
        for variant in runs_by_variant
        for against in ("none", "fields_none")
        if is_compared(variant, against, runs_by_variant)
    ]
    for measure in MEASURES:
        corrected = holm([each[measure]["p"] for each in comparisons])
        for each, p in zip(comparisons, corrected, strict=True):
            each[measure]["p_holm"] = round(p, 4)
    about = {name: experiment[name] for name in ("device", "torch", "pairs", "settings")}
    if "facts" in experiment:
        about["facts"] = experiment["facts"]
    sets = {
        each["name"]: {"documents": each["documents"], "queries": len(each["queries"])}
        for each in experiment["sets"]
    }
    return about | {"sets": sets, "variants": rows, "comparisons": comparisons}


def describe(variant: str, runs: dict[int, Run]) -> dict[str, Any]:
    """Return the means of a variant, its spread over seeds, and its training."""
    row: dict[str, Any] = {"variant": variant, "seeds": sorted(runs)}
    for measure, key in MEASURES.items():
        by_seed = [
            fmean(fmean(own[key]) for own in run["scores"].values()) for run in runs.values()
        ]
        row[measure] = round(fmean(by_seed), 4)
        row[f"{measure} deviation over seeds"] = round(stdev(by_seed), 4) if len(runs) > 1 else None
    first = next(iter(runs.values()))
    row["nDCG@10 by set"] = {
        name: round(fmean(fmean(run["scores"][name]["ndcg"]) for run in runs.values()), 4)
        for name in first["scores"]
    }
    if first["steps"]:
        row["seconds"] = round(fmean(run["seconds"] for run in runs.values()), 1)
        row["loss"] = [
            (step, round(fmean(run["losses"][at][1] for run in runs.values()), 4))
            for at, (step, _loss) in enumerate(first["losses"])
        ]
    return row


def is_compared(variant: str, against: str, runs: dict[str, dict[int, Run]]) -> bool:
    """Say whether two variants are to be compared, and can be."""
    if variant in (against, "untrained") or against not in runs:
        return False
    if against == "fields_none" and not variant.startswith("fields_"):
        return False
    return bool(runs[variant].keys() & runs[against].keys())


def compare(variant: str, against: str, runs: dict[str, dict[int, Run]]) -> dict[str, Any]:
    """Test one variant against another on the seeds both have."""
    seeds = sorted(runs[variant].keys() & runs[against].keys())
    out: dict[str, Any] = {"variant": variant, "against": against, "seeds": seeds}
    for measure, key in MEASURES.items():
        first, second = (pooled([runs[name][s] for s in seeds], key) for name in (variant, against))
        interval = difference_interval(first, second)
        out[measure] = {
            "difference": round(fmean(first) - fmean(second), 4),
            "low": round(interval.low, 4),
            "high": round(interval.high, 4),
            "p": randomisation_test(first, second),
        }
    out["sets better"] = sum(
        fmean(fmean(runs[variant][s]["scores"][name]["ndcg"]) for s in seeds)
        > fmean(fmean(runs[against][s]["scores"][name]["ndcg"]) for s in seeds)
        for name in runs[variant][seeds[0]]["scores"]
    )
    return out


def pooled(runs: Sequence[Run], key: str) -> list[float]:
    """Return the scores of all queries, means over seeds, so scaled that every set counts the same.

    >>> run = {"scores": {"a": {"rr": [1.0]}, "b": {"rr": [0.5, 0.0, 0.25]}}}
    >>> pooled([run], "rr")  # mean 0.625 = (1 + 0.25) / 2
    [2.0, 0.3333333333333333, 0.0, 0.16666666666666666]
    """
    lists = {name: [run["scores"][name][key] for run in runs] for name in runs[0]["scores"]}
    total = sum(len(own[0]) for own in lists.values())
    return [
        fmean(scores) * total / (len(lists) * len(own[0]))
        for own in lists.values()
        for scores in zip(*own, strict=True)
    ]


def render(experiment: dict[str, Any]) -> str:
    """Draw a table of one setting."""
    settings = ", ".join(f"{name} {value}" for name, value in experiment["settings"].items())
    lines = [
        settings,
        f"{'variant':18} seeds nDCG@10   RR@10  difference [95 %] to none     p (Holm)",
    ]
    against_none = {
        each["variant"]: each for each in experiment["comparisons"] if each["against"] == "none"
    }
    for row in sorted(experiment["variants"], key=lambda row: -float(row["nDCG@10"])):
        line = (
            f"{row['variant']:18} {len(row['seeds']):5} {row['nDCG@10']:7.4f} {row['RR@10']:7.4f}"
        )
        if found := against_none.get(row["variant"]):
            own = found["nDCG@10"]
            line += f"  {own['difference']:+.4f} [{own['low']:+.4f}, {own['high']:+.4f}]"
            line += f"  {own['p_holm']:.4f}  {found['sets better']}/{len(experiment['sets'])} sets"
        lines.append(line)
    for each in experiment["comparisons"]:
        if each["against"] == "fields_none":
            own = each["nDCG@10"]
            lines.append(
                f"{each['variant']} − fields_none: {own['difference']:+.4f} "
                f"[{own['low']:+.4f}, {own['high']:+.4f}], p {own['p_holm']:.4f}"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
