"""Decide whether there is an answer to give.

Signs are weighed by a logistic regression. A language model gives four: how probable it finds the
refusal it was trained to give, how many of the question's telling words the passages and their best
sentence hold, and how near the nearest sentence is by the vectors of a sentence encoder. A reader
gives its own beside those: the score of the sentence that is quoted first, how far its best span is
above "not here", and how relevant the most relevant passage is; names and numbers of the question
that no passage holds count once more. A language model's weights say how probable it is that the
passages hold no answer, a reader's that what is quoted is none. Weights are
fitted on questions with known outcome and stored beside the model; where none are, the probability
of the refusal decides alone. A sign may only speak its own way: more of the question in the
passages never speaks for silence, however the questions of the fit were made.

Pure: numbers in, numbers out, but for the two functions that keep a fitted calibration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from quoth.answer.nearness import Numbers, coverage, sentences_of, telling_words
from quoth.artifact import write_text_atomically
from quoth.errors import ConfigError, Damaged

FILE_NAME = "abstention.json"
FEATURES = ("refusal", "coverage", "best sentence", "nearest sentence")
"""What the columns of features mean, where a language model answers."""

READER_FEATURES = (
    "margin",
    "relevance",
    "coverage",
    "best sentence",
    "nearest sentence",
    "known names",
    "score",
)
"""What they mean where a reader does."""

_FOR_SILENCE = ("refusal",)  # everything else speaks against it
_LEAST = 1e-9
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Abstention:
    """A fitted calibration: how much each sign speaks for giving no answer."""

    weights: tuple[float, ...]
    bias: float
    features: tuple[str, ...] = FEATURES

    def __post_init__(self) -> None:
        numbers = (*self.weights, self.bias)
        if len(self.weights) != len(self.features) or not all(map(math.isfinite, numbers)):
            raise ConfigError(
                f"an abstention has {len(self.weights)} weights, expected {len(self.features)}"
                f" finite ones ({', '.join(self.features)}) and a bias"
            )

    @property
    def needs_vectors(self) -> bool:
        """Whether the nearest sentence by vectors has any weight."""
        weights = dict(zip(self.features, self.weights, strict=True))
        return weights.get("nearest sentence", 0.0) != 0.0

    def probabilities(self, features: Numbers) -> Numbers:  # (N,)
        """Return the probability that there is no answer, for features (N, F)."""
        return _sigmoid(features @ np.array(self.weights) + self.bias)


REFUSAL_ALONE = Abstention((1.0, 0.0, 0.0, 0.0), 0.0)
"""No calibration: what the model itself finds probable."""

MARGIN_ALONE = Abstention((-0.5, *[0.0] * (len(READER_FEATURES) - 1)), 0.0, READER_FEATURES)
"""No calibration of a reader: a span beats "not here", or it does not."""


def make_features(
    question: str, passages: Sequence[str], *, refusal: float, nearest: float = 0.0
) -> Numbers:  # (F,)
    """Gather the signs for one question; `refusal` is a probability, here turned into log-odds.

    `nearest` is the cosine of the nearest sentence, 0 where nothing encodes sentences.
    """
    refusal = min(max(refusal, _LEAST), 1 - _LEAST)
    odds = math.log(refusal / (1 - refusal))
    return np.array([odds, *_coverages(question, passages), nearest])


@dataclass(frozen=True, slots=True)
class ReaderSigns:
    """What a reader and a sentence encoder say of all passages of a question."""

    margin: float
    relevance: float
    nearest: float
    score: float
    """Of the best sentence."""


def make_reader_features(
    question: str, passages: Sequence[str], signs: ReaderSigns, *, titles: Sequence[str] = ()
) -> Numbers:  # (F,)
    """Gather the signs that a reader gives for one question; titles may hold its names, too."""
    return np.array(
        [
            *(signs.margin, signs.relevance, *_coverages(question, passages), signs.nearest),
            known_names(question, [*passages, *titles]),
            signs.score,
        ]
    )


def known_names(question: str, texts: Sequence[str]) -> float:
    """Return the share of a question's names and numbers that texts hold; 1 where it has none.

    >>> known_names("Who built Ravenna in 402?", ["Ravenna was built by many."])
    0.5
    """
    names = {stem: 1.0 for stem, weight in telling_words(question).items() if weight > 1.0}
    return coverage(names, " ".join(texts))


def _coverages(question: str, passages: Sequence[str]) -> tuple[float, float]:
    """Return how much of the question all passages hold, and their best sentence."""
    telling = telling_words(question)
    best = max((coverage(telling, each.text) for each in sentences_of(passages)), default=0.0)
    return coverage(telling, " ".join(passages)), best


def fit_abstention(
    features: Numbers,
    labels: Sequence[bool],
    *,
    ridge: float = 1.0,
    counts: Numbers | None = None,
    names: tuple[str, ...] = FEATURES,
) -> Abstention:
    """Fit weights to features (N, F); a label is True where there is no answer.

    Penalised maximum likelihood by Newton's method on standardised features; `ridge` is the
    penalty on the squared weights, which are then given for the features as they are. Signs that
    would speak the wrong way are left out, the worst first, and get the weight 0. `counts` (N,) is
    how often each question counts, once unless given.
    """
    truths = np.asarray(labels, dtype=np.float64)
    if features.shape != (len(truths), len(names)):
        raise ConfigError(
            f"features have the shape {features.shape}, expected {(len(truths), len(names))}"
        )
    if not np.isfinite(features).all() or len(set(truths.tolist())) < 2:
        raise ConfigError(
            "abstention cannot be fitted: expected finite features, and questions both with and"
            " without an answer"
        )
    means, spread = features.mean(axis=0), features.std(axis=0)
    scales = np.where(spread > 1e-12, spread, 1.0)
    standard = np.column_stack([(features - means) / scales, np.ones(len(truths))])
    repeats = np.ones(len(truths)) if counts is None else counts
    directions = np.array([1.0 if name in _FOR_SILENCE else -1.0 for name in names])
    solved = _fit_directed(standard, truths, directions, ridge=ridge, counts=repeats)
    weights = solved[:-1] / scales
    return Abstention(tuple(weights.tolist()), float(solved[-1] - weights @ means), names)


def save_abstention(folder: Path, abstention: Abstention) -> None:
    """Keep a calibration beside the model it was fitted with."""
    content = asdict(abstention)
    write_text_atomically(folder / FILE_NAME, json.dumps(content, indent=1) + "\n")


def open_abstention(folder: Path, *, without: Abstention = REFUSAL_ALONE) -> Abstention:
    """Read the calibration of a model; `without` decides where it has none."""
    path = folder / FILE_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        pairs = zip(content["features"], map(float, content["weights"]), strict=True)
        named = {name: weight for name, weight in pairs if weight != 0.0}
        expected = without.features
        if unknown := named.keys() - set(expected):
            raise ConfigError(
                f"it weighs {', '.join(sorted(unknown))}; this release {', '.join(expected)}"
            )
        weights = tuple(named.get(name, 0.0) for name in expected)
        return Abstention(weights, float(content["bias"]), expected)
    except FileNotFoundError:
        return without
    except (OSError, ValueError, KeyError, TypeError, IndexError, ConfigError) as error:
        raise Damaged(
            f"{path} cannot be read as a calibration ({error}); restore it, train the model again,"
            " or remove the file to go by the model's refusals alone"
        ) from error


def _fit_directed(
    features: Numbers, truths: Numbers, directions: Numbers, *, ridge: float, counts: Numbers
) -> Numbers:
    """Fit weights to standardised features (N, F + 1), of which the last is constant."""
    penalty = np.array([ridge] * len(directions) + [1e-9])
    kept = list(range(len(penalty)))
    while True:
        solved = np.zeros(len(penalty))
        solved[kept] = _newton(features[:, kept], truths, penalty=penalty[kept], counts=counts)
        wrong = solved[:-1] * directions
        if wrong.min() >= 0.0:
            return solved
        kept.remove(int(wrong.argmin()))


def _newton(features: Numbers, truths: Numbers, *, penalty: Numbers, counts: Numbers) -> Numbers:
    weights = np.zeros(features.shape[1])
    for _round in range(_ROUNDS):
        found = _sigmoid(features @ weights)
        slope = features.T @ (counts * (found - truths)) + penalty * weights
        bends = counts * found * (1 - found)
        curvature = (features * bends[:, None]).T @ features + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        weights = weights - step * min(1.0, 4.0 / (np.abs(step).max() + 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return weights


def _sigmoid(scores: Numbers) -> Numbers:
    """Squash scores; np.exp never overflows here.

    >>> _sigmoid(np.array([0.0, -2000.0])).tolist()
    [0.5, 0.0]
    """
    return np.where(scores >= 0, 1.0, np.exp(np.minimum(scores, 0.0))) / (
        1.0 + np.exp(-np.abs(scores))
    )
