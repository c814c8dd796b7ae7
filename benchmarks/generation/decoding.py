"""Generate continuations in large batches, for figures: the arithmetic of `quoth.answer.generate`.

What a user runs asks text by text what is on offer; here every step is a handful of tensor
operations over the whole batch, so that hundreds of prompts and many systems fit into a lease of a
GPU. Greedy texts are the same as those of `quoth.answer.generate` (tests/equivalence). Texts end at
128 subwords, phrases written out, never earlier: subwords that end a text are not offered, to any
system alike; a phrase may overshoot, and is cut when texts are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.selfsupervision.phrase_matching import SubwordText

SHORTEST, LONGEST = 2, 8
_ENCODED_ROWS = 4_096
_PADDING = -1

Adjust = Callable[[Tensor, Tensor], Tensor]
"""Changes the scores (B, V) of subwords that follow states (B, D)."""


class Phrases(NamedTuple):
    """The distinct phrases of some documents."""

    rows: NDArray[np.int64]  # (R, 8) windows of subwords, each from the beginning of a word
    at: NDArray[np.int64]  # (C,) the window that begins with each phrase
    subword_ids: NDArray[np.int64]  # (C, 8), -1 behind a phrase's end
    lengths: NDArray[np.int64]  # (C,)


@dataclass(frozen=True)
class Offer:
    """Phrases offered to each text of a batch."""

    vectors: Tensor  # (B, C, D)
    subword_ids: Tensor  # (B, C, 8)
    lengths: Tensor  # (B, C)
    counts: Tensor  # (B,) how many of the C are there


@dataclass(frozen=True)
class Method:
    """How tokens are chosen, and how the offer grows."""

    name: str = "greedy"
    nucleus: float = 0.95
    seed: int = 0
    first_share: float = 1.0
    growth_share: float = 0.0
    growth_every: int = 10
    unfold: bool = False
    bonus: float = 0.0  # added to the scores of phrases

    def share(self, num_tokens: int) -> float:
        """Say which share of the phrases is on offer after so many tokens."""
        growths = num_tokens // self.growth_every
        return min(1.0, self.first_share + self.growth_share * growths)


@dataclass(frozen=True)
class Continuation:
    """A generated text: its subwords with phrases written out, and how it was put together."""

    subword_ids: list[int]
    unit_lengths: list[int]


def find_phrases(documents: Sequence[SubwordText], *, seed: int = 0) -> Phrases:
    """List every stretch of 2 to 8 subwords that begins and ends at words, each once, shuffled."""
    windows, cuts = [], []
    for document in documents:
        ids = np.concatenate([document.subword_ids, np.full(LONGEST, _PADDING)])
        can_end = np.concatenate([document.word_starts, [True], np.zeros(LONGEST, bool)])
        starts = np.flatnonzero(document.word_starts)
        windows.append(ids[starts[:, None] + np.arange(LONGEST)])
        cuts.append(can_end[starts[:, None] + np.arange(1, LONGEST + 1)])
    rows = np.concatenate([np.zeros((0, LONGEST), np.int64), *windows])
    may_end = np.concatenate([np.zeros((0, LONGEST), bool), *cuts])
    may_end[:, : SHORTEST - 1] = False
    at, last = np.nonzero(may_end)
    spelled = np.where(np.arange(LONGEST) <= last[:, None], rows[at], _PADDING)
    first = np.random.default_rng(seed).permutation(find_distinct(spelled))
    kept, at = np.unique(at[first], return_inverse=True)
    return Phrases(rows[kept], at, spelled[first], last[first] + 1)


def find_distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the first of all equal rows of numbers from -1 up, in their order.

    >>> find_distinct(np.array([[3, 1], [2, -1], [3, 1], [2, 0]])).tolist()
    [0, 1, 3]
    """
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    bits = max(1, int(rows.max() + 1).bit_length())
    fitting = 63 // bits  # numbers to a key; sorting few keys is far quicker than np.unique's rows
    keys = [
        (rows[:, start : start + fitting] + 1) @ (1 << bits * np.arange(part))
        for start in range(0, rows.shape[1], fitting)
        for part in [min(fitting, rows.shape[1] - start)]
    ]
    order = np.lexsort(keys)  # stable: the first of equal rows comes first
    is_new = np.ones(len(rows), dtype=np.bool_)
    is_new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    return np.sort(order[is_new])


