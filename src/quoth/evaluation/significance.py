"""Tell a difference from chance: bootstrap intervals, paired tests, multiple-test corrections.

Bootstrap: percentile intervals over queries drawn with replacement (Efron 1979; for retrieval Sakai
2006). Randomisation: under the null hypothesis the two runs' scores of a query may be swapped, so
the sign of each difference is a coin toss (Fisher; Smucker et al. 2007). Arrays are built in
batches of bounded size, and each function makes its own generator from `seed`: the same arguments
give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from quoth.errors import EvaluationError
from quoth.evaluation.extra import eval_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUM_RESAMPLES = 10_000
MAX_EXACT_QUERIES = 12
"""Up to so many queries, all 2^n sign patterns are enumerated."""

_BATCH_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, ends included."""

    low: float
    high: float


def mean_interval(
    scores: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> Interval:
    """Bootstrap a confidence interval of the mean score over queries.

    >>> mean_interval([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    return bootstrap_intervals(
        [scores], confidence=confidence, seed=seed, num_resamples=num_resamples
    )[0]


def difference_interval(
    first: Sequence[float],
    second: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> Interval:
    """Bootstrap a confidence interval of the mean of first minus second, paired by query.

    >>> difference_interval([0.75, 0.5], [0.5, 0.25])
    Interval(low=0.25, high=0.25)
    """
    return mean_interval(
        paired_differences(first, second),
        confidence=confidence,
        seed=seed,
        num_resamples=num_resamples,
    )


def bootstrap_intervals(
    columns: Sequence[Sequence[float]],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[Interval, ...]:
    """Bootstrap an interval of the mean of each column; all columns are scores of the same queries.

    The columns share their resamples, so that many cost little more than one, and each gets the
    interval that it would get alone.
    """
    with eval_extra("bootstrapping"):
        import numpy as np
    _check_fraction("confidence", confidence)
    _check_columns(columns)
    means = _resampled_means(
        np.array(columns, dtype=np.float64).T, seed=seed, num_resamples=num_resamples
    )
    tail = (1.0 - confidence) / 2
    lows, highs = np.quantile(means, [tail, 1.0 - tail], axis=0)
    return tuple(Interval(float(low), float(high)) for low, high in zip(lows, highs, strict=True))


def randomisation_test(
    first: Sequence[float],
    second: Sequence[float],
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> float:
    """Return the two-sided p-value of a paired randomisation test on the mean difference.

    Exact where at most `MAX_EXACT_QUERIES` queries differ (flipping a zero changes nothing);
    otherwise sampled, with the observed pattern counted among the samples: (extreme + 1) / (samples
    + 1), never 0.

    >>> randomisation_test([3.0, 2.0, 1.0], [0.0, 0.0, 0.0]) == 2 / 2**3
    True
    """
    with eval_extra("the randomisation test"):
        import numpy as np
    differences = np.array([d for d in paired_differences(first, second) if d != 0.0])
    if len(differences) <= MAX_EXACT_QUERIES:
        signs = _all_signs(len(differences))
        return _count_extreme(signs, differences) / len(signs)
    extreme = sum(
        _count_extreme(signs, differences)
        for signs in _sampled_signs(len(differences), seed=seed, num_resamples=num_resamples)
    )
    return (extreme + 1) / (num_resamples + 1)


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Student's paired t-test.

    It is 1 if nothing differs, and 0 if all queries differ by the same amount.

    >>> round(paired_t_test([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]), 4)  # t = 2 / (1 / sqrt(3)), 2 d.f.
    0.0742
    """
    with eval_extra("the t-test"):
        from scipy.special import stdtr
    differences = paired_differences(first, second)
    if len(differences) < 2:
        raise EvaluationError("the t-test needs at least 2 queries, found 1")
    mean, deviation = fmean(differences), stdev(differences)
    if deviation == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    t = mean / (deviation / math.sqrt(len(differences)))
    return float(2.0 * stdtr(len(differences) - 1, -abs(t)))


def uncorrected(p_values: Sequence[float]) -> tuple[float, ...]:
    """Leave p-values as they are.

    >>> uncorrected([0.01, 0.04])
    (0.01, 0.04)
    """
    return tuple(p_values)


def bonferroni(p_values: Sequence[float]) -> tuple[float, ...]:
    """Multiply by the number of tests; bounds the chance of any false discovery.

    >>> bonferroni([0.25, 0.125, 0.5])
    (0.75, 0.375, 1.0)
    """
    return tuple(min(1.0, len(p_values) * p) for p in p_values)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Multiply the i-th smallest by m - i + 1, never falling.

    Bounds the same chance as Bonferroni, and rejects at least as much.

    >>> holm([0.125, 0.0625, 0.5])  # 2 * 0.125, 3 * 0.0625, 1 * 0.5
    (0.25, 0.1875, 0.5)
    """
    ascending = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for i, position in enumerate(ascending):
        largest = max(largest, min(1.0, (len(p_values) - i) * p_values[position]))
        corrected[position] = largest
    return tuple(corrected)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Multiply the i-th smallest by m / i, never falling.

    Bounds the expected share of false discoveries.

    >>> benjamini_hochberg([0.125, 0.0625, 0.75])  # 0.125 * 3/2, 0.0625 * 3/1, 0.75 * 3/3
    (0.1875, 0.1875, 0.75)
    """
    descending = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    corrected = [1.0] * len(p_values)
    smallest = 1.0
    for i, position in enumerate(descending):
        smallest = min(smallest, p_values[position] * len(p_values) / (len(p_values) - i))
        corrected[position] = smallest
    return tuple(corrected)


CORRECTIONS: Mapping[str, Callable[[Sequence[float]], tuple[float, ...]]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "benjamini-hochberg": benjamini_hochberg,
    "none": uncorrected,
}


def paired_differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Subtract query by query.

    >>> paired_differences([1.0, 0.5], [0.25, 0.5])
    [0.75, 0.0]
    """
    if len(first) != len(second) or not first:
        raise EvaluationError(
            f"cannot pair {len(first)} scores with {len(second)}: expected one of each per query"
        )
    return [a - b for a, b in zip(first, second, strict=True)]


def _check_fraction(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise EvaluationError(f"{name} is {value}; expected a number between 0 and 1, such as 0.95")


def _check_columns(columns: Sequence[Sequence[float]]) -> None:
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or 0 in lengths:
        raise EvaluationError(
            f"cannot resample columns of lengths {sorted(lengths)}: expected one score per query"
        )


def _batch_sizes(num_resamples: int, num_queries: int) -> Iterator[int]:
    """Cut the resamples into batches of at most `_BATCH_ENTRIES` numbers each.

    >>> list(_batch_sizes(10, _BATCH_ENTRIES // 4))
    [4, 4, 2]
    """
    size = max(1, _BATCH_ENTRIES // num_queries)
    for start in range(0, num_resamples, size):
        yield min(size, num_resamples - start)


def _resampled_means(
    scores: NDArray[np.float64],  # (Q, columns)
    *,
    seed: int,
    num_resamples: int,
) -> NDArray[np.float64]:  # (num_resamples, columns)
    import numpy as np

    generator = np.random.default_rng(seed)
    num_queries = len(scores)
    batches = []
    for size in _batch_sizes(num_resamples, num_queries):
        drawn = generator.integers(num_queries, size=(size, num_queries))
        drawn += num_queries * np.arange(size)[:, None]  # a range of its own for each resample
        counts = np.bincount(drawn.ravel(), minlength=size * num_queries)
        batches.append(counts.reshape(size, num_queries) @ scores / num_queries)
    return np.concatenate(batches)


def _all_signs(num_queries: int) -> NDArray[np.int8]:  # (2^Q, Q)
    import numpy as np

    bits = np.arange(2**num_queries)[:, None] >> np.arange(num_queries) & 1
    return (2 * bits - 1).astype(np.int8)


def _sampled_signs(
    num_queries: int, *, seed: int, num_resamples: int
) -> Iterator[NDArray[np.int8]]:  # (batch, Q)
    import numpy as np

    generator = np.random.default_rng(seed)
    for size in _batch_sizes(num_resamples, num_queries):
        bits = generator.integers(2, size=(size, num_queries), dtype=np.int8)
        yield 2 * bits - 1


def _count_extreme(signs: NDArray[np.int8], differences: NDArray[np.float64]) -> int:
    """Count the sign patterns whose sum is as far from zero as the observed one."""
    observed = abs(differences.sum())
    slack = 1e-12 * abs(differences).sum()
    return int((abs(signs @ differences) >= observed - slack).sum())
