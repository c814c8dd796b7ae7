"""Shortlists of trained models: all phrases, or those that centroids list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import WORDS, save_tiny_encoder
from transformers.utils import logging

from quoth.jobs.pixar.shortlist import make_shortlist
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.pixar import Pixar
from quoth.training.identifiers.pairs import IdentifierPairs, make_identifier_pairs
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def names() -> list[list[str]]:
    return [[f"{a} {b}", f"{b} {a} owl"] for a in WORDS[:8] for b in WORDS[8:16]]


@pytest.fixture(scope="module")
def vocabulary(names: list[list[str]]) -> PhraseVocabulary:
    return train_phrases([text for own in names for text in own], PhraseConfig(size=400))


@pytest.fixture(scope="module")
def pixar(vocabulary: PhraseVocabulary, tmp_path_factory: pytest.TempPathFactory) -> Pixar:
    base = save_tiny_encoder(tmp_path_factory.mktemp("shortlist") / "base")
    return Pixar.start(
        str(base),
        num_phrases=len(vocabulary),
        config=PixarConfig(num_slots=3, bias="zero"),
        phrase_texts=[vocabulary.text_of(each) for each in range(len(vocabulary))],
    )


@pytest.fixture(scope="module")
def pairs(names: list[list[str]], vocabulary: PhraseVocabulary, pixar: Pixar) -> IdentifierPairs:
    return make_identifier_pairs(
        names,
        tokenise=pixar.inputs.queries,
        segment=vocabulary.segment,
        num_phrases=len(vocabulary),
    )


def test_full_scores_are_those_of_all_rows(pixar: Pixar, pairs: IdentifierPairs) -> None:
    made = make_shortlist(pixar, pairs, method="full", device=CPU, seed=0)
    encoded = pixar.encode_queries(["barn owl at night"])
    found = made.shortlist(encoded.pooled[0], encoded.slots[0])
    size = pixar.head.num_phrases
    assert found.phrase_ids.tolist() == list(range(size))  # few enough to keep them all
    expected = pixar.head.rows[:size] @ encoded.pooled[0] + pixar.head.bias[:size]
    np.testing.assert_allclose(found.pooled_scores, expected, atol=0.05)  # rows are bf16


def test_centroids_list_what_their_queries_want(pixar: Pixar, pairs: IdentifierPairs) -> None:
    made = make_shortlist(pixar, pairs, method="centroids", device=CPU, seed=0)
    texts = ["barn owl", "night raven"]
    encoded = pixar.encode_queries(texts)
    exact = make_shortlist(pixar, pairs, method="full", device=CPU, seed=0)
    for pooled, slots in zip(encoded.pooled, encoded.slots, strict=True):
        found = made.shortlist(pooled, slots)
        assert 0 < len(found.phrase_ids) < pixar.head.num_phrases
        every = exact.shortlist(pooled, slots).pooled_scores
        np.testing.assert_allclose(found.pooled_scores, every[found.phrase_ids], atol=0.2)
    again = make_shortlist(pixar, pairs, method="centroids", device=CPU, seed=0)
    for name, array in made.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


def test_symbols_after_the_phrases_are_left_out(pixar: Pixar, pairs: IdentifierPairs) -> None:
    for method in ("full", "centroids"):
        made = make_shortlist(pixar, pairs, method=method, device=CPU, seed=0)
        assert len(made.rows) == pixar.head.num_phrases == len(pixar.head.rows) - 2


def test_the_model_stays_as_it_was(pixar: Pixar, pairs: IdentifierPairs, tmp_path: Path) -> None:
    before = pixar.encode_queries(["raven"]).pooled
    make_shortlist(pixar, pairs, method="centroids", device=CPU, seed=0)
    np.testing.assert_array_equal(pixar.encode_queries(["raven"]).pooled, before)
    pixar.save(tmp_path / "model")


def test_learning_centroids_says_how_far_it_is(pixar: Pixar, pairs: IdentifierPairs) -> None:
    told: list[tuple[str, int, int]] = []
    make_shortlist(
        pixar,
        pairs,
        method="centroids",
        device=CPU,
        seed=0,
        progress=lambda *done: told.append(done),
    )
    steps = [done for _what, done, _total in told]
    assert steps == list(range(1, told[-1][2] + 1))
    assert {what for what, _done, _total in told} == {"learning the shortlist"}
