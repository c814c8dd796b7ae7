"""Late interaction: compare a query and a passage subword by subword (ColBERT's MaxSim).

    similarity(q, p) = Σ_i w_i · max_j cos(q_i, p_j) / Σ_i w_i

q_i and p_j are what the encoder of the vectors makes of each subword before it takes their mean;
w_i is the idf of the word that subword i stands in, so that what tells passages apart counts. One
vector per text blurs a query with several aspects; here, each has to be met somewhere. The encoder
was not trained for this, and it reads the passages when it is asked, so few of them are compared.
Off by default: what it adds to the cross-encoder may be chance (`benchmarks.learn.late`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quoth.models.glow.encoded import Encoder
    from quoth.models.glow.inputs import SurfaceWords
    from quoth.search.rerank import ReadPassage
    from quoth.text.words import Analyser

    Floats = NDArray[np.float32]


def compare_subwords(
    encoder: Encoder,
    text: str,
    passages: Sequence[ReadPassage],
    *,
    weights: Mapping[str, float],
    analyser: Analyser,
) -> list[float] | None:
    """Return the similarity of a query and each passage; `weights` has the idf of its terms.

    None where the encoder's states cannot be had, or where no subword of the query weighs anything.
    """
    inputs = encoder.inputs
    own = weigh_subwords(inputs.query_words(text), weights, analyser)
    found = encoder.encode_subwords(inputs.queries([text], None))
    if found is None or not own.any():
        return None
    body = encoder.config.fields[-1]
    fields = [{"title": (each.title,), body: (each.text,)} for each in passages]
    read = encoder.encode_subwords(inputs.documents(fields, None))
    assert read is not None, "an encoder that gave the states of a query gives all"
    return [max_similarity(found[0], each, own) for each in read]


def max_similarity(query: Floats, passage: Floats, weights: Floats) -> float:  # (T, D) (S, D) (T,)
    """Return the weighted mean over a query's subwords of the best cosine with the passage's.

    Vectors are of unit length; the first and the last, which stand for no word, are left out.

    >>> pad, owl, hen = [0.0, 0.0], [1.0, 0.0], [0.6, 0.8]
    >>> query = np.float32([pad, owl, hen, pad])
    >>> passage = np.float32([owl, owl, owl])
    >>> round(max_similarity(query, passage, np.float32([0, 3, 1, 0])), 4)  # (3 · 1 + 1 · 0.6) / 4
    0.9
    """
    inner = passage[1:-1]
    if not len(inner):
        return 0.0
    best = (query @ inner.T).max(1)
    return float(best @ weights / weights.sum())


def weigh_subwords(
    words: SurfaceWords, weights: Mapping[str, float], analyser: Analyser
) -> Floats:  # (T,)
    """Give each subword of a query the idf of its word."""
    return _weigh(words.words, words.word_of, weights, analyser.terms)


def _weigh(
    words: Sequence[str],
    word_of: Sequence[int],
    weights: Mapping[str, float],
    terms: Callable[[str], Iterable[str]],
) -> Floats:  # (T,)
    """Give each subword the weight of its word, 0 outside words.

    >>> _weigh(["owls", "?"], [-1, 0, 0, 1, -1], {"owls": 2.0}, str.split).tolist()
    [0.0, 2.0, 2.0, 0.0, 0.0]
    """
    own = [max((weights.get(term, 0.0) for term in terms(word)), default=0.0) for word in words]
    return np.array([own[at] if at >= 0 else 0.0 for at in word_of], np.float32)
