"""Measure how often the passage that is shown of a long document is the one that answers.

    python -m benchmarks.hybrid.shown [--data ../shared/data/ir] [--questions 600]

The paragraphs of each article of squad-dev become one document; `quoth encode` and the default
search do the rest. Compared, question by question: passages chosen by the query's words alone, and
by words and nearness, as the product does. What is shown is also what the reranker reads. Builds
its collection in benchmarks/.cache/shown once; writes results/shown.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.lexical.quality import read
from quoth.engine.engine import Engine
from quoth.evaluation.significance import difference_interval
from quoth.records import Document
from quoth.text import passage_scores

RESULTS = Path(__file__).parent / "results" / "shown.json"
CACHE = Path("benchmarks/.cache/shown/articles.quoth")
MEASURES = ("answer_shown", "reciprocal_rank")
NAME, SEED = "squad-dev", 0


def main() -> None:
    """Build, ask with both choices in turns, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    articles = join_articles(given.data / NAME)
    titles = {each.docid: each.title for each in read(given.data / NAME)}
    asked = list(questions(given.data / NAME))
    random.Random(SEED).shuffle(asked)
    found: dict[str, list[dict[str, float]]] = {"words": [], "words and nearness": []}
    weights = {"words": 0.0, "words and nearness": passage_scores.NEARNESS}
    is_made = CACHE.with_suffix(".complete").exists()
    with Engine.open(CACHE) as engine:
        if not is_made:
            engine.add_documents(articles)
            engine.encode()
            CACHE.with_suffix(".complete").touch()
        num_passages = sum(len(each.fields["text"]) for each in articles)
        for at, (text, answers, docid) in enumerate(asked[: given.questions], start=1):
            for name, weight in weights.items():
                passage_scores.NEARNESS = weight
                found[name].append(judge(engine, text, answers, titles[docid]))
            if at % 50 == 0:
                print(f"{at} of {given.questions}", flush=True)
    content = {
        "set": NAME,
        "documents": len(articles),
        "paragraphs": num_passages,
        "questions": len(found["words"]),
        "rows": [
            {"choice": name} | {m: round(fmean(each[m] for each in own), 4) for m in MEASURES}
            for name, own in found.items()
        ],
        "differences": {m: compare(found, m) for m in MEASURES},
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))


def join_articles(folder: Path) -> list[Document]:
    """Make one document of the paragraphs that share a title."""
    texts: dict[str, list[str]] = {}
    for each in read(folder):
        texts.setdefault(each.title, []).append(each.fields["text"][0])
    return [
        Document(title, {"title": (title,), "text": tuple(own)}) for title, own in texts.items()
    ]


def questions(folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """Yield questions, their answers, and the docid of the paragraph each was asked about."""
    (judged,) = (folder / "qrels").iterdir()
    docids = dict(line.split("\t")[:2] for line in read_lines(judged))
    for line in read_lines(folder / "queries.jsonl.gz"):
        record = json.loads(line)
        if record["_id"] in docids:
            yield record["text"], record["answers"], docids[record["_id"]]


def judge(engine: Engine, text: str, answers: list[str], title: str) -> dict[str, float]:
    """Search, and look at what is shown of the right article."""
    hits = engine.search(text, k=10)
    rank = next((at for at, hit in enumerate(hits, start=1) if hit.docid == title), 0)
    shown = hits[rank - 1].passage if rank else None
    is_held = shown is not None and any(answer in shown.text for answer in answers)
    return {"answer_shown": float(is_held), "reciprocal_rank": 1 / rank if rank else 0.0}


def compare(found: dict[str, list[dict[str, float]]], measure: str) -> dict[str, Any]:
    """Return the difference of the second choice to the first, paired by question."""
    words, both = ([each[measure] for each in own] for own in found.values())
    interval = difference_interval(both, words)
    return {
        "difference": round(fmean(both) - fmean(words), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


def read_lines(path: Path) -> Iterator[str]:
    """Read the lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(str.rstrip, stream)


if __name__ == "__main__":
    main()
