"""Count how often phrases and parts of words are used when a corpus is cut: the inner loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.phrases.compiled import compiled
from quoth.vocabulary.phrases.cutters import LONGEST, SPAN, cut, make_work, spell
from quoth.vocabulary.phrases.text import Bytes, Ids, Longs

Nodes = NDArray[np.int32]


@compiled
def spell_words(
    cutter: int,
    content: Bytes,
    offsets: Longs,
    nearest: Ids,
    deepest: Ids,
    nodes: Nodes,
    rows: NDArray[np.int64],
    choices: Ids,
) -> None:
    """Spell a run of words: what each is as a symbol, and the part chosen at each of its bytes."""
    room = 1
    for word in range(len(offsets) - 1):
        room = max(room, offsets[word + 1] - offsets[word])
    work = make_work(room)
    for word in range(len(offsets) - 1):
        start, end = offsets[word], offsets[word + 1]
        for at in range(start, end):
            work[0][LONGEST, at - start] = nearest[deepest[at]] if deepest[at] >= 0 else -1
        spell(cutter, content, start, end, nodes, work, rows[word])
        choices[start:end] = work[2][: end - start]


@compiled
def cut_texts(
    cutter: int,
    symbols: Ids,
    offsets: Longs,
    weights: Longs,
    chosen: Longs,
    nearest: Ids,
    deepest: Ids,
    nodes: Nodes,
    rows: NDArray[np.int64],
    uses: Longs,
    word_uses: Longs,
) -> None:
    """Cut the texts chosen and add up the uses of nodes, and of words taken by themselves."""
    room = 1
    for text in chosen:
        room = max(room, offsets[text + 1] - offsets[text])
    steps, best, choice = make_work(room)
    for text in chosen:
        start = offsets[text]
        length = offsets[text + 1] - start
        for at in range(length):
            word = symbols[start + at]
            for field in range(4):
                steps[field, at] = rows[word, field]
            node = deepest[start + at]
            steps[LONGEST, at] = nearest[node] if node >= 0 else -1
        cut(cutter, steps, length, nodes, best, choice)
        at = 0
        while at < length:
            if choice[at] < 0:
                word_uses[symbols[start + at]] += weights[text]
                at += 1
            else:
                uses[choice[at]] += weights[text]
                at += nodes[choice[at], SPAN]


@compiled
def add_part_uses(
    content: Bytes,
    offsets: Longs,
    choices: Ids,
    nodes: Nodes,
    word_uses: Longs,
    uses: Longs,
    byte_uses: Longs,
) -> None:
    """Add up the uses of the parts, and of the single bytes, that used words are spelt with."""
    for word in range(len(offsets) - 1):
        if word_uses[word] == 0:
            continue
        at = offsets[word]
        while at < offsets[word + 1]:
            if choices[at] < 0:
                byte_uses[content[at]] += word_uses[word]
                at += 1
            else:
                uses[choices[at]] += word_uses[word]
                at += nodes[choices[at], SPAN]
