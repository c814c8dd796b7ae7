"""Write identifiers subword by subword, never leaving a trie: what autoregressive systems do.

As SEAL and its like decode: at each step every open beginning is continued by the subwords that
some identifier goes on with, and the likeliest `width` beginnings of each query are kept. The trie
here is one of nodes, unlike `quoth.index.trie`, which has one root per length: a beam shares the
beginnings of identifiers of all lengths. All of it are tensors, so that a step is a few operations
on the device, however many queries are searched for at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.index.trie.trie import Sequences
from quoth.models.query_generator.decoding import Step

NONE = -1
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class SubwordTrie:
    """Identifiers that all end with one symbol; node 0 is the root, edge e leads to node e + 1.

    The edges of a node stand together: starts[node] to starts[node + 1].
    """

    starts: Tensor  # (nodes + 1,) int64
    subword_ids: Tensor  # (nodes - 1,) int64, of each edge
    rows: Tensor  # (nodes,) int64, the identifier that is complete here, or NONE

    def to(self, device: torch.device) -> SubwordTrie:
        """Move all tensors."""
        return SubwordTrie(
            *(each.to(device) for each in (self.starts, self.subword_ids, self.rows))
        )


@dataclass(frozen=True, slots=True)
class Written:
    """The identifiers found for one query, likeliest first."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]  # log-probability of the whole, its end included
    lengths: NDArray[np.int64]  # subwords, the end included


def build_subword_trie(sequences: Sequences, *, end: int) -> SubwordTrie:
    """Join the beginnings that distinct sequences share; row i is the i-th sequence.

    >>> own = Sequences(np.array([5, 6, 5], dtype=np.int32), np.array([0, 2, 3]))  # "5 6" and "5"
    >>> trie = build_subword_trie(own, end=9)
    >>> trie.subword_ids.tolist(), trie.starts.tolist(), trie.rows.tolist()
    ([5, 6, 9, 9], [0, 1, 3, 4, 4, 4], [-1, -1, -1, 1, 0])
    """
    table = _as_table(sequences, end)
    order = np.lexsort(tuple(reversed(table.T)))
    table = table[order]
    nodes = np.zeros(len(table), dtype=np.int64)
    parents, edges, rows = [], [], [np.full(1, NONE, dtype=np.int64)]
    count = 1
    for column in table.T:
        alive = np.flatnonzero(column != NONE)
        is_new = np.ones(len(alive), dtype=bool)
        is_new[1:] = (np.diff(nodes[alive]) != 0) | (np.diff(column[alive]) != 0)
        parents.append(nodes[alive][is_new])
        edges.append(column[alive][is_new])
        rows.append(np.where(edges[-1] == end, order[alive[is_new]], NONE))
        nodes[alive] = count - 1 + np.cumsum(is_new)
        count += int(is_new.sum())
    starts = np.searchsorted(np.concatenate(parents), np.arange(count + 1))
    found = (starts, np.concatenate(edges), np.concatenate(rows))
    return SubwordTrie(*(torch.from_numpy(each.astype(np.int64)) for each in found))


def search_beam(
    step: Step, trie: SubwordTrie, *, num_queries: int, width: int, prefix: Sequence[int]
) -> list[Written]:
    """Find identifiers for each query; the `width` rows of one query stand together.

    Beginnings compete by the sum of their log-probabilities, which only falls: a query is done
    when `width` identifiers are found and no beginning is likelier than the last of these. Up to
    twice as many are given back.
    """
    search = _Search(trie, num_queries, width)
    tokens = torch.tensor(prefix, device=trie.starts.device)[:, None].expand(-1, search.num_rows)
    for each in tokens:
        logits = step(each, None)
    parents = None
    while True:
        chosen, parents = search.extend(logits.log_softmax(1))
        if search.is_done():
            return search.found()
        logits = step(chosen, parents)


