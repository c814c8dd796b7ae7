"""What it is worth to raise hits that are like the best ones, once hits are reranked.

    python -m benchmarks.learn.feedback [--data ../shared/data/ir] [--sets scifact:train,cisi:test]

Everything runs through `Engine`, as a user would: add, encode (which calibrates), search by `auto`.
Nothing but `rerank.feedback` and `rerank.feedback_hits` differs; a pair of query and passage is
read once for all of them. The defaults were chosen on training queries of two sets (`CHOSEN_ON`);
all others only judge. Sets that were measured before are kept. Writes results/feedback.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learn.product import Remembering
from benchmarks.learn.voices import contrast, judge
from benchmarks.lexical.quality import read
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.reranking import identify_reranker
from quoth.evaluation.files import read_qrels, read_queries
from quoth.models.pretrained import find_shipped
from quoth.records import Document, Qrels, Query
from quoth.search.rerank_config import RerankConfig
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parent / "results" / "feedback.json"
CHOSEN_ON = ("nfcorpus-tok:train", "scifact:train")
"""The queries that the defaults were chosen on; all others only judge."""
NOTHING = (0.0, 2)
TRIED = (NOTHING, (0.2, 2), (0.4, 2), (0.6, 2), (0.8, 2), (0.6, 1), (0.6, 3))
"""Weight of likeness, and the number of hits that the others are compared with."""
SETS = (
    "nfcorpus-tok:train,scifact:train,cacm:test,cisi:test,cosqa:test,cranfield:test,medquad:test"
    ",msmarco-dl1920:dl19,nfcorpus-tok:test,nq-mini:test,obliqa:test,scifact:test,squad-dev:test"
    ",squad-train-slice:train,tmdb:test,wikiqa:test"
)
NUM_TIMED = 12


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default=SETS, help="Names of sets, each with one of its splits.")
    parser.add_argument("--queries", type=int, default=80, help="Most queries of a split.")
    parser.add_argument("--documents", type=int, default=8000, help="Most documents of a set.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    wanted: dict[str, list[str]] = {}
    for name, _, split in (each.partition(":") for each in given.sets.split(",")):
        wanted.setdefault(name, []).append(split)
    for name, splits in wanted.items():
        fresh = measure_set(
            given.data / name, splits, most=given.queries, documents=given.documents
        )
        known = {(each["set"], each["split"]) for each in fresh}
        rows = [row for row in rows if (row["set"], row["split"]) not in known] + fresh
        write(sorted(rows, key=lambda row: (not _is_chosen_on(row), row["set"])), given.out)


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write what was measured and its sums, a row to a line."""
    default = RerankConfig()
    about = {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "default": [default.feedback, default.feedback_hits],
        "training": sum_up([row for row in rows if _is_chosen_on(row)]),
        "test": sum_up([row for row in rows if not _is_chosen_on(row)]),
    }
    head = json.dumps(about, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def sum_up(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare every weight with none, paired by query: means of sets, bootstrapped intervals."""
    sums = []
    for weight, count in TRIED[1:] if rows else ():
        changes = {
            row["set"]: np.array(row["by_query"][_key(weight, count)]["nDCG@10"])
            - np.array(row["by_query"][_key(*NOTHING)]["nDCG@10"])
            for row in rows
        }
        sums.append(
            {
                "weight": weight,
                "hits": count,
                "before": round(_mean_of_sets(rows, _key(*NOTHING)), 4),
                **contrast(changes),
                "found_in_five": round(_found_in_five(rows, _key(*NOTHING)), 4),
                "found_in_five_then": round(_found_in_five(rows, _key(weight, count)), 4),
            }
        )
    return sums


def measure_set(
    folder: Path, splits: Sequence[str], *, most: int, documents: int
) -> list[dict[str, Any]]:
    """Index one collection, and search it with every weight, split by split."""
    models = Remembering()
    judged = {split: read_qrels(folder / "qrels" / f"{split}.tsv.gz") for split in splits}
    wanted = {docid for own in judged.values() for each in own.grades.values() for docid in each}
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine(path, [], ignore_progress, models=models) as engine:
            engine.add_documents(cut(list(read(folder)), wanted, most=documents))
            engine.encode()
            held = engine.status()["documents"]
        for split, qrels in judged.items():
            asked = _sample(folder, qrels, most)
            own = Qrels({query.qid: qrels.grades[query.qid] for query in asked})
            models.is_remembering = True
            found, seconds = {}, {}
            for weight, count in TRIED:
                settings = {"rerank": {"feedback": weight, "feedback_hits": count}}
                with Engine(path, [settings], ignore_progress, models=models) as engine:
                    run = engine.run(asked, k=100, searcher="auto")
                    found[_key(weight, count)] = judge(run, asked, own)
                    seconds[_key(weight, count)] = _time(engine, asked)
            means = {n: round(statistics.fmean(each["nDCG@10"]), 4) for n, each in found.items()}
            logging.info("%s %s %s", folder.name, split, means)
            rows.append(
                {
                    "set": folder.name,
                    "split": split,
                    "documents": held,
                    "queries": len(asked),
                    "judged_queries": len(qrels.grades),
                    "processor_ms_without_reading": seconds,
                    "by_query": found,
                }
            )
    return rows


def cut(documents: Sequence[Document], judged: Set[str], *, most: int) -> list[Document]:
    """Keep at most so many documents: all that are judged relevant, and others by lot."""
    others = [each for each in documents if each.docid not in judged]
    room = max(0, most - (len(documents) - len(others)))
    kept = {each.docid for each in random.Random(0).sample(others, min(room, len(others)))}
    return [each for each in documents if each.docid in judged or each.docid in kept]


def _sample(folder: Path, qrels: Qrels, most: int) -> list[Query]:
    judged = [q for q in read_queries(folder / "queries.jsonl.gz") if q.qid in qrels.grades]
    return judged if len(judged) <= most else random.Random(0).sample(judged, most)


def _time(engine: Engine, queries: Sequence[Query]) -> float:
    """Search queries one at a time whose passages were read before: what all the rest costs."""
    seconds = []
    for query in queries[:NUM_TIMED]:
        began = time.process_time()
        engine.run([query], k=10, searcher="auto")
        seconds.append(time.process_time() - began)
    return round(1000 * statistics.median(seconds[1:]), 1)


def _mean_of_sets(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return statistics.fmean(statistics.fmean(row["by_query"][key]["nDCG@10"]) for row in rows)


def _found_in_five(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """Return the share of queries that have a relevant hit among the first five, by set."""
    ranks = [row["by_query"][key]["RR@10"] for row in rows]
    return statistics.fmean(statistics.fmean(each >= 0.2 for each in own) for own in ranks)


def _is_chosen_on(row: Mapping[str, Any]) -> bool:
    return f"{row['set']}:{row['split']}" in CHOSEN_ON


def _key(weight: float, count: int) -> str:
    return f"{weight} of {count}"


if __name__ == "__main__":
    main()
