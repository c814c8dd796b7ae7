"""From scores of phrases to the best identifiers of each query.

Follows PIXAR (digest: slots are independent, so an identifier's score is a sum over its phrases)
and offers what the paper leaves open. With s_t(v) the score of phrase v in slot t, and x₀'s own
score s_0(v), an identifier d of n phrases has

    ordered      Σ s_t(d_t)                       the paper's reading: slot t scores phrase t
    perm_slots   max over σ of Σ s_σ(t)(d_t)      any slot may score a phrase, none twice
    bag          Σ max_t s_t(d_i)                 any slot, also twice
    sorted_trie  as bag, over a trie whose identifiers were sorted: word order names nothing
    pooled       Σ s_0(d_i)                       slots ignored
    bag_cos      Σ w(d_i) · s_0(d_i) / norm(d)    cosine of x₀ and the weighted mean of the rows
    bag_max      as bag_cos, s_0 and what the word of the query adds that knows d_i best

and, but for the last two, is made comparable over lengths by nothing, / n, / n^alpha, or + the
score of ending after n phrases. Slots cannot score identifiers longer than there are slots: ordered
and perm_slots, and scores of ending, leave those out.

Methods exact and best_first find the same identifiers, best first, ties by row; skim and beam may
miss some. Exact reads the lists that the trie keeps by rarest phrase, and so does skim, which stops
after `reach` identifiers; best_first and beam walk from prefix to prefix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numba import njit

from quoth.errors import ConfigError
from quoth.index.trie.trie import Trie, find_length_starts
from quoth.index.trie.walk import split_bits
from quoth.search.generative.decode.config import COSINES, DecodeConfig
from quoth.search.generative.decode.places import mark_places
from quoth.search.generative.decode.scan import order_lists, scan_all, scan_lists
from quoth.search.generative.decode.score import (
    BLOCK_BITS,
    Float32,
    Int32,
    Int64,
    Kept,
    Lookup,
    ScoreTable,
)
from quoth.search.generative.decode.score_table import (
    BagNorms,
    PhraseScores,
    check_scores,
    fill_table,
    find_divisors,
    freeze,
)
from quoth.search.generative.decode.walk import FIRSTS_APART, walk_beam, walk_best_first


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The best identifiers of one query, best first, ties by row."""

    rows: Int64
    scores: Float32


