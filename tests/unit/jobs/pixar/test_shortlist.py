"""Shortlists of trained models: all phrases, or those that centroids list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder import WORDS, save_tiny_encoder
from transformers.utils import logging

from quoth.jobs.pixar import shortlist
from quoth.jobs.pixar.shortlist import learn_centroids, list_phrases, make_shortlist
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.training.identifiers.pairs import IdentifierPairs, make_identifier_pairs
from quoth.training.identifiers.shortlist import CentroidRound
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")
FULL, CENTROIDS = ShortlistConfig(method="full"), ShortlistConfig()


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
    made = make_shortlist(pixar, pairs, config=FULL, device=CPU)
    encoded = pixar.encode_queries(["barn owl at night"])
    found = made.shortlist(encoded.pooled[0], encoded.slots[0])
    size = pixar.head.num_phrases
    assert found.phrase_ids.tolist() == list(range(size))  # few enough to keep them all
    expected = pixar.head.rows[:size] @ encoded.pooled[0] + pixar.head.bias[:size]
    np.testing.assert_allclose(found.pooled_scores, expected, atol=0.05)  # rows are bf16


def test_centroids_list_what_their_queries_want(pixar: Pixar, pairs: IdentifierPairs) -> None:
    made = make_shortlist(pixar, pairs, config=CENTROIDS, device=CPU)
    texts = ["barn owl", "night raven"]
    encoded = pixar.encode_queries(texts)
    exact = make_shortlist(pixar, pairs, config=FULL, device=CPU)
    for pooled, slots in zip(encoded.pooled, encoded.slots, strict=True):
        found = made.shortlist(pooled, slots)
        assert 0 < len(found.phrase_ids) < pixar.head.num_phrases
        every = exact.shortlist(pooled, slots).pooled_scores
        np.testing.assert_allclose(found.pooled_scores, every[found.phrase_ids], atol=0.2)
    again = make_shortlist(pixar, pairs, config=CENTROIDS, device=CPU)
    for name, array in made.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])


def test_the_round_that_serves_held_out_queries_is_kept(
    pixar: Pixar, pairs: IdentifierPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shortlist.train_centroids
    rounds: list[CentroidRound] = []

    def spoil_last(*arguments: Any, **named: Any) -> Iterator[CentroidRound]:
        """Train as ever, and a round more that turns every centroid away from its queries."""
        rounds[:] = whole(*arguments, **named)
        worst = max(each.held_out_loss for each in rounds) + 1.0
        yield from rounds
        yield replace(rounds[-1], centroids=-rounds[-1].centroids, held_out_loss=worst)

    monkeypatch.setattr(shortlist, "train_centroids", spoil_last)
    kept = learn_centroids(pixar, pairs, config=CENTROIDS, device=CPU)
    losses = [each.held_out_loss for each in rounds]
    assert all(losses) and torch.equal(kept, rounds[losses.index(min(losses))].centroids)


def test_lists_are_as_many_and_as_long_as_set(pixar: Pixar, pairs: IdentifierPairs) -> None:
    config = ShortlistConfig(num_centroids=6, list_length=30, num_lists=2)
    centroids = learn_centroids(pixar, pairs, config=config, device=CPU)
    made = list_phrases(pixar, centroids, config=config)
    encoded = pixar.encode_queries(["barn owl"])
    assert len(centroids) == 6
    assert 30 <= len(made.choose(encoded.pooled[0], encoded.slots[0])) <= 60


def test_symbols_after_the_phrases_are_left_out(pixar: Pixar, pairs: IdentifierPairs) -> None:
    for config in (FULL, CENTROIDS):
        made = make_shortlist(pixar, pairs, config=config, device=CPU)
        assert len(made.rows) == pixar.head.num_phrases == len(pixar.head.rows) - 2


def test_the_model_stays_as_it_was(pixar: Pixar, pairs: IdentifierPairs, tmp_path: Path) -> None:
    before = pixar.encode_queries(["raven"]).pooled
    make_shortlist(pixar, pairs, config=CENTROIDS, device=CPU)
    np.testing.assert_array_equal(pixar.encode_queries(["raven"]).pooled, before)
    pixar.save(tmp_path / "model")


def test_learning_centroids_says_how_far_it_is(pixar: Pixar, pairs: IdentifierPairs) -> None:
    told: list[tuple[str, int, int]] = []
    make_shortlist(
        pixar,
        pairs,
        config=CENTROIDS,
        device=CPU,
        progress=lambda *done: told.append(done),
    )
    steps = [done for _what, done, _total in told]
    assert steps == list(range(1, told[-1][2] + 1))
    assert {what for what, _done, _total in told} == {"learning the shortlist"}
