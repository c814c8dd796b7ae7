"""Join the queries that RUMBArt and ACROBArT rebuilt, and say how near they come to the real ones.

    python -m benchmarks.learn.rebuilt_report FOLDER [FOLDER ...] [--data ../shared/data/ir]

A folder is what `benchmarks.learn.rebuilt` wrote. The queries shown are the first by their numbers,
as many as the thesis has (Table 6.5: six, Table 6.4: two with their passages); nothing is chosen.
Over all test queries, a rebuilt query is compared with the real one by the words they share (F1).
Writes results/rebuilt.json.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.learn.report import make_parser, read_runs
from benchmarks.lexical.quality import read
from quoth import __version__
from quoth.evaluation.significance import Interval, difference_interval, mean_interval
from quoth.records import Document

RESULTS = Path(__file__).parent / "results" / "rebuilt.json"
WAYS = ("marginal", "alone", "joined")
"""RUMBArt from the mixture and from the best passage; ACROBArT from all passages at once."""
COUNT = 6
WITH_PASSAGES = 2
LENGTH = 180  # characters of a passage


def main() -> None:
    """Join the folders."""
    given = make_parser(__doc__.splitlines()[0], RESULTS).parse_args()
    about = read_runs(given.folders)
    name = about["runs"][0]["set"]
    tests = json.loads(given.tests.read_text())[name]
    found = join(tests, read_written(name, given.folders))
    texts = [_text(document) for document in read(given.data / name)]
    content = {
        "quoth": __version__,
        "device": about["device"],
        "set": name,
        "recipes": {arm: about["recipes"][arm] for arm in ("warm-up", "rumbart", "acrobart")},
        "training": about["runs"],
        "queries": [show(each, texts) for each in found[:COUNT]],
        "passages": [
            part | {"query": each["query"]}
            for each in found[:WITH_PASSAGES]
            for part in show_passages(each, texts)
        ],
        **tell(sum_up(found)),
    }
    given.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_written(name: str, folders: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Join what the models wrote, by model; a model that wrote twice as in the first folder."""
    joined: dict[str, list[dict[str, Any]]] = {}
    for folder in folders:
        path = folder / f"rebuilt-{name}.json"
        joined = (json.loads(path.read_text()) if path.exists() else {}) | joined
    return joined


def join(
    tests: Mapping[str, Sequence[Sequence[str]]], written: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Give each test query what was written for it by every model, in the order of the numbers."""
    asked = [(split, qid, text) for split, own in tests.items() for qid, text in own]
    found = []
    for at, (split, qid, text) in enumerate(asked):
        by_rumbart, by_acrobart = (written[arm][at] for arm in ("rumbart", "acrobart"))
        if {by_rumbart["query"], by_acrobart["query"]} != {text}:
            raise SystemExit(f"query {qid} is not the one that was rebuilt; pack and run again")
        found.append(
            {
                "split": split,
                "qid": qid,
                "query": text,
                "marginal": by_rumbart["marginal"],
                "alone": by_rumbart["alone"][0]["greedy"],
                "joined": by_acrobart["joined"],
                "rows": by_rumbart["rows"],
                "ways": by_rumbart["alone"],
            }
        )
    return sorted(found, key=lambda each: (int(each["qid"]), each["split"]))


def show(found: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return a query as it is shown, with the beginning of its best passage."""
    kept = {name: found[name] for name in ("split", "qid", "query", *WAYS)}
    return kept | {"best": texts[found["rows"][0] - 1][:LENGTH]}


def show_passages(found: Mapping[str, Any], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a query's best passages, each with what was written from it alone."""
    return [
        {"qid": found["qid"], "rank": rank, "passage": texts[row - 1][:LENGTH], **ways}
        for rank, (row, ways) in enumerate(zip(found["rows"], found["ways"], strict=True), start=1)
    ]


def sum_up(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean F1 of words of each way, and its differences from the best passage alone."""
    scores = {way: [words_f1(each[way], each["query"]) for each in found] for way in WAYS}
    alone = scores["alone"]
    return {
        "queries": len(found),
        "means": [
            {"way": way, "mean": round(fmean(own), 4), **_ends(mean_interval(own))}
            for way, own in scores.items()
        ],
        "differences": [
            {
                "way": way,
                "difference": round(fmean(own) - fmean(alone), 4),
                **_ends(difference_interval(own, alone)),
            }
            for way, own in scores.items()
            if way != "alone"
        ],
        "repeats": {
            way: sum(has_repeats(each[way]) for each in found) / len(found) for way in WAYS
        },
    }


def tell(words: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sums as the rows of a table too: text by way, under the names of the ways."""
    count = words["queries"]
    means = {
        each["way"]: f"{each['mean']:.2f} [{each['low']:.2f}, {each['high']:.2f}]"
        for each in words["means"]
    }
    repeats = {way: f"{share:.0%}" for way, share in words["repeats"].items()}
    return {
        "words": words,
        "shared": {"query": f"all {count}", **means},
        "repeated": {"query": f"all {count}", **repeats},
    }


def words_f1(written: str, wanted: str) -> float:
    """Return the harmonic mean of precision and recall of words, repeated ones counted.

    >>> words_f1("what owls eat eat", "what do owls eat")
    0.75
    >>> words_f1("", "owls")
    0.0
    """
    first, second = (Counter(_words(text)) for text in (written, wanted))
    shared = (first & second).total()
    return 2 * shared / (first.total() + second.total()) if shared else 0.0


def has_repeats(text: str) -> bool:
    """Say whether a word follows itself, as in many of the thesis's examples.

    >>> has_repeats("what of air air pollution"), has_repeats("the air of the town")
    (True, False)
    """
    words = _words(text)
    return any(a == b for a, b in pairwise(words))


def _text(document: Document) -> str:
    return " ".join(" ".join(document.fields.get(name, ())) for name in ("title", "text")).strip()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _ends(interval: Interval) -> dict[str, float]:
    return {"low": round(interval.low, 4), "high": round(interval.high, 4)}


if __name__ == "__main__":
    main()
