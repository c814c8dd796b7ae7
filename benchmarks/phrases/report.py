"""Print the results of `benchmarks.phrases.train` as a table.

python -m benchmarks.phrases.report
"""

from __future__ import annotations

import json

from benchmarks.phrases.train import RESULTS

COLUMNS = {
    "system": "vocabulary",
    "size": "size",
    "texts": "texts",
    "threads": "cores",
    "train_seconds": "train s",
    "train_mb_per_second": "train MB/s/core",
    "peak_mb": "peak MB",
    "cut_mb_per_second": "cut MB/s/core",
    "mean_length": "mean",
    "p99_length": "p99",
}


def main() -> None:
    """Print one line per vocabulary."""
    print("| " + " | ".join(COLUMNS.values()) + " |")
    print("|" + "---|" * len(COLUMNS))
    for row in json.loads(RESULTS.read_text())["rows"]:
        cells = (row.get(name, "–") for name in COLUMNS)
        print(
            "| "
            + " | ".join(f"{each:,}" if isinstance(each, int) else str(each) for each in cells)
            + " |"
        )


if __name__ == "__main__":
    main()
