"""Shrink a pool of candidates to a vocabulary, by the characters that each covers.

In rounds: cut the texts with all that is left, add up the characters that each phrase covers
(its length times its uses), drop the worst share. Near the target the share is smaller. Once the
size is reached, phrases used too rarely are dropped and the texts cut again, until none is left.

Departs from TokenMonster, which tries random vocabularies of the target size taken from the pool:
here the pool starts as the best candidates by count · length, a few times the target, so that
rare long phrases do not at first take the place of the short ones that will be needed in the end.
On 1.2 M short texts a pool of 4 targets gave shorter sequences than one of 20 (7.95 to 8.10 phrases
at 100,000), and one of 2 about the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.counting import Progress, share_out
from quoth.vocabulary.phrases.cutters import RANK, link_nodes, relink_nodes
from quoth.vocabulary.phrases.mining import Candidates, Corpus
from quoth.vocabulary.phrases.prefixes import build_prefixes, find_all_deepest
from quoth.vocabulary.phrases.text import Bytes, Ids, Longs, count_characters, take_strings
from quoth.vocabulary.phrases.use import add_part_uses, cut_texts, spell_words
from quoth.vocabulary.phrases.workers import Workers

_LEAST_DROP = 1000  # phrases dropped at once when they are used too rarely
_NEAR = 1.25  # within this multiple of the size, rounds drop a fifth as many
_FAR = 2.0  # beyond this multiple, rounds look at a sample of the texts


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates that pruning starts from, the most frequent first; a place in it is a rank."""

    parts: NDArray[np.bool_]
    """True for a part of a word (or a whole one), False for a sequence of words."""
    sources: Longs
    """Number of the part, or node of the sequence of words."""
    lengths: Ids

    def __len__(self) -> int:
        return len(self.sources)


def choose_pool(candidates: Candidates, config: PhraseConfig) -> Pool:
    """Take the best candidates by count · length; ties by parts first, then by number."""
    phrases = np.flatnonzero(candidates.phrases.spans > 1)
    parts = np.arange(len(candidates.parts))
    counts = np.concatenate([candidates.part_counts, candidates.phrases.counts[phrases]])
    lengths = np.concatenate(
        [count_characters(candidates.parts), candidates.phrases.lengths[phrases]]
    )
    sources = np.concatenate([parts, phrases])
    best = np.argsort(-(counts * lengths), kind="stable")[: config.pool * config.size]
    best = best[np.argsort(-counts[best], kind="stable")]
    return Pool(best < len(parts), sources[best], lengths[best])


def prune(
    pool: Pool,
    uses_of: Callable[[NDArray[np.bool_], bool], Longs],
    config: PhraseConfig,
    *,
    alive: NDArray[np.bool_],
    keep: Callable[[NDArray[np.bool_]], None],
    progress: Progress,
) -> tuple[NDArray[np.bool_], Longs]:
    """Drop the worst in rounds, from those alive; gives what is left of the pool, and all uses.

    `uses_of` cuts the texts (a sample of them, if told) with what is alive, and counts the uses of
    the single bytes, then of the pool. `keep` is told what is
    left after each round, so that it can be saved.
    """
    alive = alive.copy()
    target = config.size - NUM_BYTES
    while True:
        left = int(np.count_nonzero(alive))
        progress("pruning", left, target)
        uses = uses_of(alive, left > _FAR * target)
        worst = _choose_worst(pool, alive, uses, config=config)
        if not len(worst):
            return alive, uses
        alive[worst] = False
        keep(alive)


def _choose_worst(
    pool: Pool, alive: NDArray[np.bool_], uses: Longs, *, config: PhraseConfig
) -> Longs:
    """List what to drop in this round: what covers least, the rarer candidate first."""
    left = np.flatnonzero(alive)
    target = config.size - NUM_BYTES
    share = config.drop if len(left) > _NEAR * target else config.drop / 5
    if len(left) > target:
        num_worst = min(len(left) - target, max(1, int(share * len(left))))
    else:
        left = left[uses[NUM_BYTES + left] < config.min_use]
        num_worst = min(len(left), max(_LEAST_DROP, int(config.drop * np.count_nonzero(alive))))
    covered = uses[NUM_BYTES + left] * pool.lengths[left]
    order = np.lexsort((-left, covered))
    return left[order[:num_worst]]


