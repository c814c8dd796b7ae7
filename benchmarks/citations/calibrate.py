"""Fit when to abstain, on questions of training passages that were held out; no test set is read.

    python -m benchmarks.citations.calibrate --pack                       # needs the data
    python3 -m benchmarks.citations.calibrate --base FOLDER --model FOLDER

Questions are those of squad-train-slice and medquad whose passages `benchmarks.generation.pack`
holds out. Every other one is answerable: its own passage among BM25's neighbours. The others get
neighbours alone, none of which holds the answer. Writes `abstention.json` into the model's folder
and prints the area under the curve: of the fit on these questions (five folds), and of the refusal
alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.citations.pack import CACHE, Question, open_questions, save_questions
from quoth.answer.abstain import fit_abstention, save_abstention
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.evaluation.citations_abstention import ranking_area
from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.records import Passage, Span
from quoth.training.selfsupervision.quoting import QuoteRecord

NAME = "held-out"
NUM_PASSAGES = 3
FOLDS = 5


def main() -> None:
    """Pack the questions, or fit to them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--questions", type=Path, default=CACHE)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    path = given.questions / f"{NAME}.jsonl.gz"
    if given.pack:
        from benchmarks.generation.pack import is_held_out, medquad_records, squad_records

        records = squad_records(given.data / "ir" / "squad-train-slice")
        records += medquad_records(given.data / "ir" / "medquad", count=3000)
        questions = list(make_questions([each for each in records if is_held_out(each.passage)]))
        save_questions(path, questions)
        print(
            f"{path}: {len(questions)}, {sum(each.is_answerable for each in questions)} answerable"
        )
        return
    fit(given, open_questions(path))


def make_questions(records: Sequence[QuoteRecord]) -> Iterator[Question]:
    """Give every other question its own passage, the others none that holds the answer."""
    for at, record in enumerate(records):
        hidden = [answer.casefold() for answer in record.answers]
        others = [
            text
            for text in record.distractors
            if text != record.passage and not any(each in text.casefold() for each in hidden)
        ]
        is_answerable = at % 2 == 0
        own = [record.passage] if is_answerable else []
        passages = [*own, *others][:NUM_PASSAGES]
        if len(passages) < NUM_PASSAGES:
            continue
        order = np.random.default_rng(at).permutation(NUM_PASSAGES)
        yield Question(
            NAME,
            str(at),
            record.question,
            ("",) * NUM_PASSAGES,
            tuple(passages[place] for place in order),
            short_answers=(record.answers,),
            is_answerable=is_answerable,
        )


def fit(given: argparse.Namespace, questions: Sequence[Question]) -> None:
    """Gather the signs, fit, and keep the weights."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = open_dynamic_lm(given.model, base=given.base, device=device)
    model.network.merge()
    answerer = Answerer(model, AnswerSettings())
    parts = [
        answerer.features([each.text for each in own], [passages_of(each) for each in own])
        for own in (
            questions[at : at + given.batch] for at in range(0, len(questions), given.batch)
        )
    ]
    features = np.concatenate(parts)
    labels = np.array([not each.is_answerable for each in questions])
    save_abstention(given.model, fit_abstention(features, labels.tolist()))
    print(
        f"{len(labels)} questions, {labels.mean():.0%} without an answer; area under the curve:"
        f" refusal alone {_area(-features[:, 0], labels):.3f},"
        f" fitted {_area(-_left_out(features, labels), labels):.3f}"
    )


def passages_of(question: Question) -> list[Passage]:
    """Give the passages as an answerer takes them."""
    return [
        Passage(str(at), "text", Span(0, len(text)), text)
        for at, text in enumerate(question.passages)
    ]


def _left_out(features: NDArray[np.float64], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Give the probability of no answer for each question by a fit to the other folds."""
    found = np.zeros(len(labels))
    folds = np.arange(len(labels)) // 2 % FOLDS  # both kinds in each
    for fold in range(FOLDS):
        own = folds == fold
        fitted = fit_abstention(features[~own], labels[~own].tolist())
        found[own] = fitted.probabilities(features[own])
    return found


def _area(support: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    return ranking_area(support[~labels].tolist(), support[labels].tolist())


if __name__ == "__main__":
    main()
