"""The parts of the benchmarks page about new documents, typing errors and keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]
NAMES = {"generative": "generated identifiers", "lexical": "BM25", "dense": "vectors"}


def robustness_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw what is lost on documents that a model does not know, and by typing errors."""
    yield "## New documents and typing errors"
    yield ""
    yield "`python -m benchmarks.pixar_quality.robustness`: a model is trained for nine documents"
    yield "in ten, the others are added afterwards, with identifiers and without training. Queries"
    yield "about *old* and *new* documents are judged apart, all documents being searched. *Typos*:"
    yield "one or two edits in the longest words of the same queries. No query was trained on, and"
    yield "neither BM25 over the passages nor the encoder of the vectors was trained at all; times"
    yield "are of a busy machine. Queries about old and new documents are different ones: what BM25"
    yield "and vectors lose between them is the queries' doing."
    for row in results["rows"]:
        yield ""
        yield _describe(row)
        yield ""
        yield table(
            ["searcher", "queries about", *results["measures"], *_drops(results["measures"])],
            _robustness_rows(row, results["measures"]),
        )
        if "before adding" in row:
            before, after = row["before adding"]["old"], row["results"]["generative"]["old"]
            yield ""
            yield "Adding the new documents changed the generated side's figures on the old ones:"
            yield (
                ", ".join(
                    f"{measure} {before[measure]:.3f} → {after[measure]:.3f}"
                    for measure in results["measures"]
                )
                + "."
            )


def keywords_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw how well keywords are found that mean the same as a query."""
    yield "## Keywords"
    yield ""
    yield "`python -m benchmarks.pixar_quality.keywords`: the documents are keywords, each its own"
    yield "only identifier; those are right that were written for the same passage as the query."
    yield "*With a log*: other queries of the passage were trained on, as labelled pairs."
    for row in results["rows"]:
        report = row["report"]
        installed = "" if report["installed"] == "trained" else "; the untrained one was installed"
        yield ""
        yield f"{row['keywords']:,} keywords of {row['set']}, {row['pairs']:,} pairs,"
        yield f"{report['num_phrases']:,} phrases; {report['steps']} steps of"
        yield f"{report['batch_size']} in {row['minutes']:.0f} minutes on a CPU, the best state"
        yield f"after {report['best_step']}{installed}."
        yield ""
        yield table(
            ["queries", "number", "searcher", *results["measures"]],
            [
                [
                    group,
                    str(row["queries"][group]),
                    NAMES[name],
                    *(f"{_mean(own, name, measure):.3f}" for measure in results["measures"]),
                ]
                for group, own in row["results"].items()
                for name in NAMES
            ],
        )


def _describe(row: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {group}" for group, count in row["queries"].items())
    installed = row.get("installed", "trained")
    best = f", the best after {row['best_step']}" if row.get("best_step") else ""
    return (
        f"{row['set']}: {row['documents']:,} documents, {row['new']:,} of them new;"
        f" {row['phrases']:,} phrases; {row['steps']:,} steps of {row['batch_size']}"
        f" ({row['trained on']}, {row['minutes']:.0f} minutes{best};"
        f" installed: {installed}). Queries: {counts}."
    )


def _drops(measures: Sequence[str]) -> list[str]:
    return [f"{measure}, lost by typos" for measure in measures]


def _robustness_rows(row: dict[str, Any], measures: Sequence[str]) -> Iterable[list[str]]:
    for name, label in NAMES.items():
        own = row["results"][name]
        for group in ("old", "new"):
            plain, typos = own[group], own[f"{group} typos"]
            yield [
                label,
                group,
                *(f"{plain[measure]:.3f}" for measure in measures),
                *(f"{_loss(plain[measure], typos[measure]):.0%}" for measure in measures),
            ]


def _loss(before: float, after: float) -> float:
    """Return the share that is lost.

    >>> _loss(1.0, 0.75)
    0.25
    """
    return (before - after) / before if before else 0.0


def _mean(rows: list[dict[str, Any]], run: str, measure: str) -> float:
    return next(
        float(row["mean"]) for row in rows if (row["run_name"], row["measure"]) == (run, measure)
    )
