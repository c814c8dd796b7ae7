"""From identifiers with scores to the rows that own them, with scores made of shares.

PIXAR leaves open how identifiers become passages; here are four ways. Let a row own the found
identifiers 1, 2 … with scores s₁ ≥ s₂ ≥ …, each owned by p rows in all:

    max         s₁
    logsumexp   T · log Σ exp(s / T): scores are log-probabilities of distinct events (at T = 1)
    seal        Σ w · (1 - beta + beta · new phrases / phrases), with w = max(0, log-odds of exp(s)
                against the prior p / N) ^ alpha, best w first; after SEAL (Bevilacqua et al. 2022),
                whose prior counts occurrences instead. Scores of 0 and above count as almost 0
    rank        Σ 1 / (constant + rank of the identifier among all that were found)

Where postings divide, an identifier's evidence is shared among its owners: scores lose log p before
max and logsumexp, weights are divided by p in the others.

A row's score is the sum of its identifiers' shares, so that explanations add up: in max the best
has all; in logsumexp each has what it adds to those before. Pure: arrays in, arrays out.

Cosines are no log-probabilities. Multiplied by the length of the query's vector, which training
fits, their softmax is: seal takes its logarithm over all that were found, and the others multiply
before they sum or share, and divide after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.index.trie.trie import Trie
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.search.generative.decode.decoder import Decoded

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_HIGHEST = -1e-6  # log-probability that scores of 0 and above are taken for


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Found identifiers, best first, who owns each, and the phrases of each."""

    rows: Integers  # (I,) the identifiers
    scores: Floats  # (I,)
    owners: Integers
    owner_starts: Integers  # (I + 1,)
    phrase_ids: NDArray[np.int32]
    phrase_starts: Integers  # (I + 1,)
    num_owners: int  # of all identifiers of the trie
    scale: float = 0.0  # of cosines: the length of the query's vector; 0 where scores are none


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Rows of a collection with scores, best first, ties by row."""

    rows: Integers
    scores: Floats


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one identifier adds to the score of a row that owns it."""

    row: int
    """The identifier."""

    score: float
    """The identifier's own score."""

    share: float
    """What it adds."""


def gather_evidence(trie: Trie, decoded: Decoded, *, scale: float = 0.0) -> Evidence:
    """Look up who owns the identifiers that were decoded, and what they are made of."""
    postings, sequences = trie.postings(decoded.rows), trie.sequences(decoded.rows)
    return Evidence(
        rows=decoded.rows,
        scores=decoded.scores.astype(np.float64),
        owners=postings.rows,
        owner_starts=postings.offsets,
        phrase_ids=sequences.ids,
        phrase_starts=sequences.offsets,
        num_owners=trie.num_owners,
        scale=scale,
    )


def aggregate(evidence: Evidence, config: AggregateConfig, *, k: int) -> Owners:
    """Score the rows that own an identifier, and give the k best."""
    owners, _, shares = _find_shares(evidence, config)
    is_first = np.ones(len(owners), dtype=bool)
    is_first[1:] = owners[1:] != owners[:-1]
    starts = np.flatnonzero(is_first)
    scores = np.add.reduceat(shares, starts) if len(starts) else shares
    best = np.lexsort((owners[starts], -scores))[:k]
    return Owners(owners[starts][best], scores[best])


def explain(evidence: Evidence, config: AggregateConfig, *, owner: int) -> tuple[Contribution, ...]:
    """List the identifiers that make up a row's score, the largest share first."""
    owners, found, shares = _find_shares(evidence, config)
    own = (owners == owner) & (shares != 0.0)
    contributions = [
        Contribution(int(evidence.rows[at]), float(evidence.scores[at]), float(share))
        for at, share in zip(found[own], shares[own], strict=True)
    ]
    return tuple(sorted(contributions, key=lambda each: (-each.share, each.row)))


# --- shares --------------------------------------------------------------------------------------


