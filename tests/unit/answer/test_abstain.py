"""Abstention: features by hand, a fit against scikit-free reference numbers, files."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.answer.abstain import (
    FILE_NAME,
    REFUSAL_ALONE,
    Abstention,
    fit_abstention,
    make_features,
    open_abstention,
    save_abstention,
)
from quoth.answer.nearness import (
    coverage,
    rank_sentences,
    sentence_cosines,
    sentences_of,
    telling_words,
)
from quoth.errors import ConfigError, Damaged


def draw(count: int, seed: int = 0) -> tuple[np.ndarray, list[bool]]:
    """Features of which the first speaks for silence, two against it, the last is mute."""
    chance = np.random.default_rng(seed)
    features = chance.normal(size=(count, 4)) * [3.0, 0.2, 0.2, 1.0]
    features[:, 3] = 0.0
    logits = 0.8 * features[:, 0] - 6.0 * features[:, 1] - 3.0 * features[:, 2] + 0.5
    truth = 1 / (1 + np.exp(-logits))
    return features, (chance.random(count) < truth).tolist()


def test_a_fit_is_where_the_penalised_likelihood_is_flat() -> None:
    """The gradient of the objective, written out, vanishes at the weights found."""
    features, labels = draw(300)
    fitted = fit_abstention(features, labels, ridge=0.7)
    found = fitted.probabilities(features)
    spread = features.std(axis=0)
    scaled = np.array(fitted.weights) * spread  # weights of the standardised features
    residual = found - np.array(labels, dtype=float)
    for column in range(3):
        standard = (features[:, column] - features[:, column].mean()) / spread[column]
        assert standard @ residual + 0.7 * scaled[column] == pytest.approx(0.0, abs=1e-6)
    assert residual.sum() == pytest.approx(0.0, abs=1e-6)
    assert fitted.weights[3] == 0.0


def test_a_fit_recovers_the_weights_that_drew_the_labels() -> None:
    fitted = fit_abstention(*draw(20_000), ridge=1e-6)
    assert fitted.weights[:3] == pytest.approx((0.8, -6.0, -3.0), rel=0.06)
    assert fitted.bias == pytest.approx(0.5, abs=0.1)


def test_separable_labels_give_finite_weights() -> None:
    features = np.zeros((20, 4))
    features[:, 0] = np.arange(20)
    fitted = fit_abstention(features, [at >= 10 for at in range(20)])
    assert math.isfinite(fitted.bias) and fitted.weights[0] > 0
    found = fitted.probabilities(features)
    assert (found[:9] < 0.5).all() and (found[11:] > 0.5).all()


def test_a_sign_that_speaks_the_wrong_way_is_left_out() -> None:
    """What is left is fitted as if the sign were not there."""
    features, labels = draw(400)
    features[:, 3] = np.where(labels, 1.0, 0.0) + np.random.default_rng(1).normal(size=400)
    fitted = fit_abstention(features, labels)
    assert fitted.weights[3] == 0.0 and not fitted.needs_vectors
    mute = features.copy()
    mute[:, 3] = 0.0
    expected = fit_abstention(mute, labels)
    assert fitted.weights == pytest.approx(expected.weights)
    assert fitted.bias == pytest.approx(expected.bias)
    features[:, 3] *= -1
    assert fit_abstention(features, labels).needs_vectors, "the other way it counts"


def test_a_question_that_counts_twice_is_a_question_asked_twice() -> None:
    features, labels = draw(60)
    counts = np.where(np.arange(60) < 20, 2.0, 1.0)
    # standardised alike, as the same rows are there in the same shares
    features = np.tile(features[:20], (3, 1))
    labels = labels[:20] * 3
    fitted = fit_abstention(features, labels, counts=np.repeat([3.0, 0.0, 0.0], 20))
    repeated = fit_abstention(features, labels)
    assert fitted.weights == pytest.approx(repeated.weights)
    weighed = fit_abstention(features, labels, counts=counts)
    assert weighed.weights != pytest.approx(repeated.weights), "and more of it outweighs the ridge"


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (np.zeros((2, 4)), [True, True]),
        (np.zeros((0, 4)), []),
        (np.full((2, 4), np.nan), [True, False]),
        (np.zeros((2, 3)), [True, False]),
        (np.zeros((3, 4)), [True, False]),
    ],
)
def test_what_cannot_be_fitted_is_refused(features: np.ndarray, labels: list[bool]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        fit_abstention(features, labels)


@given(st.floats(0.0, 1.0))
def test_without_a_calibration_the_refusal_decides_alone(refusal: float) -> None:
    signs = make_features("Any owl?", ["No owl."], refusal=refusal, nearest=0.7)
    found = float(REFUSAL_ALONE.probabilities(signs[None])[0])
    assert found == pytest.approx(refusal, abs=1e-6)


def test_features_are_the_shares_of_telling_words() -> None:
    passages = ["Owls hunt. Ravens speak in Ravenna.", "It was 1970."]
    signs = make_features(
        "Which owl hunted in Ravenna in 1970?", passages, refusal=0.25, nearest=0.75
    )
    # owl 1, hunted 1, Ravenna 2, 1970 2; "hunted" has other first letters than "hunt"
    expected = [math.log(0.25 / 0.75), 5 / 6, 2 / 6, 0.75]
    assert signs.tolist() == pytest.approx(expected)


def test_questions_of_stop_words_are_covered_by_anything() -> None:
    assert telling_words("What is it?") == {}
    assert coverage({}, "") == 1.0
    assert make_features("What is it?", [], refusal=0.5).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_every_sentence_has_its_cosine() -> None:
    vectors = {"Who?": (2.0, 0.0), "Owls hunt.": (3.0, 4.0), "Hens.": (0.0, 1.0), "No.": (0, 0)}

    def encode(texts: Sequence[str]) -> np.ndarray:
        return np.array([vectors[each] for each in texts], dtype=np.float32)

    sentences = sentences_of(["Hens. Owls hunt.", "No."])
    found = sentence_cosines("Who?", sentences, encode=encode)
    assert found.tolist() == pytest.approx([0.0, 3 / math.hypot(3, 4), 0.0])
    assert sentence_cosines("Who?", [], encode=encode).tolist() == []


def test_sentences_beside_a_match_come_before_those_far_from_it() -> None:
    sentences = ["Hens sleep.", "Swifts fly.", "The raven spoke.", "It said one word.", "Nothing."]
    assert rank_sentences("What did the raven say?", sentences) == [2, 1, 3, 0, 4]


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    fitted = fit_abstention(*draw(50))
    save_abstention(tmp_path, fitted)
    assert open_abstention(tmp_path) == fitted
    assert open_abstention(tmp_path / "other") == REFUSAL_ALONE


def _saved_before(weights: Sequence[float]) -> str:
    features = ["refusal", "coverage", "best sentence", "best score"]
    return json.dumps({"features": features, "weights": weights, "bias": 0.5})


def test_a_calibration_by_the_signs_of_before_is_read_where_it_means_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / FILE_NAME).write_text(_saved_before([1.0, 0.25, -2.0, 0.0]))
    assert open_abstention(tmp_path) == Abstention((1.0, 0.25, -2.0, 0.0), 0.5)
    (tmp_path / FILE_NAME).write_text(_saved_before([1.0, 0.25, -2.0, 0.1]))
    with pytest.raises(Damaged, match=r"best score; this release .*nearest sentence.*train"):
        open_abstention(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps(
            {
                "features": ["refusal", "coverage", "best sentence", "nearest sentence"],
                "weights": [1.0, 2.0],
                "bias": 0.0,
            }
        ),
    ],
)
def test_a_damaged_calibration_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(Damaged, match=r"abstention\.json"):
        open_abstention(tmp_path)


def test_weights_must_be_as_many_as_features() -> None:
    with pytest.raises(ConfigError, match="has 1 weights, expected 4"):
        Abstention((1.0,), 0.0)
