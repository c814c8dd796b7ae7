"""The most telling figures: the README's table and the summary on the benchmarks page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from generate_learning import mean_changes

Read = Callable[[str], dict[str, Any]]
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]
HEADLINE_SETS = ("scifact", "cranfield", "medquad", "tmdb", "cacm", "nq-mini")
QUESTION_SETS = ("nq", "squad", "asqa")


def evidence_table(read: Read, table: Table) -> str:
    """Draw the README's table: what was measured, the result, the command."""
    return table(
        ["measured", "result", "`python -m`"],
        [
            ["BM25: title and text joined → all fields", *_fields(read)],
            ["BM25, vectors, both fused", *_hybrid(read)],
            ["`quoth learn`: vectors before → after", *_learning(read)],
            ["`quoth ask`: cited answers", *_answers(read)],
            ["BM25 search against plain tantivy", *_speed(read)],
            ["`quoth serve`, one client", *_serving(read)],
        ],
    )


def summary_section(read: Read, table: Table) -> Iterable[str]:
    """Draw the summary that opens the page of benchmarks."""
    yield "## Summary"
    yield ""
    yield "BM25 with default settings, nDCG@10 on test queries, title and text joined → all fields"
    yield "with the default boosts (`python -m benchmarks.lexical.quality`):"
    yield ""
    yield _headline_sets(read("lexical/results/quality.json"), table)
    yield ""
    yield _headline_speed(read("lexical/results/speed.json"))
    yield ""
    yield _headline_hybrid(read("hybrid/results/quality.json"))
    yield ""
    yield _headline_learning(read("learn/results/learn.json"), read("learn/results/cpu.json"))


def _fields(read: Read) -> tuple[str, str]:
    rows = read("lexical/results/quality.json")["rows"]
    joined, fields = (_mean(rows, name) for name in ("joined", "fields"))
    result = f"mean nDCG@10 {joined:.3f} → {fields:.3f} over {len(rows)} splits"
    return result, "`benchmarks.lexical.quality`"


def _hybrid(read: Read) -> tuple[str, str]:
    rows = read("hybrid/results/quality.json")["rows"]
    names = ("lexical", "dense", "hybrid")
    lexical, dense, hybrid = (_mean(rows, name) for name in names)
    better = sum(_is_hybrid_best(row) for row in rows)
    result = (
        f"mean nDCG@10 {lexical:.3f}, {dense:.3f}, {hybrid:.3f}; fused is best on {better} of"
        f" {len(rows)} splits (how scores are scaled was chosen on these sets)"
    )
    return result, "`benchmarks.hybrid.quality`"


def _learning(read: Read) -> tuple[str, str]:
    changes = mean_changes(read("learn/results/learn.json"))
    result = (
        f"nDCG@10 {changes.alone:+.1f} points, higher on {changes.num_up} of"
        f" {changes.num_splits} splits; fused with BM25 {changes.fused:+.1f}"
    )
    return result, "`benchmarks.learn.report`"


def _answers(read: Read) -> tuple[str, str]:
    rows = [row for row in read("citations/results/citations.json")["rows"] if _is_shipped(row)]
    quotations = sum(row["quotations"] for row in rows)
    exact = sum(row["quotations"] * row["quotation_exactness"] for row in rows) / quotations
    em = {row["set"]: row["em"]["mean"] for row in rows if row["set"] in QUESTION_SETS}
    found = ", ".join(f"{name} {100 * em[name]:.0f} %" for name in QUESTION_SETS)
    result = (
        f"{100 * exact:.0f} % of {quotations:,} quotations match their source exactly; short"
        f" answers found in what it wrote, without abstaining: {found}"
    )
    return result, "`benchmarks.citations.run`"


def _speed(read: Read) -> tuple[str, str]:
    results = read("lexical/results/speed.json")
    row = _largest(results)
    ratio = row["throughput_over_tantivy"]["quoth"]
    result = f"{ratio:.2f} times its throughput on {row['passages']:,} passages"
    return f"{result} ({results['machine']})", "`benchmarks.lexical.speed`"


def _serving(read: Read) -> tuple[str, str]:
    results = read("serve/results/serve.json")
    times = "; ".join(
        f"{turn['searcher']} p50 {turn['served']['p50_ms']:.0f} ms, p99"
        f" {turn['served']['p99_ms']:.0f} ms"
        for turn in results["turns"]
    )
    result = f"{times}; {results['documents']:,} documents ({results['machine']})"
    return result, "`benchmarks.serve.run`"


def _headline_sets(results: dict[str, Any], table: Table) -> str:
    rows = [row for row in results["rows"] if row["set"] in HEADLINE_SETS]
    cells = [f"{_value(row, 'joined'):.3f} → {_value(row, 'fields'):.3f}" for row in rows]
    return table([row["set"] for row in rows], [cells])


def _headline_hybrid(results: dict[str, Any]) -> str:
    rows = results["rows"]
    lexical, dense, hybrid = (_mean(rows, name) for name in ("lexical", "dense", "hybrid"))
    return (
        f"Over {len(rows)} test splits, mean nDCG@10: BM25 {lexical:.3f}, vectors {dense:.3f},"
        f" hybrid {hybrid:.3f} (`python -m benchmarks.hybrid.quality`; not better on every set, as"
        " [the table](#bm25-vectors-and-their-fusion) shows)."
    )


def _headline_speed(results: dict[str, Any]) -> str:
    row = _largest(results)
    return (
        f"Quoth searches {row['passages']:,} passages at"
        f" {row['throughput_over_tantivy']['quoth']:.2f} times the throughput of plain tantivy"
        f" in the same run; indexing them peaked at {row['build']['quoth']['peak_mb']:,.0f} MB"
        f" ({results['machine']}; `python -m benchmarks.lexical.speed`)."
    )


def _headline_learning(results: dict[str, Any], on_cpu: dict[str, Any]) -> str:
    changes = mean_changes(results)
    hybrid = {
        each["run_name"].removeprefix("hybrid "): each["mean"]
        for each in on_cpu["test"]
        if each["run_name"].startswith("hybrid") and each["measure"] == "nDCG@10"
    }
    return (
        f"Learning without labels (minutes on one GPU per set) lifts vectors by {changes.alone:.1f}"
        f" points of nDCG@10 in the mean, on {changes.num_up} of {changes.num_splits} test"
        f" splits; fused with BM25 the change is {changes.fused:+.1f}, and the fusion lies"
        f" {changes.over_bm25:.1f} above BM25 (`benchmarks.learn`). On a CPU, as a user runs it:"
        f" {on_cpu['report']['num_documents']:,} text files, {on_cpu['cores']} cores,"
        f" {on_cpu['minutes_taken']:.0f} minutes; hybrid nDCG@10 on test queries it never saw"
        f" {hybrid['before']:.3f} → {hybrid['after']:.3f} (`python -m benchmarks.learn.cpu`)."
    )


def _largest(results: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = max(results["rows"], key=lambda each: each["passages"])
    return row


def _is_shipped(row: dict[str, Any]) -> bool:
    return bool(row["system"] == "quoth")


def _is_hybrid_best(row: dict[str, Any]) -> bool:
    return _value(row, "hybrid") > max(_value(row, "lexical"), _value(row, "dense"))


def _mean(rows: Sequence[dict[str, Any]], run: str) -> float:
    return sum(_value(row, run) for row in rows) / len(rows)


def _value(row: dict[str, Any], run: str) -> float:
    found = (r for r in row["results"] if (r["run_name"], r["measure"]) == (run, "nDCG@10"))
    return float(next(found)["mean"])
