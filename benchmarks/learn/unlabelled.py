"""Count how often the best passage is relevant although it is not the labelled one (Table 6.2).

    python -m benchmarks.learn.unlabelled FOLDER [FOLDER ...] [--data ../shared/data/ir]

MS MARCO labels about one passage a query; the thesis shows three queries for which a passage that
is not labelled is as good or better. Its labels are not here, but for 97 of its queries the judges
of TREC graded many passages. So suppose that one of a query's relevant passages (grade 2 or 3),
each as likely as another, were all that is labelled: how often, in the mean over the labels, is
what a state of the retriever finds first another one that is relevant, or one with at least the
label's grade? And how many of the 20 best, from which the warm-up's negatives of the type
`retriever` are drawn, are relevant and not labelled? Passages that nobody judged count as not
relevant. A folder is what `benchmarks.learn.rebuilt` wrote. Writes results/unlabelled.json.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.learn.report import make_parser, read_arrays, read_runs
from benchmarks.lexical.quality import read, splits
from quoth import __version__
from quoth.evaluation.significance import mean_interval

RESULTS = Path(__file__).parent / "results" / "unlabelled.json"
RELEVANT = 2
DEPTH = 20
EXAMPLES = 3
LENGTH = 240  # characters of a passage
SHOWN_STATE = "rumbart"

Grades = Mapping[str, int]
"""docid → grade, of one query."""


def main() -> None:
    """Count for every state of the folders."""
    given = make_parser(__doc__.splitlines()[0], RESULTS).parse_args()
    about = read_runs(given.folders)
    name = about["runs"][0]["set"]
    asked = json.loads(given.tests.read_text())[name]
    judged = dict(splits(given.data / name))
    grades = [judged[split].grades[qid] for split, own in asked.items() for qid, _text in own]
    queries = [(qid, text) for own in asked.values() for qid, text in own]
    documents = list(read(given.data / name))
    docids = [document.docid for document in documents]
    texts = {document.docid: " ".join(document.fields["text"]) for document in documents}
    states = read_states(name, given.folders, given.tests.parent)
    found = {state: [[docids[row - 1] for row in own] for own in rows] for state, rows in states}
    content = {
        "quoth": __version__,
        "set": name,
        "queries": len(queries),
        "relevant": fmean(sum(g >= RELEVANT for g in own.values()) for own in grades),
        "rows": [{"state": state, **count(own, grades)} for state, own in found.items()],
        "examples": choose_examples(queries, found[SHOWN_STATE], grades, texts),
    }
    given.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_states(
    name: str, folders: Sequence[Path], packed: Path
) -> list[tuple[str, list[list[int]]]]:
    """Return the rows of the best documents of each query, by state, BM25's first."""
    lexical = np.load(packed / "lexical.npz")[name]
    arrays = read_arrays(name, list(folders))
    states = {key.removesuffix(".rows"): arrays[key] for key in arrays if key.endswith(".rows")}
    every = {"bm25": lexical, **states}
    return [
        (state, [[int(row) for row in own[:DEPTH] if row > 0] for own in rows])
        for state, rows in every.items()
    ]


def count(found: Sequence[Sequence[str]], grades: Sequence[Grades]) -> dict[str, Any]:
    """Return the three shares with their intervals, over the queries that have a relevant one."""
    pairs = [
        (own, given)
        for own, given in zip(found, grades, strict=True)
        if own and any(grade >= RELEVANT for grade in given.values())
    ]
    measures = {"first": first_unlabelled, "as_good": first_as_good, "mined": mined_unlabelled}
    told = {}
    for name, measure in measures.items():
        scores = [measure(own, given) for own, given in pairs]
        interval = mean_interval(scores)
        told[name] = {
            "mean": round(fmean(scores), 4),
            "low": round(interval.low, 4),
            "high": round(interval.high, 4),
        }
    return told


def relevant(grades: Grades) -> dict[str, int]:
    """Keep the relevant documents."""
    return {docid: grade for docid, grade in grades.items() if grade >= RELEVANT}


def first_unlabelled(found: Sequence[str], grades: Grades) -> float:
    """Return the chance that the first hit is relevant and not the label.

    >>> first_unlabelled(["a"], {"a": 2, "b": 3, "c": 1, "d": 2, "e": 2})
    0.75
    """
    known = relevant(grades)
    return 1 - 1 / len(known) if found[0] in known else 0.0


def first_as_good(found: Sequence[str], grades: Grades) -> float:
    """Return the chance that the first hit is another than the label, with at least its grade.

    >>> first_as_good(["a"], {"a": 2, "b": 3, "c": 1, "d": 2, "e": 2})
    0.5
    """
    known = relevant(grades)
    if found[0] not in known:
        return 0.0
    worse = [docid for docid, grade in known.items() if grade <= known[found[0]]]
    return (len(worse) - 1) / len(known)


def mined_unlabelled(found: Sequence[str], grades: Grades) -> float:
    """Return the share of the best hits that are relevant and not the label, in the mean.

    >>> mined_unlabelled(["a", "x", "c", "y"], {"a": 2, "b": 3, "c": 1})
    0.125
    """
    known = relevant(grades)
    hits = sum(docid in known for docid in found)
    return hits * (1 - 1 / len(known)) / len(found)


def choose_examples(
    queries: Sequence[tuple[str, str]],
    found: Sequence[Sequence[str]],
    grades: Sequence[Grades],
    texts: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the first queries by number whose first hit is as good as a label drawn by seed."""
    examples: list[dict[str, Any]] = []
    order = sorted(range(len(queries)), key=lambda at: int(queries[at][0]))
    for at in order:
        qid, text = queries[at]
        known, best = relevant(grades[at]), found[at][0]
        if not known:
            continue
        label = random.Random(qid).choice(sorted(known))
        if best == label or known.get(best, 0) < known[label]:
            continue
        examples.append(
            {
                "qid": qid,
                "query": text,
                "label": f"({known[label]}) {texts[label][:LENGTH]}",
                "best": f"({known[best]}) {texts[best][:LENGTH]}",
            }
        )
        if len(examples) == EXAMPLES:
            break
    return examples


if __name__ == "__main__":
    main()