class _Search:
    """Open beginnings and whole identifiers of all queries."""

    def __init__(self, trie: SubwordTrie, num_queries: int, width: int) -> None:
        device = trie.starts.device
        self.num_rows = num_queries * width
        self._trie, self._num_queries, self._width = trie, num_queries, width
        self._nodes = torch.zeros(self.num_rows, dtype=torch.int64, device=device)
        self._scores = torch.full((self.num_rows,), _NEVER, device=device)
        self._scores[::width] = 0.0  # all rows of a query are equal at first: one may go on
        room = (num_queries, 2 * width)
        self._done_scores = torch.full(room, _NEVER, device=device)
        self._done = torch.full((2, *room), NONE, device=device)  # rows, lengths
        self._length = 0

    def extend(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the likeliest continuations; those that end are put aside. Tokens and parents."""
        self._length += 1
        parents, edges = self._continuations()
        subwords = self._trie.subword_ids[edges]
        totals = self._scores[parents] + log_probs[parents, subwords]
        queries = parents // self._width
        counts = torch.bincount(queries, minlength=self._num_queries)
        first = counts.cumsum(0) - counts
        places = torch.arange(len(parents), device=parents.device) - first[queries]
        most = max(int(counts.max()), 2 * self._width)
        spread = totals.new_full((self._num_queries, most), _NEVER)
        spread[queries, places] = totals
        best, at = spread.topk(2 * self._width)  # a beginning ends in one way: half go on
        at = (at + first[:, None]).clamp_max(max(0, len(parents) - 1))
        rows = self._trie.rows[edges[at] + 1]
        self._put_aside(best.masked_fill(rows == NONE, _NEVER), rows)
        return self._go_on(best.masked_fill(rows != NONE, _NEVER), parents[at], edges[at])

    def is_done(self) -> bool:
        """Say whether nothing that is open can be among the best of its query."""
        open_best = self._scores.view(self._num_queries, -1).amax(1)
        return bool((open_best <= self._done_scores[:, self._width - 1]).all())

    def found(self) -> list[Written]:
        """Return each query's identifiers, likeliest first."""
        scores, rows, lengths = (
            each.cpu().numpy() for each in (self._done_scores.float(), *self._done)
        )
        kept = np.isfinite(scores)
        return [
            Written(rows[at][kept[at]], scores[at][kept[at]], lengths[at][kept[at]])
            for at in range(self._num_queries)
        ]

    def _continuations(self) -> tuple[Tensor, Tensor]:
        """List the row and the edge of everything that goes on from an open beginning."""
        rows = self._scores.isfinite().nonzero()[:, 0]
        starts = self._trie.starts[self._nodes[rows]]
        counts = self._trie.starts[self._nodes[rows] + 1] - starts
        parents = torch.repeat_interleave(rows, counts)
        before = torch.repeat_interleave(starts - (counts.cumsum(0) - counts), counts)
        return parents, before + torch.arange(len(parents), device=parents.device)

    def _put_aside(self, scores: Tensor, rows: Tensor) -> None:
        joined = torch.cat((self._done_scores, scores), dim=1)
        facts = torch.stack((rows, torch.full_like(rows, self._length)))
        self._done_scores, kept = joined.topk(2 * self._width)
        self._done = torch.cat((self._done, facts), dim=2).gather(2, kept.expand(2, -1, -1))

    def _go_on(self, scores: Tensor, parents: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        best, kept = scores.topk(self._width)
        self._scores = best.flatten()
        is_open = self._scores.isfinite()
        own = torch.arange(self.num_rows, device=edges.device)
        chosen = edges.gather(1, kept).flatten()
        self._nodes = torch.where(is_open, chosen + 1, 0)
        # a row that is closed goes on by itself, so that no row reads another query's states
        return self._trie.subword_ids[chosen], torch.where(
            is_open, parents.gather(1, kept).flatten(), own
        )


def _as_table(sequences: Sequences, end: int) -> NDArray[np.int64]:
    """Stand ended sequences under each other, NONE after the end."""
    lengths = np.diff(sequences.offsets)
    table = np.full((len(lengths), int(lengths.max(initial=0)) + 1), NONE, dtype=np.int64)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.arange(len(rows)) - np.repeat(sequences.offsets[:-1], lengths)
    table[rows, columns] = sequences.ids
    table[np.arange(len(lengths)), lengths] = end
    return table
