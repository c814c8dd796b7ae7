"""Aggregation: each method against its formula, and shares that add up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.index.trie.build import build_trie
from quoth.index.trie.trie import Sequences
from quoth.search.generative.aggregate import Evidence, Owners, aggregate, explain, gather_evidence
from quoth.search.generative.aggregate_config import METHODS, POSTINGS, AggregateConfig
from quoth.search.generative.decode.decoder import Decoded

IDENTIFIERS = [(5, (1, 2), -0.5), (8, (2, 3, 4), -1.0), (9, (4,), -2.0)]
OWNERS = [[10, 20], [20], [10, 20, 30, 40]]


def make_evidence(
    identifiers: list[tuple[int, tuple[int, ...], float]], owners: list[list[int]], num_owners: int
) -> Evidence:
    return Evidence(
        rows=np.array([row for row, _, _ in identifiers], dtype=np.int64),
        scores=np.array([score for _, _, score in identifiers], dtype=np.float64),
        owners=np.array([row for own in owners for row in own], dtype=np.int64),
        owner_starts=np.cumsum([0, *map(len, owners)]),
        phrase_ids=np.array([each for _, own, _ in identifiers for each in own], dtype=np.int32),
        phrase_starts=np.cumsum([0, *(len(own) for _, own, _ in identifiers)]),
        num_owners=num_owners,
    )


@pytest.fixture
def evidence() -> Evidence:
    return make_evidence(IDENTIFIERS, OWNERS, 100)


def scores_by_row(found: Owners) -> dict[int, float]:
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def odds(score: float, count: int) -> float:
    prior = (count + 0.5) / (100 + 1)
    return math.log(math.exp(score) / (1 - math.exp(score)) / (prior / (1 - prior)))


# Arithmetic


def test_max_takes_the_best_identifier(evidence: Evidence) -> None:
    found = aggregate(evidence, AggregateConfig(method="max"), k=10)
    assert found.rows.tolist() == [10, 20, 30, 40]
    assert found.scores.tolist() == [-0.5, -0.5, -2.0, -2.0]


def test_logsumexp_adds_probabilities(evidence: Evidence) -> None:
    found = scores_by_row(aggregate(evidence, AggregateConfig(method="logsumexp"), k=10))
    assert found[10] == pytest.approx(math.log(math.exp(-0.5) + math.exp(-2.0)))
    assert found[20] == pytest.approx(math.log(math.exp(-0.5) + math.exp(-1.0) + math.exp(-2.0)))
    assert found[30] == -2.0


def test_temperature_counts_more_or_less_of_what_is_not_best(evidence: Evidence) -> None:
    for each in (0.5, 2.0):
        config = AggregateConfig(method="logsumexp", temperature=each)
        found = scores_by_row(aggregate(evidence, config, k=10))
        assert found[20] == pytest.approx(
            each * math.log(sum(math.exp(score / each) for score in (-0.5, -1.0, -2.0)))
        )
        assert found[30] == pytest.approx(-2.0)


def test_seal_discounts_phrases_that_were_there_before(evidence: Evidence) -> None:
    config = AggregateConfig(method="seal", alpha=2.0, beta=0.8)
    found = scores_by_row(aggregate(evidence, config, k=10))
    first, second, third = odds(-0.5, 2), odds(-1.0, 1), odds(-2.0, 4)
    assert first > second > third > 0.0
    assert found[10] == pytest.approx(first**2 + third**2)
    assert found[20] == pytest.approx(
        first**2 + second**2 * (0.2 + 0.8 * 2 / 3) + third**2 * (0.2 + 0.8 * 0 / 1)
    )


def test_seal_gives_nothing_to_what_is_likelier_anyway_and_bounds_the_certain() -> None:
    unlikely = make_evidence([(0, (1,), -9.0), (1, (2,), 3.0)], [[1], [2]], 3)
    found = scores_by_row(aggregate(unlikely, AggregateConfig(method="seal"), k=5))
    assert found[1] == 0.0 and 0.0 < found[2] < math.inf
    lifted = aggregate(unlikely, AggregateConfig(method="seal", lift=8.5), k=5)
    assert scores_by_row(lifted)[1] > 0.0


def test_rank_adds_reciprocal_ranks(evidence: Evidence) -> None:
    found = scores_by_row(aggregate(evidence, AggregateConfig(method="rank"), k=10))
    assert found[20] == pytest.approx(1 / 61 + 1 / 62 + 1 / 63)
    assert found[10] == pytest.approx(1 / 61 + 1 / 63)
    assert found[30] == pytest.approx(1 / 63)


def test_owners_may_share_what_an_identifier_says(evidence: Evidence) -> None:
    def score(method: str) -> dict[int, float]:
        config = AggregateConfig(method=method, posting="divide")
        return scores_by_row(aggregate(evidence, config, k=10))

    assert score("max")[20] == pytest.approx(-1.0)  # above -0.5 - log 2
    assert score("max")[30] == pytest.approx(-2.0 - math.log(4))
    assert score("logsumexp")[10] == pytest.approx(
        math.log(math.exp(-0.5) / 2 + math.exp(-2.0) / 4)
    )
    assert score("rank")[10] == pytest.approx(1 / 61 / 2 + 1 / 63 / 4)
    assert score("seal")[10] == pytest.approx(odds(-0.5, 2) ** 2 / 2 + odds(-2.0, 4) ** 2 / 4)


def test_the_k_best_are_given_ties_by_row(evidence: Evidence) -> None:
    assert aggregate(evidence, AggregateConfig(), k=3).rows.tolist() == [10, 20, 30]


def test_nothing_found_gives_nothing() -> None:
    for method in METHODS:
        found = aggregate(make_evidence([], [], 0), AggregateConfig(method=method), k=5)
        assert len(found.rows) == len(found.scores) == 0


# Equivalence


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    scores=st.lists(st.floats(-30, 5), min_size=1, max_size=12),
    method=st.sampled_from(METHODS),
    posting=st.sampled_from(POSTINGS),
    seed=st.integers(0, 1000),
)
def test_shares_add_up_to_every_score(
    scores: list[float], method: str, posting: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    identifiers = [
        (at, tuple(rng.integers(0, 6, rng.integers(1, 4)).tolist()), score)
        for at, score in enumerate(sorted(scores, reverse=True))
    ]
    owners = [sorted(set(rng.integers(0, 5, rng.integers(1, 5)).tolist())) for _ in identifiers]
    evidence = make_evidence(identifiers, owners, 7)
    config = AggregateConfig(method=method, posting=posting, lift=3.0)
    found = aggregate(evidence, config, k=100)
    assert set(found.rows.tolist()) == {row for own in owners for row in own}
    for row, score in scores_by_row(found).items():
        parts = explain(evidence, config, owner=row)
        assert math.fsum(part.share for part in parts) == pytest.approx(score, abs=1e-6)
        assert all(row in owners[part.row] for part in parts)
        if method == "logsumexp":
            values = [
                scores_own - (math.log(len(own)) if posting == "divide" else 0.0)
                for (_, _, scores_own), own in zip(identifiers, owners, strict=True)
                if row in own
            ]
            assert score == pytest.approx(math.log(math.fsum(map(math.exp, values))), abs=1e-9)


def test_evidence_is_read_from_the_trie() -> None:
    sequences = Sequences(np.array([1, 2, 1, 2, 3], dtype=np.int32), np.array([0, 2, 4, 5]))
    trie = build_trie(sequences, owners=np.array([40, 30, 30]), num_phrases=4)
    decoded = Decoded(np.array([1, 0]), np.array([-1.0, -2.0], dtype=np.float32))
    evidence = gather_evidence(trie, decoded)
    assert evidence.num_owners == 2
    assert evidence.phrase_ids.tolist() == [1, 2, 3]
    found = aggregate(evidence, AggregateConfig(), k=5)
    assert scores_by_row(found) == {30: -1.0, 40: -1.0}
    [part] = explain(evidence, AggregateConfig(), owner=40)
    assert (part.row, part.score, part.share) == (1, -1.0, -1.0)


# What is refused


@pytest.mark.parametrize(
    "change",
    [
        {"method": "mean"},
        {"posting": "x"},
        {"alpha": 0.0},
        {"beta": 1.5},
        {"lift": math.nan},
        {"constant": -1},
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        replace(AggregateConfig(), **change)
