"""Fit when to abstain, on questions of training passages that were held out; no test set is read.

    python -m benchmarks.citations.calibrate --pack                       # needs the data
    python3 -m benchmarks.citations.calibrate --base FOLDER --model FOLDER
    python -m benchmarks.citations.calibrate --reader FOLDER

Questions are those of squad-train-slice and medquad whose passages `benchmarks.generation.pack`
holds out, so that the model (or the reader) knows none of them, put to passages that answer them
and to several kinds that do not (`unanswerable.py`); and held-out questions of all sources that the
reader learnt from, put to what BM25 finds among all their passages (*found*), or among all but
their own (*absent*), where none of these holds an answer; and questions about documentation of
programs that the reader learnt nothing of, put to passages of their page with the one that answers
(*documented*) or without (*undocumented*). Answerable questions count as much as all
others, what was searched for as much as what was put together. Writes `abstention.json` into the
model's folder and prints areas under the curve, of each sign alone and of fits by five folds of
passages: to all kinds, and to all but the one judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
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
from benchmarks.citations.pack import CACHE, Question, open_questions, save_questions
from benchmarks.citations.unanswerable import NUM_PASSAGES, Asked, Scene, holds, make_cases
from quoth.answer.abstain import FEATURES, READER_FEATURES, fit_abstention, save_abstention
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.config import AnswerConfig
from quoth.answer.nearness import EncodeSentences, coverage, telling_words
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer, TitledPassage
from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME
from quoth.records import Passage, Span

RESULTS = Path(__file__).parent / "results" / "calibration.json"
NAME = "held-out"
NUM_SCENES = 500
MAX_ASKED = 3
FOLDS = 5
MAX_SEARCHED = 70
"""Questions of a source that passages are searched for."""

MAX_DOCUMENTED, BESIDE = 500, 40
"""Questions about documentation, and passages beside theirs that they may be put to."""

ANSWERABLE = ("own", "found", "documented")
SEARCHED = ("found", "absent", "documented", "undocumented")
Numbers = NDArray[np.float64]


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
        questions = [
            *make_questions(given.data / "ir"),
            *search_questions(given.data),
            *documented_questions(given.data),
        ]
        save_questions(path, questions)
        kinds, counts = np.unique([each.set for each in questions], return_counts=True)
        print(f"{path}: {dict(zip(kinds.tolist(), counts.tolist(), strict=True))}")
        return
    fit(given, open_questions(path)[:: given.thin])


def make_questions(folder: Path) -> Iterator[Question]:
    """Put the questions of both collections to passages; a question's set is its kind."""
    squad = list(scenes(folder / "squad-train-slice", is_medical=False))
    medical = list(scenes(folder / "medquad", is_medical=True))
    for at, scene in enumerate(squad[:NUM_SCENES] + medical[: NUM_SCENES // 4]):
        source = "squad" if scene.is_swappable else "medquad"
        for number, case in enumerate(make_cases(scene, seed=at)):
            blank = ("",) * NUM_PASSAGES
            yield Question(
                *(case.kind, f"{source}.{at}.{number}", case.question, blank, case.passages),
                is_answerable=case.is_answerable,
            )


def search_questions(data: Path) -> Iterator[Question]:
    """Put held-out questions of every source to what BM25 finds, every other without its own."""
    from benchmarks.generation import pack
    from benchmarks.reader.pack import Example, is_held_out
    from benchmarks.reader.pack import questions as read_questions

    examples = [each for each in read_questions(data) if not each.source.startswith("technical")]
    passages = list(dict.fromkeys(each.passage for each in examples))
    kept: dict[str, list[Example]] = {}
    for at in np.random.default_rng(2).permutation(len(examples)).tolist():
        own = kept.setdefault(examples[at].source, [])
        if len(own) < MAX_SEARCHED and is_held_out(examples[at].passage.text, ""):
            own.append(examples[at])
    asked = [each for own in kept.values() for each in own]
    analyser = pack.Analyser(pack.AnalyserConfig())
    terms = [analyser.terms(f"{each.title} {each.text}") for each in passages]
    queries = [analyser.terms(each.question) for each in asked]
    found = pack.search_rows(terms, queries, k=NUM_PASSAGES + 1).tolist()
    for at, (example, rows) in enumerate(zip(asked, found, strict=True)):
        near = [passages[row] for row in rows if at % 2 == 0 or passages[row] != example.passage]
        near = near[:NUM_PASSAGES]
        texts = tuple(each.text for each in near)
        is_found = example.passage in near
        if is_found or not holds(texts, example.answers):
            yield Question(
                *("found" if is_found else "absent", f"{example.source}.{at}.0"),
                *(as_typed(example.question, at), tuple(each.title for each in near), texts),
                is_answerable=is_found,
            )


def documented_questions(data: Path) -> Iterator[Question]:
    """Put held-out questions about documentation to passages of their page, or one beside it.

    Every other one does without its own: what is left holds most of the question's words.
    """
    from benchmarks.reader.pack import technical_questions
    from benchmarks.technical.make import HELD_SOURCE

    asked = [each for each in technical_questions(data) if each.source == HELD_SOURCE]
    passages = list(dict.fromkeys(each.passage for each in asked))
    place_by_passage = {each: at for at, each in enumerate(passages)}
    answered = [each for each in asked if each.answers]
    chosen = np.random.default_rng(3).permutation(len(answered))[:MAX_DOCUMENTED].tolist()
    for number, example in enumerate(answered[at] for at in chosen):
        place = place_by_passage[example.passage]
        beside = [
            each
            for each in passages[max(0, place - BESIDE) : place + BESIDE + 1]
            if each != example.passage and not holds([each.text], example.answers)
        ]
        telling = telling_words(example.question)
        beside.sort(key=lambda each: -coverage(telling, each.text))
        has_own = number % 2 == 0
        shown = [example.passage] * has_own + beside
        near = [shown[at] for at in np.random.default_rng(number).permutation(NUM_PASSAGES)]
        yield Question(
            *("documented" if has_own else "undocumented", f"technical.{number}.0"),
            *(as_typed(example.question, number // 2), tuple(each.title for each in near)),
            tuple(each.text for each in near),
            is_answerable=has_own,
        )


def as_typed(question: str, number: int) -> str:
    """Write every other question as it is typed into a search engine.

    >>> as_typed("Who built Ravenna?", 1), as_typed("Who built Ravenna?", 2)
    ('who built ravenna', 'Who built Ravenna?')
    """
    return question.lower().rstrip("? ") if number % 2 else question


def scenes(folder: Path, *, is_medical: bool) -> Iterator[Scene]:
    """Return the passages that were held out, with their questions and neighbours."""
    from benchmarks.generation import pack

    analyser = pack.Analyser(pack.AnalyserConfig())
    rows = {row["_id"]: row for row in pack.read_lines(folder / "corpus.jsonl.gz")}
    pieces = [
        piece
        for piece in pack.read_pieces(folder)
        if rows[piece.docid].get("source") not in pack.COPYRIGHTED
    ]
    asked = _asked_by_docid(folder)
    docids = list(dict.fromkeys(piece.docid for piece in pieces))
    place_by_docid = {docid: at for at, docid in enumerate(docids)}
    chosen = np.random.default_rng(1).permutation(len(pieces)).tolist()
    chosen = [at for at in chosen if pack.is_held_out(pieces[at].text)]
    own = {at: _answered(pieces[at].text, asked.get(pieces[at].docid, ())) for at in chosen}
    if is_medical:  # a document's beginning says what was asked
        first = {piece.docid: at for at, piece in reversed(list(enumerate(pieces)))}
        chosen = [at for at in chosen if first[pieces[at].docid] == at]
    chosen = [at for at in chosen if own[at]][: 2 * NUM_SCENES]
    terms = [analyser.terms(f"{each.title} {each.text}") for each in pieces]
    queries = [analyser.terms(own[at][0].text) for at in chosen]
    found = pack.search_rows(terms, queries, k=20).tolist()
    for at, near in zip(chosen, found, strict=True):
        piece, others = pieces[at], [pieces[row] for row in near]
        if is_medical:  # another document on the same disease may answer as well
            others = [each for each in others if each.title != piece.title]
        place = place_by_docid[piece.docid]
        related = [
            each
            for docid in docids[max(0, place - 6) : place + 7]
            if docid != piece.docid and (not is_medical or rows[docid]["title"] == piece.title)
            for each in asked.get(docid, ())
        ]
        words = set(terms[at])
        related.sort(key=lambda each: -len(words & set(analyser.terms(each.text))))
        yield Scene(
            piece.text,
            tuple(each.text for each in others if each.docid != piece.docid),
            own[at],
            tuple(related),
            other_kind="aspect" if is_medical else "article",
            is_swappable=not is_medical,
        )


def _asked_by_docid(folder: Path) -> dict[str, list[Asked]]:
    from benchmarks.generation import pack

    queries = {row["_id"]: row for row in pack.read_lines(folder / "queries.jsonl.gz")}
    found: dict[str, list[Asked]] = {}
    for qid, docid in pack.read_pairs(folder):
        row = queries[qid]
        found.setdefault(docid, []).append(Asked(row["text"], tuple(row.get("answers", ()))))
    return found


def _answered(passage: str, asked: Sequence[Asked]) -> tuple[Asked, ...]:
    """Keep the questions whose answer stands in a passage, or whose answer is all of it."""
    found = [each for each in asked if not each.answers or any(a in passage for a in each.answers)]
    return tuple(found[:MAX_ASKED])


def fit(given: argparse.Namespace, questions: Sequence[Question]) -> None:
    """Gather the signs, fit, and keep the weights."""
    names = READER_FEATURES if given.reader else FEATURES
    if given.features and given.features.exists():
        features = np.load(given.features)
    else:
        features = gather_all(given, questions)
        if given.features:
            np.save(given.features, features)
    kinds = np.array([each.set for each in questions])
    labels = (~np.isin(kinds, ANSWERABLE)).tolist()
    fitted = fit_abstention(features, labels, counts=even_counts(kinds), names=names)
    save_abstention(given.reader or given.model, fitted)
    sources = np.array([each.qid.split(".")[0] for each in questions])
    folds = np.array([scene_of(each) % FOLDS for each in questions])
    report(features, kinds, names, sources=sources, folds=folds)  # a scene is in one fold
    content = sum_up(features, kinds, names, folds=folds)
    print(json.dumps(content))
    if given.reader:
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")


def gather_all(given: argparse.Namespace, questions: Sequence[Question]) -> Numbers:  # (N, F)
    """Gather the signs of all questions."""
    gather = gather_reader(given) if given.reader else gather_model(given)
    parts, began = [], time.perf_counter()
    for at in range(0, len(questions), given.batch):
        own = questions[at : at + given.batch]
        parts.append(gather(own))
        seconds = time.perf_counter() - began
        print(f"{at + len(own)} of {len(questions)} questions, {seconds:.0f} s", flush=True)
    return np.concatenate(parts)


def gather_model(given: argparse.Namespace) -> Callable[[Sequence[Question]], Numbers]:
    """Return what gathers a language model's signs."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, given.dtype)
    model = open_dynamic_lm(given.model, base=given.base, device=device, dtype=dtype)
    model.network.merge()
    answerer = Answerer(model, AnswerSettings(), encode=_encoder(given))
    return lambda own: answerer.features(
        [each.text for each in own], [passages_of(each) for each in own]
    )


def _encoder(given: argparse.Namespace) -> EncodeSentences:
    if given.cosines:
        return open_cosines(given.cosines)
    encoder = GlowEncoder.load(given.encoder)
    return lambda texts: encoder.encode_queries(texts).vectors


def gather_reader(given: argparse.Namespace) -> Callable[[Sequence[Question]], Numbers]:
    """Return what gathers a reader's signs."""
    encode = None if given.no_nearness else _encoder(given)
    answerer = ReadingAnswerer(FittedReader.open(given.reader), AnswerConfig(), encode=encode)
    return lambda own: answerer.features(
        [each.text for each in own],
        [list(map(TitledPassage, passages_of(each), each.titles)) for each in own],
    )


def scene_of(question: Question) -> int:
    """Return the number of the passage that a question was made for."""
    return int(question.qid.split(".")[1])


def passages_of(question: Question) -> list[Passage]:
    """Return the passages as an answerer takes them."""
    return [
        Passage(str(at), "text", Span(0, len(text)), text)
        for at, text in enumerate(question.passages)
    ]


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


def report(
    features: Numbers,
    kinds: NDArray[np.str_],
    names: tuple[str, ...],
    *,
    sources: NDArray[np.str_],
    folds: NDArray[np.int64],
) -> None:
    """Print the areas of the signs and of fits, for each kind of unanswerable question.

    A kind is told from the answerable questions of the collections that it occurs in.
    """
    near_by_kind = {kind: np.isin(sources, sources[kinds == kind]) for kind in {*kinds.tolist()}}

    def area_of(silence: Numbers, kind: str) -> float:
        near = near_by_kind[kind]
        return area(silence[near], kinds[near], kind)

    others = sorted({*kinds.tolist()} - {*ANSWERABLE})
    print(f"{'':24}" + "".join(f"{each:>12}" for each in others))
    for column, name in enumerate(names):
        signed = features[:, column] * (1.0 if name == "refusal" else -1.0)
        print(f"{name:24}" + "".join(f"{area_of(signed, each):12.3f}" for each in others))
    for name, leaves_out in (("fitted", False), ("fitted to other kinds", True)):
        row = []
        for kind in others:
            used = kinds != kind if leaves_out else np.ones(len(kinds), dtype=np.bool_)
            found = by_folds(features, kinds, names, folds=folds, used=used)
            row.append(area_of(found, kind))
        print(f"{name:24}" + "".join(f"{each:12.3f}" for each in row))


def sum_up(
    features: Numbers, kinds: NDArray[np.str_], names: tuple[str, ...], *, folds: NDArray[np.int64]
) -> dict[str, Any]:
    """Judge the fit by folds: its area over all kinds, and how far its probabilities are off."""
    used = np.ones(len(kinds), dtype=np.bool_)
    support = 1.0 - by_folds(features, kinds, names, folds=folds, used=used)
    is_own = np.isin(kinds, ANSWERABLE)
    counts = even_counts(kinds).tolist()
    bins = reliability(support.tolist(), is_own.tolist(), counts=counts)
    own, others = support[is_own].tolist(), support[~is_own].tolist()
    return {
        "questions": len(kinds),
        "auroc": ranking_area(own, others),
        **asdict(ranking_interval(own, others, num_resamples=1_000)),
        "ece": calibration_error(bins),
        "bins": [asdict(each) for each in bins],
    }


def by_folds(
    features: Numbers,
    kinds: NDArray[np.str_],
    names: tuple[str, ...],
    *,
    folds: NDArray[np.int64],
    used: NDArray[np.bool_],
) -> Numbers:  # (N,)
    """Return the probability of no answer for each question by a fit to the other folds."""
    found = np.zeros(len(kinds))
    for fold in range(FOLDS):
        own, chosen = folds == fold, used & (folds != fold)
        fitted = fit_abstention(
            features[chosen],
            (~np.isin(kinds[chosen], ANSWERABLE)).tolist(),
            counts=even_counts(kinds[chosen]),
            names=names,
        )
        found[own] = fitted.probabilities(features[own])
    return found


def area(silence: Numbers, kinds: NDArray[np.str_], kind: str) -> float:
    """Return the area of telling answerable questions from one kind of the others."""
    is_own = np.isin(kinds, ANSWERABLE)
    return ranking_area((-silence[is_own]).tolist(), (-silence[kinds == kind]).tolist())


if __name__ == "__main__":
    main()
