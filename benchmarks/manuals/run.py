"""Ask the manuals the questions of a newcomer, and print every answer, good and bad.

    python -m benchmarks.manuals.run [--searcher auto] [--split development]
    python -m benchmarks.manuals.run --again        sums up the kept answers, without asking

An answer is *right* where what it quotes from a document that answers the question matches the
question's pattern; where the manuals hold no answer, refusing is right. All else that is answered
is *wrong*, whatever doubt it is worded with; the rest is *refused*. What was not answered rightly
failed at one stage:

| stage | what went wrong |
|---|---|
| search | no document that answers is among the first five |
| passages | one is, but none of its passages that were read holds the answer |
| reader | the answer was read, but other sentences were quoted |
| writer | the right sentence was quoted, but not the part that answers |
| abstention | the answer was right, but withheld; or there is none, and one was given |

Questions are answered with the threshold at 1, so that what would be withheld is seen as well; the
threshold of the settings then decides. It was chosen by the answers to the development half: the
lowest that withholds none of the right ones that 0.5 lets through. Results of development are for
looking at failures, those of the test only count. Skipped, with the reason, where there is no
collection of the manuals.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.manuals.fetch import CACHE
from benchmarks.manuals.questions import (
    COLLECTION,
    ManualQuestion,
    name_of,
    open_manual_questions,
)
from quoth.answer.cite import sentence_span
from quoth.answer.config import AnswerConfig
from quoth.engine.engine import Engine
from quoth.evaluation.significance import mean_interval
from quoth.records import Answer, Citation, Passage

RESULTS = Path(__file__).parent / "results" / "manuals.json"
STAGES = ("search", "passages", "reader", "writer", "abstention")
NUM_DOCUMENTS = 5
EVEN = 0.5  # as probably right as wrong: the threshold until development chose another
CAUTIOUS = 0.4  # a lower threshold, picked while looking at development alone


@dataclass(frozen=True)
class Judged:
    """An answer, what became of it, and where it failed; "" where it did not."""

    qid: str
    split: str
    question: str
    answer: str
    documents: tuple[str, ...]
    support: float
    confidence: str
    outcome: str
    stage: str


def main() -> None:
    """Ask, print, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--searcher", default="auto")
    parser.add_argument("--split", default="", choices=("", "development", "test"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="Sum up the kept answers anew.")
    given = parser.parse_args()
    if given.again:
        sum_up_again(given.results)
        return
    if not (given.cache / COLLECTION).is_dir():
        print(f"skipped: there is no {given.cache / COLLECTION}; run benchmarks.manuals.fetch")
        return
    asked = [each for each in open_manual_questions() if given.split in ("", each.split)]
    with Engine.open(given.cache / COLLECTION) as engine:
        searcher = engine.choose(given.searcher)
        judged = [ask(engine, each, searcher=given.searcher) for each in asked]
        thresholds = (engine.config.answer.threshold, EVEN, CAUTIOUS)
    is_reranked = given.searcher == "auto" and searcher == "hybrid"  # as `auto` does
    rows = make_rows(judged, f"{searcher}{', reranked' * is_reranked}", thresholds)
    for each in rows:
        print(json.dumps(each))
    if not given.split:
        write(given.results, rows, judged, json.loads((given.cache / "packages.json").read_text()))


def sum_up_again(path: Path) -> None:
    """Judge the answers of a result file by the threshold of the settings and write it anew."""
    content = json.loads(path.read_text(encoding="utf-8"))
    kept = [
        Judged(**{**each, "documents": tuple(each["documents"])}) for each in content["answers"]
    ]
    threshold = AnswerConfig().threshold
    judged = at_threshold(kept, threshold)
    rows = make_rows(judged, content["rows"][0]["searcher"], (threshold, EVEN, CAUTIOUS))
    development = [each for each in judged if each.split == "development"]
    print(f"development chooses {choose_threshold(development):.2f}")
    write(path, rows, judged, content["packages"])


def choose_threshold(judged: Sequence[Judged], *, most: float = EVEN) -> float:
    """Return the lowest threshold, in hundredths, with as many right answers as at the highest."""

    def count_right(threshold: float) -> int:
        return sum(each.outcome == "right" for each in at_threshold(judged, threshold))

    hundredths = (at / 100 for at in range(round(100 * most) + 1))
    return next(each for each in hundredths if count_right(each) >= count_right(most))


def ask(engine: Engine, question: ManualQuestion, *, searcher: str) -> Judged:
    """Ask one question, and print what is answered."""
    asked = engine.ask(question.question, k=NUM_DOCUMENTS, searcher=searcher, threshold=1.0)
    answer = asked.answer()
    refused = 1.0 - answer.support > engine.config.answer.threshold
    outcome, stage = judge(question, answer, refused=refused)
    documents = tuple(dict.fromkeys(name_of(each.passage.docid) for each in answer.citations))
    judged = Judged(
        *(question.qid, question.split, question.question, answer.text, documents),
        *(round(answer.support, 4), answer.confidence, outcome, stage),
    )
    shown = " ".join(answer.text.split())
    print(f"{judged.qid} [{outcome}{f', {stage}' if stage else ''}] {question.question}")
    print(
        f"    {judged.support:.2f} {judged.confidence}: {shown}  ({', '.join(documents)})",
        flush=True,
    )
    return judged


def judge(question: ManualQuestion, answer: Answer, *, refused: bool) -> tuple[str, str]:
    """Say what became of a question, and which stage failed."""
    if not question.is_answerable:
        return ("right", "") if refused else ("wrong", "abstention")
    stage = failed_stage(question, answer)
    if not stage:
        return ("refused", "abstention") if refused else ("right", "")
    return ("refused" if refused else "wrong"), stage


def failed_stage(question: ManualQuestion, answer: Answer) -> str:
    """Return the first stage that lost the answer; "" where it is quoted."""
    own = [each for each in answer.citations if _answers(question, each.passage)]
    if any(question.is_held_by(_quoted(each)) for each in own):
        return ""
    if any(question.is_held_by(_sentence(each)) for each in own):
        return "writer"
    read = [each for each in answer.passages if _answers(question, each)]
    if any(question.is_held_by(each.text) for each in read):
        return "reader"
    return "passages" if read else "search"


def make_rows(
    judged: Sequence[Judged], searcher: str, thresholds: Sequence[float]
) -> list[dict[str, Any]]:
    """Sum up every split at every threshold."""
    return [
        {"threshold": threshold, **row(searcher, name, own)}
        for threshold in thresholds
        for name, own in groups(at_threshold(judged, threshold))
    ]


def at_threshold(judged: Sequence[Judged], threshold: float) -> list[Judged]:
    """Say what would have become of the questions at another threshold."""
    answerable = {each.qid for each in open_manual_questions() if each.is_answerable}
    found = []
    for each in judged:
        refused = 1.0 - each.support > threshold
        lost = each.stage if each.stage != "abstention" else ""
        if each.qid not in answerable:
            outcome, stage = ("right", "") if refused else ("wrong", "abstention")
        elif refused:
            outcome, stage = "refused", lost or "abstention"
        else:
            outcome, stage = ("wrong", lost) if lost else ("right", "")
        found.append(replace(each, outcome=outcome, stage=stage))
    return found


def groups(judged: Sequence[Judged]) -> Iterable[tuple[str, list[Judged]]]:
    """Yield the answers of each split, and all of them."""
    for name in ("development", "test"):
        if own := [each for each in judged if each.split == name]:
            yield name, own
    yield "all", list(judged)


def row(searcher: str, name: str, judged: Sequence[Judged]) -> dict[str, Any]:
    """Sum up the answers of a group."""
    unanswerable = {each.qid for each in open_manual_questions() if not each.is_answerable}
    answerable = [each for each in judged if each.qid not in unanswerable]
    others = [each for each in judged if each.qid in unanswerable]
    failed = Counter(each.stage for each in judged if each.stage)
    return {
        "split": name,
        "searcher": searcher,
        "questions": len(judged),
        **{outcome: _share(judged, outcome) for outcome in ("right", "wrong", "refused")},
        "answerable": len(answerable),
        "answerable_right": _share(answerable, "right"),
        "answerable_wrong": _share(answerable, "wrong"),
        "unanswerable": len(others),
        "unanswerable_refused": _share(others, "right"),
        "stages": {stage: failed[stage] for stage in STAGES},
    }


def write(
    path: Path, rows: Sequence[dict[str, Any]], judged: Sequence[Judged], packages: dict[str, str]
) -> None:
    """Write results, every answer among them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"packages": packages, "rows": rows, "answers": [asdict(each) for each in judged]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _share(judged: Sequence[Judged], outcome: str) -> dict[str, float]:
    values = [float(each.outcome == outcome) for each in judged]
    interval = mean_interval(values, num_resamples=2_000) if values else None
    mean = sum(values) / max(1, len(values))
    return {"mean": mean, **(asdict(interval) if interval else {})}


def _answers(question: ManualQuestion, passage: Passage) -> bool:
    return name_of(passage.docid) in question.documents


def _quoted(citation: Citation) -> str:
    span = citation.passage_span
    return citation.passage.text[span.start : span.end]


def _sentence(citation: Citation) -> str:
    span = sentence_span(citation)
    return citation.passage.text[span.start : span.end]


if __name__ == "__main__":
    main()
