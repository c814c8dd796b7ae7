"""Fit how much each sign of a sentence counts, the reader's and nearness to the question.

    python -m benchmarks.citations.sentence_signs gather --reader FOLDER --out FILE
    python -m benchmarks.citations.sentence_signs fit FILE [--save FOLDER]

Two kinds of questions, none of a development or test set, count alike:

- *held out*: questions of the sources that readers are trained on, held out from training, with
  passages that were searched for (`calibrate --pack`);
- *documentation*: questions that `benchmarks.technical` makes of manuals by their structure, which
  the shipped reader was not trained on, put to what BM25 finds among thousands of such passages.

Weights are fitted so that the softmax over all sentences gives those that answer the highest
probability, judged by five folds, and written to results/sentence_signs.json. `--save` puts the
reader's weights into its folder; nearness has its own setting, `answer.nearness_weight`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.citations.calibrate import Numbers
from benchmarks.citations.held_out import NAME
from benchmarks.citations.pack import CACHE, open_questions
from benchmarks.reader.signs import fit_weights as fit_groups
from benchmarks.technical.make import OUT as TECHNICAL
from quoth.answer.nearness import EncodeSentences
from quoth.answer.reading import SIGNS, open_weights, save_weights, sentence_signs
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.evaluation.significance import mean_interval
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.records import Document

RESULTS = Path(__file__).parent / "results" / "sentence_signs.json"
ALL_SIGNS = (*SIGNS, "nearness")
KINDS = ("held out", "documentation")
PASSAGES = 30_000  # of documentation, about half of which are distinct
FOLDS = 5


class Asked(NamedTuple):
    """What is known of the sentences read for one question."""

    kind: str
    signs: Numbers  # (N, F)
    gold: NDArray[np.bool_]  # (N,)


def main() -> None:
    """Gather signs, or fit weights to them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    gathering = commands.add_parser("gather")
    gathering.add_argument("--reader", type=Path, required=True)
    gathering.add_argument("--out", type=Path, required=True)
    gathering.add_argument("--each", type=int, default=80, help="questions of a technical source")
    gathering.add_argument("--seed", type=int, default=5)
    fitting = commands.add_parser("fit")
    fitting.add_argument("signs", type=Path)
    fitting.add_argument("--save", type=Path, help="folder of the reader")
    given = parser.parse_args()
    if given.command == "fit":
        fit(open_asked(given.signs), given.save)
        return
    reader, encode = Reader.load(str(given.reader)), LoadedModels().sentence_encoder()
    asked = list(gather(reader, encode, each=given.each, seed=given.seed))
    save_asked(given.out, asked, open_weights(given.reader))


# ------------------------------------------------------------------------------------- gathering
def gather(reader: Reader, encode: EncodeSentences, *, each: int, seed: int) -> Iterator[Asked]:
    """Read the passages of every question; questions whose answer was not read are left out."""
    questions = [("held out", *own) for own in held_out_questions()]
    questions += [("documentation", *own) for own in technical_questions(each, seed)]
    for at, (kind, question, passages, answers) in enumerate(questions, start=1):
        readings = reader.read(question, [TitledText(*own) for own in passages])
        sentences, signs = sentence_signs([text for _title, text in passages], readings)
        gold = np.array([is_held(answers, own.text) for own in sentences], dtype=np.bool_)
        if gold.any():
            vectors = encode([question, *(own.text for own in sentences)])
            cosines = vectors[1:] @ vectors[0]
            yield Asked(kind, np.column_stack([signs, cosines]), gold)
        if at % 50 == 0:
            print(f"{at} of {len(questions)} questions", flush=True)


Passages = list[tuple[str, str]]
"""Titles and texts."""


def held_out_questions() -> Iterator[tuple[str, Passages, list[str]]]:
    """Yield questions with their passages and answers."""
    for question in open_questions(CACHE / f"{NAME}.jsonl.gz"):
        if question.is_answerable and question.set != "documented":
            answers = [each for own in question.short_answers for each in own]
            yield question.text, list(zip(question.titles, question.passages, strict=True)), answers


def technical_questions(each: int, seed: int) -> list[tuple[str, Passages, list[str]]]:
    """Return questions of documentation with what BM25 finds for them."""
    chance = random.Random(seed)
    with gzip.open(TECHNICAL, "rt", encoding="utf-8") as lines:
        known = [row for row in map(json.loads, lines) if row["answers"]]
    sources = sorted({row["source"] for row in known})
    asked = [
        row
        for source in sources
        for row in chance.sample([own for own in known if own["source"] == source], each)
    ]
    found = []
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "notes") as engine:
        engine.add_documents(documents_of(asked, chance.sample(known, PASSAGES)))
        for row in asked:
            hits = engine.search(row["question"], k=5, searcher="lexical", syntax=False)
            read = [own.passage.text for own in hits if own.passage is not None]
            found.append((row["question"], [("", text) for text in read], row["answers"]))
    return found


