"""Keep a ranking through any tool that sorts it again by score.

trec_eval ignores the rank column, reads scores in single precision, sorts by score and breaks ties
by descending docid; others break them by ascending docid or by the order of the file. Scores that
fall strictly even in single precision leave none of them a choice. Pure: scores in, scores out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

LARGEST_SCORE = 1e38
"""Scores beyond this do not fit single precision with room for ties below them."""


def strictly_decreasing(scores: Iterable[float]) -> list[float]:
    """Lower a score by the least possible where it does not fall by itself.

    Scores that already fall are kept as they are, in full precision. The order given is the truth:
    a score above its predecessor is lowered too.

    >>> strictly_decreasing([2.0, 2.0, 1.5]) == [2.0, 2.0 - 2**-23, 1.5]
    True
    """
    written: list[float] = []
    previous = math.inf
    for score in map(float, scores):
        single = _to_single(score)
        if single < previous:
            written.append(score)
        else:
            single = next_single_below(previous)
            written.append(single)
        previous = single
    return written


def next_single_below(single: float) -> float:
    """Return the largest single-precision number below one.

    >>> next_single_below(1.0) == 1.0 - 2**-24, next_single_below(-1.0) == -1.0 - 2**-23
    (True, True)
    >>> next_single_below(0.0) == -(2**-149)
    True
    """
    if single == 0.0:
        return -(2.0**-149)
    bits: int = struct.unpack("<i", struct.pack("<f", single))[0]
    # The sign is a bit of its own, so the magnitude shrinks above zero and grows below it.
    below: float = struct.unpack("<f", struct.pack("<i", bits - 1 if single > 0 else bits + 1))[0]
    return below


def _to_single(score: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", score))[0]
    return single
