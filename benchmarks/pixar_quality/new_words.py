"""Documents that come later, with words that the phrases of the others do not have.

    python -m benchmarks.pixar_quality.new_words [--data ../shared/data/ir] [--sets nq-mini,wikiqa]

Every other document is added and named with the shipped PIXAR, without training; then the rest is
added, once with words that the vocabulary lacks cut into parts (`generative.new_words = false`) and
once with a phrase for each. All documents are searched. Queries whose relevant documents are all
*old*, and those whose are all *new*, are judged apart, as `benchmarks.pixar_pretraining` does;
differences between parts and words are paired by query. Sets that were measured before are kept.
Writes results/new_words.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lexical.quality import read, splits
from benchmarks.pixar_pretraining.report import spread
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.records import Document, Qrels, Query
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "new_words.json"
SETS = "nq-mini,squad-dev,wikiqa,scifact"
MEASURE = "RR@10"
OLD, NEW = "old", "new"


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--queries", type=int, default=250, help="Most queries of either sort.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for name in given.sets.split(","):
        row = measure_set(given.data / name, most=given.queries)
        rows = [each for each in rows if each["set"] != name] + [row]
        rows.sort(key=lambda each: str(each["set"]))
        content = {"quoth": __version__, "measure": MEASURE, "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


def measure_set(folder: Path, *, most: int) -> dict[str, Any]:
    """Name half of a collection, add the rest in both ways, and judge."""
    documents = list(read(folder))
    groups, qrels = group_queries(folder, documents, most=most)
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "base.quoth"
        with Engine.open(base, settings=[_settings(new_words=True)]) as engine:
            engine.add_documents(documents[::2])
            config = PixarBuildConfig(train=False, judged_queries=0, looks=0)
            report = train_generative(engine, PixarRequest(config), note=logging.info)
        found = {}
        for way in ("parts", "words"):
            own = Path(scratch) / f"{way}.quoth"
            shutil.copytree(base, own)
            found[way] = add_and_judge(own, documents[1::2], groups, qrels, is_whole=way == "words")
    result: dict[str, Any] = {
        "set": folder.name,
        "documents": len(documents),
        "phrases": report.num_phrases,
        "added_words": found["words"]["added"],
        "seconds_to_add": {way: own["seconds"] for way, own in found.items()},
        "queries": {sort: len(own) for sort, own in groups.items()},
    }
    for way, own in found.items():
        result[way] = {sort: spread([own[sort]]) for sort in groups}
    result["difference"] = {
        sort: spread([np.array(found["words"][sort]) - np.array(found["parts"][sort])])
        for sort in groups
    }
    logging.info("%s", result)
    return result


def group_queries(
    folder: Path, documents: Sequence[Document], *, most: int
) -> tuple[dict[str, list[Query]], Qrels]:
    """Part the test queries by whether all their relevant documents are old or all are new."""
    sort_by_docid = {each.docid: (OLD, NEW)[at % 2] for at, each in enumerate(documents)}
    queries = read_queries(folder / "queries.jsonl.gz")
    _split, qrels = next(splits(folder))
    groups: dict[str, list[Query]] = {OLD: [], NEW: []}
    for query in queries:
        grades = qrels.grades.get(query.qid, {})
        sorts = {sort_by_docid[docid] for docid, grade in grades.items() if grade > 0}
        if len(sorts) == 1:
            groups[sorts.pop()].append(query)
    chance = random.Random(0)
    return {
        sort: own if len(own) <= most else chance.sample(own, most) for sort, own in groups.items()
    }, qrels


def add_and_judge(
    path: Path,
    documents: Sequence[Document],
    groups: dict[str, list[Query]],
    qrels: Qrels,
    *,
    is_whole: bool,
) -> dict[str, Any]:
    """Add documents, new words whole or in parts, and score every query."""
    found: dict[str, Any] = {}
    with Engine.open(path, settings=[_settings(new_words=is_whole)]) as engine:
        before = engine.status()["indexes"]["generative"]["phrases"]
        began = time.process_time()
        engine.add_documents(documents)
        found["seconds"] = round(time.process_time() - began, 1)
        found["added"] = engine.status()["indexes"]["generative"]["phrases"] - before
        for sort, queries in groups.items():
            run = engine.run(queries, k=10, searcher="generative")
            own = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
            scores = evaluate_run(run, own, (MEASURE,)).scores[MEASURE]
            found[sort] = [scores[query.qid] for query in queries]
    return found


def _settings(*, new_words: bool) -> dict[str, dict[str, Any]]:
    return {"generative": {"generator": "none", "new_words": new_words}}


if __name__ == "__main__":
    main()