def documents_of(
    asked: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]
) -> Iterator[Document]:
    """Make a document of each passage; of others, one version, as each question cuts its own."""
    seen: set[str] = set()
    for at, row in enumerate([*asked, *others]):
        opening = "".join(row["passage"].split())[:60]
        if at < len(asked) or opening not in seen:
            name = hashlib.sha256(row["passage"].encode()).hexdigest()[:16]
            yield Document(name, {"text": (row["passage"],)})
        seen.add(opening)


def is_held(answers: Sequence[str], sentence: str) -> bool:
    """Whether a sentence holds a short answer, or begins one that is longer than it.

    >>> is_held(["a barn owl"], "It is a Barn Owl."), is_held(["An owl. It flies."], "An owl.")
    (True, True)
    >>> is_held(["owls"], "An owl."), is_held(["a.b"], "a.")
    (False, False)
    """
    own = " ".join(sentence.casefold().split())
    wanted = (" ".join(each.casefold().split()) for each in answers)
    return any(each in own or (len(own) > 5 and each.startswith(own)) for each in wanted if each)


def save_asked(path: Path, asked: Sequence[Asked], weights: Sequence[float]) -> None:
    """Keep what was gathered, and the weights that the reader has now."""
    np.savez_compressed(
        path,
        kinds=np.array([each.kind for each in asked]),
        lengths=np.array([len(each.gold) for each in asked]),
        signs=np.concatenate([each.signs for each in asked]),
        gold=np.concatenate([each.gold for each in asked]),
        weights=np.array([*weights, 0.0]),
    )


def open_asked(path: Path) -> tuple[list[Asked], Numbers]:
    """Read what was gathered, sentences that no subword was read of left out."""
    with np.load(path) as arrays:
        ends = np.cumsum(arrays["lengths"])[:-1]
        parts = (np.split(arrays[name], ends) for name in ("signs", "gold"))
        asked = [
            Asked(kind, signs[np.isfinite(signs).all(1)], gold[np.isfinite(signs).all(1)])
            for kind, signs, gold in zip(arrays["kinds"].tolist(), *parts, strict=True)
        ]
        return [each for each in asked if each.gold.any()], arrays["weights"]


# --------------------------------------------------------------------------------------- fitting
def fit(gathered: tuple[list[Asked], Numbers], folder: Path | None) -> None:
    """Judge by folds, write the results, and keep weights fitted to all questions."""
    asked, now = gathered
    fitted = {
        "as before": [now] * len(asked),
        "fitted, nearness left out": by_folds(asked, ALL_SIGNS[:-1]),
        "fitted": by_folds(asked, ALL_SIGNS),
        "nearness alone": [np.array([0.0, 0.0, 0.0, 0.0, 1.0])] * len(asked),
    }
    rows = [
        {"weights": name, "kind": kind, **judge(asked, weights, kind)}
        for name, weights in fitted.items()
        for kind in KINDS
    ]
    weights = fit_weights(asked, ALL_SIGNS)
    content = {
        "before": dict(zip(ALL_SIGNS, np.round(now, 4).tolist(), strict=True)),
        "fitted": dict(zip(ALL_SIGNS, np.round(weights, 4).tolist(), strict=True)),
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))
    if folder:
        save_weights(folder, weights[:-1].tolist())


def by_folds(asked: Sequence[Asked], used: Sequence[str]) -> list[Numbers]:
    """Fit weights for each question to those of the other folds."""
    own = [
        fit_weights([each for at, each in enumerate(asked) if at % FOLDS != fold], used)
        for fold in range(FOLDS)
    ]
    return [own[at % FOLDS] for at in range(len(asked))]


def fit_weights(asked: Sequence[Asked], used: Sequence[str]) -> Numbers:  # (F,)
    """Fit weights; both kinds count alike, signs that are not used weigh nothing."""
    columns = [ALL_SIGNS.index(name) for name in used]
    counts = {kind: sum(each.kind == kind for each in asked) for kind in KINDS}
    found = np.zeros(len(ALL_SIGNS))
    found[columns] = fit_groups(
        np.repeat(np.arange(len(asked)), [len(each.gold) for each in asked]),
        np.concatenate([each.signs[:, columns] for each in asked]).astype(np.float64),
        np.concatenate([each.gold for each in asked]),
        np.array([1.0 / counts[each.kind] / len(KINDS) for each in asked]),
    )
    return found


def judge(asked: Sequence[Asked], weights: Sequence[Numbers], kind: str) -> dict[str, Any]:
    """Return how often the best sentence answers, one of the best three does, and how likely."""
    best, three, likelihoods = [], [], []
    for each, own in zip(asked, weights, strict=True):
        if each.kind == kind:
            scores = each.signs @ own
            order = np.argsort(-scores, kind="stable")
            best.append(float(each.gold[order[0]]))
            three.append(float(each.gold[order[:3]].any()))
            chances = np.exp(scores - scores.max())
            likelihoods.append(float(np.log(chances[each.gold].sum() / chances.sum())))
    interval = mean_interval(best)
    return {
        "questions": len(best),
        "best": round(float(np.mean(best)), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "best_three": round(float(np.mean(three)), 4),
        "log_likelihood": round(float(np.mean(likelihoods)), 4),
    }


if __name__ == "__main__":
    main()