def _find_shares(evidence: Evidence, config: AggregateConfig) -> tuple[Integers, Integers, Floats]:
    """Give each pair of owner and identifier its share, sorted by owner, best identifier first."""
    counts = np.diff(evidence.owner_starts)
    values = _value_identifiers(evidence, config, counts)
    found = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((found, -values[found], evidence.owners))
    owners, found = evidence.owners[order], found[order]
    is_first = np.ones(len(owners), dtype=bool)
    is_first[1:] = owners[1:] != owners[:-1]
    if config.method == "max":
        shares = np.where(is_first, values[found], 0.0)
    elif config.method == "logsumexp":
        temperature = config.temperature / (evidence.scale or 1.0)
        shares = temperature * _add_logarithms(values[found] / temperature, is_first)
    elif config.method == "seal":
        new = _count_new(found, is_first, evidence.phrase_ids, evidence.phrase_starts)
        lengths = np.diff(evidence.phrase_starts)[found]
        shares = values[found] * (1.0 - config.beta + config.beta * new / lengths)
    else:
        shares = values[found]
    return owners, found, shares


def _value_identifiers(evidence: Evidence, config: AggregateConfig, counts: Integers) -> Floats:
    """Say what each identifier is worth to an owner that has no other."""
    divides = config.posting == "divide"
    if config.method in ("max", "logsumexp"):
        shared = np.log(counts) / (evidence.scale or 1.0)
        return evidence.scores - shared if divides else evidence.scores
    if config.method == "seal":
        scores = as_log_probabilities(evidence.scores, scale=evidence.scale)
        values = weigh_by_odds(scores + config.lift, counts, num_owners=evidence.num_owners)
        values = values**config.alpha
    else:
        values = 1.0 / np.arange(config.constant + 1.0, config.constant + 1.0 + len(counts))
    return values / counts if divides else values


def as_log_probabilities(scores: Floats, *, scale: float) -> Floats:
    """Turn cosines into log-probabilities of the identifiers found; a scale of 0 leaves scores.

    >>> np.exp(as_log_probabilities(np.array([0.9, 0.9]), scale=20.0)).tolist()
    [0.5, 0.5]
    """
    if not scale or not len(scores):
        return scores
    scaled = scale * (scores - scores.max())
    found: Floats = scaled - np.log(np.exp(scaled).sum())
    return found


def weigh_by_odds(scores: Floats, counts: Integers, *, num_owners: int) -> Floats:
    """Compare log-probabilities with how probable an identifier is anyway, as log-odds.

    The prior is (count + 1/2) / (owners + 1), never 0 or 1; what is less likely than that gets 0.

    >>> round(float(weigh_by_odds(np.log([0.5]), np.array([1]), num_owners=5)[0]), 6)
    1.098612
    """
    found = np.minimum(scores, _HIGHEST)
    prior = np.log((counts + 0.5) / (num_owners + 1.0))
    odds = found - np.log(-np.expm1(found)) - prior + np.log(-np.expm1(prior))
    weights: Floats = np.maximum(0.0, odds)
    return weights


@njit(cache=True, nogil=True)
def _add_logarithms(values: Floats, is_first: NDArray[np.bool_]) -> Floats:
    """Say by how much each value raises the logarithm of the sum of exponentials before it."""
    shares = np.empty_like(values)
    total = 0.0
    for at in range(len(values)):
        if is_first[at]:
            total = shares[at] = values[at]
        else:  # values descend, so the sum is above each
            shares[at] = np.log1p(np.exp(values[at] - total))
            total += shares[at]
    return shares


@njit(cache=True, nogil=True)
def _count_new(
    found: Integers,
    is_first: NDArray[np.bool_],
    phrase_ids: NDArray[np.int32],
    phrase_starts: Integers,
) -> Integers:
    """Count the phrases of each identifier that no better one of the same owner has."""
    new = np.zeros(len(found), dtype=np.int64)
    first = 0
    for at in range(len(found)):
        if is_first[at]:
            first = at
        for own in range(phrase_starts[found[at]], phrase_starts[found[at] + 1]):
            is_new = True
            for before in range(first, at):
                lo, hi = phrase_starts[found[before]], phrase_starts[found[before] + 1]
                for other in range(lo, hi):
                    is_new = is_new and phrase_ids[other] != phrase_ids[own]
            new[at] += is_new
    return new
