"""Judge the answers that `run` wrote: citations, correctness, exactness, abstention.

    python -m benchmarks.citations.report OUT [--join]

Citation recall and precision are ALCE's, under the judges asked for: *overlap* of words
(`benchmarks.citations.scores`), *similarity* of sentences (`judges`) and *reading*, which asks
whether statement and passages answer the question alike (`reading_judge`). Premises are the cited
passages, whole, without titles. An answer without citations scores 0 on both. EM is the share
of sub-questions whose short answer occurs, short_f1 that of the short answer alone; F1 and ROUGE-L
are against the long reference answers, or the short ones where there are no long ones. Quality is
measured on answerable questions, where a refusal is an answer like any other. Abstention: AUROC of
the answer's support, answerable against unanswerable questions, and how far it is off as a
probability (expected calibration error) of there being an answer and, where short answers are
known, of the answer being right. `above_nearest` is the difference to the nearest sentence,
question by question. Intervals are bootstrapped over
questions.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.citations.abstention import (
    calibration_error,
    ranking_area,
    ranking_interval,
    reliability,
)
from benchmarks.citations.answers import (
    exact_match,
    quotation_f1,
    rouge_l,
    short_answer_recall,
    word_f1,
)
from benchmarks.citations.judges import SIMILAR, SimilarityJudge
from benchmarks.citations.pack import CACHE, Question, open_questions
from benchmarks.citations.reading_judge import open_reading_judge
from benchmarks.citations.scores import (
    Judge,
    OverlapJudge,
    Statement,
    cited_statements,
    marked_statements,
    quotation_exactness,
    score_citations,
    without_markers,
)
from quoth.evaluation.significance import mean_interval
from quoth.records import Answer, Citation, Passage, Span
from quoth.vocabulary.dynamic import NO_ANSWER

RESULTS = Path(__file__).parent / "results" / "citations.json"
BASELINE = "nearest"
Record = dict[str, Any]
Scores = dict[str, dict[str, float]]  # by qid, then by measure
JudgesOf = Callable[[str], Mapping[str, Judge]]
"""A question to the judges of its answers, by name."""


def main() -> None:
    """Judge a folder of answers and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder that run.py wrote")
    parser.add_argument("--questions", type=Path, default=CACHE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--judges", default="overlap,similarity", help="and reading")
    parser.add_argument("--join", action="store_true", help="keep other rows of the results")
    given = parser.parse_args()
    overlap = OverlapJudge()
    judges = open_judges(given.judges, overlap)
    rows: list[Record] = []
    scores: dict[tuple[str, str], Scores] = {}
    for (name, system), records in read_answers(given.out / "answers.jsonl.gz").items():
        questions = {
            each.qid: each for each in open_questions(given.questions / f"{name}.jsonl.gz")
        }
        row, scores[name, system] = judge_system(questions, records, judges)
        compared = compare(scores[name, system], scores.get((name, BASELINE), {}))
        rows.append({"set": name, "system": system, **row, "above_nearest": compared})
        print(json.dumps(rows[-1]), flush=True)
    if given.join:
        known = json.loads(given.results.read_text())["rows"]
        new = {(row["set"], row["system"]): row for row in rows}
        rows = [new.pop((row["set"], row["system"]), row) for row in known] + [*new.values()]
    thresholds = {"overlap": overlap.threshold, "similarity": SIMILAR}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps({"thresholds": thresholds, "rows": rows}, indent=1) + "\n")


def open_judges(names: str, overlap: OverlapJudge) -> JudgesOf:
    """Open the judges that are named, overlap always among them; one of them reads the question."""
    fixed: dict[str, Judge] = {"overlap": overlap}
    if "similarity" in names:
        fixed["similarity"] = SimilarityJudge()
    if "reading" not in names:
        return lambda _question: fixed
    reading = open_reading_judge()
    return lambda question: {**fixed, "reading": reading.for_question(question)}


def read_answers(path: Path) -> dict[tuple[str, str], list[Record]]:
    """Read answers by set and system."""
    groups = defaultdict(list)
    with gzip.open(path, "rt") as stream:
        for record in map(json.loads, stream):
            groups[record["set"], record["system"]].append(record)
    return dict(groups)


