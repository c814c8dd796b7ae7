"""What all identifiers of a document score in the mean, beside its best one.

What answers a query says so in more than one sentence: passages competed by their best identifier
and half the mean of all while the shipped network was trained, and are found so. The mean is exact:
it is over all identifiers that a document owns, decoded or not, each scored as decoding does, to
the last bit. One with a phrase outside the shortlist, which no decoding finds, counts as 0.

A mean is never above the best identifier, or 0 where that is below, so what was not decoded yet
bounds the score of every document that was not seen yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.index.trie.trie import Trie, find_length_starts, spread
from quoth.records import Part
from quoth.search.generative.aggregate import Floats, Integers, Owners
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.decode.places import Places, find_place, mark_places
from quoth.search.generative.decode.score import Float32, Int32, Int64
from quoth.search.generative.decode.score_table import (
    BagNorms,
    PhraseScores,
    find_gains,
    freeze,
)


@dataclass(frozen=True, slots=True, eq=False)
class Owned:
    """The identifiers of each owner: the i-th has identifiers[starts[i] : starts[i + 1]]."""

    owners: Integers  # sorted
    starts: Integers
    identifiers: NDArray[np.signedinteger[Any]]  # no wider than their number asks for


def list_owned(trie: Trie) -> Owned:
    """Turn the lists of a trie around: from whom each identifier names to what names each owner."""
    width = np.dtype(np.int32 if len(trie) <= np.iinfo(np.int32).max else np.int64)
    identifiers = np.repeat(np.arange(len(trie), dtype=width), np.diff(trie.owner_starts))
    order = np.argsort(trie.owners, kind="stable")
    owners, starts = np.unique(trie.owners[order], return_index=True)
    starts = np.append(starts, len(order)).astype(np.int64)
    return Owned(owners.astype(np.int64), starts, identifiers[order])


def bound_unseen(last: float, share: float) -> float:
    """Say what a document can score at most whose best identifier scores no more than the last.

    >>> bound_unseen(0.5, 0.5), bound_unseen(-0.5, 0.5)
    (0.75, -0.5)
    """
    return last + share * max(last, 0.0)


class MeanScorer:
    """Scores all identifiers of documents of one index."""

    def __init__(
        self, trie: Trie, owned: Owned, *, norms: BagNorms, config: GenerativeConfig
    ) -> None:
        self._trie = trie
        self._owned = owned
        self._norms = norms
        self._config = config
        self._phrase_ids = freeze(trie.phrase_ids)
        self._length_starts = find_length_starts(trie.length_rows)

    def add(self, owners: Owners, scores: PhraseScores) -> Owners:
        """Add to documents that score as their best identifiers what the mean of all adds."""
        values, offsets = self._score_owned(owners.rows, scores)
        found = owners.scores + self._config.mean_share * _bound(
            _average(values, offsets), owners.scores
        )
        order = np.lexsort((owners.rows, -found))
        return Owners(owners.rows[order], found[order])

    def explain(self, owner: int, best: float, scores: PhraseScores) -> Part:
        """Say what the mean adds to a document whose best identifier is known."""
        values, offsets = self._score_owned(np.array([owner]), scores)
        (mean,) = _bound(_average(values, offsets), np.array([best])).tolist()
        share = self._config.mean_share
        label = f"mean of all identifiers, {len(values):,}: {mean:.4f} · {share:.2f}"
        return Part(label, share * mean)

    def _score_owned(self, owners: Integers, scores: PhraseScores) -> tuple[Floats, Integers]:
        """Score the identifiers of each owner, and say where those of each begin."""
        owned = self._owned
        at = np.searchsorted(owned.owners, owners)
        places, offsets = spread(owned.starts[at], owned.starts[at + 1] - owned.starts[at])
        rows = owned.identifiers[places].astype(np.int64)
        values = self._score(rows, scores).astype(np.float64)
        if self._config.posting == "divide":
            counts = self._trie.owner_starts[rows + 1] - self._trie.owner_starts[rows]
            values -= np.log(counts) / (scores.length or 1.0)
        return np.where(np.isnan(values), 0.0, values), offsets

    def _score(self, rows: Integers, scores: PhraseScores) -> Float32:
        """Score identifiers; one that has a phrase outside the shortlist has none, or its floor."""
        trie, config = self._trie, self._config
        shortlist = freeze(scores.phrase_ids.astype(np.int32, copy=False))
        _, gains = find_gains(scores, config, self._norms.phrase_weights)
        lengths = np.searchsorted(trie.length_rows, rows, side="right") - 1
        return _score_rows(
            self._phrase_ids,
            self._length_starts[lengths] + (rows - trie.length_rows[lengths]) * lengths,
            lengths,
            mark_places(shortlist, trie.num_phrases),
            gains,
            config.floor if config.missing == "floor" else math.nan,
            self._norms.norms[rows].astype(np.float32, copy=False),
        )


def _bound(means: Floats, best: Floats) -> Floats:
    """Keep rounding from lifting a mean above the best."""
    return np.minimum(means, np.maximum(best, 0.0))


@njit(cache=True, nogil=True)
def _score_rows(
    phrase_ids: Int32,
    starts: Int64,
    lengths: Int64,
    places: Places,
    gains: Float32,
    floor: float,
    norms: Float32,
) -> Float32:
    """Score identifiers as decoding does: sums in float64, in order, rounded to float32 at last."""
    scores = np.empty(len(starts), dtype=np.float32)
    for at in range(len(starts)):
        total = 0.0
        for own in range(starts[at], starts[at] + lengths[at]):
            place = find_place(places, phrase_ids[own])
            total += gains[place] if place >= 0 else floor
        scores[at] = np.float32(total / norms[at])
    return scores


@njit(cache=True, nogil=True)
def _average(values: Floats, offsets: Integers) -> Floats:
    """Return the mean of each stretch, the same whatever stands beside it.

    >>> _average(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    array([2., 5.])
    """
    means = np.empty(len(offsets) - 1)
    for at in range(len(means)):
        total = 0.0
        for value in values[offsets[at] : offsets[at + 1]]:
            total += value
        means[at] = total / max(1, offsets[at + 1] - offsets[at])
    return means
