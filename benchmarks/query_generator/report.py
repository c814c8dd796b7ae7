"""Keep what a training of the query generator reported.

    python -m benchmarks.query_generator.report OUT/report.json

Writes results/training.json, of which `make docs` makes the model card weights/query-generator.md.
Copy OUT/query-generator to weights/quoth_weights/ to ship what the card describes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "training.json"


def main() -> None:
    """Read a report and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    content = json.loads(given.report.read_text())
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
