"""Rerank a searcher's best hits by what a model says of their passages.

Who reads gives each pair of query and passage a score: a cross-encoder, which reads both together,
or a query generator, which gives log p(query | passage) (Ponte and Croft 1998; as a reranker with a
pretrained model, Sachan et al. 2022). Both read the title and one passage. Both scores are mixed:

    score = (1 - weight) · first + weight · read

Fused scores stay as they are, and what is read counts from the least of the query's hits, in units
of its usual range: hits that a reader hardly tells apart then keep their order. Scores of other
searches have no such footing; there, both are brought to 0 … 1 over the hits reranked.

Of fused hits, the best few may be looked at a second time and lifted (second_look.py), and then
those that are like the best ones are raised (feedback.py). Hits below the depth are not read and
come after it in the order they had. Whatever searches first, the model is loaded when there is a
first hit to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quoth.records import TITLES, Document, Hit, Part, Passage, Query, RankAndScore, Run
from quoth.search.feedback import likeness
from quoth.search.hybrid.searcher import HybridSearcher
from quoth.search.near import NearUnits
from quoth.search.rerank_config import BOTH, LIKELIHOOD
from quoth.search.searcher import Searcher
from quoth.search.standings import NO_LOOK, Look, MixedStanding, lift, mix, raise_alike

_WHAT = {
    LIKELIHOOD: "log p(query | passage)",
    BOTH: "cross-encoder and log p(query | passage)",
}


class ReadPassage(NamedTuple):
    """What is read of a document; the title may be empty."""

    title: str
    text: str


ScorePairs = Callable[[Sequence[str], Sequence[ReadPassage]], Sequence[float]]
"""Scores each passage for the query beside it."""

ReadHits = Callable[[Query, Sequence[Hit]], Sequence[ReadPassage]]
"""Returns what is read of each hit for a query."""

LookAgain = Callable[[Query, Sequence[ReadPassage]], Sequence[Look] | None]
"""Returns what a second look at each passage says for a query; None where it says nothing."""

ReadVectors = Callable[[Query, Sequence[str]], Mapping[str, NearUnits]]
"""Returns what the vectors of documents tell of a query, by docid; some may lack any."""


class Similarity(NamedTuple):
    """What tells more of hits: what a second look says, and how like each other they are."""

    look_again: LookAgain
    near: ReadVectors


@dataclass(frozen=True, slots=True)
class Reranking:
    """How hits are reranked: by whom, how many, with which share, and what is read of them."""

    by: str
    depth: int
    weight: float
    load: Callable[[], ScorePairs]
    read: ReadHits
    words: Callable[[Query], str]
    """Returns what a query asks for, without signs."""
    width: float | None = None
    """The usual range of what is read; None brings both scores to 0 … 1, query by query."""

    similarity: Similarity | None = None
    """What tells which hits are similar; without, none is lifted or raised for that."""

    late: Look = NO_LOOK
    """How much either voice of a second look counts."""

    late_hits: int = 10
    """How many of the best hits are looked at a second time."""

    feedback: float = 0.0
    """How much a hit is raised that is like the best ones."""

    feedback_hits: int = 2


class RerankingSearcher:
    """Puts the best hits of another searcher into a new order; it keeps no index of its own."""

    def __init__(self, first: Searcher, how: Reranking) -> None:
        self.name = f"{first.name}-reranked"
        self.by = how.by
        self._first = first
        self._how = how
        self._score: ScorePairs | None = None
        self._last: dict[_Pair, float] = {}
        self._looked: tuple[str, dict[_Pair, Look]] = ("", {})

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query by the mixed score; passages of all are read."""
        found = self._search_first(queries, k=k, allowed=allowed)
        read = self._read(queries, found)
        hits: dict[str, tuple[Hit, ...]] = {}
        for query in queries:
            own = found[query.qid]
            standings = self._mix(query, own, read[query.qid])
            ranked = [
                Hit(hit.docid, standing.score, hit.passage)
                for hit, standing in zip(own, standings, strict=True)
            ]
            hits[query.qid] = tuple(sorted(ranked, key=lambda hit: (-hit.score, hit.docid))[:k])
        return Run(self.name, hits)

    def ranked(self, k: int) -> int:
        """How many hits have their final order where k are asked for: none costs a search more."""
        reach = max(k, self._how.depth)
        return self._first.ranked(reach) if isinstance(self._first, HybridSearcher) else reach

    def found_by(
        self, query: Query, docids: Sequence[str], *, k: int, allowed: set[int] | None
    ) -> dict[str, dict[str, RankAndScore]]:
        """Say where the first search and who reads have these documents; k and rows as in search.

        Of a fused search, its sides are named.
        """
        hits = self._search_first([query], k=k, allowed=allowed)[query.qid]
        read = self._read([query], {query.qid: hits})[query.qid]
        wanted: dict[str, dict[str, RankAndScore]] = {docid: {} for docid in docids}
        if isinstance(self._first, HybridSearcher):
            reach = max(k, self._how.depth)
            wanted |= self._first.found_by(query, docids, k=reach, allowed=allowed)
        else:
            _note(wanted, self._first.name, hits)
        scored = [Hit(hit.docid, each.score) for hit, each in zip(hits, read, strict=False)]
        _note(wanted, self.by, sorted(scored, key=lambda hit: (-hit.score, hit.docid)))
        return wanted

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say what each score is made of; k and rows as in the search it explains."""
        found = self._search_first([query], k=k, allowed=allowed)
        read = self._read([query], found)[query.qid]
        hits = found[query.qid]
        standings = self._mix(query, hits, read)
        by_docid = {hit.docid: each for hit, each in zip(hits, standings, strict=True)}
        sides = self._explain_sides(query, documents, k=k, allowed=allowed)
        return tuple(
            self._explain_one(by_docid.get(document.docid), sides[at], depth=len(read))
            for at, document in enumerate(documents)
        )

    def close(self) -> None:
        """Nothing is open here; the first searcher is closed by whoever made it."""

    def _mix(
        self, query: Query, hits: Sequence[Hit], read: Sequence[_Read]
    ) -> tuple[MixedStanding, ...]:
        how, depth = self._how, len(read)
        scores = [each.score for each in read]
        mixed = mix(hits, scores, weight=how.weight, width=how.width)
        mixed = lift(mixed, self._look_again(query, mixed, read), weights=how.late)
        if how.similarity is None or not how.feedback or depth < 2:
            return mixed
        docids = [hit.docid for hit in hits[:depth]]
        asked = Query(query.qid, how.words(query))
        cosines = likeness(
            docids,
            [each.score for each in mixed[:depth]],
            {docid: near.vector for docid, near in how.similarity.near(asked, docids).items()},
            num_best=how.feedback_hits,
        )
        return (*raise_alike(mixed[:depth], cosines, weight=how.feedback), *mixed[depth:])

    def _look_again(
        self, query: Query, mixed: Sequence[MixedStanding], read: Sequence[_Read]
    ) -> dict[int, Look]:
        """Look a second time at a query's best hits so far; returns what was seen, by place."""
        how = self._how
        if how.similarity is None or not any(how.late) or len(read) < 2:
            return {}
        best = sorted(range(len(read)), key=lambda at: -mixed[at].score)[: how.late_hits]
        pairs = [read[at].pair for at in best]
        known = self._looked[1] if self._looked[0] == query.text else {}
        if not all(pair in known for pair in pairs):
            found = how.similarity.look_again(query, [pair.passage for pair in pairs])
            known = {} if found is None else dict(zip(pairs, found, strict=True))
            self._looked = (query.text, known)
        return {at: known[read[at].pair] for at in best} if known else {}

    def _search_first(
        self, queries: Sequence[Query], *, k: int, allowed: set[int] | None
    ) -> Mapping[str, tuple[Hit, ...]]:
        return self._first.search(queries, k=max(k, self._how.depth), allowed=allowed).hits

    def _read(
        self, queries: Sequence[Query], found: Mapping[str, tuple[Hit, ...]]
    ) -> dict[str, list[_Read]]:
        """Return what is read of each query's best hits and its score, all in one go."""
        pairs = {query.qid: self._pairs(query, found[query.qid]) for query in queries}
        flat = [pair for own in pairs.values() for pair in own]
        known = self._last
        missing = [pair for pair in dict.fromkeys(flat) if pair not in known]
        if missing and self.by == BOTH:  # what a hit gets depends on the query's others
            missing = list(dict.fromkeys(flat))
        if missing:
            known = known | dict(zip(missing, self._score_pairs(missing), strict=True))
        self._last = {pair: known[pair] for pair in flat} if len(queries) == 1 else {}
        return {qid: [_Read(pair, known[pair]) for pair in own] for qid, own in pairs.items()}

    def _pairs(self, query: Query, hits: Sequence[Hit]) -> list[_Pair]:
        """Return what is read for each of a query's best hits."""
        asked = self._how.words(query)
        best = hits[: self._how.depth]
        return [_Pair(asked, each) for each in (self._how.read(query, best) if best else ())]

    def _score_pairs(self, pairs: Sequence[_Pair]) -> list[float]:
        if self._score is None:
            self._score = self._how.load()
        scores = self._score([pair.query for pair in pairs], [pair.passage for pair in pairs])
        return [float(each) for each in scores]

    def _explain_sides(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int,
        allowed: set[int] | None,
    ) -> Sequence[tuple[Part, ...]]:
        """Return what a fused score is made of; nothing for other searches, which are one part."""
        if not isinstance(self._first, HybridSearcher):
            return [()] * len(documents)
        reach = max(k, self._how.depth)
        explained = self._first.explain(query, documents, k=reach, allowed=allowed)
        return [part.parts for part in explained]

    def _explain_one(
        self, standing: MixedStanding | None, sides: tuple[Part, ...], *, depth: int
    ) -> Part:
        first = f"first search ({self._first.name})"
        if standing is None:
            return Part(self.name, 0.0, (Part(f"{first}: not found", 0.0),))
        head = f"{first}: {standing.first:.3f}"
        if standing.read is None:
            label = f"{head}, rank {standing.rank}, below the {depth} that are reranked"
            return Part(self.name, standing.score, (Part(label, standing.score),))
        weight = self._how.weight
        own = (1 - weight) * standing.scaled_first
        label = f"{head} scaled to {standing.scaled_first:.2f}, weight {1 - weight:.2f}, rank"
        what = _WHAT.get(self.by, self.by)
        parts = (
            Part(f"{label} {standing.rank}", own, _share_out(sides, standing.first, own)),
            Part(
                f"{what}: {standing.read:.1f} scaled to {standing.scaled_read:.2f},"
                f" weight {weight:.2f}",
                weight * standing.scaled_read,
            ),
            *self._explain_look(standing),
            *self._explain_likeness(standing),
        )
        return Part(self.name, standing.score, parts)

    def _explain_look(self, standing: MixedStanding) -> tuple[Part, ...]:
        look, weights = standing.look, self._how.late
        if look is None:
            return ()
        late = f"late interaction: {look.similarity:.2f}, weight {weights.similarity:g}"
        likely = f"log p(query | passage): {look.likelihood:.1f}, weight {weights.likelihood:g}"
        return tuple(
            Part(f"{label}, counted from the mean of the best {self._how.late_hits}", own)
            for label, own, weight in zip((late, likely), standing.lifted, weights, strict=True)
            if weight
        )

    def _explain_likeness(self, standing: MixedStanding) -> tuple[Part, ...]:
        if standing.likeness is None:
            return ()
        count, weight = self._how.feedback_hits, self._how.feedback
        label = f"cosine to the first {count} hits: {standing.likeness:.2f}, weight {weight:.2f}"
        return (Part(f"{label}, counted from the least", standing.raised),)


