"""`quoth learn` as a user runs it: a folder of text files, on the processor alone.

    python -m benchmarks.learn.cpu [--set cranfield] [--minutes 15]

Writes every document of the set to a text file, then runs `quoth add`, `encode` and `learn` as
separate processes. What `learn` reports without labels is set beside the set's own test queries,
which nothing but this benchmark sees. Trials of other sets are kept. Writes results/cpu.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.files import read_queries
from quoth.jobs.job_folder import JobFolder
from quoth.records import Qrels, Query, Run

RESULTS = Path(__file__).parent / "results" / "cpu.json"
MEASURES = ("nDCG@10", "RR@10")
SEARCHERS = ("dense", "hybrid", "auto")


def main() -> None:
    """Learn, and judge before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--set", dest="name", default="cranfield")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--queries", type=int, default=100, help="most test queries; auto reads")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with tempfile.TemporaryDirectory() as scratch:
        trial = measure(given, Path(scratch))
    known = json.loads(given.out.read_text())["trials"] if given.out.exists() else []
    trials = [each for each in known if each["set"] != given.name] + [trial]
    trials.sort(key=lambda each: each["set"])
    given.out.write_text(json.dumps({"trials": trials}, indent=1) + "\n")


def measure(given: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Run the commands of a user, and judge with the set's queries."""
    folder, collection = scratch / "documents", scratch / "c.quoth"
    names = write_files(given.data / given.name, folder)
    quoth("add", str(collection), folder.name, here=scratch)
    quoth("encode", str(collection))
    queries, qrels = test_queries(given.data / given.name, names, most=given.queries)
    before = search(collection, queries, "before")
    load, began = os.getloadavg()[0], time.perf_counter()
    quoth("learn", str(collection), "--minutes", str(given.minutes))
    seconds = time.perf_counter() - began
    after = search(collection, queries, "after")
    report = json.loads((collection / "learning" / "report.json").read_text())
    fitted = JobFolder(collection / "learning").found("reranker")
    fitted.pop("scores", None)  # the report has their means and intervals
    kept = ("installed", "reason", "num_documents", "num_passages", "quality", "seconds")
    return {
        "quoth": __version__,
        "set": given.name,
        "cores": os.cpu_count(),
        "load_before": round(load, 2),
        "minutes_asked": given.minutes,
        "minutes_taken": round(seconds / 60, 2),
        "report": {name: report[name] for name in kept},
        "reranker": fitted,
        "test_queries": len(queries),
        "test": [
            asdict(row)
            for old, new in zip(before, after, strict=True)
            for row in compare([old, new], qrels, MEASURES, baseline=old.name).rows
        ],
    }


def write_files(data: Path, folder: Path) -> dict[str, str]:
    """Write a text file per document; gives the docid of the set by the file's name."""
    folder.mkdir()
    names = {}
    for number, document in enumerate(read(data)):
        text = "\n\n".join(" ".join(each) for each in document.fields.values() if any(each))
        name = f"{number:05}.txt"
        (folder / name).write_text(text)
        names[document.docid] = name
    return names


def test_queries(data: Path, names: dict[str, str], *, most: int) -> tuple[list[Query], Qrels]:
    """Return the test queries, and their judgements in terms of file names."""
    _split, qrels = next(splits(data))
    queries = sample(read_queries(data / "queries.jsonl.gz"), qrels)[:most]
    grades = {
        query.qid: {names[docid]: grade for docid, grade in qrels.grades[query.qid].items()}
        for query in queries
    }
    return list(queries), Qrels(grades)


def search(collection: Path, queries: list[Query], when: str) -> list[Run]:
    """Search with each searcher; documents are named by their files."""
    runs = []
    with Engine.open(collection) as engine:
        for name in SEARCHERS:
            found = engine.run(queries, k=100, searcher=name)
            hits = {
                qid: tuple(replace(hit, docid=Path(hit.docid).name) for hit in own)
                for qid, own in found.hits.items()
            }
            runs.append(Run(f"{name} {when}", hits))
    return runs


def quoth(*arguments: str, here: Path | None = None) -> None:
    """Run the command line in a process of its own; files are named as seen from `here`."""
    logging.info("quoth %s", " ".join(arguments[:1]))
    code = "from quoth.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=here)


if __name__ == "__main__":
    main()
