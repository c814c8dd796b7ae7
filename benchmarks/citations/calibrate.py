"""Fit when to abstain, on questions of training passages that were held out; no test set is read.

    python -m benchmarks.citations.calibrate --pack                       # needs the data
    python3 -m benchmarks.citations.calibrate --base FOLDER --model FOLDER
    python -m benchmarks.citations.calibrate --reader FOLDER

`held_out.py` says what the questions are. A language model is fitted to whether the passages hold
an answer, a reader to whether what it quotes is one (*right*). Answerable questions count as much
as all others, what was searched for as much as what was put together. Writes `abstention.json` into
the model's folder and prints areas under the curve, of each sign alone and of fits by five folds of
passages: to all kinds, and to all but the one judged. Which signs of a reader are weighed is chosen
by the logarithmic loss on sources, and on kinds of questions, that a fit has not seen
(`SIGNS_TRIED`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.citations.abstention import (
    calibration_error,
    ranking_area,
    ranking_interval,
    reliability,
)
from benchmarks.citations.cosines import open_cosines
from benchmarks.citations.held_out import (
    ANSWERABLE,
    NAME,
    SEARCHED,
    passages_of,
    questions_of,
    read_of,
    scene_of,
)
from benchmarks.citations.pack import CACHE, Question, open_questions, save_questions
from quoth.answer.abstain import (
    FEATURES,
    READER_FEATURES,
    Abstention,
    fit_abstention,
    save_abstention,
)
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.config import AnswerConfig
from quoth.answer.nearness import EncodeSentences
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer
from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME
from quoth.records import Answer

RESULTS = Path(__file__).parent / "results" / "calibration.json"
FOLDS = 5
USED = ("score",)
SIGNS_TRIED = (
    USED,
    ("score", "known names"),
    ("score", "margin"),
    ("margin",),
    ("relevance",),
    ("margin", "relevance", "known names"),
    READER_FEATURES,
)
Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
Gather = Callable[[Sequence[Question]], tuple[Numbers, Truths]]


def main() -> None:
    """Pack the questions, or fit to them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--questions", type=Path, default=CACHE)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--reader", type=Path, help="fit a reader instead of a language model")
    parser.add_argument("--encoder", default=DEFAULT_NAME, help="name, or its folder")
    parser.add_argument("--cosines", type=Path, help="in its place: what cosines.py wrote")
    parser.add_argument("--no-nearness", action="store_true", help="leave cosines out, a reader's")
    parser.add_argument("--features", type=Path, help="keep the signs here, or take them from it")
    parser.add_argument("--thin", type=int, default=1, help="take one question of so many")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    given = parser.parse_args()
    path = given.questions / f"{NAME}.jsonl.gz"
    if given.pack:
        questions = questions_of(given.data)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_questions(path, questions)
        kinds, counts = np.unique([each.set for each in questions], return_counts=True)
        print(f"{path}: {dict(zip(kinds.tolist(), counts.tolist(), strict=True))}")
        return
    fit(given, open_questions(path)[:: given.thin])


def fit(given: argparse.Namespace, questions: Sequence[Question]) -> None:
    """Gather the signs, fit, and keep the weights."""
    names, used = (READER_FEATURES, USED) if given.reader else (FEATURES, FEATURES)
    if given.features and given.features.exists():
        with np.load(given.features) as arrays:
            signs, rights = arrays["signs"], arrays["rights"]
    else:
        signs, rights = gather_all(given, questions)
        if given.features:
            np.savez(given.features, signs=signs, rights=rights)
    asked = AskedQuestions.of(questions, signs, rights, names)
    fitted = asked.fit(used, np.ones(len(questions), dtype=np.bool_))
    save_abstention(given.reader or given.model, widen(fitted, names))
    report(asked, used)
    content = sum_up(asked, used)
    if given.reader:
        content["left_out"] = [left_out_losses(asked, each) for each in SIGNS_TRIED]
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))


def widen(fitted: Abstention, names: tuple[str, ...]) -> Abstention:
    """Give the signs that were not weighed the weight 0.

    >>> widen(Abstention((2.0,), 1.0, ("b",)), ("a", "b")).weights
    (0.0, 2.0)
    """
    known = dict(zip(fitted.features, fitted.weights, strict=True))
    return Abstention(tuple(known.get(name, 0.0) for name in names), fitted.bias, names)


