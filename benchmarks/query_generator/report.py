"""Sum up a training of the query generator: results for the docs, and the model card.

    python -m benchmarks.query_generator.report OUT/report.json

Writes results/training.json and weights/query-generator.md; both follow from the report alone. Copy
OUT/query-generator to weights/quoth_weights/ to ship what the card describes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "training.json"
CARD = Path("weights/query-generator.md")

_CARD = """\
# Model card: query-generator

Writes queries for a passage, and scores p(query | passage). Shipped in the package `quoth-weights`;
used by Quoth as `QueryGenerator.load()`.

**What it is.** The frozen encoder all-MiniLM-L6-v2 reads the passage (192 subwords at most); a
decoder of {layers} layers, 384 wide, writes the query (32 subwords at most, lower case). The
decoder started as a copy of the encoder's layers, cross-attention included; its output head is the
encoder's table of words. The file holds the decoder alone, matrices in int8 with a scale per row.

**What it learnt from.** {pairs:,} pairs of a query and a passage; no dev or test question of any
collection. Numbers are pairs trained on.

{sources}

**How.** {steps} steps of {batch} pairs, learning rate {rate}, dropout {dropout}, label smoothing
{smoothing}, seed {seed}, on {device} in {seconds} s; the best state on held-out documents is kept
(step {best}). Recipe: `quoth/training/recipes/query_generator.py`; to repeat:
`python -m benchmarks.query_generator.pack`, then `python -m benchmarks.query_generator.run_gpu`.

**How well.** Nats per subword on {held} pairs of held-out documents; under another pair's passage
the loss shows how much the passage is used.

| | own passage | another's passage |
|---|---|---|
| as trained | {own:.3f} | {shuffled:.3f} |
| int8, as shipped | {own8:.3f} | {shuffled8:.3f} |

**Limits.** Sampled queries are topical, but not always answered by the passage: filter them (by
searching with them) before they serve as identifiers. Titles and headings are part of what it
learnt, so that not every query is a question. Trained on English alone.

**Licence.** Apache-2.0. Examples on held-out passages, greedy and one sample:

{examples}
"""


def main() -> None:
    """Read a report, write the results and the card."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--card", type=Path, default=CARD)
    given = parser.parse_args()
    content = json.loads(given.report.read_text())
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(content, indent=1) + "\n")
    card = render(content)
    given.card.write_text(card)
    print(card)


def render(content: dict[str, Any]) -> str:
    """Write the model card of a report."""
    recipe, own, int8 = content["recipe"], content["held_out"], content["held_out_int8"]
    return _CARD.format(
        layers=content["settings"]["layers"],
        pairs=sum(content["pairs"].values()),
        sources=_table(content["pairs"]),
        steps=content["steps"],
        batch=recipe["batch_size"],
        rate=recipe["learning_rate"],
        dropout=recipe["dropout"],
        smoothing=recipe["label_smoothing"],
        seed=recipe["seed"],
        device=content["device"],
        seconds=round(content["seconds"]),
        best=content["best_step"],
        held=own["num_pairs"],
        own=own["own"],
        shuffled=own["shuffled"],
        own8=int8["own"],
        shuffled8=int8["shuffled"],
        examples=_examples(content["examples"]),
    )


def _table(counts: dict[str, int]) -> str:
    lines = ["| source | pairs |", "|---|---|"]
    return "\n".join([*lines, *(f"| {source} | {count:,} |" for source, count in counts.items())])


def _examples(examples: list[dict[str, Any]]) -> str:
    lines = ["| source | true | greedy | sampled |", "|---|---|---|---|"]
    for each in examples[:10]:
        cells = (each["source"], each["true"], each["greedy"], *each["sampled"][:1])
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
