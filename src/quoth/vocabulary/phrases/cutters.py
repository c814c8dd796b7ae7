"""Cut one sequence of symbols into phrases: best cover, look-ahead, longest match.

The same three routines cut a text (its symbols are words, phrases of two words or more lie on the
nodes) and a word (its symbols are bytes, parts of words lie on the nodes). Where no phrase starts,
or a cutter chooses none, one symbol is taken by itself: a word is spelt, a byte stands for itself.

What may start at each place comes in `steps` (one column per place), what the phrases are in
`nodes` (one row per node). A phrase is reached from the longest one at its place through shorter
and shorter ones, so all phrases of a place cost one memory access each.

    best_cover  fewest phrases; among those the greatest sum of squared lengths, which favours one
                long and one short phrase over two middling ones; among those the sequence of ids
                that comes first. Exact, by dynamic programming from the end.
    look_ahead  at each place tries the longest phrase and the next two shorter ones, each followed
                by the longest phrase after it, and takes the first phrase of the pair that covers
                most characters, less one for each piece. After TokenMonster's "ungreedy" routine,
                without its bonuses and penalties for cutting words, which cannot happen here.
    longest     the longest phrase at each place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.config import CUTTERS
from quoth.vocabulary.phrases.text import Ids, Longs

Table = NDArray[np.int64]

SHORTER, SPAN, LENGTH, RANK = 0, 1, 2, 3
"""Columns of `nodes`: next shorter phrase with the same start or -1, symbols, characters, id."""

PIECES, SQUARES, FIRST, WIDTH, LONGEST = 0, 1, 2, 3, 4
"""Rows of `steps`: a symbol taken by itself gives so many pieces, of that sum of squared lengths,
that first id and that many characters; the node of the longest phrase that starts here, or -1."""

BEST_COVER = CUTTERS.index("best_cover")
LOOK_AHEAD = CUTTERS.index("look_ahead")


def link_nodes(
    parents: Ids, *, spans: Ids, lengths: Ids, ranks: Ids
) -> tuple[NDArray[np.int32], Ids]:
    """Make the table of nodes, and for each node the longest phrase that it starts with.

    A node whose rank is negative is no phrase. A parent has a smaller number than its children.
    """
    nodes = np.empty((len(parents), 4), dtype=np.int32)
    nodes[:, SPAN], nodes[:, LENGTH], nodes[:, RANK] = spans, lengths, ranks
    nearest = np.empty(len(parents), dtype=np.int32)
    relink_nodes(parents, nodes, nearest)
    return nodes, nearest


@compiled
def relink_nodes(parents: Ids, nodes: NDArray[np.int32], nearest: Ids) -> None:
    """Bring the links up to date, in place, after the ranks of nodes have changed."""
    for node in range(len(parents)):
        shorter = nearest[parents[node]] if parents[node] >= 0 else -1
        nodes[node, SHORTER] = shorter
        nearest[node] = node if nodes[node, RANK] >= 0 else shorter


@compiled
def make_work(length: int) -> tuple[Table, Table, Ids]:
    """Make room for sequences of at most this length: `steps`, `best` and `choice`."""
    return (
        np.empty((5, length), dtype=np.int64),
        np.zeros((2, length + 1), dtype=np.int64),
        np.empty(length, dtype=np.int32),
    )


@compiled
def cut(
    cutter: int,
    steps: Table,
    length: int,
    nodes: NDArray[np.int32],
    best: Table,
    choice: Ids,
) -> None:
    """Write into `choice` the node to take at each place, or -1 for the symbol by itself.

    Only the places at which the cut comes past hold a meaning. `best` is room to work in.
    """
    if cutter == BEST_COVER:
        _choose_best_cover(steps, length, nodes, best, choice)
    elif cutter == LOOK_AHEAD:
        _choose_look_ahead(steps, length, nodes, choice)
    else:
        for at in range(length):
            choice[at] = steps[LONGEST, at]


@compiled
def _choose_best_cover(
    steps: Table, length: int, nodes: NDArray[np.int32], best: Table, choice: Ids
) -> None:
    best[0, length] = 0
    best[1, length] = 0
    for at in range(length - 1, -1, -1):
        pieces = steps[PIECES, at] + best[0, at + 1]
        squares = steps[SQUARES, at] + best[1, at + 1]
        rank = steps[FIRST, at]
        chosen = -1
        node = steps[LONGEST, at]
        while node >= 0:
            after = at + nodes[node, SPAN]
            more = 1 + best[0, after]
            if more <= pieces:
                wide = np.int64(nodes[node, LENGTH])
                square = wide * wide + best[1, after]
                if (
                    more < pieces
                    or square > squares
                    or (square == squares and nodes[node, RANK] < rank)
                ):
                    pieces, squares, rank, chosen = more, square, nodes[node, RANK], node
            node = nodes[node, SHORTER]
        best[0, at] = pieces
        best[1, at] = squares
        choice[at] = chosen


@compiled
def _choose_look_ahead(steps: Table, length: int, nodes: NDArray[np.int32], choice: Ids) -> None:
    at = 0
    while at < length:
        first = steps[LONGEST, at]
        chosen, best = -1, -(1 << 62)
        for _ in range(3):
            span, gain = _take(steps, nodes, at, first)
            if at + span < length:
                _, more = _take(steps, nodes, at + span, steps[LONGEST, at + span])
                gain += more
            if gain > best:
                chosen, best = first, gain
            if first < 0:
                break
            first = nodes[first, SHORTER]
        choice[at] = chosen
        at += nodes[chosen, SPAN] if chosen >= 0 else 1


@compiled
def _take(steps: Table, nodes: NDArray[np.int32], at: int, node: int) -> tuple[int, int]:
    """Return the symbols taken, and the characters less the pieces."""
    if node >= 0:
        return int(nodes[node, SPAN]), int(nodes[node, LENGTH]) - 1
    return 1, int(steps[WIDTH, at] - steps[PIECES, at])


@compiled
def spell(
    cutter: int,
    content: NDArray[np.uint8],
    start: int,
    end: int,
    nodes: NDArray[np.int32],
    work: tuple[Table, Table, Ids],
    row: Longs,
) -> None:
    """Cut a word into parts; `row` gets what the word is as a symbol (`PIECES` to `WIDTH`).

    The caller has put the longest part at each byte into `steps`.
    """
    steps, best, choice = work
    length = end - start
    for at in range(length):
        steps[PIECES, at] = 1
        steps[SQUARES, at] = 1
        steps[FIRST, at] = content[start + at]
        steps[WIDTH, at] = 1
    cut(cutter, steps, length, nodes, best, choice)
    row[:] = 0
    row[FIRST] = content[start] if choice[0] < 0 else nodes[choice[0], RANK]
    at = 0
    while at < length:
        wide = np.int64(1 if choice[at] < 0 else nodes[choice[at], LENGTH])
        row[PIECES] += 1
        row[SQUARES] += wide * wide
        row[WIDTH] += wide
        at += 1 if choice[at] < 0 else nodes[choice[at], SPAN]
