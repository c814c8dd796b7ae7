"""Judge what PIXAR found, beside BM25 over the same identifiers and over the passages.

    python -m benchmarks.pixar_quality.report FOLDER [--data ../shared/data/ir]

FOLDER is what `run_gpu` wrote. Joins results of several folders over time: rows of the same set,
vocabulary, losses and step are replaced. Writes results/quality.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lexical.quality import splits
from benchmarks.pixar_quality.pack import CACHE, parts_of, read_corpus
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.evaluation.measures import evaluate_run
from quoth.records import Document, Hit, Qrels, Query, Run

RESULTS = Path(__file__).parent / "results" / "quality.json"
MEASURES = ("RR@10", "R@5", "R@100", "nDCG@10")


def main() -> None:
    """Judge every ranking of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--packed", type=Path, default=CACHE / "pixar")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--contrast", action="store_true", help="test last rankings against BM25 over identifiers"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    rows, baselines = known.get("rows", []), known.get("baselines", {})
    for path in sorted(given.folder.glob("*.json")):
        trial = json.loads(path.read_text())
        tests = read_tests(given.packed / trial["set"])
        qrels = read_qrels(trial["set"], given.data, tests)
        if trial["set"] not in baselines:
            baselines[trial["set"]] = judge_bm25(trial["set"], given, tests, qrels)
        points = trial.pop("curve")
        for point in points:
            row = trial | point
            arrays = np.load(given.folder / row.pop("file"))
            names = document_names(given.packed / trial["set"])
            row["results"] = {
                way: judge(way, arrays[way], tests, names, qrels)
                for way in arrays.files
                if not way.endswith(".scores")
            }
            if given.contrast and point is points[-1]:
                found = as_run("bag_cos.max", arrays["bag_cos.max"], tests, names)
                row["against_bm25"] = contrast(found, search_identifiers(row, given, tests), qrels)
            for lists in row.get("shortlists", ()):
                arrays = np.load(given.folder / lists.pop("file"))
                lists["results"] = {
                    way: judge(way, arrays[way], tests, names, qrels) for way in arrays.files
                }
            rows = [each for each in rows if _key(each) != _key(row)] + [row]
            logging.info("%s", {way: each["RR@10"] for way, each in row["results"].items()})
    rows.sort(key=_key)
    given.out.parent.mkdir(exist_ok=True)
    content = {"quoth": __version__, "baselines": baselines, "rows": rows}
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def read_tests(folder: Path) -> list[tuple[str, Query]]:
    """Return split and query, in the order in which they were searched for."""
    found = json.loads((folder / "tests.json").read_text())
    return [(split, Query(f"{split}/{qid}", text)) for split, qid, text in found]


def read_qrels(name: str, data: Path, tests: list[tuple[str, Query]]) -> Qrels:
    """Join the judgements of all splits; documents are named with their set."""
    source = parts_of(name)[0]
    wanted = {query.qid for _split, query in tests}
    return Qrels(
        {
            f"{split}/{qid}": {f"{source}/{docid}": grade for docid, grade in grades.items()}
            for split, qrels in splits(data / source)
            for qid, grades in qrels.grades.items()
            if f"{split}/{qid}" in wanted
        }
    )


def document_names(folder: Path) -> list[str]:
    """List the documents by their rows."""
    return list(dict.fromkeys(json.loads((folder / "documents.json").read_text())))


def judge(
    way: str, found: Any, tests: list[tuple[str, Query]], names: list[str], qrels: Qrels
) -> dict[str, float]:
    """Return the means of one ranking."""
    run = as_run(way, found, tests, names)
    asked = Qrels({qid: qrels.grades[qid] for qid in run.hits})
    scores = evaluate_run(run, asked, MEASURES).scores
    return {measure: float(np.mean(list(each.values()))) for measure, each in scores.items()}


def as_run(way: str, found: Any, tests: list[tuple[str, Query]], names: list[str]) -> Run:
    """Make a run of one ranking; scores are the ranks, which is all that was kept."""
    hits = {
        query.qid: tuple(
            Hit(names[row], 1.0 / (at + 1)) for at, row in enumerate(own.tolist()) if row >= 0
        )
        for (_split, query), own in zip(tests, found, strict=False)
    }
    return Run(way, hits)


def contrast(found: Run, other: Run, qrels: Qrels) -> dict[str, Any]:
    """Compare a ranking with another one, query by query."""
    asked = Qrels({qid: qrels.grades[qid] for qid in found.hits})
    other = Run(other.name, {qid: other.hits[qid] for qid in found.hits})
    compared = compare([other, found], asked, MEASURES, baseline=other.name)
    return {row.measure: asdict(row) for row in compared.rows if row.run_name == found.name}


def judge_bm25(
    name: str, given: argparse.Namespace, tests: list[tuple[str, Query]], qrels: Qrels
) -> dict[str, dict[str, float]]:
    """Search passages, and the identifiers joined per passage, by BM25."""
    corpus = read_corpus(name, given.data)
    texts = {"passages": corpus.texts, "identifiers": joined_identifiers(name, given)}
    texts["both"] = [f"{a}\n{b}" for a, b in zip(*texts.values(), strict=True)]
    judged = {}
    for label, own in texts.items():
        scores = evaluate_run(search_texts(own, corpus.documents, tests), qrels, MEASURES).scores
        judged[label] = {key: float(np.mean(list(each.values()))) for key, each in scores.items()}
    return judged


def search_identifiers(
    row: dict[str, Any], given: argparse.Namespace, tests: list[tuple[str, Query]]
) -> Run:
    """Search the identifiers joined per passage by BM25."""
    names = json.loads((given.packed / row["set"] / "documents.json").read_text())
    return search_texts(joined_identifiers(row["set"], given), names, tests)


def joined_identifiers(name: str, given: argparse.Namespace) -> list[str]:
    """Return the identifiers of each passage as one text."""
    with gzip.open(given.packed / name / "kept.json.gz", "rt") as stream:
        return ["\n".join(own) for own in json.load(stream)]


def search_texts(texts: list[str], documents: list[str], tests: list[tuple[str, Query]]) -> Run:
    """Index texts of the same document together, and search."""
    fields: dict[str, list[str]] = {}
    for docid, text in zip(documents, texts, strict=True):
        if text.strip():  # a passage for which no pseudo-query was kept has none
            fields.setdefault(docid, []).append(text)
    queries = [query for _split, query in tests]
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(Document(docid, {"text": tuple(own)}) for docid, own in fields.items())
        return engine.run(queries, k=100, searcher="lexical")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["set"], row["vocabulary"], row["losses"], row["rows"], row["step"]


if __name__ == "__main__":
    main()
