"""Intervals and p-values: textbook values, exact small cases, behaviour under the null."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import EvaluationError
from quoth.evaluation import significance
from quoth.evaluation.significance import (
    CORRECTIONS,
    Interval,
    benjamini_hochberg,
    bonferroni,
    bootstrap_intervals,
    difference_interval,
    holm,
    mean_interval,
    paired_t_test,
    randomisation_test,
)

# Student's sleep data (1908), as in R's `sleep`: extra hours under two drugs, ten patients.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

P_VALUES = st.lists(st.floats(0.0, 1.0), max_size=12)


class TestBootstrap:
    def test_the_seed_decides(self) -> None:
        assert mean_interval(DRUG_1, seed=3) == mean_interval(DRUG_1, seed=3)
        assert mean_interval(DRUG_1, seed=3) != mean_interval(DRUG_1, seed=4)

    def test_near_the_normal_interval_for_many_queries(self) -> None:
        scores = np.random.default_rng(0).random(2_000)
        half = 1.96 * float(scores.std()) / len(scores) ** 0.5
        interval = mean_interval(scores.tolist())
        assert interval.low == pytest.approx(float(scores.mean()) - half, abs=half / 20)
        assert interval.high == pytest.approx(float(scores.mean()) + half, abs=half / 20)

    def test_two_queries_by_hand(self) -> None:
        # The mean of a resample is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4.
        assert mean_interval([0.0, 1.0], confidence=0.95) == Interval(0.0, 1.0)
        assert mean_interval([0.0, 1.0], confidence=0.40) == Interval(0.5, 0.5)

    def test_columns_share_their_resamples(self) -> None:
        both = bootstrap_intervals([DRUG_1, DRUG_2], seed=5)
        alone = (mean_interval(DRUG_1, seed=5), mean_interval(DRUG_2, seed=5))
        for first, second in zip(both, alone, strict=True):
            assert first.low == pytest.approx(second.low)
            assert first.high == pytest.approx(second.high)

    def test_difference_is_paired(self) -> None:
        shifted = [score + 0.25 for score in DRUG_1]
        interval = difference_interval(shifted, DRUG_1)
        assert interval.low == pytest.approx(0.25)
        assert interval.high == pytest.approx(0.25)

    def test_memory_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(significance, "_BATCH_ENTRIES", 64)
        small = mean_interval(DRUG_1, num_resamples=1_000)
        assert small.low < sum(DRUG_1) / 10 < small.high
        assert list(significance._batch_sizes(20, 10)) == [6, 6, 6, 2]

    def test_coverage(self) -> None:
        generator = np.random.default_rng(1)
        samples = generator.normal(size=(200, 40)).tolist()
        covered = sum(
            interval.low <= 0.0 <= interval.high
            for interval in (mean_interval(s, num_resamples=1_000) for s in samples)
        )
        assert 0.88 <= covered / 200 <= 0.98

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
    def test_confidence_out_of_range(self, confidence: float) -> None:
        with pytest.raises(EvaluationError, match="confidence is"):
            mean_interval(DRUG_1, confidence=confidence)

    def test_nothing_to_resample(self) -> None:
        with pytest.raises(EvaluationError, match="cannot resample"):
            mean_interval([])
        with pytest.raises(EvaluationError, match=r"lengths \[1, 2\]"):
            bootstrap_intervals([[1.0], [1.0, 2.0]])


class TestRandomisation:
    def test_exact_by_hand(self) -> None:
        # |±3 ±2 ±1| >= |3 - 2 + 1| = 2 for 6, 4, 2, -2, -4, -6 but not for 0, which comes twice.
        assert randomisation_test([3.0, 0.0, 1.0], [0.0, 2.0, 0.0]) == 6 / 8

    def test_exact_equals_enumeration(self) -> None:
        differences = [a - b for a, b in zip(DRUG_1, DRUG_2, strict=True)]
        observed = abs(sum(differences))
        patterns = list(product([-1, 1], repeat=len(differences)))
        extreme = sum(
            abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed - 1e-9
            for signs in patterns
        )
        assert randomisation_test(DRUG_1, DRUG_2) == extreme / len(patterns)

    def test_queries_that_do_not_differ_change_nothing(self) -> None:
        assert randomisation_test([*DRUG_1, *[0.5] * 90], [*DRUG_2, *[0.5] * 90]) == (
            randomisation_test(DRUG_1, DRUG_2)
        )

    def test_sampled_agrees_with_exact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exact = randomisation_test(DRUG_1[:8], DRUG_2[:8])
        monkeypatch.setattr(significance, "MAX_EXACT_QUERIES", 0)
        sampled = randomisation_test(DRUG_1[:8], DRUG_2[:8])
        deviation = (exact * (1 - exact) / significance.NUM_RESAMPLES) ** 0.5
        assert sampled == pytest.approx(exact, abs=4 * deviation + 1e-4)

    def test_sampled_is_never_zero_and_decided_by_the_seed(self) -> None:
        first, second = [1.0] * 100, [0.0] * 100
        assert randomisation_test(first, second, num_resamples=999) == 1 / (999 + 1)
        noisy = np.random.default_rng(0).normal(size=50).tolist()
        assert randomisation_test(noisy, [0.0] * 50) == randomisation_test(noisy, [0.0] * 50)
        assert randomisation_test(noisy, [0.0] * 50, seed=1) != randomisation_test(
            noisy, [0.0] * 50
        )

    def test_two_sided(self) -> None:
        noisy = np.random.default_rng(0).normal(size=50).tolist()
        assert randomisation_test(noisy, [0.0] * 50) == randomisation_test([0.0] * 50, noisy)

    def test_no_difference(self) -> None:
        assert randomisation_test(DRUG_1, DRUG_1) == 1.0

    def test_cannot_be_paired(self) -> None:
        with pytest.raises(EvaluationError, match="cannot pair 1 scores with 2"):
            randomisation_test([1.0], [1.0, 2.0])


class TestStudent:
    def test_sleep_data(self) -> None:
        # R: t.test(extra ~ group, data = sleep, paired = TRUE): t = -4.0621, df = 9, p = 0.002833
        assert paired_t_test(DRUG_1, DRUG_2) == pytest.approx(0.002833, abs=5e-7)

    def test_same_as_scipy(self) -> None:
        from scipy.stats import ttest_rel

        samples = np.random.default_rng(2).random((2, 30))
        expected = float(ttest_rel(samples[0], samples[1]).pvalue)
        assert paired_t_test(samples[0].tolist(), samples[1].tolist()) == pytest.approx(expected)

    def test_without_variance(self) -> None:
        assert paired_t_test([1.0, 2.0], [1.0, 2.0]) == 1.0
        assert paired_t_test([2.0, 3.0], [1.0, 2.0]) == 0.0

    def test_one_query(self) -> None:
        with pytest.raises(EvaluationError, match="at least 2 queries"):
            paired_t_test([1.0], [0.0])


@pytest.mark.parametrize("test", [randomisation_test, paired_t_test])
def test_p_values_are_uniform_under_the_null(test: object) -> None:
    assert callable(test)
    samples = np.random.default_rng(7).random((300, 2, 20)).tolist()
    options = {"num_resamples": 1_000} if test is randomisation_test else {}
    p_values = sorted(test(first, second, **options) for first, second in samples)
    # Kolmogorov–Smirnov distance to the uniform distribution, whose 1% point is 1.63 / sqrt(n)
    distance = max(abs(p - (i + 0.5) / 300) for i, p in enumerate(p_values))
    assert distance < 1.63 / 300**0.5


class TestCorrections:
    def test_textbook(self) -> None:
        # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), method)
        p_values = [0.01, 0.02, 0.03, 0.04, 0.05]
        assert bonferroni(p_values) == pytest.approx([0.05, 0.10, 0.15, 0.20, 0.25])
        assert holm(p_values) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
        assert benjamini_hochberg(p_values) == pytest.approx([0.05] * 5)

    def test_order_is_kept(self) -> None:
        assert holm([0.04, 0.01]) == pytest.approx([0.04, 2 * 0.01])
        assert benjamini_hochberg([0.04, 0.01]) == pytest.approx([0.04, 2 * 0.01])

    @given(P_VALUES)
    @settings(derandomize=True, deadline=None)
    def test_from_mildest_to_strictest(self, p_values: list[float]) -> None:
        corrected = [CORRECTIONS[n](p_values) for n in ("none", "benjamini-hochberg", "holm")]
        corrected.append(bonferroni(p_values))
        for values in zip(*corrected, strict=True):
            assert all(a <= b * (1 + 1e-12) for a, b in pairwise(values))
            assert values[-1] <= 1.0

    @given(P_VALUES)
    @settings(derandomize=True, deadline=None)
    def test_same_as_scipy(self, p_values: list[float]) -> None:
        from scipy.stats import false_discovery_control

        expected = false_discovery_control(p_values).tolist() if p_values else []
        assert benjamini_hochberg(p_values) == pytest.approx(expected)

    @pytest.mark.parametrize("correct", list(CORRECTIONS.values()))
    def test_no_tests(self, correct: object) -> None:
        assert callable(correct)
        assert correct([]) == ()