def gather_all(
    given: argparse.Namespace, questions: Sequence[Question]
) -> tuple[Numbers, Truths]:  # (N, F), (N,)
    """Gather the signs of all questions, and whether what is quoted answers them."""
    gather = gather_reader(given) if given.reader else gather_model(given)
    signs, rights, began = [], [], time.perf_counter()
    for at in range(0, len(questions), given.batch):
        own = questions[at : at + given.batch]
        found, are_right = gather(own)
        signs.append(found)
        rights.append(are_right)
        seconds = time.perf_counter() - began
        print(f"{at + len(own)} of {len(questions)} questions, {seconds:.0f} s", flush=True)
    return np.concatenate(signs), np.concatenate(rights)


def gather_model(given: argparse.Namespace) -> Gather:
    """Return what gathers a language model's signs; it is right wherever it may be."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, given.dtype)
    model = open_dynamic_lm(given.model, base=given.base, device=device, dtype=dtype)
    model.network.merge()
    answerer = Answerer(model, AnswerSettings(), encode=_encoder(given))

    def gather(own: Sequence[Question]) -> tuple[Numbers, Truths]:
        passages = [passages_of(each) for each in own]
        signs = answerer.features([each.text for each in own], passages)
        return signs, np.array([each.is_answerable for each in own])

    return gather


def _encoder(given: argparse.Namespace) -> EncodeSentences:
    if given.cosines:
        return open_cosines(given.cosines)
    encoder = GlowEncoder.load(given.encoder)
    return lambda texts: encoder.encode_queries(texts).vectors


def gather_reader(given: argparse.Namespace) -> Gather:
    """Return what gathers a reader's signs."""
    encode = None if given.no_nearness else _encoder(given)
    config = AnswerConfig(threshold=1.0)
    answerer = ReadingAnswerer(FittedReader.open(given.reader), config, encode=encode)

    def gather(own: Sequence[Question]) -> tuple[Numbers, Truths]:
        texts = [each.text for each in own]
        passages = [read_of(each) for each in own]
        found = answerer.find(texts, passages)
        answers = answerer.answer_found(texts, passages, found)
        rights = [is_right(*each) for each in zip(own, answers, strict=True)]
        return answerer.features(texts, passages, found), np.array(rights)

    return gather


def is_right(question: Question, answer: Answer) -> bool:
    """Whether a quotation holds a short answer, or is part of a passage that is one."""
    wanted = [each.casefold() for own in question.short_answers for each in own]
    quoted = [
        each.passage.text[each.passage_span.start : each.passage_span.end].casefold()
        for each in answer.citations
    ]
    passages = {each.casefold() for each in question.passages}
    return any(
        want in each or (want in passages and each in want) for want in wanted for each in quoted
    )


def even_counts(kinds: NDArray[np.str_]) -> Numbers:  # (N,)
    """Let questions with and without an answer count alike, and of these what was searched for.

    Of what was not, every kind counts alike.

    >>> even_counts(np.array(["own", "own", "cut", "swapped"])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> even_counts(np.array(["own", "cut", "absent", "absent"])).tolist()
    [2.0, 1.0, 0.5, 0.5]
    """
    counts = np.zeros(len(kinds))
    is_answerable = np.isin(kinds, ANSWERABLE)
    for side in (is_answerable, ~is_answerable):
        is_searched = np.isin(kinds, SEARCHED)
        parts = [own for own in (side & is_searched, side & ~is_searched) if own.any()]
        for part in parts:
            own = np.unique(kinds[part])
            for kind in own:
                share = len(kinds) / 2 / len(parts) / len(own)
                counts[kinds == kind] = share / (kinds == kind).sum()
    return counts


