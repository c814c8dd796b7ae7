"""Find out how much nearness to the question should count beside what the reader says.

    python -m benchmarks.citations.nearness --reader FOLDER [--thin 3]

Questions are those of squad-train-slice that `calibrate --pack` holds out with the passage that
answers them. For each weight it prints the mean log-likelihood of the sentences that hold an
answer, and how often the best sentence does; `answer.nearness_weight` is set by the former.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.citations.calibrate import Numbers
from benchmarks.citations.held_out import NAME
from benchmarks.citations.pack import CACHE, Question, open_questions
from quoth.answer.nearness import Sentence, sentence_cosines
from quoth.answer.reading import Nearness, find_answer
from quoth.answer.reading_answerer import FittedReader
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME
from quoth.models.reader.inputs import TitledText

WEIGHTS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)


def main() -> None:
    """Try the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--thin", type=int, default=1, help="take one question of so many")
    given = parser.parse_args()
    asked = open_questions(CACHE / f"{NAME}.jsonl.gz")[:: given.thin]
    own = [each for each in asked if each.set == "own" and each.qid.startswith("squad")]
    likelihoods, hits = [], []
    for tried in weigh(given.reader, own, open_answers(given.data / "ir" / "squad-train-slice")):
        likelihoods.append([likelihood for likelihood, _is_hit in tried])
        hits.append([is_hit for _likelihood, is_hit in tried])
    print(f"{len(likelihoods)} questions\nweight  log-likelihood  best sentence answers")
    means = zip(WEIGHTS, np.mean(likelihoods, axis=0), np.mean(hits, axis=0), strict=True)
    for weight, likelihood, share in means:
        print(f"{weight:6.1f}  {likelihood:14.4f}  {share:21.3f}")


def weigh(
    folder: Path, questions: Sequence[Question], answers: dict[str, tuple[str, ...]]
) -> Iterator[list[tuple[float, bool]]]:
    """Yield, for each question whose answer was read, what every weight makes of it."""
    fitted, encoder = FittedReader.open(folder), GlowEncoder.load(DEFAULT_NAME)
    for question in questions:
        known = answers.get(key_of(question.text), ())
        readings = fitted.reader.read(
            question.text, [TitledText("", each) for each in question.passages]
        )
        cosines = cosines_for(question.text, encoder)
        tried = []
        for weight in WEIGHTS:
            found = find_answer(
                question.passages,
                readings,
                weights=fitted.weights,
                nearness=Nearness(cosines, weight),
            )
            gold = np.array([any(each in one.text for each in known) for one in found.sentences])
            if gold.any():
                tried.append(judge(found.probabilities, gold))
        if tried:
            yield tried


def cosines_for(question: str, encoder: GlowEncoder) -> Callable[[Sequence[Sentence]], Numbers]:
    """Return what compares sentences with a question, and encodes the same ones only once."""

    @functools.cache
    def compare(sentences: tuple[Sentence, ...]) -> Numbers:
        return sentence_cosines(
            question, sentences, encode=lambda texts: encoder.encode_queries(texts).vectors
        )

    return lambda sentences: compare(tuple(sentences))


def judge(probabilities: Numbers, gold: Numbers) -> tuple[float, bool]:
    """Return the log-likelihood of the sentences that answer, and whether the best one does."""
    return float(np.log(probabilities[gold].sum())), bool(gold[probabilities.argmax()])


def open_answers(folder: Path) -> dict[str, tuple[str, ...]]:
    """Read the answers of training questions, by question."""
    from benchmarks.generation import pack

    rows = pack.read_lines(folder / "queries.jsonl.gz")
    return {key_of(row["text"]): tuple(row.get("answers", ())) for row in rows}


def key_of(question: str) -> str:
    """Return a question as it is compared: some were packed as search engines are asked."""
    return question.lower().rstrip("?. ")


if __name__ == "__main__":
    main()
