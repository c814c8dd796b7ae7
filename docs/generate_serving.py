"""The section of the benchmarks page about serving."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]


def serving_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw a served collection beside the engine in process, under load, and under too much."""
    yield "## Serving"
    yield ""
    yield f"`python -m benchmarks.serve.run`, {results['machine']}; the machine's load was"
    yield f"{results['load_before']:.1f} before it began. {len(results['sets'])} sets joined:"
    yield f"{results['documents']:,} documents, {results['passages']:,} passages of all their"
    yield f"fields, {results['vectors']:,} vectors;"
    yield f"{results['queries']:,} of their own queries, k = 10. Server and load are processes of"
    yield "their own on the same machine. First, one client in turns with the engine in the"
    yield "benchmark's own process (*shown*: all that the server does for a request, without HTTP;"
    yield "*searched*: `Engine.search`, which asks each side of a hybrid twice). Times in ms."
    yield ""
    yield table(
        [
            *("searcher", "served p50", "p99", "shown p50", "p99", "searched p50"),
            *("served / shown", "served / searched"),
        ],
        [_turn(row) for row in results["turns"]],
    )
    yield ""
    yield "Then so many clients, each asking as soon as it is answered:"
    yield ""
    yield table(
        ["searcher", "clients", "a second", "p50", "p95", "p99", "429", "errors", "server MB"],
        [_step(row) for row in results["steps"]],
    )
    yield ""
    yield from _changes(results["changes"])
    yield ""
    yield from _overload(results["overload"])
    yield f"Memory: {results['memory']['idle_mb']:,.0f} MB before the first query,"
    yield f"{results['memory']['peak_mb']:,.0f} MB at the peak."


def _turn(row: dict[str, Any]) -> list[str]:
    return [
        row["searcher"],
        f"{row['served']['p50_ms']:.1f}",
        f"{row['served']['p99_ms']:.1f}",
        f"{row['shown']['p50_ms']:.1f}",
        f"{row['shown']['p99_ms']:.1f}",
        f"{row['searched']['p50_ms']:.1f}",
        f"{row['p50_over_shown']:.2f}",
        f"{row['p50_over_searched']:.2f}",
    ]


def _step(row: dict[str, Any]) -> list[str]:
    return [
        row["searcher"],
        f"{row['clients']}",
        f"{row['throughput']:.0f}",
        f"{row['p50_ms']:.1f}",
        f"{row['p95_ms']:.1f}",
        f"{row['p99_ms']:.1f}",
        f"{row['refused']:,}",
        f"{row['errors']:,}",
        f"{row['memory']['now_mb']:,.0f}",
    ]


def _changes(row: dict[str, Any]) -> Iterable[str]:
    yield f"Meanwhile written to: {row['group']} documents changed at once, {row['writes']:,} times"
    yield f"(p50 {row['write']['p50_ms']:.0f} ms), while four clients searched"
    yield f"({row['load']['throughput']:.0f} a second, p99 {row['load']['p99_ms']:.0f} ms,"
    yield f"{row['load']['errors']} errors) and a reader looked at the group {row['reads']:,}"
    yield f"times: {row['versions_seen']:,} versions seen, {row['num_faults']} times one that was"
    yield "half applied, or older than what was acknowledged."


def _overload(row: dict[str, Any]) -> Iterable[str]:
    yield f"Overload: {row['rate']:.0f} {row['searcher']} queries a second, four times the best"
    yield f"throughput above without a refusal: of {row['sent']:,} sent, {row['answered']:,} were"
    yield f"answered, {row['refused']:,} refused with 429, {row['errors']:,} failed; the server"
    yield f"{'stayed up' if row['survived'] else 'went down'}, and one client was answered as fast"
    yield f"as before {row['recovery_seconds']:.1f} s after the last query was sent."


def pressure_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw a server under more than it can do, and under requests that are meant to stall it."""
    crowd, where, connections = results["crowd"], results["where"], results["connections"]
    limits = crowd["liveness"]
    yield "### Under pressure"
    yield ""
    yield f"`python -m benchmarks.serve.pressure`, {results['machine']}, load"
    yield f"{results['load_before']:.1f} before it began; {results['documents']:,} documents with"
    yield f"metadata, BM25, k = 10. The server sustains {results['sustained']['throughput']:.0f}"
    yield "searches a second for 8 clients. The loads run on the same cores as the server."
    yield ""
    yield table(
        ["test", "outcome"],
        [
            ["256 clients, four times that rate", _became(crowd)],
            ["p99 of those answered", f"{crowd['p99_ms'] / 1000:.2f} s (limit 30 s)"],
            [
                "liveness meanwhile, new connections",
                f"p50 {limits['p50_ms']:.0f} ms, p99 {limits['p99_ms']:.0f} ms,"
                f" {limits['failed']} of {limits['asked']} failed",
            ],
            ["one client answered as before after", f"{crowd['recovery_seconds']:.2f} s"],
            [
                "p99 of 2 clients beside 4 whose conditions have 100 tests each, over p99 alone",
                f"{where['p99_ratio']:.2f} (medians of {len(where['alone'])} turns)",
            ],
            [
                f"{connections['idle']} idle and {connections['half_sent']} half-sent connections",
                f"{connections['served']} of {connections['served']} new clients served,"
                f" p99 {connections['p99_ms']:.0f} ms",
            ],
        ],
    )


def _became(load: dict[str, Any]) -> str:
    failed = load["sent"] - load["answered"] - load["refused"]
    return f"{load['answered']:,} answered, {load['refused']:,} refused with 429, {failed} failed"
