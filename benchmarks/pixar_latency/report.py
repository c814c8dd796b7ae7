"""Put measured latencies into a table.

python -m benchmarks.pixar_latency.report results/latency-cpu-5000000.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

_HEADER = (
    "| method | rows | encode | shortlist | score | whole | whole, p99 | whole / encode (median)"
    " | faster than full (median) |\n|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Print the tables of some results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    for path in parser.parse_args().results:
        print(format_table(json.loads(path.read_text())))


def format_table(content: dict[str, Any]) -> str:
    """Return a table in Markdown, times in milliseconds."""
    rows, width = content["shape"]
    title = f"{rows:,} × {width}, {content['slots']} slots, batch 1, {content['machine']}"
    return "\n".join((title, "", _HEADER, *(_format_row(each) for each in content["methods"])))


def _format_row(entry: dict[str, Any]) -> str:
    stages = entry["stages"]
    means = " | ".join(
        f"{stages[name]['mean']:.2f}" for name in ("encode", "shortlist", "score", "whole")
    )
    ratios = [
        f"{entry[mean]:.{digits}f} ({entry[middle]:.{digits}f})"
        for mean, middle, digits in (
            ("whole_over_encode", "whole_over_encode_p50", 2),
            ("times_faster_than_full_torch", "times_faster_p50", 1),
        )
    ]
    return (
        f"| {entry['method']} | {stages['rows']['mean']:,.0f} | {means} |"
        f" {stages['whole']['p99']:.2f} | {' | '.join(ratios)} |"
    )


if __name__ == "__main__":
    main()