class PoolCutter:
    """Cuts a corpus with what is alive of a pool, as a segmenter with that vocabulary would."""

    def __init__(
        self,
        corpus: Corpus,
        candidates: Candidates,
        pool: Pool,
        *,
        config: PhraseConfig,
        workers: Workers,
    ) -> None:
        self._corpus = corpus
        self._pool = pool
        self._cutter = CUTTERS.index(config.cutter)
        self._workers = workers
        self._link_parts(candidates)
        self._link_phrases(candidates)
        texts = np.arange(len(corpus.texts))
        chance = np.random.default_rng(config.seed)
        size = int(np.ceil(config.sample * len(texts)))
        self._sample = np.sort(chance.choice(texts, size, replace=False))
        self._all = texts

    def _link_parts(self, candidates: Candidates) -> None:
        words, pool = self._corpus.words, self._pool
        strings = take_strings(candidates.parts, pool.sources[pool.parts])
        prefixes, ends = build_prefixes(strings.content.astype(np.int32), strings.offsets)
        lengths = np.zeros(len(prefixes.parents), dtype=np.int32)
        lengths[ends] = pool.lengths[pool.parts]
        self._part_ends = ends
        self._part_parents = prefixes.parents
        self._part_nodes, self._part_nearest = link_nodes(
            prefixes.parents, spans=prefixes.spans, lengths=lengths, ranks=np.full_like(lengths, -1)
        )
        self._part_deepest = find_all_deepest(
            words.content.astype(np.int32), words.offsets, prefixes.keys, prefixes.children
        )

    def _link_phrases(self, candidates: Candidates) -> None:
        grams = candidates.phrases
        self._phrase_ends = self._pool.sources[~self._pool.parts]
        self._phrase_parents, self._phrase_deepest = grams.parents, grams.deepest
        self._phrase_nodes, self._phrase_nearest = link_nodes(
            grams.parents,
            spans=grams.spans,
            lengths=grams.lengths,
            ranks=np.full(len(grams.parents), -1, dtype=np.int32),
        )

    def __call__(self, alive: NDArray[np.bool_], sampled: bool) -> Longs:
        """Count how often each byte is used, then each candidate; what is not alive is not."""
        self._set_alive(alive)
        rows, choices = self._spell()
        phrase_uses, word_uses = self._cut(rows, self._sample if sampled else self._all)
        words = self._corpus.words
        part_uses = np.zeros(len(self._part_nodes), dtype=np.int64)
        uses = np.zeros(NUM_BYTES + len(self._pool), dtype=np.int64)
        add_part_uses(
            words.content, words.offsets, choices, self._part_nodes, word_uses, part_uses, uses
        )
        uses[NUM_BYTES:][self._pool.parts] = part_uses[self._part_ends]
        uses[NUM_BYTES:][~self._pool.parts] = phrase_uses[self._phrase_ends]
        return uses

    def _set_alive(self, alive: NDArray[np.bool_]) -> None:
        ranks = np.where(alive, np.arange(len(alive)) + NUM_BYTES, -1)
        self._part_nodes[self._part_ends, RANK] = ranks[self._pool.parts]
        self._phrase_nodes[self._phrase_ends, RANK] = ranks[~self._pool.parts]
        relink_nodes(self._part_parents, self._part_nodes, self._part_nearest)
        relink_nodes(self._phrase_parents, self._phrase_nodes, self._phrase_nearest)

    def _spell(self) -> tuple[Longs, Ids]:
        """Spell every word with the parts that are alive."""
        words = self._corpus.words
        spelt = self._workers.map(
            _spell_share,
            [
                (self._cutter, start, end)
                for start, end in share_out(words.offsets, self._workers.count)
            ],
            kept=(words.content, words.offsets, self._part_deepest),
            shared=(self._part_nearest, self._part_nodes),
        )
        return (
            np.concatenate([rows for rows, _choices in spelt]),
            np.concatenate([choices for _rows, choices in spelt]),
        )

    def _cut(self, rows: Longs, chosen: Longs) -> tuple[Longs, Longs]:
        """Cut texts into phrases and spelt words; gives the uses of nodes and of words."""
        texts = self._corpus.texts
        found = self._workers.map(
            _cut_share,
            [(self._cutter, share) for share in np.array_split(chosen, self._workers.count)],
            kept=(texts.symbols, texts.offsets, texts.weights, self._phrase_deepest),
            shared=(self._phrase_nearest, self._phrase_nodes, rows),
        )
        uses, word_uses = (each.copy() for each in found[0])
        for more, more_words in found[1:]:
            uses += more
            word_uses += more_words
        return uses, word_uses


def _spell_share(
    task: tuple[int, int, int],
    content: Bytes,
    offsets: Longs,
    deepest: Ids,
    nearest: Ids,
    nodes: NDArray[np.int32],
) -> tuple[Longs, Ids]:
    """Spell a run of words: their rows, and the part chosen at each of their bytes."""
    cutter, start, end = task
    places = slice(offsets[start], offsets[end])
    rows = np.empty((end - start, 4), dtype=np.int64)
    choices = np.empty(offsets[end] - offsets[start], dtype=np.int32)
    own_offsets = offsets[start : end + 1] - offsets[start]
    spell_words(
        cutter, content[places], own_offsets, nearest, deepest[places], nodes, rows, choices
    )
    return rows, choices


def _cut_share(
    task: tuple[int, Longs],
    symbols: Ids,
    offsets: Longs,
    weights: Longs,
    deepest: Ids,
    nearest: Ids,
    nodes: NDArray[np.int32],
    rows: Longs,
) -> tuple[Longs, Longs]:
    """Cut some texts; gives the uses of nodes and of words."""
    cutter, chosen = task
    uses = np.zeros(len(nodes), dtype=np.int64)
    word_uses = np.zeros(len(rows), dtype=np.int64)
    cut_texts(
        cutter, symbols, offsets, weights, chosen, nearest, deepest, nodes, rows, uses, word_uses
    )
    return uses, word_uses
