"""How much to quote, and which short answer to mark: on held-out training questions.

    python -m benchmarks.citations.quoting gather --reader FOLDER OUT      # some minutes
    python -m benchmarks.citations.quoting judge OUT

Questions are those that readers are not trained on, of all sources, put to what BM25 finds among
all their passages (`held_out.search_questions`). `gather` reads them, `judge` quotes further
sentences from several shares of the first one's probability on, and writes results/quoting.json.
*right*: what is quoted holds a short answer; F1 and equal: of the short answer that is marked, the
one that agrees best with all likely ones; *before*, it was the best span of the most probable
sentence. No test set is read.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.citations.answers import exact_match, short_answer_recall, word_f1
from benchmarks.citations.held_out import read_of, search_questions
from benchmarks.citations.pack import Question
from benchmarks.citations.report import mean_of
from quoth.answer.config import AnswerConfig
from quoth.answer.nearness import Numbers
from quoth.answer.quotations import QuotationLimits, choose_quotations
from quoth.answer.reading import Findings
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer
from quoth.answer.short_answers import LikelyAnswer, choose_short
from quoth.engine.models import LoadedModels
from quoth.vocabulary.dynamic import Source

RESULTS = Path(__file__).parent / "results" / "quoting.json"
SHARES = (0.2, 0.3, 0.4, 0.5)
MEASURES = ("right", "words", "f1", "equal")
BATCH = 16


class Asked(NamedTuple):
    """A question, and what the reader found in its passages."""

    question: Question
    findings: Findings


def main() -> None:
    """Read the questions, or judge what is quoted and marked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("gather", "judge"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--reader", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--each", type=int, default=600, help="questions of a source")
    given = parser.parse_args()
    if given.command == "gather":
        asked = gather(given.data, given.reader, each=given.each)
        given.out.write_bytes(pickle.dumps(asked))
        return
    content = judge(pickle.loads(given.out.read_bytes()))
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))


def gather(data: Path, folder: Path, *, each: int) -> list[Asked]:
    """Read the passages of every question that they answer."""
    questions = [own for own in search_questions(data, most=each) if own.is_answerable]
    encode = LoadedModels().sentence_encoder()
    answerer = ReadingAnswerer(FittedReader.open(folder), AnswerConfig(), encode=encode)
    asked: list[Asked] = []
    for at in range(0, len(questions), BATCH):
        own = questions[at : at + BATCH]
        found = answerer.find([one.text for one in own], [read_of(one) for one in own])
        asked += map(Asked, own, found)
        print(f"{len(asked)} of {len(questions)} questions", flush=True)
    return asked


# --------------------------------------------------------------------------------------- judging
BEFORE = AnswerConfig().quotation_share


def judge(asked: Sequence[Asked]) -> dict[str, Any]:
    """Judge every share, each against what shipped before."""
    before = np.array([judge_one(each, BEFORE, best_span=True) for each in asked])
    return {
        "questions": len(asked),
        "sources": len({each.question.qid.split(".")[0] for each in asked}),
        "before": {name: mean_of(before[:, at].tolist()) for at, name in enumerate(MEASURES)},
        "shares": [{"share": own, **sum_up(asked, own, before)} for own in SHARES],
    }


def sum_up(asked: Sequence[Asked], share: float, before: Numbers) -> dict[str, Any]:
    """Return the means with a share, and their differences to what shipped before."""
    rows = np.array([judge_one(each, share, best_span=False) for each in asked])
    return {
        **{name: mean_of(rows[:, at].tolist()) for at, name in enumerate(MEASURES)},
        "above": {
            name: mean_of((rows[:, at] - before[:, at]).tolist())
            for at, name in enumerate(MEASURES)
        },
    }


def judge_one(asked: Asked, share: float, *, best_span: bool) -> tuple[float, ...]:
    """Quote for one question: whether it is right, its words, F1 of the short answer, if equal."""
    question, findings = asked
    limits = QuotationLimits.of(AnswerConfig(quotation_share=share))
    chosen = choose_quotations(question.text, findings, limits)
    sources = [own.source for own in chosen]
    texts = [question.passages[own.passage][own.span.start : own.span.end] for own in sources]
    whole = " ".join(texts)
    if best_span:
        short = best_span_of(findings, question.passages)
    else:
        short = choose_short(findings.likely, sources)
    marked = short.text if short else ""
    references = [one for own in question.short_answers for one in own]
    return (
        short_answer_recall(whole, question.short_answers),
        float(len(whole.split())),
        word_f1(marked, references),
        exact_match(marked, references),
    )


def best_span_of(findings: Findings, passages: Sequence[str]) -> LikelyAnswer | None:
    """Return the best span of the most probable sentence."""
    if not len(findings.sentences):
        return None
    best = int(findings.probabilities.argmax())
    sentence, span = findings.sentences[best], findings.spans[best]
    if span is None:
        return None
    text = passages[sentence.passage][span.start : span.end]
    return LikelyAnswer(Source(sentence.passage, span), text, 1.0)


if __name__ == "__main__":
    main()
