"""A judge of support that goes by answers, not by words or similarity: the reader.

    python -m benchmarks.citations.guide --pack
    python -m benchmarks.citations.reading_judge [--limit 200]

Put the question to the statement alone, and to the cited passages: the passages support the
statement if the reader finds the same short answer in both (F1 of their words at least one half).
This is the idea of QAGS (Wang et al. 2020), with the one question that was asked. It is no model of
entailment: it sees what bears on the question and nothing else, and it is the reader that words
answers by default, so that of *reader* rows it says whether a quotation is read alone as in its
passage, not whether the reader is right.

The command says how far it agrees with gold short answers, on training questions that the reader
has not seen: of a passage that holds a short answer, each sentence is a statement, and those that
hold one should be supported and the others not. Word overlap and similarity support all of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.citations.answers import short_answer_recall, word_f1
from benchmarks.citations.guide import QUESTIONS
from benchmarks.citations.pack import CACHE, Question, open_questions
from benchmarks.citations.scores import Judge, cut_sentences
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import SHIPPED, Reader
from quoth.models.reader.spans import best_span

RESULTS = Path(__file__).parent / "results" / "reading_judge.json"
SAME = 0.5
"""F1 of two short answers that count as the same."""


@dataclass(frozen=True, slots=True)
class ReadingJudge:
    """Judges by what a reader answers."""

    short_answer: Callable[[str, str], str]
    """Question and text to the short answer in the text; empty in an empty one."""

    def for_question(self, question: str) -> Judge:
        """Return the judge of the answers to one question."""

        def is_supported(premise: str, statement: str) -> bool:
            own = self.short_answer(question, statement)
            return bool(own) and word_f1(own, [self.short_answer(question, premise)]) >= SAME

        return is_supported


def open_reading_judge(name: str = SHIPPED) -> ReadingJudge:
    """Open a reader to judge with; what it has read is kept."""
    reader = Reader.load(name)

    @cache
    def short_answer(question: str, text: str) -> str:
        found = best_span(reader.read(question, [TitledText("", text)])[0])
        return text[found.span.start : found.span.end] if found else ""

    return ReadingJudge(short_answer)


def labelled(questions: Sequence[Question]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield question, passage, sentence and whether it holds a short answer.

    A passage counts if some of its sentences hold one and others do not.
    """
    for question in questions:
        for passage in question.passages:
            sentences = [passage[span.start : span.end] for span in cut_sentences(passage)]
            holds = [short_answer_recall(each, question.short_answers) > 0 for each in sentences]
            if any(holds) and not all(holds):
                for sentence, is_right in zip(sentences, holds, strict=True):
                    yield question.text, passage, sentence, is_right


def agreement(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> dict[str, Any]:
    """Return how often a judge agrees with labels, both kinds apart.

    >>> both = agreement(np.array([True, False, True]), np.array([True, True, False]))
    >>> both["supported_of_right"], both["unsupported_of_others"], both["balanced_accuracy"]
    (0.5, 0.0, 0.25)
    """
    right, others = float(found[truth].mean()), float((~found[~truth]).mean())
    return {
        "sentences": len(truth),
        "right": int(truth.sum()),
        "supported_of_right": right,
        "unsupported_of_others": others,
        "balanced_accuracy": (right + others) / 2,
    }


def main() -> None:
    """Measure the agreement with gold short answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=Path, default=CACHE, help="what guide.py packed")
    parser.add_argument("--reader", default=SHIPPED, help="folder, or the shipped one")
    parser.add_argument("--limit", type=int, default=0, help="questions; 0 for all")
    given = parser.parse_args()
    questions = open_questions(given.questions / QUESTIONS)
    step = max(1, len(questions) // given.limit) if given.limit else 1
    pairs = list(labelled(questions[::step]))
    judge = open_reading_judge(given.reader)
    found = np.array([judge.for_question(asked)(text, own) for asked, text, own, _right in pairs])
    content = agreement(found, np.array([each[3] for each in pairs]))
    content["questions"] = len({each[0] for each in pairs})
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content))


if __name__ == "__main__":
    main()
