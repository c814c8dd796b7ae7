"""The parts of BM25 and BM25F as pure functions: score = idf · saturate(tf, length norm).

The letters are the literature's: N documents, df of them with the term, tf occurrences in this one,
dl its length, avgdl the mean length. The idf is the non-negative form ln(1 + (N − df + ½) / (df +
½)); k1 = 1.2 and b = 0.75 are what the lexical index scores with. Lengths there are kept in one
byte, so `quantise_length` is part of the formula wherever the index's scores are to be met exactly.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Sequence

K1 = 1.2
B = 0.75


def inverse_document_frequency(df: int, *, num_documents: int) -> float:
    """Weigh a term by how few documents hold it; never negative.

    >>> inverse_document_frequency(1, num_documents=2) == math.log(1 + 1.5 / 1.5)
    True
    """
    return math.log1p((num_documents - df + 0.5) / (df + 0.5))


def length_norm(dl: float, avgdl: float, *, b: float = B) -> float:
    """Relate a length to the mean length: 1 for a document as long as the mean.

    >>> length_norm(30.0, 20.0, b=0.5)
    1.25
    """
    return 1.0 - b + b * dl / avgdl if avgdl > 0 else 1.0


def saturate(tf: float, norm: float, *, k1: float = K1) -> float:
    """Let occurrences count less and less, from 0 towards k1 + 1.

    >>> saturate(1.0, 1.0)
    1.0
    """
    return tf * (k1 + 1.0) / (tf + k1 * norm) if tf else 0.0


def bm25f_tf(
    tfs: Sequence[float],
    *,
    lengths: Sequence[float],
    averages: Sequence[float],
    weights: Sequence[float],
    bs: Sequence[float],
) -> float:
    """Join the occurrences in several fields into one: Σ weight · tf / length norm.

    >>> bm25f_tf([1, 2], lengths=[4, 20], averages=[4, 20], weights=[3.0, 1.0], bs=[0.5, 0.75])
    5.0
    """
    fields = zip(tfs, lengths, averages, weights, bs, strict=True)
    return sum(w * tf / length_norm(dl, avgdl, b=b) for tf, dl, avgdl, w, b in fields)


def quantise_length(length: int) -> int:
    """Round a length down to one that fits the index's byte: exact to 40, then 3 bits of precision.

    >>> [quantise_length(length) for length in (0, 40, 41, 43, 1000)]
    [0, 40, 40, 42, 984]
    """
    lengths = kept_lengths()
    return lengths[bisect.bisect_right(lengths, length) - 1]


@functools.cache
def kept_lengths() -> tuple[int, ...]:
    """List the 256 lengths that one byte can tell apart: 24 exact ones, then a small float."""
    return tuple(code if code < 24 else 24 + _small_float(code - 24) for code in range(256))


def _small_float(code: int) -> int:
    mantissa, exponent = code & 7, code >> 3
    return mantissa if exponent == 0 else (mantissa | 8) << (exponent - 1)


def paper_idf(df: int, *, constant: float = 1e8) -> float:
    """Weigh a term as GLOW does: against a constant number of documents, which keeps it positive.

    >>> round(paper_idf(3_000_000), 1), round(paper_idf(100), 1)
    (3.5, 13.8)
    """
    return math.log((constant - df + 0.5) / (df + 0.5))


def query_weight(
    tf: float, *, idf: float, length: int, average: float, k1: float = 2.0, b: float = 0.75
) -> float:
    """Weigh a word of a query (GLOW, Eq. 6): BM25 without the constant k1 + 1.

    >>> query_weight(1, idf=3.0, length=5, average=5.0)
    1.0
    """
    return idf * tf / (tf + k1 * length_norm(length, average, b=b))


def relative_weight(
    tf: float, *, idf: float, length: int, average: float, k1: float = 0.25, b: float = 0.4
) -> float:
    """Weigh a word as the released code of GLOW does: by its share of the text's words.

    >>> round(relative_weight(1, idf=5.8, length=8, average=6.0), 1)  # a query of six words
    2.2
    """
    share = tf / length
    return idf * saturate(share, length_norm(length, average, b=b), k1=k1)


def document_weight(joined_tf: float, *, idf: float, k1: float = 2.0) -> float:
    """Weigh a word of a document (GLOW, Eq. 8) by its occurrences joined over fields (`bm25f_tf`).

    >>> document_weight(2.0, idf=3.0)
    1.5
    """
    return idf * joined_tf / (k1 + joined_tf)
