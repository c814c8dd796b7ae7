"""Measure an engine against judgements, and runs against each other, for the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from quoth.errors import EvaluationError
from quoth.evaluation.compare import as_json, compare, table_rows, write_comparison
from quoth.evaluation.files import read_qrels, read_queries, read_run
from quoth.evaluation.latency import Latency, summarise
from quoth.evaluation.measures import check_measures, evaluate_run
from quoth.evaluation.significance import mean_interval
from quoth.records import Hit, Qrels, Query, Run
from quoth.shards.opening import OpenedEngine

_WARM_UP = 10


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One measure: its mean over queries and a 95 % bootstrap interval."""

    measure: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What `quoth evaluate` found."""

    searcher: str
    num_queries: int
    num_absent_queries: int
    rows: tuple[MeasureRow, ...]
    latency: Latency

    def as_record(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "searcher": self.searcher,
            "queries": self.num_queries,
            "queries_without_hits": self.num_absent_queries,
            "measures": {row.measure: row.mean for row in self.rows},
            "intervals": {row.measure: [row.low, row.high] for row in self.rows},
            "latency": asdict(self.latency),
        }

    def latency_line(self) -> str:
        """Say how fast the queries were answered."""
        times = self.latency
        return (
            f"per query: mean {times.mean_ms:.2f} ms, p50 {times.p50_ms:.2f} ms,"
            f" p99 {times.p99_ms:.2f} ms"
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison as plain values and as a table whose first row is the header."""

    record: Any
    table: list[list[str]]


def measure(
    engine: OpenedEngine,
    *,
    queries: Path,
    qrels: Path,
    searcher: str,
    measures: Sequence[str],
    k: int,
    syntax: bool,
    rerank: bool | None = None,
) -> Measured:
    """Search the judged queries one by one, timed, and score what was found."""
    check_measures(measures)
    judged = read_qrels(qrels)
    asked = _judged_queries(read_queries(queries), judged, queries=queries, qrels=qrels)
    run, latency = run_timed(engine, asked, searcher=searcher, k=k, syntax=syntax, rerank=rerank)
    evaluation = evaluate_run(run, judged, measures)
    return Measured(
        run.name,
        evaluation.num_queries,
        evaluation.num_absent_queries,
        tuple(
            MeasureRow(name, evaluation.means[name], interval.low, interval.high)
            for name, by_qid in evaluation.scores.items()
            for interval in [mean_interval(list(by_qid.values()))]
        ),
        latency,
    )


def run_timed(
    engine: OpenedEngine,
    queries: Sequence[Query],
    *,
    searcher: str,
    k: int,
    syntax: bool,
    rerank: bool | None = None,
) -> tuple[Run, Latency]:
    """Search queries one at a time, as a user would, keeping hits and times."""
    import time

    chosen, is_reranked = engine.decide(searcher, rerank)

    def search_one(query: Query) -> tuple[Hit, ...]:
        found = engine.run([query], k=k, searcher=chosen, syntax=syntax, rerank=is_reranked)
        return found.hits[query.qid]

    for query in queries[:_WARM_UP]:
        search_one(query)
    hits, seconds = {}, []
    for query in queries:
        start = time.perf_counter()
        hits[query.qid] = search_one(query)
        seconds.append(time.perf_counter() - start)
    return Run(f"{chosen}-reranked" if is_reranked else chosen, hits), summarise(seconds)


def compare_runs(
    paths: Sequence[Path], *, qrels: Path, measures: Sequence[str], out: Path | None
) -> Compared:
    """Compare runs on disk with the first of them, and write the tables where asked."""
    check_measures(measures)
    runs = [replace(read_run(path), name=name) for path, name in _names(paths)]
    comparison = compare(runs, read_qrels(qrels), measures, baseline=runs[0].name)
    if out is not None:
        write_comparison(comparison, out)
    return Compared(json.loads(as_json(comparison)), table_rows(comparison))


def _names(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Name runs by their files, by their whole paths where file names repeat."""
    stems = [path.name for path in paths]
    return [(path, path.name if stems.count(path.name) == 1 else str(path)) for path in paths]


def _judged_queries(
    asked: Sequence[Query], judged: Qrels, *, queries: Path, qrels: Path
) -> list[Query]:
    wanted = [query for query in asked if query.qid in judged.grades]
    if not wanted:
        raise EvaluationError(
            f"{qrels} judges no query of {queries}; check that both belong to the same collection"
        )
    return wanted