@torch.inference_mode()
def encode(network: DynamicNetwork, phrases: Phrases, *, device: torch.device) -> Tensor:  # (C, D)
    """Encode phrases, as many of a window at once as begin it."""
    found = torch.empty(len(phrases.at), network.phrase_width, device=device, dtype=_dtype(network))
    order = np.argsort(phrases.at, kind="stable")
    bounds = np.searchsorted(
        phrases.at[order], np.arange(0, len(phrases.rows) + _ENCODED_ROWS, _ENCODED_ROWS)
    )
    for block, start in enumerate(range(0, len(phrases.rows), _ENCODED_ROWS)):
        rows = torch.from_numpy(phrases.rows[start : start + _ENCODED_ROWS]).to(device)
        vectors = network.encode_prefixes(rows.clamp_min(0), mask=rows != _PADDING)
        own = order[bounds[block] : bounds[block + 1]]
        place = torch.from_numpy(phrases.at[own] - start).to(device)
        last = torch.from_numpy(phrases.lengths[own] - 1).to(device)
        found[torch.from_numpy(own).to(device)] = vectors[place, last]
    return found


def make_offer(found: Sequence[tuple[Phrases, Tensor]], *, device: torch.device) -> Offer:
    """Pad the phrases of each text to one size."""
    counts = [len(phrases.at) for phrases, _vectors in found]
    most, width = max(counts), found[0][1].shape[1]
    vectors = torch.zeros(len(found), most, width, device=device, dtype=found[0][1].dtype)
    ids = torch.full((len(found), most, LONGEST), _PADDING, device=device)
    lengths = torch.zeros(len(found), most, dtype=torch.long, device=device)
    for at, (phrases, own) in enumerate(found):
        vectors[at, : counts[at]] = own
        ids[at, : counts[at]] = torch.from_numpy(phrases.subword_ids).to(device)
        lengths[at, : counts[at]] = torch.from_numpy(phrases.lengths).to(device)
    return Offer(vectors, ids, lengths, torch.tensor(counts, device=device))


@torch.inference_mode()
def decode(
    network: DynamicNetwork,
    prefix_ids: Tensor,  # (B, T)
    *,
    method: Method,
    num_subwords: int,
    offer: Offer | None = None,
    forbidden_ids: Sequence[int] = (),
    adjust: Adjust | None = None,
) -> list[Continuation]:
    """Continue each prefix by at least so many subwords."""
    device = prefix_ids.device
    state = _State(network, prefix_ids)
    chance = torch.Generator(device=device).manual_seed(method.seed)
    banned = torch.tensor(list(forbidden_ids), dtype=torch.long, device=device)
    units: list[Tensor] = []  # (B, 8) each
    written = torch.zeros(len(prefix_ids), dtype=torch.long, device=device)
    while bool((written < num_subwords).any()):
        scores = network.subword_scores(state.last).float()
        scores[:, banned] = -torch.inf
        if adjust is not None:
            scores = adjust(state.last, scores)
        if offer is not None:
            share = method.share(len(units))
            of_phrases = _phrase_scores(state.last, offer, share) + method.bonus
            scores = torch.cat([scores, of_phrases], dim=1)
        tokens = scores.argmax(1) if method.name == "greedy" else _draw(scores, method, chance)
        ids, vectors = _spell(network, tokens, offer)
        units.append(ids)
        written += (ids != _PADDING).sum(1)
        state.read(ids, tokens, vectors, unfold=method.unfold)
    return _collect(torch.stack(units, dim=1).cpu().numpy(), num_subwords)