def judge_system(
    questions: Mapping[str, Question], records: Sequence[Record], judges: JudgesOf
) -> tuple[Record, Scores]:
    """Measure one system on one set; also returns the scores of each answerable question."""
    pairs = [(questions[record["qid"]], record) for record in records]
    answered = [(question, record) for question, record in pairs if question.is_answerable]
    scores = defaultdict(list)
    scores_by_qid: Scores = {}
    for question, record in answered:
        scores_by_qid[question.qid] = score_answer(question, record, judges(question.text))
        for name, score in scores_by_qid[question.qid].items():
            scores[name].append(score)
    answers = [_answer(*pair) for pair in pairs if pair[1]["citations"] is not None]
    num_quotations = sum(len(each.citations) for each in answers)
    row = {
        "questions": len(pairs),
        "answerable": len(answered),
        **{name: mean_of(own) for name, own in scores.items()},
        "refused": fmean(record["text"].strip() == NO_ANSWER for _question, record in answered),
        "quotation_exactness": quotation_exactness(answers) if num_quotations else None,
        "quotations": num_quotations,
        "abstention": abstention(pairs),
        "seconds": fmean(record["seconds"] for record in records),
        "examples": [
            {"question": question.text, "answer": record["text"], "citations": record["citations"]}
            for question, record in pairs[:3]
        ],
    }
    return row, scores_by_qid


def compare(own: Scores, others: Scores) -> Record:
    """Return how much higher EM and F1 are than another system's, question by question."""
    shared = sorted(own.keys() & others.keys())
    return {
        name: mean_of([own[qid][name] - others[qid][name] for qid in shared])
        for name in ("em", "f1")
        if shared and all(name in own[qid] and name in others[qid] for qid in shared)
    }


def score_answer(
    question: Question, record: Record, judges: Mapping[str, Judge]
) -> dict[str, float]:
    """Measure one answer."""
    statements = cut_statements(question, record)
    text = without_markers(record["text"])
    flat = [each for own in question.short_answers for each in own]
    references = question.long_answers or flat
    scores = {
        "f1": word_f1(text, references),
        "rouge_l": rouge_l(text, references),
        "citations": float(sum(len(each.cited) for each in statements)),
        "words": float(len(text.split())),
    }
    if question.short_answers:
        scores["em"] = short_answer_recall(text, question.short_answers)
        scores["strict_em"] = exact_match(text, flat)
        if record.get("short"):
            scores["short_f1"] = word_f1(record["short"][0], flat)
    if question.quoted is not None and record["citations"] is not None:
        reference = {int(at): quoted for at, quoted in question.quoted.items()}
        scores["quotation_f1"] = quotation_f1(_quoted(record), reference)
    for name, judge in judges.items():
        found = score_citations(statements, question.passages, judge=judge)
        scores |= {f"{name}_recall": found.recall, f"{name}_precision": found.precision}
    return scores


def cut_statements(question: Question, record: Record) -> tuple[Statement, ...]:
    """Cut an answer into statements; markers cite where it has no citations of its own."""
    if not record["citations"]:
        return marked_statements(record["text"])
    answer = _answer(question, record)
    return cited_statements(answer, [citation[2] for citation in record["citations"]])


def abstention(pairs: Sequence[tuple[Question, Record]]) -> Record | None:
    """Measure how well support tells answerable questions from others."""
    scored = [(question.is_answerable, record["support"]) for question, record in pairs]
    if any(support is None for _is_answerable, support in scored):
        return None
    kinds = [[s for is_answerable, s in scored if is_answerable is kind] for kind in (True, False)]
    if not all(kinds):
        return None
    interval = ranking_interval(kinds[0], kinds[1], num_resamples=2_000)
    found = {"auroc": ranking_area(kinds[0], kinds[1]), **asdict(interval)}
    if all(0.0 <= support <= 1.0 for _is_answerable, support in scored):
        found |= _reliability([support for _, support in scored], [each for each, _ in scored])
        if all(question.short_answers for question, _record in pairs if question.is_answerable):
            rights = [is_right(*each) for each in pairs]
            found["right"] = _reliability([support for _, support in scored], rights)
    return found


def is_right(question: Question, record: Record) -> bool:
    """Whether an answer holds a short answer of a question that has one."""
    return (
        question.is_answerable and short_answer_recall(record["text"], question.short_answers) > 0
    )


def _reliability(supports: Sequence[float], truths: Sequence[bool]) -> Record:
    """Say how far probabilities are off what came true."""
    bins = reliability(supports, truths)
    return {"ece": calibration_error(bins), "bins": [asdict(each) for each in bins]}


def _answer(question: Question, record: Record) -> Answer:
    """Read an answer back, its passages taken from the question."""
    citations = []
    for start, end, place, source_start, source_end in record["citations"]:
        text = question.passages[place]
        passage = Passage(str(place), "text", Span(0, len(text)), text)
        citations.append(Citation(Span(start, end), passage, Span(source_start, source_end)))
    return Answer(record["text"], tuple(citations))


def _quoted(record: Record) -> dict[int, str]:
    """Join what an answer quotes from each passage."""
    quoted: dict[int, str] = {}
    for start, end, place, *_source in record["citations"]:
        quoted[place] = f"{quoted.get(place, '')} {record['text'][start:end]}".strip()
    return quoted


def mean_of(scores: Sequence[float]) -> Record:
    return {"mean": fmean(scores), **asdict(mean_interval(scores, num_resamples=2_000))}


if __name__ == "__main__":
    main()