@dataclass(frozen=True)
class AskedQuestions:
    """Questions with their signs, and what a fit is judged by."""

    names: tuple[str, ...]
    signs: Numbers  # (N, F)
    rights: Truths
    kinds: NDArray[np.str_]
    sources: NDArray[np.str_]
    folds: NDArray[np.int64]
    """A scene is in one fold."""

    @classmethod
    def of(
        cls,
        questions: Sequence[Question],
        signs: Numbers,
        rights: Truths,
        names: tuple[str, ...],
    ) -> AskedQuestions:
        """Put questions beside their signs."""
        return cls(
            names,
            signs,
            rights,
            np.array([each.set for each in questions]),
            np.array([each.qid.split(".")[0] for each in questions]),
            np.array([scene_of(each) % FOLDS for each in questions]),
        )

    @property
    def answerable(self) -> Truths:
        """Whether the passages hold an answer."""
        return np.isin(self.kinds, ANSWERABLE)

    def chosen(self, used: Sequence[str]) -> Numbers:  # (N, U)
        """Return some signs."""
        return self.signs[:, [self.names.index(each) for each in used]]

    def fit(self, used: tuple[str, ...], rows: Truths) -> Abstention:
        """Fit to some questions by some signs."""
        return fit_abstention(
            self.chosen(used)[rows],
            (~self.rights[rows]).tolist(),
            counts=even_counts(self.kinds[rows]),
            names=used,
        )

    def without(
        self, used: tuple[str, ...], groups: NDArray[np.generic], rows: Truths | None = None
    ) -> Numbers:
        """Return the probability of no answer by fits to all groups (or `rows` of them) but one."""
        found = np.zeros(len(groups))
        for group in np.unique(groups):
            own = groups == group
            fitted = self.fit(used, ~own if rows is None else ~own & rows)
            found[own] = fitted.probabilities(self.chosen(used)[own])
        return found


def report(asked: AskedQuestions, used: tuple[str, ...]) -> None:
    """Print the areas of the signs and of fits, for each kind of unanswerable question.

    A kind is told from the answerable questions of the collections that it occurs in.
    """
    kinds, sources = asked.kinds, asked.sources

    def area_of(silence: Numbers, kind: str) -> float:
        near = np.isin(sources, sources[kinds == kind])
        return ranking_area(
            (-silence[near & asked.answerable]).tolist(), (-silence[kinds == kind]).tolist()
        )

    others = sorted({*kinds.tolist()} - {*ANSWERABLE})
    print(f"{'':24}" + "".join(f"{each:>13}" for each in others))
    for column, name in enumerate(asked.names):
        signed = asked.signs[:, column] * (1.0 if name == "refusal" else -1.0)
        print(f"{name:24}" + "".join(f"{area_of(signed, each):13.3f}" for each in others))
    for name, leaves_out in (("fitted", False), ("fitted to other kinds", True)):
        row = [
            area_of(asked.without(used, asked.folds, kinds != kind if leaves_out else None), kind)
            for kind in others
        ]
        print(f"{name:24}" + "".join(f"{each:13.3f}" for each in row))


def left_out_losses(asked: AskedQuestions, used: tuple[str, ...]) -> dict[str, Any]:
    """Judge signs by the loss on each source, and on each kind, by fits to the others."""
    counts = even_counts(asked.kinds)
    found: dict[str, Any] = {"signs": used}
    for name, groups in (("by_source", asked.sources), ("by_kind", asked.kinds)):
        silence = asked.without(used, groups)
        given = np.where(asked.rights, 1.0 - silence, silence)
        found[name] = float(-(counts * np.log(np.maximum(given, 1e-9))).sum() / counts.sum())
    return found


def sum_up(asked: AskedQuestions, used: tuple[str, ...]) -> dict[str, Any]:
    """Judge the fit by folds: its areas over all kinds, and how far its probabilities are off."""
    support = 1.0 - asked.without(used, asked.folds)
    counts = even_counts(asked.kinds).tolist()
    bins = reliability(support.tolist(), asked.rights.tolist(), counts=counts)
    own, others = support[asked.answerable].tolist(), support[~asked.answerable].tolist()
    right, wrong = support[asked.rights].tolist(), support[~asked.rights].tolist()
    return {
        "questions": len(support),
        "signs": used,
        "right_of_answerable": float(asked.rights[asked.answerable].mean()),
        "auroc": ranking_area(own, others),
        **asdict(ranking_interval(own, others, num_resamples=1_000)),
        "right_auroc": ranking_area(right, wrong),
        "ece": calibration_error(bins),
        "bins": [asdict(each) for each in bins],
    }


if __name__ == "__main__":
    main()