class _State:
    """What was read so far, of every text of the batch."""

    def __init__(self, network: DynamicNetwork, prefix_ids: Tensor) -> None:
        self._network = network
        self._cache = DynamicCache()
        self._mask = torch.ones_like(prefix_ids, dtype=torch.bool)
        none = torch.zeros(0, network.phrase_width, device=prefix_ids.device)
        embedded = network.embed(prefix_ids, phrase_vectors=none)
        self.last = network.states(embedded, mask=self._mask, cache=self._cache)[:, -1]

    def read(self, ids: Tensor, tokens: Tensor, vectors: Tensor, *, unfold: bool) -> None:
        """Read one token per text: a phrase as its vector, or written out."""
        network = self._network
        if unfold:
            length = int((ids != _PADDING).sum(1).max())
            ids = ids[:, :length]
            mask = ids != _PADDING
            embedded = network.embed(ids.clamp_min(0), phrase_vectors=vectors[:0])
        else:
            rows = torch.arange(len(tokens), device=tokens.device) + network.num_subwords
            own = torch.where(tokens >= network.num_subwords, rows, tokens)
            mask = torch.ones_like(own, dtype=torch.bool)[:, None]
            embedded = network.embed(own[:, None], phrase_vectors=vectors)
        self._mask = torch.cat([self._mask, mask], dim=1)
        states = network.states(embedded, mask=self._mask, cache=self._cache)
        place = mask.sum(1) - 1
        self.last = states[torch.arange(len(states), device=states.device), place]


def _phrase_scores(states: Tensor, offer: Offer, share: float) -> Tensor:  # (B, C)
    written = offer.vectors[..., : states.shape[-1]].to(states.dtype)
    scores = torch.bmm(written, states[..., None])[..., 0].float()
    on_offer = torch.ceil(offer.counts * share - 1e-6)
    hidden = torch.arange(scores.shape[1], device=scores.device) >= on_offer[:, None]
    return scores.masked_fill(hidden, -torch.inf)


def _spell(
    network: DynamicNetwork, tokens: Tensor, offer: Offer | None
) -> tuple[Tensor, Tensor]:  # (B, 8), (B, D)
    """Return the subwords of each chosen token, and the vector of each chosen phrase."""
    size = network.num_subwords
    ids = torch.full((len(tokens), LONGEST), _PADDING, device=tokens.device)
    ids[:, 0] = tokens
    if offer is None:
        return ids, torch.zeros(len(tokens), network.phrase_width, device=tokens.device)
    rows = (tokens - size).clamp_min(0)
    each = torch.arange(len(tokens), device=tokens.device)
    ids = torch.where((tokens >= size)[:, None], offer.subword_ids[each, rows], ids)
    return ids, offer.vectors[each, rows]


def _draw(scores: Tensor, method: Method, chance: torch.Generator) -> Tensor:  # (B,)
    """Draw each token from the fewest whose probabilities add up to the nucleus."""
    ordered = scores.softmax(1).sort(dim=1, descending=True)
    before = ordered.values.cumsum(1) - ordered.values
    kept = ordered.values.masked_fill(before >= method.nucleus, 0.0)
    return ordered.indices.gather(1, torch.multinomial(kept, 1, generator=chance))[:, 0]


def _collect(units: NDArray[np.int64], num_subwords: int) -> list[Continuation]:
    """Join the units of each text (B, steps, 8) up to the one that makes it long enough."""
    found = []
    for own in units:
        lengths = (own != _PADDING).sum(axis=1)
        count = int(np.searchsorted(np.cumsum(lengths), num_subwords)) + 1
        ids = own[:count]
        found.append(Continuation(ids[ids != _PADDING].tolist(), lengths[:count].tolist()))
    return found


def _dtype(network: DynamicNetwork) -> torch.dtype:
    return next(network.parameters()).dtype
