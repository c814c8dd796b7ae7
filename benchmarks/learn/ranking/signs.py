"""What networks say of pairs of query and passage, many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.models.reader import reader as reading
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.models.reader.spans import MAX_SUBWORDS
from quoth.search.late import compare_subwords
from quoth.search.rerank import ReadPassage, join_passage
from quoth.text.words import Analyser

Floats = NDArray[np.float32]
READ = 192
SIGNS = (
    "relevance",
    "span",
    "start here",
    "end here",
    "evidence here",
    "evidence",
    "best evidence",
)


class Pair(NamedTuple):
    """A query and what is read of a document."""

    query: str
    passage: ReadPassage


def read_relevance(reader: Reader, pairs: Sequence[Pair]) -> Floats:
    """Return the relevance alone."""
    texts = [TitledText(each.passage.title, each.passage.text) for each in pairs]
    return np.array(reader.score([each.query for each in pairs], texts, most=READ), np.float32)


def read_signs(reader: Reader, pairs: Sequence[Pair]) -> dict[str, Floats]:
    """Return relevance, the best span, what [CLS] says of the answer being elsewhere, evidence.

    All come from the pass that reranking makes anyway, but for the last layer of all subwords.
    """
    texts = [TitledText(each.passage.title, each.passage.text) for each in pairs]
    sequences = reader._inputs.pairs([each.query for each in pairs], texts, most=READ)
    found = {name: np.zeros(len(pairs), np.float32) for name in (*SIGNS, "subwords")}
    for rows, batch in reading._batches(sequences):
        states = reader._network.states(*batch)
        places = reading._project(states, reader._heads, "places")  # (B, T, 3)
        relevance = reading._project(states[:, 0], reader._heads, "relevance")[:, 0]
        firsts = np.array([sequences[row].text for row in rows])
        own = _sum_up(places, firsts, batch.lengths)
        found["relevance"][rows] = relevance
        for name, column in own.items():
            found[name][rows] = column
        found["subwords"][rows] = batch.lengths
    return found


def _sum_up(places: Floats, firsts: Any, lengths: Any) -> dict[str, Floats]:  # (B, T, 3)
    at = np.arange(places.shape[1])
    inside = (at >= firsts[:, None]) & (at < lengths[:, None] - 1)
    starts, ends, evidence = (
        np.where(inside, places[..., column], -1e4).astype(np.float32) for column in range(3)
    )
    best = np.full(len(places), -np.inf, np.float32)
    for length in range(min(MAX_SUBWORDS, places.shape[1])):
        span = starts[:, : places.shape[1] - length] + ends[:, length:]
        best = np.maximum(best, span.max(1))
    count = np.maximum(inside.sum(1), 1)
    return {
        "span": np.maximum(best, -100),
        "start here": places[:, 0, 0],
        "end here": places[:, 0, 1],
        "evidence here": places[:, 0, 2],
        "evidence": np.where(inside, places[..., 2], 0).sum(1) / count,
        "best evidence": np.maximum(evidence.max(1), -100),
    }


def likelihoods(generator: Any, pairs: Sequence[Pair]) -> dict[str, Floats]:
    """Return log p(query | passage), summed over the query and per subword."""
    queries = [each.query for each in pairs]
    total = generator.score(queries, [join_passage(each.passage) for each in pairs])
    sizes = np.array([len(own) for own in generator.inputs.queries(queries)], np.float32)
    return {"likelihood": total, "likelihood per subword": total / sizes}


def compare_late(
    encoder: Any,
    pairs: Mapping[tuple[int, int], Pair],
    *,
    weights: Sequence[Mapping[str, float]],
    analyser: Analyser,
) -> Floats:
    """Return late interaction of every pair, those of one query together."""
    by_query: dict[int, list[int]] = {}
    for number, (query, _place) in enumerate(pairs):
        by_query.setdefault(query, []).append(number)
    own, found = list(pairs.values()), np.full(len(pairs), np.nan, np.float32)
    for query, numbers in by_query.items():
        passages = [own[number].passage for number in numbers]
        text = own[numbers[0]].query
        compared = compare_subwords(
            encoder, text, passages, weights=weights[query], analyser=analyser
        )
        if compared is not None:
            found[numbers] = compared
    return found
