"""Millions of identifiers, and queries for them, made from real short texts.

Phrases are words and the most frequent pairs of words; a text is cut from left to right, pairs
first. New identifiers are spliced: the beginning of one text, up to a phrase that another text has
too, and the other's end. Neighbouring phrases thus go together as in real texts, which matters:
among random sequences nothing resembles a query, and any search must read on to the junk.

Phrase vectors come from random indexing: each text has a random vector, a phrase the mean of those
of its texts, a text then the mean of its phrases', and once more. A query is a noisy copy of one
identifier's vector; its logits are scale · cosine + log of the phrase's frequency, as in a head
with unit rows and a bias.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.index.trie.trie import Sequences, Trie
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores

WIDTH = 64
SCALE = 34.0
NOISE = 0.5
"""Length of the noise in a query's vectors; those are of length 1."""

Floats = NDArray[np.float32]
_MOST_PHRASES = 9


def read_texts(path: Path) -> list[list[str]]:
    """Read the words of the short texts, 2 to 24 each."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    found = subprocess.run(command, capture_output=True, check=True, text=True, encoding="utf-8")
    texts = (line.split("\t", 1)[-1].lower().split() for line in found.stdout.split("\n"))
    return [words for words in texts if 2 <= len(words) <= 24]


def cut_texts(texts: list[list[str]], *, num_phrases: int) -> Sequences:
    """Make a vocabulary of words and frequent pairs, at most so many, and cut the texts by it."""
    words = Counter(word for text in texts for word in text)
    pairs = Counter(pair for text in texts for pair in pairwise(text))
    id_by_phrase: dict[Any, int] = {}
    for word, _ in words.most_common(num_phrases):
        id_by_phrase[word] = len(id_by_phrase)
    for pair, count in pairs.most_common(num_phrases - len(id_by_phrase)):
        if count > 1:
            id_by_phrase[pair] = len(id_by_phrase)
    ids: list[int] = []
    offsets = [0]
    for text in texts:
        at = 0
        while at < len(text):
            pair = id_by_phrase.get(tuple(text[at : at + 2])) if at + 1 < len(text) else None
            found = id_by_phrase.get(text[at]) if pair is None else pair
            ids += [] if found is None else [found]
            at += 1 if pair is None else 2
        offsets.append(len(ids))
    shuffled = np.random.default_rng(0).permutation(num_phrases).astype(np.int32)
    return Sequences(shuffled[np.array(ids)], np.array(offsets))


def splice(texts: Sequences, *, count: int, seed: int) -> Sequences:
    """Make new sequences of two texts that share a phrase."""
    by_phrase = np.argsort(texts.ids, kind="stable")
    num_phrases = int(texts.ids.max()) + 1
    starts = np.searchsorted(texts.ids[by_phrase], np.arange(num_phrases + 1))
    return Sequences(*_splice(texts.ids, texts.offsets, by_phrase, starts, count, seed))


@njit(cache=True, nogil=True)
def _splice(
    ids: Any, offsets: Any, by_phrase: Any, starts: Any, count: int, seed: int
) -> tuple[Any, Any]:
    np.random.seed(seed)
    text_of = np.empty(len(ids), dtype=np.int64)
    for text in range(len(offsets) - 1):
        text_of[offsets[text] : offsets[text + 1]] = text
    out = np.empty(count * _MOST_PHRASES, dtype=np.int32)
    out_offsets = np.zeros(count + 1, dtype=np.int64)
    end = 0
    for made in range(count):
        while True:
            at = np.random.randint(0, len(ids))
            lo, hi = starts[ids[at]], starts[ids[at] + 1]
            other = by_phrase[np.random.randint(lo, hi)]
            head = at + 1 - offsets[text_of[at]]
            tail = offsets[text_of[other] + 1] - other - 1
            if 1 <= head + tail <= _MOST_PHRASES:
                break
        out[end : end + head] = ids[at + 1 - head : at + 1]
        out[end + head : end + head + tail] = ids[other + 1 : other + 1 + tail]
        end += head + tail
        out_offsets[made + 1] = end
    return out[:end].copy(), out_offsets


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """What a trained head would be: a vector and a bias per phrase, and its weight in a bag."""

    vectors: Floats  # (P, WIDTH), of length 1
    bias: Floats  # (P,)
    norms: BagNorms


def make_head(texts: Sequences, trie: Trie, *, seed: int) -> Head:
    """Give phrases vectors that are near where the phrases occur together."""
    rng = np.random.default_rng(seed)
    counts = np.bincount(trie.phrase_ids, minlength=trie.num_phrases)
    share = (counts + 1.0) / (counts.sum() + trie.num_phrases)
    weights = -np.log(share).astype(np.float32)
    of_texts = rng.normal(size=(len(texts.offsets) - 1, WIDTH)).astype(np.float32)
    for _ in range(2):
        vectors = _mean_of_texts(texts.ids, texts.offsets, of_texts, trie.num_phrases)
        of_texts = _sum_of_phrases(texts.ids, texts.offsets, vectors, weights)
        of_texts /= np.linalg.norm(of_texts, axis=1, keepdims=True) + 1e-9
    unseen = ~vectors.any(axis=1)
    vectors[unseen] = rng.normal(size=(int(unseen.sum()), WIDTH))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths = np.repeat(np.arange(trie.longest + 1), np.diff(trie.length_rows))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    norms = _norms_of_sums(trie.phrase_ids, offsets, vectors, weights)
    return Head(vectors, np.log(share).astype(np.float32), BagNorms(weights, norms))


@njit(cache=True, nogil=True)
def _mean_of_texts(ids: Any, offsets: Any, of_texts: Any, num_phrases: int) -> Any:
    vectors = np.zeros((num_phrases, of_texts.shape[1]), dtype=np.float32)
    for text in range(len(offsets) - 1):
        for at in range(offsets[text], offsets[text + 1]):
            vectors[ids[at]] += of_texts[text]
    return vectors


@njit(cache=True, nogil=True)
def _sum_of_phrases(ids: Any, offsets: Any, vectors: Any, weights: Any) -> Any:
    out = np.zeros((len(offsets) - 1, vectors.shape[1]), dtype=np.float32)
    for text in range(len(out)):
        for at in range(offsets[text], offsets[text + 1]):
            length = np.sqrt((vectors[ids[at]] ** 2).sum()) + np.float32(1e-9)
            out[text] += weights[ids[at]] / length * vectors[ids[at]]
    return out


@njit(cache=True, nogil=True)
def _norms_of_sums(ids: Any, offsets: Any, vectors: Any, weights: Any) -> Any:
    norms = np.empty(len(offsets) - 1, dtype=np.float32)
    for row in range(len(norms)):
        total = np.zeros(vectors.shape[1], dtype=np.float32)
        for at in range(offsets[row], offsets[row + 1]):
            total += weights[ids[at]] * vectors[ids[at]]
        norms[row] = max(np.sqrt((total**2).sum()), 1e-3)
    return norms


def make_query(
    trie: Trie, head: Head, *, num_shortlisted: int, num_slots: int, seed: int
) -> tuple[PhraseScores, PhraseScores]:
    """Score phrases for one query: log-probabilities, and cosines for bag_cos."""
    rng = np.random.default_rng(seed)
    target = trie.sequences(rng.integers(0, len(trie), 1)).ids
    weights = head.norms.phrase_weights[target]
    x0 = _blur(weights @ head.vectors[target], rng)
    slots = [
        _blur(x0 + head.vectors[target[slot]] if slot < len(target) else x0, rng)
        for slot in range(num_slots)
    ]
    logits = SCALE * np.stack([x0, *slots]) @ head.vectors.T + head.bias  # (1 + S, P)
    logits -= np.log(np.exp(logits - logits.max()).sum(axis=1, keepdims=True)) + logits.max()
    cut = trie.num_phrases - num_shortlisted
    shortlist = np.sort(np.argpartition(logits[0], cut)[cut:]).astype(np.int32)
    scores = np.ascontiguousarray(logits[:, shortlist], dtype=np.float32)
    ends = np.log(rng.dirichlet(np.ones(num_slots + 1))).astype(np.float32)
    cosines = (head.vectors[shortlist] @ x0).astype(np.float32)
    return (
        PhraseScores(shortlist, scores[1:], scores[0], ends),
        PhraseScores(shortlist, pooled_scores=cosines),
    )


def _blur(vector: Floats, rng: np.random.Generator) -> Floats:
    """Add noise to a direction."""
    noise = rng.normal(size=WIDTH) / np.sqrt(WIDTH) * NOISE
    blurred = vector / np.linalg.norm(vector) + noise
    return (blurred / np.linalg.norm(blurred)).astype(np.float32)


def draw_owners(count: int, *, per_owner: int, seed: int) -> NDArray[np.int64]:
    """Give each sequence an owner, about so many sequences to each."""
    return np.random.default_rng(seed).integers(0, max(1, count // per_owner), count)