class Decoder:
    """Finds the best identifiers of a trie; may be used by several threads at once.

    With several `threads` of its own, exact shares a query out among them; the result is the same.
    """

    def __init__(
        self,
        trie: Trie,
        config: DecodeConfig,
        *,
        norms: BagNorms | None = None,
        threads: int = 1,
    ) -> None:
        _check_trie(trie, config, norms)
        if threads < 1:
            raise ConfigError(f"decode: threads is {threads}, expected ≥ 1")
        self._threads = threads
        self._pool = ThreadPoolExecutor(max(1, threads - 1))  # starts none before it is asked
        norms = norms if config.order in COSINES else None
        self._lookup = _make_lookup(trie)
        self._num_phrases = trie.num_phrases
        self._config = config
        self._depth = min(config.depth, len(trie))
        self._divisors = find_divisors(trie.length_rows, config, norms=norms)
        self._phrase_weights = None if norms is None else norms.phrase_weights

    def decode(self, batch: Sequence[PhraseScores]) -> list[Decoded]:
        """Find the best identifiers of each query."""
        return [self._decode_one(scores) for scores in batch]

    def _decode_one(self, scores: PhraseScores) -> Decoded:
        check_scores(scores, self._config, num_phrases=self._num_phrases)
        shortlist = freeze(scores.phrase_ids.astype(np.int32, copy=False))
        if self._depth == 0 or len(shortlist) == 0:
            return Decoded(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
        table = fill_table(
            scores,
            self._config,
            places=mark_places(shortlist, self._num_phrases),
            divisors=self._divisors,
            phrase_weights=self._phrase_weights,
        )
        found = [_as_decoded(kept) for kept in self._find(table, shortlist)]
        rows = np.concatenate([each.rows for each in found])
        values = np.concatenate([each.scores for each in found])
        order = np.lexsort((rows, -values))[: self._depth]
        return Decoded(rows[order], values[order])

    def _find(self, table: ScoreTable, shortlist: Int32) -> list[Kept]:
        """Find the best of everything, or of each part of it."""
        config, depth = self._config, self._depth
        if config.missing == "floor":
            return [scan_all(self._lookup, table, depth)]
        if config.method in ("exact", "skim"):
            return self._scan(table, shortlist)
        kept = walk_beam(self._lookup, table, shortlist, depth, config.beam)
        if config.method == "beam":
            return [kept]
        threshold = float(kept.scores[0]) if kept.size[0] == depth else -math.inf
        return [walk_best_first(self._lookup, table, shortlist, depth, threshold)]

    def _scan(self, table: ScoreTable, shortlist: Int32) -> list[Kept]:
        reach, parts = int(self._lookup.length_rows[-1]), self._threads
        if self._config.method == "skim":  # few lists, and which of them depends on all before
            reach, parts = self._config.reach, 1
        lists = order_lists(self._lookup, table, shortlist)
        scan = partial(scan_lists, self._lookup, table, lists, self._depth, reach)
        others = [self._pool.submit(scan, part, parts) for part in range(1, parts)]
        return [scan(0, parts), *(each.result() for each in others)]


def _as_decoded(kept: Kept) -> Decoded:
    size = int(kept.size[0])
    return Decoded(kept.rows[:size], kept.scores[:size])


def _make_lookup(trie: Trie) -> Lookup:
    starts = find_length_starts(trie.length_rows)
    firsts = [
        trie.phrase_ids[lo : hi : max(1, length * FIRSTS_APART)]
        for length, (lo, hi) in enumerate(pairwise(starts.tolist()))
    ]
    blocks = np.arange(0, len(trie), 1 << BLOCK_BITS)
    row_bits, lost_bits = split_bits(len(trie), trie.num_phrases)
    return Lookup(
        phrase_ids=trie.phrase_ids,
        length_rows=trie.length_rows,
        length_starts=freeze(starts),
        block_lengths=freeze(np.searchsorted(trie.length_rows, blocks, side="right") - 1),
        rarest_starts=trie.rarest_starts,
        rarest_pairs=trie.rarest_pairs,
        row_bits=row_bits,
        lost_bits=lost_bits,
        firsts=freeze(np.concatenate(firsts)),
        first_starts=freeze(np.cumsum([0, *map(len, firsts)])),
    )


@njit(cache=True, nogil=True)
def _is_sorted(phrase_ids: Int32, length_rows: Int64, length_starts: Int64) -> bool:
    """Say whether the phrases of every identifier ascend."""
    for length in range(2, len(length_rows) - 1):
        for row in range(length_rows[length + 1] - length_rows[length]):
            start = length_starts[length] + row * length
            for at in range(start + 1, start + length):
                if phrase_ids[at] < phrase_ids[at - 1]:
                    return False
    return True


def _check_trie(trie: Trie, config: DecodeConfig, norms: BagNorms | None) -> None:
    problems = []
    if config.order == "sorted_trie":
        starts = freeze(find_length_starts(trie.length_rows))
        if not _is_sorted(trie.phrase_ids, trie.length_rows, starts):
            problems.append("order = sorted_trie needs identifiers with sorted phrases")
    if config.order in COSINES:
        if norms is None:
            problems.append(f"order = {config.order} needs norms")
        else:
            sizes = (len(norms.phrase_weights), len(norms.norms))
            if sizes != (trie.num_phrases, len(trie)):
                problems.append(
                    f"{sizes[0]} weights and {sizes[1]} norms, expected one for each of "
                    f"{trie.num_phrases} phrases and {len(trie)} identifiers"
                )
            elif len(trie) and not 0.0 < norms.norms.min() <= norms.norms.max() < math.inf:
                problems.append("norms are not all above 0 and finite")
    if problems:
        raise ConfigError(f"decode: {'; '.join(problems)}")
