"""Hear a second voice about the best hits only: reading by a query generator takes longest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from quoth.search.rerank import ReadPassage, ScorePairs


def add_likelihood(
    queries: Sequence[str],
    passages: Sequence[ReadPassage],
    scores: Sequence[float],
    likely: ScorePairs,
    *,
    factor: float,
    hits: int,
) -> list[float]:
    """Add a factor times log p(query | passage) to the scores of each query's best passages.

    The others get as much as the least likely of these, so that they stay below.

    >>> texts = [ReadPassage("", text) for text in ("owl", "bat", "fox")]
    >>> known = {"owl": -9.0, "bat": -1.0}
    >>> likely = lambda queries, passages: [known[each.text] for each in passages]
    >>> add_likelihood(["q"] * 3, texts, [2.0, 1.0, 0.0], likely, factor=0.5, hits=2)
    [-2.5, 0.5, -4.5]
    """
    best = [at for own in _by_query(queries) for at in _first(own, scores, hits)]
    found = likely([queries[at] for at in best], [passages[at] for at in best])
    likelihoods = dict(zip(best, found, strict=True))
    mixed = list(scores)
    for own in _by_query(queries):
        least = min(likelihoods[at] for at in own if at in likelihoods)
        for at in own:
            mixed[at] += factor * likelihoods.get(at, least)
    return mixed


def _by_query(queries: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places of each query's pairs, which stand together."""
    for _query, own in groupby(range(len(queries)), key=queries.__getitem__):
        yield list(own)


def _first(places: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
    return sorted(places, key=lambda at: -scores[at])[:count]
