"""The part of the benchmarks page about the hybrid of three on all sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]
ALONE = ("lexical", "dense", "generative")
TWO = "hybrid of two"
SHOWN = ("min_max 0.1", "range 0.1", "range 0.2")


def sets_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw what a side that was trained on a GPU adds to the hybrid of two."""
    rows, chosen = results["rows"], {each["measure"]: each for each in results["chosen"]}
    yield "### The hybrid of three"
    yield ""
    yield "`benchmarks.pixar_quality.hybrid_sets`: a model for each of the 14 sets, trained on a"
    yield "shared H200 with the losses *bags* for about eight passes over its identifiers (3 to 24"
    yield "pseudo-queries a passage, by which BM25 finds the passage; a vocabulary of 30,522"
    yield "phrases or fewer), full softmax, bag_cos. Without labels; the hybrid of two is the one"
    yield "that `quoth` calibrates. nDCG@10, at most 1,000 test queries of each set; *range n*,"
    yield "*min_max n*: the share n of the generative side, its scores divided by their usual range"
    yield "over these queries or, as `fusion.generative` does, scaled query by query."
    yield ""
    names = (*ALONE, TWO, *SHOWN)
    yield table(
        ["set", "queries", "steps", *names, f"{SHOWN[1]} against two"],
        [
            [
                row["set"],
                f"{row['queries']:,}",
                f"{row['steps']:,}",
                *(f"{_find(row, name)['mean']:.3f}" for name in names),
                _contrast(_find(row, SHOWN[1])),
            ]
            for row in rows
        ]
        + [
            [
                "mean",
                "",
                "",
                *(f"{fmean(_find(row, name)['mean'] for row in rows):.4f}" for name in names),
                "",
            ]
        ],
    )
    yield ""
    yield "Three against two in the mean of the sets, the share and scaling of each set chosen by"
    yield "what is best in the mean of the other 13: " + ", ".join(
        f"{name} {each['two']:.4f} → {each['three']:.4f}" for name, each in chosen.items()
    )
    gains = [_find(row, SHOWN[1])["mean"] - _find(row, TWO)["mean"] for row in rows]
    best = max(range(len(rows)), key=lambda at: gains[at])
    rest = fmean(gain for at, gain in enumerate(gains) if at != best)
    shares = {way.rpartition(" ")[2] for each in chosen.values() for way in each["ways"].values()}
    yield f"(shares chosen: {', '.join(sorted(shares))}). With {SHOWN[1]},"
    yield f"{sum(gain > 0.0005 for gain in gains)} of {len(rows)} sets gain at least 0.0005 and"
    yield f"{sum(gain < -0.0005 for gain in gains)} lose as much; {rows[best]['set']} gains most"
    yield f"({gains[best]:+.3f} nDCG@10), the others {rest:+.4f} in the mean."
    yield ""
    yield "The generative side alone against BM25 over the same identifiers (RR@10, R@100, and the"
    yield "difference in RR@10 with its 95 % interval):"
    yield ""
    yield table(
        ["set", "generative", "BM25 over identifiers", "difference"],
        [
            [
                row["set"],
                _pair(row["against_bm25"], 0.0),
                _pair(row["against_bm25"], 1.0),
                _contrast(row["against_bm25"]["RR@10"]),
            ]
            for row in rows
        ],
    )
    own = [row["against_bm25"]["RR@10"] for row in rows]
    yield ""
    yield f"Mean RR@10: {fmean(each['mean'] for each in own):.3f} against"
    yield f"{fmean(each['mean'] - each['contrast']['difference'] for each in own):.3f}."


def _find(row: dict[str, Any], name: str) -> dict[str, Any]:
    return next(
        each for each in row["results"] if each["run_name"] == name and each["measure"] == "nDCG@10"
    )


def _pair(against: dict[str, Any], share: float) -> str:
    found = (against[measure] for measure in ("RR@10", "R@100"))
    return ", ".join(
        f"{each['mean'] - share * each['contrast']['difference']:.3f}" for each in found
    )


def _contrast(row: dict[str, Any]) -> str:
    contrast = row["contrast"]
    low, high = contrast["interval"]["low"], contrast["interval"]["high"]
    return f"{contrast['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
