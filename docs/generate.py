"""Write the pages made from code and results: README, architecture and benchmarks."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
NOTICE = "<!-- made by docs/generate.py from templates and benchmarks/*/results -->\n"
HEADLINE_SETS = ("scifact", "cranfield", "medquad", "tmdb", "cacm", "nq-mini")
RESULTS = DOCS.parent / "benchmarks" / "lexical" / "results"


def main() -> None:
    """Write all pages."""
    for page, content in pages().items():
        page.write_text(content)


def pages() -> dict[Path, str]:
    """Give every generated page with its content."""
    quality = json.loads((RESULTS / "quality.json").read_text())
    speed = json.loads((RESULTS / "speed.json").read_text())
    architecture = (DOCS / "architecture.template.md").read_text()
    readme = (DOCS / "readme.template.md").read_text()
    return {
        DOCS / "architecture.md": NOTICE + architecture.replace("{{layers}}", layer_table()),
        DOCS / "benchmarks.md": NOTICE + benchmarks_page(quality, speed),
        DOCS.parent / "README.md": NOTICE
        + readme.replace("{{quality}}", headline_table(quality)).replace(
            "{{speed}}", headline_speed(speed)
        ),
    }


def layer_table() -> str:
    """Draw the table of rooms."""
    layers = tomllib.loads((DOCS / "layers.toml").read_text())
    return table(
        ["room", "what it does", "may import", "torch"],
        [
            [f"`{name}`", room["says"], ", ".join(room["may_import"]), room["torch"]]
            for name, room in layers["rooms"].items()
        ],
    )


def headline_table(results: dict[str, Any]) -> str:
    """Draw the few figures that the README shows."""
    rows = [row for row in results["rows"] if row["set"] in HEADLINE_SETS]
    cells = []
    for row in rows:
        joined, fields = (_find(row["results"], run, "nDCG@10") for run in ("joined", "fields"))
        cells.append(f"{joined['mean']:.3f} → {fields['mean']:.3f}")
    return table([row["set"] for row in rows], [cells])


def headline_speed(results: dict[str, Any]) -> str:
    """Say how fast the largest corpus is searched."""
    row = max(results["rows"], key=lambda each: each["passages"])
    return (
        f"Searching {row['passages']:,} passages through Quoth runs at"
        f" {row['throughput_over_tantivy']['quoth']:.2f} times the throughput of plain tantivy"
        f" in the same run; indexing them peaked at {row['build']['quoth']['peak_mb']:,.0f} MB"
        f" ({results['machine']}; `python -m benchmarks.lexical.speed`)."
    )


def benchmarks_page(quality: dict[str, Any], speed: dict[str, Any]) -> str:
    """Draw the tables of the benchmark results that are there."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Collections differ in licence and origin; each is cited in its own source note. Speed"
            " is given as ratios of systems measured in turns in one process, since machines are"
            " noisy; absolute figures belong to the machine named.",
            "",
            *quality_section(quality),
            "",
            *speed_section(speed),
            "",
        ]
    )


def quality_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw BM25 quality: title and text joined, against all fields with the default boosts."""
    yield "## BM25 quality"
    yield ""
    yield "`python -m benchmarks.lexical.quality`. Both sides are Quoth with default settings, no"
    yield "training, no labels. *joined*: one field, title and text. *fields*: every field of the"
    yield "collection, the whole document at weight 1 and each field but the body at 0.3 on top."
    yield "Brackets: 95 % bootstrap interval of the difference; † significant at 0.05 (paired"
    yield "randomisation, Holm over the row's three measures)."
    yield ""
    rows = []
    for row in results["rows"]:
        cells = [f"{row['set']} ({row['split']})", f"{row['documents']:,}", f"{row['queries']:,}"]
        for measure in results["measures"]:
            joined = _find(row["results"], "joined", measure)
            fields = _find(row["results"], "fields", measure)
            cells += [f"{joined['mean']:.3f}", f"{fields['mean']:.3f}"]
            if measure == "nDCG@10":
                contrast = fields["contrast"]
                mark = " †" if contrast["significant"] else ""
                low, high = contrast["interval"]["low"], contrast["interval"]["high"]
                cells.append(f"{contrast['difference']:+.3f} [{low:+.3f}, {high:+.3f}]{mark}")
        rows.append(cells)
    yield table(
        [
            *("set", "documents", "queries", "nDCG@10 joined", "fields", "difference"),
            *("RR@10 joined", "fields", "R@100 joined", "fields"),
        ],
        rows,
    )


def speed_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw index time, memory and query speed beside plain tantivy and bm25s."""
    yield "## Lexical speed and memory"
    yield ""
    yield f"`python -m benchmarks.lexical.speed`, {results['machine']}, {results['rounds']} rounds"
    yield "in turns, one query at a time, k = 10. All systems see the same terms. *zipf-N*:"
    yield "N made-up passages of about 60 words over 300,000 Zipfian words. Building Quoth"
    yield "includes the durable store, passages, filters, statistics and checksums; tantivy and"
    yield "bm25s build their index alone, so their build times are a lower bound, not a rival."
    yield ""
    yield table(
        ["corpus", "system", "build s", "peak MB", "disk MB", "p50 ms", "p99 ms", "× tantivy"],
        [
            [
                row["corpus"],
                system,
                f"{row['build'][system]['seconds']:.0f}",
                f"{row['build'][system]['peak_mb']:,.0f}",
                f"{row['build'][system]['disk_mb']:,.0f}",
                f"{latency['p50_ms']:.2f}",
                f"{latency['p99_ms']:.2f}",
                f"{row['throughput_over_tantivy'][system]:.2f}",
            ]
            for row in results["rows"]
            for system, latency in row["latency"].items()
        ],
    )
    yield ""
    yield "The last column is queries per second over plain tantivy's, the median over rounds."


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Draw a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _find(results: list[dict[str, Any]], run: str, measure: str) -> dict[str, Any]:
    return next(r for r in results if (r["run_name"], r["measure"]) == (run, measure))


if __name__ == "__main__":
    main()
