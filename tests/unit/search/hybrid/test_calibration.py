"""Calibration: small cases by hand, then simulated searchers whose best mix is known."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import ConfigError, Damaged
from quoth.records import Hit, Run
from quoth.search.hybrid.calibration import (
    WORTH,
    Calibration,
    Target,
    calibrate,
    choose_weights,
    deal_folds,
    lower_bound,
    standard_error,
    stratified_mean,
    stratify,
    weight_grid,
)
from quoth.search.hybrid.fusion import convex
from quoth.search.hybrid.fusion_config import MEASURES, CalibrationConfig

CONFIG = CalibrationConfig(num_resamples=300)
NUM_DOCUMENTS = 40


def make_targets(count: int, *, overlap: float = 1.0) -> list[Target]:
    return [Target(f"q{n}", f"d{n % NUM_DOCUMENTS}", overlap) for n in range(count)]


def simulate(name: str, targets: Sequence[Target], *, skill: float, seed: int) -> Run:
    """Make a searcher that adds `skill` to the target's score and one deviation of noise to all."""
    generator = random.Random(f"{name} {seed}")
    hits = {}
    for target in targets:
        scores = {f"d{n}": generator.gauss(0.0, 1.0) for n in range(NUM_DOCUMENTS)}
        scores[target.docid] += skill
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:20]
        hits[target.qid] = tuple(Hit(docid, score) for docid, score in ranked)
    return Run(name, hits)


def reciprocal_ranks(
    runs: Sequence[Run], targets: Sequence[Target], weights: Mapping[str, float]
) -> float:
    fused = convex(runs, weights=weights, normalise="min_max", k=10)
    ranks = [
        next((1 / n for n, hit in enumerate(fused.hits[t.qid], 1) if hit.docid == t.docid), 0.0)
        for t in targets
    ]
    return fmean(ranks)


class TestParts:
    def test_worth_of_a_rank(self) -> None:
        assert tuple(WORTH) == MEASURES
        assert (WORTH["RR"](4), WORTH["nDCG"](3)) == (1 / 4, 1 / math.log2(1 + 3))

    def test_grid_of_two_and_three(self) -> None:
        assert [weights[1] for weights in weight_grid(2, steps=10)] == [
            n / 10 for n in reversed(range(11))
        ]
        grid = weight_grid(3, steps=10)
        assert len(set(grid)) == 11 * 12 // 2
        assert all(sum(weights) == pytest.approx(1.0) for weights in grid)

    def test_strata_count_the_same_whatever_their_size(self) -> None:
        strata = [[0], [1, 2, 3]]
        assert stratified_mean([1.0, 0.2, 0.3, 0.4], strata) == pytest.approx((1.0 + 0.3) / 2)

    def test_standard_error_adds_the_strata_up(self) -> None:
        values = [1.0, 2.0, 5.0, 5.5, 7.0]
        variances = (stdev(values[:2]) ** 2 / 2, stdev(values[2:]) ** 2 / 3)
        expected = math.sqrt(variances[0] + variances[1]) / 2
        assert standard_error(values, [[0, 1], [2, 3, 4]]) == pytest.approx(expected)

    def test_lower_bound_is_near_the_normal_one(self) -> None:
        generator = random.Random(0)
        values = [generator.gauss(1.0, 2.0) for _ in range(400)]
        bound = lower_bound(values, [range(400)], confidence=0.95, num_resamples=2000, seed=1)
        half = 1.645 * stdev(values) / 20
        assert bound == pytest.approx(fmean(values) - half, abs=half / 5)

    @given(st.sets(st.text(max_size=5), min_size=1), st.integers(2, 7), st.integers())
    def test_folds_are_even_and_depend_on_the_seed_alone(
        self, docids: set[str], num_folds: int, seed: int
    ) -> None:
        folds = deal_folds(docids, num_folds=num_folds, seed=seed)
        sizes = [list(folds.values()).count(fold) for fold in range(num_folds)]
        assert max(sizes) - min(sizes) <= 1
        assert folds == deal_folds(frozenset(sorted(docids)), num_folds=num_folds, seed=seed)

    def test_small_strata_are_joined(self) -> None:
        config = CalibrationConfig(min_stratum=2, overlap_split=0.6)
        assert stratify([0.1, 0.6, 0.9], config=config) == {"all": [0, 1, 2]}
        assert stratify([0.1, 0.6, 0.9, 0.5], config=config) == {
            "low overlap": [0, 3],
            "high overlap": [1, 2],
        }

    def test_clear_evidence_beats_evenness(self) -> None:
        gains = {(1.0, 0.0): [0.9, 1.0, 0.8], (0.5, 0.5): [0.5, 0.5, 0.5]}
        assert choose_weights(gains, strata=[range(3)]) == (1.0, 0.0)

    def test_flat_evidence_gives_the_even_mix(self) -> None:
        gains = {weights: [0.5, 0.25] for weights in weight_grid(3, steps=3)}
        assert choose_weights(gains, strata=[range(2)]) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


