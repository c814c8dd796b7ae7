"""Fusion: every score as its formula, then what must hold for any runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.records import Hit, Passage, Run, Span
from quoth.search.hybrid.explained import (
    explain_convex,
    explain_fused,
    explain_reciprocal_rank,
    find_standings,
)
from quoth.search.hybrid.fusion import (
    SCALES,
    Scale,
    UsualRanges,
    convex,
    fuse,
    measure_ranges,
    min_max,
    reciprocal_rank,
    unscaled,
    usual_range,
    z_score,
)
from quoth.search.hybrid.fusion_config import NORMALISATIONS, CalibrationConfig, FusionConfig


def run_of(name: str, **scores: float) -> Run:
    """Make a run of one query, `q`, ranked as a searcher would rank it."""
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Run(name, {"q": tuple(Hit(docid, score) for docid, score in ranked)})


def scores_of(run: Run) -> dict[str, float]:
    return {hit.docid: hit.score for hit in run.hits["q"]}


def order_of(run: Run) -> list[str]:
    return [hit.docid for hit in run.hits["q"]]


LEXICAL = run_of("lexical", a=12.0, b=9.0, c=4.0)
DENSE = run_of("dense", c=0.9, d=0.7, a=0.4)
EVEN = {"lexical": 0.5, "dense": 0.5}

# Whole numbers: scaling neither merges distinct scores nor parts equal ones.
SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-50, 50).map(float))
WEIGHTS = st.integers(0, 10).map(lambda tenths: {"lexical": 1 - tenths / 10, "dense": tenths / 10})
NORMALISE = st.sampled_from(NORMALISATIONS)


class TestReciprocalRank:
    def test_sum_over_the_runs_that_found_it(self) -> None:
        scores = scores_of(reciprocal_rank([LEXICAL, DENSE]))
        assert scores["a"] == pytest.approx(1 / (60 + 1) + 1 / (60 + 3))
        assert scores["c"] == pytest.approx(1 / (60 + 3) + 1 / (60 + 1))
        assert scores["b"] == pytest.approx(1 / (60 + 2))
        assert scores["d"] == pytest.approx(1 / (60 + 2))

    def test_ties_by_docid_and_cut(self) -> None:
        assert order_of(reciprocal_rank([LEXICAL, DENSE])) == ["a", "c", "b", "d"]
        assert order_of(reciprocal_rank([LEXICAL, DENSE], k=3)) == ["a", "c", "b"]

    def test_a_constant_of_zero_lets_the_first_rank_stand_out(self) -> None:
        assert scores_of(reciprocal_rank([LEXICAL], constant=0))["b"] == pytest.approx(1 / 2)

    def test_queries_are_the_union(self) -> None:
        first, second = Run("a", {"q": (Hit("x", 1.0),)}), Run("b", {"p": (), "q": ()})
        assert reciprocal_rank([first, second], name="both") == Run(
            "both", {"q": (Hit("x", 1 / 61),), "p": ()}
        )

    def test_no_runs(self) -> None:
        assert reciprocal_rank([]) == Run("fused", {})


class TestScales:
    def test_min_max(self) -> None:
        assert min_max([12.0, 9.0, 4.0]) == Scale(4.0, 12.0 - 4.0, 1.0, 0.0)
        assert min_max([12.0, 9.0, 4.0]).apply(9.0) == (9 - 4) / (12 - 4)

    def test_z_score(self) -> None:
        scale = z_score([12.0, 9.0, 3.0])
        deviation = math.sqrt(((12 - 8) ** 2 + (9 - 8) ** 2 + (3 - 8) ** 2) / 3)
        assert scale.apply(9.0) == pytest.approx((9 - 8) / deviation)
        assert scale.apply(None) == scale.apply(3.0) == pytest.approx((3 - 8) / deviation)

    def test_none(self) -> None:
        assert [unscaled([12.0, 9.0]).apply(score) for score in (12.0, None)] == [12.0, 9.0]

    @pytest.mark.parametrize("scores", [[0.1, 0.1, 0.1], [0.1], [1e300] * 7])
    def test_equal_scores(self, scores: list[float]) -> None:
        assert (min_max(scores).apply(scores[0]), min_max(scores).apply(None)) == (1.0, 0.0)
        assert (z_score(scores).apply(scores[0]), z_score(scores).apply(None)) == (0.0, 0.0)

    @pytest.mark.parametrize("normalise", SCALES)
    def test_a_run_without_hits_adds_nothing(self, normalise: str) -> None:
        assert SCALES[normalise]([]).apply(None) == 0.0
        assert usual_range([], width=2.0, depth=3).apply(None) == 0.0

    def test_settings_and_scales_name_the_same(self) -> None:
        assert ("range", *SCALES) == NORMALISATIONS

    def test_usual_range_of_a_full_run(self) -> None:
        scale = usual_range([12.0, 9.0, 4.0], width=16.0, depth=3)
        assert [scale.apply(score) for score in (12.0, 9.0, None)] == [8 / 16, 5 / 16, 0.0]

    def test_what_a_complete_run_does_not_hold_scores_nothing(self) -> None:
        """The only document with a rare word must not count as if it had matched nothing."""
        assert usual_range([12.0], width=16.0, depth=3).apply(12.0) == 12 / 16
        assert usual_range([0.5, -0.5], width=1.0, depth=3).apply(-0.5) == 0.0  # cosines

    def test_asking_for_more_hits_leaves_the_scores_of_the_first_as_they_are(self) -> None:
        few, more = (usual_range([9.0, 6.0, 4.0, 1.0][:n], width=2.0, depth=3) for n in (3, 4))
        assert [few.apply(x) for x in (9.0, 4.0)] == [more.apply(x) for x in (9.0, 4.0)]
        assert (few.apply(None), more.apply(1.0), more.apply(None)) == (0.0, -1.5, -1.5)

    def test_ranges_are_means_over_queries_with_hits(self) -> None:
        run = Run("a", {"p": (Hit("x", 3.0), Hit("y", 1.0)), "q": (Hit("x", 8.0),), "r": ()})
        flat = Run("b", {"p": (Hit("x", 1.0), Hit("y", 1.0))})
        assert measure_ranges([run, flat], depth=2) == UsualRanges(2, {"a": (2 + 8) / 2})

    @given(st.lists(st.floats(-1e9, 1e9), min_size=1))
    def test_min_max_stays_within_its_bounds(self, scores: list[float]) -> None:
        scaled = [min_max(scores).apply(score) for score in scores]
        assert min(scaled) >= 0.0 and max(scaled) == 1.0

    @given(NORMALISE, st.lists(st.floats(-1e6, 1e6), min_size=1))
    def test_an_absent_document_is_never_above_a_hit(
        self, normalise: str, scores: list[float]
    ) -> None:
        scale = (
            usual_range(scores, width=3.0, depth=4)
            if normalise == "range"
            else SCALES[normalise](scores)
        )
        assert all(scale.apply(None) <= scale.apply(score) for score in scores)


class TestConvex:
    def test_min_max_by_hand(self) -> None:
        scores = scores_of(
            convex([LEXICAL, DENSE], weights={"lexical": 0.6, "dense": 0.4}, normalise="min_max")
        )
        assert scores["a"] == pytest.approx(0.6 * 1.0 + 0.4 * 0.0)
        assert scores["b"] == pytest.approx(0.6 * (9 - 4) / (12 - 4))
        assert scores["c"] == pytest.approx(0.6 * 0.0 + 0.4 * 1.0)
        assert scores["d"] == pytest.approx(0.4 * (0.7 - 0.4) / (0.9 - 0.4))

    def test_range_by_hand(self) -> None:
        ranges = UsualRanges(3, {"lexical": 16.0, "dense": 0.5})
        runs = [LEXICAL, DENSE]
        scores = scores_of(convex(runs, weights=EVEN, normalise="range", ranges=ranges))
        assert scores["b"] == pytest.approx(0.5 * (9 - 4) / 16)
        assert scores["c"] == pytest.approx(0.5 * (0.9 - 0.4) / 0.5)
        assert convex(runs, weights=EVEN, normalise="range") == convex(
            runs, weights=EVEN, normalise="min_max"
        )

    def test_z_score_by_hand(self) -> None:
        lexical = run_of("lexical", a=3.0, b=1.0)  # z: 1, -1
        dense = run_of("dense", c=0.8, b=0.4)  # z: 1, -1
        scores = scores_of(convex([lexical, dense], weights=EVEN, normalise="z_score"))
        assert scores["a"] == pytest.approx(0.5 * 1 + 0.5 * -1)
        assert scores["b"] == pytest.approx(0.5 * -1 + 0.5 * -1)
        assert scores["c"] == pytest.approx(0.5 * -1 + 0.5 * 1)

    def test_without_normalising_the_absent_get_the_lowest_score(self) -> None:
        scores = scores_of(convex([LEXICAL, DENSE], weights=EVEN, normalise="none"))
        assert scores["b"] == pytest.approx(0.5 * 9.0 + 0.5 * 0.4)
        assert scores["d"] == pytest.approx(0.5 * 4.0 + 0.5 * 0.7)

    def test_equal_scores_count_in_full(self) -> None:
        flat = run_of("lexical", x=2.0, y=2.0)
        scores = scores_of(
            convex([flat, run_of("dense", y=1.0)], weights=EVEN, normalise="min_max")
        )
        assert scores == {"y": 0.5 + 0.5, "x": 0.5}

    def test_an_empty_run_leaves_the_other_order(self) -> None:
        fused = convex([LEXICAL, Run("dense", {"q": ()})], weights=EVEN, normalise="z_score")
        assert order_of(fused) == order_of(LEXICAL)

    def test_what_only_a_run_without_weight_found_is_not_found(self) -> None:
        weights = {"lexical": 1.0, "dense": 0.0}
        only_dense = Run("dense", {**DENSE.hits, "p": (Hit("x", 1.0),)})
        fused = convex([LEXICAL, only_dense], weights=weights, normalise="min_max")
        assert order_of(fused) == ["a", "b", "c"]
        assert fused.hits["p"] == ()

    def test_the_passage_is_of_the_run_that_adds_most(self) -> None:
        near, far = (Passage("x", "text", Span(0, 1), text) for text in "nf")
        first = Run("lexical", {"q": (Hit("y", 2.0), Hit("x", 1.0, far))})
        second = Run("dense", {"q": (Hit("x", 2.0, near), Hit("y", 1.0))})
        fused = convex([first, second], weights=EVEN, normalise="min_max")
        assert {hit.docid: hit.passage for hit in fused.hits["q"]} == {"x": near, "y": None}

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ({"lexical": 1.0}, "weights for lexical, but runs lexical, dense"),
            ({"lexical": 1.5, "dense": -0.5}, "dense is -0.5"),
            ({"lexical": math.nan, "dense": 1.0}, "lexical is nan"),
            ({"lexical": 0.5, "dense": 0.4}, "add up to 0.9"),
        ],
    )
    def test_unfit_weights(self, weights: Mapping[str, float], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            convex([LEXICAL, DENSE], weights=weights, normalise="min_max")

    def test_two_runs_of_one_name(self) -> None:
        with pytest.raises(ConfigError, match="one name"):
            convex([LEXICAL, LEXICAL], weights={"lexical": 1.0}, normalise="min_max")

    def test_unknown_normalisation(self) -> None:
        with pytest.raises(ConfigError, match="'max', expected one of range, min_max"):
            convex([LEXICAL], weights={"lexical": 1.0}, normalise="max")


@given(st.lists(SCORES, min_size=3, max_size=3), NORMALISE)
def test_the_order_of_the_runs_does_not_matter(
    scores: Sequence[Mapping[str, float]], normalise: str
) -> None:
    runs = [run_of(name, **each) for name, each in zip("abc", scores, strict=True)]
    weights = dict.fromkeys("abc", 1 / 3)
    first = convex(runs, weights=weights, normalise=normalise)
    for order in permutations(runs):
        assert convex(order, weights=weights, normalise=normalise) == first
        assert reciprocal_rank(order) == reciprocal_rank(runs)


@given(SCORES, SCORES, NORMALISE)
def test_all_the_weight_on_one_run_gives_its_order(
    lexical: Mapping[str, float], dense: Mapping[str, float], normalise: str
) -> None:
    runs = [run_of("lexical", **lexical), run_of("dense", **dense)]
    fused = convex(runs, weights={"lexical": 1.0, "dense": 0.0}, normalise=normalise)
    assert order_of(fused) == order_of(runs[0])


@given(SCORES, SCORES, WEIGHTS, NORMALISE)
def test_who_is_ahead_everywhere_is_not_behind_when_fused(
    lexical: Mapping[str, float],
    dense: Mapping[str, float],
    weights: Mapping[str, float],
    normalise: str,
) -> None:
    runs = [run_of("lexical", **lexical), run_of("dense", **dense)]
    both = lexical.keys() & dense.keys()
    by_score = scores_of(convex(runs, weights=weights, normalise=normalise))
    by_rank = scores_of(reciprocal_rank(runs))
    for a in both:
        for b in both:
            if lexical[a] > lexical[b] and dense[a] > dense[b]:
                assert by_score[a] >= by_score[b]
                assert by_rank[a] > by_rank[b]


@given(SCORES, SCORES, WEIGHTS)
def test_a_min_max_sum_is_between_0_and_1(
    lexical: Mapping[str, float], dense: Mapping[str, float], weights: Mapping[str, float]
) -> None:
    runs = [run_of("lexical", **lexical), run_of("dense", **dense)]
    fused = convex(runs, weights=weights, normalise="min_max")
    assert all(0.0 <= hit.score <= 1.0 + 1e-12 for hit in fused.hits["q"])


@given(
    SCORES,
    SCORES,
    WEIGHTS,
    st.builds(
        FusionConfig,
        method=st.sampled_from(["calibrated", "convex", "rrf"]),
        normalise=NORMALISE,
        constant=st.integers(0, 100),
    ),
)
def test_an_explanation_adds_up_to_the_fused_score(
    lexical: Mapping[str, float],
    dense: Mapping[str, float],
    weights: Mapping[str, float],
    config: FusionConfig,
) -> None:
    runs = [run_of("lexical", **lexical), run_of("dense", **dense)]
    for hit in fuse(runs, config, weights=weights, k=99).hits["q"]:
        standings = find_standings(runs, qid="q", docid=hit.docid, normalise=config.normalise)
        part = explain_fused(standings, config, weights=weights)
        assert part.value == pytest.approx(hit.score, abs=1e-9)
        assert sum(leaf.value for leaf in part.parts) == pytest.approx(hit.score, abs=1e-9)
        assert len(part.parts) == 2 and not any(leaf.parts for leaf in part.parts)


class TestExplanations:
    def test_labels_of_the_convex_sum(self) -> None:
        standings = find_standings([LEXICAL, DENSE], qid="q", docid="d", normalise="min_max")
        part = explain_convex(standings, weights={"lexical": 0.6, "dense": 0.4})
        assert [leaf.label for leaf in part.parts] == [
            "lexical: not found, scaled to 0.00, weight 0.60",
            "dense: 0.700 scaled to 0.60, weight 0.40, rank 2",
        ]
        assert part.value == pytest.approx(0.4 * (0.7 - 0.4) / (0.9 - 0.4))

    def test_labels_of_ranks(self) -> None:
        standings = find_standings([LEXICAL, DENSE], qid="q", docid="b", normalise="min_max")
        part = explain_reciprocal_rank(standings, constant=10)
        assert [(leaf.label, leaf.value) for leaf in part.parts] == [
            ("lexical: rank 2, 1 / (10 + 2)", 1 / 12),
            ("dense: not found", 0.0),
        ]


class TestConfig:
    def test_all_problems_at_once(self) -> None:
        with pytest.raises(ConfigError) as raised:
            FusionConfig(method="max", normalise="l2", weight=1.5, depth=0, constant=-1)
        for name in ("method", "normalise", "weight", "depth", "constant"):
            assert f"{name} is " in str(raised.value)

    def test_calibration_problems(self) -> None:
        with pytest.raises(ConfigError) as raised:
            CalibrationConfig(normalise="l2", measure="AP", k=0, margin=-1.0, confidence=1.0)
        for name in ("normalise", "measure", "k", "margin", "confidence"):
            assert f"{name} is " in str(raised.value)

    def test_what_is_not_lexical_shares_the_weight(self) -> None:
        weights = FusionConfig(weight=0.6).weights("lexical", ["dense", "generative"])
        assert weights == {"lexical": 1 - 0.6, "dense": 0.6 / 2, "generative": 0.6 / 2}

    def test_method_decides(self) -> None:
        by_rank = fuse([LEXICAL, DENSE], FusionConfig(method="rrf"), weights={}, k=2)
        assert by_rank == reciprocal_rank([LEXICAL, DENSE], k=2)
        by_score = fuse([LEXICAL, DENSE], FusionConfig(method="convex"), weights=EVEN, k=2)
        assert by_score == convex([LEXICAL, DENSE], weights=EVEN, normalise="min_max", k=2)


# --- what a searcher does not hold yet ------------------------------------------------------------


def test_a_document_without_vectors_counts_as_its_words_say() -> None:
    weights = {"lexical": 0.75, "dense": 0.25}
    fused = convex([LEXICAL, DENSE], weights=weights, normalise="min_max", unknown={"dense": {"b"}})
    by_words = (9.0 - 4.0) / (12.0 - 4.0)
    assert scores_of(fused)["b"] == pytest.approx(0.75 * by_words + 0.25 * by_words)
    plain = scores_of(convex([LEXICAL, DENSE], weights=weights, normalise="min_max"))
    assert plain["b"] == pytest.approx(0.75 * by_words)
    assert {docid: scores_of(fused)[docid] for docid in "acd"} == {d: plain[d] for d in "acd"}


def test_ranks_of_a_document_without_vectors_count_twice() -> None:
    fused = scores_of(reciprocal_rank([LEXICAL, DENSE], unknown={"dense": {"b", "nowhere"}}))
    assert fused["b"] == pytest.approx(2 / (60 + 2)) and "nowhere" not in fused
    assert fused["a"] == pytest.approx(1 / (60 + 1) + 1 / (60 + 3))


@given(SCORES, SCORES, st.sets(st.sampled_from("abcdefgh")), st.sampled_from(["convex", "rrf"]))
def test_explanations_add_up_where_vectors_are_missing(
    words: Mapping[str, float], near: Mapping[str, float], lacks: set[str], method: str
) -> None:
    held = {docid: score for docid, score in near.items() if docid not in lacks}
    sides = [run_of("lexical", **words), run_of("dense", **held)]
    config = FusionConfig(method=method, normalise="min_max")
    weights, unknown = {"lexical": 0.3, "dense": 0.7}, {"dense": lacks}
    fused = fuse(sides, config, weights=weights, k=99, unknown=unknown)
    for hit in fused.hits["q"]:
        standings = find_standings(
            sides, qid="q", docid=hit.docid, normalise="min_max", unknown=unknown
        )
        part = explain_fused(standings, config, weights=weights)
        assert part.value == hit.score == math.fsum(leaf.value for leaf in part.parts)
        assert ("not encoded yet" in part.parts[1].label) == (hit.docid in lacks)


def test_with_every_document_unknown_to_vectors_the_order_is_that_of_words() -> None:
    nothing = Run("dense", {"q": ()})
    fused = convex(
        [LEXICAL, nothing], weights=EVEN, normalise="range", unknown={"dense": set("abc")}
    )
    assert order_of(fused) == order_of(LEXICAL)
