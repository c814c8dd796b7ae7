"""From what a network says of a query to the table that its identifiers are scored with.

Sums over identifiers are bounded by the best phrase of each slot: those bounds are what lets a
search end early and still be exact. All arrays come out contiguous and read-only, so that one
compiled form of each kernel serves arrays in memory and arrays mapped from files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.errors import ConfigError
from quoth.search.generative.decode.config import BY_POOLED, COSINES, DecodeConfig
from quoth.search.generative.decode.places import Places
from quoth.search.generative.decode.score import Float32, Float64, Int32, Int64, ScoreTable

_BY_SLOT = ("ordered", "perm_slots")
_NO_NORMS: Float32 = np.empty(0, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class PhraseScores:
    """What the network says of one query: finite scores of its shortlisted phrases."""

    phrase_ids: Int32
    """(M,) The shortlist, ascending."""

    slot_scores: Float32 | None = None
    """(S, M) The score of each phrase in each slot."""

    pooled_scores: Float32 | None = None
    """(M,) The score of each phrase by x₀, or by x₀ and the words of the query."""

    end_scores: Float32 | None = None
    """(S + 1,) The score of an identifier's ending after 0, 1 … S phrases."""

    length: float = 0.0
    """The length of x₀ where its scores were divided by it to be cosines; 0 where not."""

    pooled: Float32 | None = None
    """(D,) x₀, for phrases that are scored later."""

    vectors: Float32 | None = None
    """(S, D) What phrases were scored by beside x₀: slots, words of the query, or nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class BagNorms:
    """What bag_cos and bag_max need beforehand: weights of phrases, lengths of weighted sums."""

    phrase_weights: Float32
    """(P,) The weight of each phrase of the vocabulary, such as its idf."""

    norms: Float32
    """(N,) For each identifier the length of the weighted sum of its phrases' vectors."""


@dataclass(frozen=True, slots=True, eq=False)
class Divisors:
    """What sums are divided by: one number per length, or a norm per identifier (or none)."""

    by_length: Float64  # (L + 1,)
    norms: Float32  # (N,) or empty
    norm_limits: Float64  # (L + 1, 2) least and largest norm of each length


def find_divisors(length_rows: Int64, config: DecodeConfig, *, norms: BagNorms | None) -> Divisors:
    """Find by what the sums of a trie's identifiers are divided."""
    lengths = np.arange(len(length_rows) - 1)
    alpha = {"none": 0.0, "mean": 1.0, "power": config.alpha, "end": 0.0}[config.length]
    by_length = np.maximum(1, lengths).astype(np.float64) ** alpha
    limits = np.ones((len(lengths), 2))
    own = _NO_NORMS if norms is None else norms.norms.astype(np.float32, copy=False)
    for length, (lo, hi) in enumerate(pairwise(length_rows.tolist())):
        if len(own) and lo < hi:
            limits[length] = own[lo:hi].min(), own[lo:hi].max()
    return Divisors(freeze(by_length), freeze(own), freeze(limits))


def fill_table(
    scores: PhraseScores,
    config: DecodeConfig,
    *,
    places: Places,
    divisors: Divisors,
    phrase_weights: Float32 | None,
) -> ScoreTable:
    """Put together what scoring a query's identifiers needs."""
    gains, best = find_gains(scores, config, phrase_weights)
    num_lengths = len(divisors.by_length)
    rest, others = _bound_sums(gains, config, num_lengths)
    is_legal, offsets = np.ones(num_lengths, dtype=bool), np.zeros(num_lengths)
    if config.order in _BY_SLOT:
        is_legal[len(gains) + 1 :] = False
    if scores.end_scores is not None and uses_end(config):
        known = min(num_lengths, len(scores.end_scores))
        offsets[:known] = scores.end_scores[:known]
        is_legal[known:] = False
    return ScoreTable(
        places=places,
        gains=gains,
        best=best,
        is_ordered=config.order == "ordered",
        is_assigned=config.order == "perm_slots",
        floor=config.floor if config.missing == "floor" else math.nan,
        rest=rest,
        others=others,
        is_legal=is_legal,
        offsets=offsets,
        divisors=divisors.by_length,
        norms=divisors.norms,
        norm_limits=divisors.norm_limits,
    )