class TestSimulatedSearchers:
    def test_a_hopeless_searcher_gets_little(self) -> None:
        targets = make_targets(200)
        runs = [
            simulate("lexical", targets, skill=0.0, seed=0),
            simulate("dense", targets, skill=3.0, seed=0),
        ]
        found = calibrate(runs, targets, CONFIG)
        assert found.fell_back and found.weights == {"lexical": 0.0, "dense": 1.0}
        assert found.scores["dense"] > found.scores["lexical"] + 0.3
        assert "dense is used alone" in found.reason

    def test_complementary_searchers_are_mixed(self) -> None:
        targets = make_targets(200)
        runs = [simulate(name, targets, skill=2.0, seed=1) for name in ("lexical", "dense")]
        found = calibrate(runs, targets, CONFIG)
        assert not found.fell_back
        assert 0.3 <= found.weights["dense"] <= 0.7
        assert found.scores["fused"] > max(found.scores["lexical"], found.scores["dense"]) + 0.05

    def test_the_better_of_two_weighs_more(self) -> None:
        targets = make_targets(400)
        runs = [
            simulate("lexical", targets, skill=1.2, seed=2),
            simulate("dense", targets, skill=2.6, seed=2),
        ]
        found = calibrate(runs, targets, CONFIG)
        assert not found.fell_back and found.weights["dense"] > 0.5

    def test_identical_searchers_are_mixed_evenly(self) -> None:
        targets = make_targets(100)
        run = simulate("lexical", targets, skill=2.0, seed=3)
        found = calibrate([run, Run("dense", run.hits)], targets, CONFIG)
        assert not found.fell_back and found.weights == {"lexical": 0.5, "dense": 0.5}
        assert found.scores["fused"] == found.scores["dense"] == found.scores["lexical"]
        assert "+0.000 against" in found.reason and "even" in found.reason

    def test_a_searcher_alone_must_be_better_than_fusing(self) -> None:
        """One searcher is far the better, yet the other helps: both are kept."""
        targets = make_targets(400)
        runs = [
            simulate("lexical", targets, skill=1.0, seed=12),
            simulate("dense", targets, skill=2.2, seed=12),
        ]
        found = calibrate(runs, targets, CONFIG)
        assert found.scores["dense"] > found.scores["lexical"] + 0.2
        assert not found.fell_back and 0.0 < found.weights["lexical"] < 0.5

    @pytest.mark.parametrize("seed", [13, 20, 30])
    def test_a_searcher_that_cannot_tell_does_not_drown_one_that_can(self, seed: int) -> None:
        """On half of the queries the dense scores hardly differ; per query they look as sure."""
        targets = make_targets(200)
        lexical = simulate("lexical", targets, skill=3.0, seed=seed)
        dense = simulate("dense", targets, skill=3.0, seed=seed).hits
        noise = simulate("dense", targets, skill=0.0, seed=seed + 1).hits
        hits = {
            target.qid: dense[target.qid]
            if n % 2
            else tuple(Hit(hit.docid, 0.01 * hit.score) for hit in noise[target.qid])
            for n, target in enumerate(targets)
        }
        runs = [lexical, Run("dense", hits)]
        config = replace(CONFIG, depth=20)
        by_range = calibrate(runs, targets, config)
        by_query = calibrate(runs, targets, replace(config, normalise="min_max"))
        assert by_range.scores["fused"] > by_query.scores["fused"] + 0.01

    def test_three_searchers(self) -> None:
        targets = make_targets(120)
        runs = [
            simulate("lexical", targets, skill=2.0, seed=4),
            simulate("dense", targets, skill=2.0, seed=4),
            simulate("generative", targets, skill=-1.0, seed=4),
        ]
        found = calibrate(runs, targets, replace(CONFIG, steps=5))
        assert sum(found.weights.values()) == pytest.approx(1.0)
        assert not found.fell_back
        assert found.weights["generative"] < min(found.weights["lexical"], found.weights["dense"])

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("skills", [(0.0, 2.0), (1.0, 3.0), (2.0, 2.0), (2.5, 2.0)])
    def test_never_much_below_the_best_searcher_on_other_queries(
        self, skills: tuple[float, float], seed: int
    ) -> None:
        targets = make_targets(300)
        names = ("lexical", "dense")
        runs = [
            simulate(name, targets, skill=skill, seed=10 + seed)
            for name, skill in zip(names, skills, strict=True)
        ]
        seen, unseen = targets[::2], targets[1::2]
        chosen = calibrate(runs, seen, CONFIG).weights
        alone = [
            reciprocal_ranks(runs, unseen, {each: float(each == name) for each in names})
            for name in names
        ]
        assert reciprocal_ranks(runs, unseen, chosen) >= max(alone) - 0.02

    def test_leaking_words_do_not_decide(self) -> None:
        """Lexical search wins where the words recur, and there are four times as many of these."""
        leaky = make_targets(160, overlap=0.9)
        honest = [replace(t, qid=f"h{t.qid}", overlap=0.1) for t in make_targets(40)]
        skills = {"lexical": (4.0, 0.0), "dense": (1.0, 3.0)}
        runs = [
            Run(
                name,
                {
                    **simulate(name, leaky, skill=high, seed=5).hits,
                    **simulate(name, honest, skill=low, seed=6).hits,
                },
            )
            for name, (high, low) in skills.items()
        ]
        plain = calibrate(runs, [*leaky, *honest], replace(CONFIG, min_stratum=1000))
        balanced = calibrate(runs, [*leaky, *honest], CONFIG)
        assert balanced.weights["dense"] > plain.weights["dense"]
        assert [(each.name, each.num_queries) for each in plain.strata] == [("all", 200)]
        low, high = balanced.strata
        assert (low.name, low.num_queries, high.num_queries) == ("low overlap", 40, 160)
        assert low.scores["dense"] > low.scores["lexical"]
        assert high.scores["dense"] < high.scores["lexical"]
        for name, score in balanced.scores.items():
            assert score == pytest.approx((low.scores[name] + high.scores[name]) / 2)


