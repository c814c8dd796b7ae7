"""What PIXAR generates: identifiers of two queries, and how many words identifiers have.

    python -m benchmarks.pixar_quality.identifiers [--data ../shared/data/ir] [--set squad-dev]

Documents are named by the shipped PIXAR without training, as `quoth train pixar --pixar.train
false` does, and searched by `--with generative --explain`, which names the identifiers that make up
a hit's score. The two queries are the first that a seed draws, whatever is found for them; lengths
are of the best identifier of each of the ten best hits. Writes results/identifiers.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learn.voices import name_documents
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.records import Query, SearchRequest, ShownHit
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parent / "results" / "identifiers.json"
SHOWN, LISTED = 2, 5
_LABEL = re.compile(r'identifier "(.*?)"(?: scores|$)', re.DOTALL)


def main() -> None:
    """Name the documents of a set, search, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--set", default="squad-dev")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = given.data / given.set
    asked = sample(folder, given.queries, given.seed)
    with tempfile.TemporaryDirectory() as scratch:
        settings = [{"generative": {"generator": "none"}}]
        with Engine(Path(scratch) / "c.quoth", settings, ignore_progress) as engine:
            engine.add_documents(read(folder))
            named = name_documents(engine)
            found = [best_identifiers(engine, query) for query in asked]
    content = {
        "quoth": __version__,
        "set": given.set,
        "phrases": named["phrases"],
        "identifiers": named["identifiers"],
        "queries": [
            {"query": query.text, "found": own[:LISTED]}
            for query, own in zip(asked[:SHOWN], found, strict=False)
        ],
        "words": lengths([text for own in found for text in own]),
    }
    given.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def sample(folder: Path, count: int, seed: int) -> list[Query]:
    """Draw queries of the first test split."""
    _split, qrels = next(splits(folder))
    judged = [
        each for each in read_queries(folder / "queries.jsonl.gz") if each.qid in qrels.grades
    ]
    return random.Random(seed).sample(judged, min(count, len(judged)))


def best_identifiers(engine: Engine, query: Query) -> list[str]:
    """Return the best identifier of each hit."""
    request = SearchRequest(query.text, k=10, searcher="generative", explain=True)
    return [text for hit in engine.find(request).hits for text in identifiers_of(hit)[:1]]


def identifiers_of(hit: ShownHit) -> list[str]:
    """Read the identifiers of a hit off its explanation, the best first."""
    parts = hit.explanation.parts if hit.explanation is not None else ()
    ranked = sorted(parts, key=lambda part: -part.value)
    return [found[1] for part in ranked if (found := _LABEL.match(part.label))]


def lengths(texts: Sequence[str]) -> dict[str, Any]:
    """Count the words of identifiers."""
    counts = [len(text.split()) for text in texts]
    return {
        "identifiers": len(counts),
        "mean": round(float(np.mean(counts)), 2),
        "p50": float(np.quantile(counts, 0.5)),
        "p99": float(np.quantile(counts, 0.99)),
        "by_count": {str(words): times for words, times in sorted(Counter(counts).items())},
    }


if __name__ == "__main__":
    main()