def find_gains(
    scores: PhraseScores, config: DecodeConfig, phrase_weights: Float32 | None
) -> tuple[Float32, Float32]:
    """Return what each phrase adds in each slot that matters, and the most it adds."""
    if config.order in BY_POOLED:
        best = np.asarray(scores.pooled_scores, dtype=np.float32)
        if phrase_weights is not None:
            best = best * phrase_weights[scores.phrase_ids].astype(np.float32, copy=False)
        return freeze(best[None]), freeze(best)
    slots = np.asarray(scores.slot_scores, dtype=np.float32)
    best = slots.max(axis=0)
    return freeze(slots if config.order in _BY_SLOT else best[None]), freeze(best)


def _bound_sums(gains: Float32, config: DecodeConfig, num_lengths: int) -> tuple[Float64, Float64]:
    """Bound what phrases t to n - 1 of n add, (L + 1, L + 1), and any n - 1 of n, (L + 1,)."""
    tops = gains.max(axis=1).astype(np.float64)
    if config.missing == "floor":
        tops = np.maximum(tops, config.floor)
    if config.order == "ordered":
        sums = _accumulate(tops, num_lengths)
        least = np.minimum.accumulate(tops)[np.clip(np.arange(num_lengths) - 1, 0, len(tops) - 1)]
        return sums[:, None] - sums, sums - least
    if config.order == "perm_slots":
        sums = _accumulate(-np.sort(-tops), num_lengths)
    else:
        sums = np.arange(num_lengths) * tops[0]
    steps = np.arange(num_lengths)
    return sums[np.maximum(0, steps[:, None] - steps)], sums[np.maximum(0, steps - 1)]


def _accumulate(values: Float64, num_lengths: int) -> Float64:
    """Sum the first 0, 1 … values; where there are no more, the sum stays.

    >>> _accumulate(np.array([2.0, 1.0]), 4).tolist()
    [0.0, 2.0, 3.0, 3.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])[:num_lengths]
    return np.pad(sums, (0, num_lengths - len(sums)), mode="edge")


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """View as contiguous and read-only."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


# --- checks --------------------------------------------------------------------------------------


def uses_end(config: DecodeConfig) -> bool:
    """Say whether scores of ending count: bags have norms instead."""
    return config.length == "end" and config.order not in COSINES


def check_scores(scores: PhraseScores, config: DecodeConfig, *, num_phrases: int) -> None:
    """Refuse scores that do not fit the settings or the vocabulary, or are no numbers."""
    width, is_pooled = len(scores.phrase_ids), config.order in BY_POOLED
    problems = _check_shortlist(scores.phrase_ids, num_phrases)
    name = "pooled_scores" if is_pooled else "slot_scores"
    found = getattr(scores, name)
    if found is None:
        problems.append(f"order = {config.order} needs {name}")
    elif (
        found.ndim != (1 if is_pooled else 2) or found.shape[-1] != width or len(found) == 0 < width
    ):
        expected = f"({width},)" if is_pooled else f"(slots, {width})"
        problems.append(f"{name} is of shape {found.shape}, expected {expected}")
    elif found.size and not (math.isfinite(found.min()) and math.isfinite(found.max())):
        problems.append(f"{name} holds numbers that are not finite")
    if uses_end(config) and scores.end_scores is None:
        problems.append("length = end needs end_scores")
    if problems:
        raise ConfigError(f"decode: {'; '.join(problems)}")


def _check_shortlist(phrase_ids: Int32, num_phrases: int) -> list[str]:
    if phrase_ids.ndim != 1 or np.any(phrase_ids[1:] <= phrase_ids[:-1]):
        return ["phrase_ids of a shortlist do not ascend"]
    if len(phrase_ids) and (phrase_ids[0] < 0 or phrase_ids[-1] >= num_phrases):
        return [
            f"phrase ids of {phrase_ids[0]} to {phrase_ids[-1]}, expected 0 to {num_phrases - 1}"
        ]
    return []