class TestCalibration:
    def test_scores_by_hand(self) -> None:
        targets = [Target("p", "a", 1.0), Target("q", "b", 1.0)]
        first = {"p": (Hit("a", 2.0), Hit("b", 1.0)), "q": (Hit("a", 2.0), Hit("b", 1.0))}
        runs = [Run("lexical", first), Run("dense", {"p": (Hit("b", 1.0),)})]
        found = calibrate(runs, targets, replace(CONFIG, min_queries=2))
        assert found.scores["lexical"] == pytest.approx((1 / 1 + 1 / 2) / 2)
        assert found.scores["dense"] == 0.0
        by_ndcg = calibrate(runs, targets, replace(CONFIG, min_queries=2, measure="nDCG"))
        assert by_ndcg.scores["lexical"] == pytest.approx((1 + 1 / math.log2(3)) / 2)

    def test_no_query_is_scored_with_weights_chosen_on_it(self) -> None:
        """Each searcher knows one document, so each fold chooses the one that fails the other."""
        targets = [Target(f"{docid}{n}", docid, 1.0) for docid in "ab" for n in range(3)]
        runs = [
            Run(name, {target.qid: (Hit(docid, 1.0),) for target in targets})
            for name, docid in (("lexical", "a"), ("dense", "b"))
        ]
        found = calibrate(runs, targets, replace(CONFIG, min_queries=2, num_folds=2, steps=1))
        assert found.scores == {"lexical": 1 / 2, "dense": 1 / 2, "fused": 0.0}
        assert found.fell_back

    def test_the_seed_decides(self) -> None:
        targets = make_targets(60)
        runs = [simulate(name, targets, skill=1.5, seed=7) for name in ("lexical", "dense")]
        assert calibrate(runs, targets, CONFIG) == calibrate(runs, targets, CONFIG)
        shifted = replace(CONFIG, seed=1)
        assert calibrate(runs, targets, shifted) == calibrate(runs, targets, shifted)

    def test_too_few_queries_give_an_even_mix(self) -> None:
        found = calibrate([Run("lexical", {}), Run("dense", {})], make_targets(3), CONFIG)
        assert found.weights == {"lexical": 0.5, "dense": 0.5}
        assert (found.num_queries, found.scores, found.strata) == (3, {}, ())
        assert not found.fell_back and "3 known-item queries are too few" in found.reason

    def test_one_searcher_gets_everything(self) -> None:
        targets = make_targets(40)
        found = calibrate([simulate("lexical", targets, skill=2.0, seed=8)], targets, CONFIG)
        assert found.weights == {"lexical": 1.0}

    def test_runs_without_hits_do_not_divide_by_zero(self) -> None:
        found = calibrate([Run("lexical", {}), Run("dense", {})], make_targets(50), CONFIG)
        assert found.weights == {"lexical": 0.5, "dense": 0.5}

    def test_round_trip_through_json(self) -> None:
        targets = [*make_targets(40), *make_targets(40, overlap=0.2)]
        runs = [simulate(name, targets, skill=1.5, seed=9) for name in ("lexical", "dense")]
        found = calibrate(runs, targets, CONFIG)
        assert len(found.strata) == 2 and set(found.ranges) == {"lexical", "dense"}
        assert Calibration.from_record(json.loads(json.dumps(found.to_record()))) == found

    def test_a_record_of_another_make(self) -> None:
        record = calibrate([Run("lexical", {})], [], CONFIG).to_record()
        for broken in ({**record, "more": 1}, {**record, "strata": None}, {"weights": {}}):
            with pytest.raises(Damaged, match="calibrate again"):
                Calibration.from_record(broken)

    @pytest.mark.parametrize("names", [(), ("lexical", "lexical"), ("lexical", "fused")])
    def test_names_must_differ(self, names: Sequence[str]) -> None:
        with pytest.raises(ConfigError, match="cannot calibrate"):
            calibrate([Run(name, {}) for name in names], [], CONFIG)