class _Pair(NamedTuple):
    """A query's words and what is read for them."""

    query: str
    passage: ReadPassage


class _Read(NamedTuple):
    """What was read of a hit, and its score."""

    pair: _Pair
    score: float


def _note(wanted: Mapping[str, dict[str, RankAndScore]], name: str, ranked: Sequence[Hit]) -> None:
    """Note where a ranking has documents."""
    for rank, hit in enumerate(ranked, start=1):
        if hit.docid in wanted:
            wanted[hit.docid][name] = RankAndScore(rank, hit.score)


def _share_out(sides: Sequence[Part], first: float, own: float) -> tuple[Part, ...]:
    """Scale the parts of a fused score to its share here; what the scale takes off is one more.

    >>> sides = (Part("lexical", 0.5), Part("dense", 0.25))
    >>> [(part.label, part.value) for part in _share_out(sides, 0.75, 0.25)]
    [('lexical', 0.5), ('dense', 0.25), ('brought to the scale of the reranked hits', -0.5)]
    """
    if not sides:
        return ()
    rest = math.fsum((own, *(-part.value for part in sides)))
    return (*sides, Part("brought to the scale of the reranked hits", rest))


def read_passage(title: str, passage: Passage | None) -> ReadPassage:
    """Return title and passage as they are read, a title that is the passage once.

    >>> from quoth.records import Span
    >>> read_passage("Owls", Passage("d", "text", Span(0, 19), "They hunt at night."))
    ReadPassage(title='Owls', text='They hunt at night.')
    """
    if passage is None:
        return ReadPassage("", title)
    return ReadPassage("" if passage.field in TITLES else title, passage.text)


def join_passage(passage: ReadPassage) -> str:
    r"""Join title and text as the query generator reads them.

    >>> join_passage(ReadPassage("Owls", "They hunt at night."))
    'Owls\nThey hunt at night.'
    """
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text
