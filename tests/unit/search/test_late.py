"""Late interaction against a plain loop over subwords, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_encoder import save_tiny_encoder

from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.plain import PlainEncoder, open_plain_encoder
from quoth.search.late import compare_subwords, max_similarity
from quoth.search.rerank import ReadPassage
from quoth.text.words import Analyser, AnalyserConfig

ANALYSER = Analyser(AnalyserConfig())
PASSAGES = (
    ReadPassage("Owls", "An owl hunts at night."),
    ReadPassage("", "Ravens and hens sleep in the barn, among many birds in the field."),
    ReadPassage("", ""),
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PlainEncoder:
    folder = save_tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")
    found = open_plain_encoder(str(folder))
    assert found is not None
    return found


def compare(encoder: PlainEncoder, text: str, weights: dict[str, float]) -> list[float] | None:
    return compare_subwords(encoder, text, PASSAGES, weights=weights, analyser=ANALYSER)


def test_subwords_have_their_own_vectors_whatever_is_read_beside_them(
    encoder: PlainEncoder,
) -> None:
    texts = ["an owl", "hens sleep in the barn, ravens do not", "owl"]
    sequences = encoder.inputs.queries(texts, None)
    together = encoder.encode_subwords(sequences)
    for sequence, found in zip(sequences, together, strict=True):
        (alone,) = encoder.encode_subwords([sequence])
        assert found.shape == (len(sequence.subword_ids), 32)
        np.testing.assert_allclose(found, alone, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert encoder.encode_subwords([]) == []


def test_the_mean_of_subwords_is_the_vector_of_the_text(encoder: PlainEncoder) -> None:
    """What is compared are the states that the pooled vector is the mean of."""
    (sequence,) = encoder.inputs.queries(["owl"], None)
    states = encoder._network.states(*_pad(sequence.subword_ids))[0]
    (pooled,) = encoder.encode_queries(["owl"]).vectors
    np.testing.assert_allclose(pooled, _unit(states.mean(0)), atol=1e-5)
    (found,) = encoder.encode_subwords([sequence])
    for row, state in zip(found, states, strict=True):
        assert float(row @ _unit(state)) > 0.99  # int8 where the processor has it


def test_a_passage_scores_the_best_cosine_of_each_subword_weighted_by_its_word(
    encoder: PlainEncoder,
) -> None:
    text = "hunting owls at night?"  # hunt ##i ##n ##g owl ##s at night ?
    weights = {"hunt": 3.0, "owl": 2.0, "at": 0.25, "night": 1.0}
    words = ["hunting"] * 4 + ["owls"] * 2 + ["at", "night"]
    own = [weights[ANALYSER.terms(word)[0]] for word in words]
    (query,) = encoder.encode_subwords(encoder.inputs.queries([text], None))
    assert len(query) == len(words) + 3  # [CLS], the question mark and [SEP]
    fields = [{"title": (each.title,), "text": (each.text,)} for each in PASSAGES]
    read = encoder.encode_subwords(encoder.inputs.documents(fields, None))
    found = compare(encoder, text, weights)
    assert found is not None
    for passage, score in zip(read[:2], found[:2], strict=True):
        best = [max(float(one @ other) for other in passage[1:-1]) for one in query[1:-2]]
        expected = sum(w * b for w, b in zip(own, best, strict=True)) / sum(own)
        assert score == pytest.approx(expected, abs=1e-5)
    assert found[2] == 0.0  # nothing to compare with


def test_words_that_weigh_nothing_say_nothing(encoder: PlainEncoder) -> None:
    assert compare(encoder, "???", {}) is None
    assert compare(encoder, "owl", {"raven": 1.0}) is None
    both, one = (
        compare(encoder, "owl night", {"owl": 1.0, "night": 0.0}),
        compare(encoder, "owl night", {"owl": 7.0}),
    )
    assert both == one


def test_a_query_meets_itself(encoder: PlainEncoder) -> None:
    (own,) = encoder.encode_subwords(encoder.inputs.queries(["owl at night"], None))
    weights = np.float32([0, 1, 2, 3, 0])
    assert max_similarity(own, own, weights) == pytest.approx(1.0, abs=1e-6)


def test_encoders_whose_states_have_other_uses_are_left_alone(tmp_path: Path) -> None:
    weighted = GlowEncoder.load(str(save_tiny_encoder(tmp_path / "tiny")), fast=False)
    found = compare_subwords(weighted, "owl", PASSAGES, weights={"owl": 1.0}, analyser=ANALYSER)
    assert found is None


def _pad(subword_ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([subword_ids], np.int64), np.array([len(subword_ids)], np.int64)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
