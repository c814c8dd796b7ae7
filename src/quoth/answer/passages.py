"""Which passages of the documents found are read for a question.

A hit shows one passage; what answers may stand in another one of the same document. Of all passages
of the documents, those are read that hold most of the question, by the formula of BM25 with these
passages as the collection, and are nearest to it, where their vectors are known; the one that was
shown before all others of its document.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from quoth.answer.nearness import count_stems, telling_words
from quoth.answer.reading import standing_of
from quoth.answer.reading_answerer import TitledPassage
from quoth.records import Document, Hit, Passage
from quoth.text.passage_scores import add_nearness

_SATURATION, _LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25
_MOST_TIMES = 2


def passages_to_read(
    question: str,
    hits: Sequence[Hit],
    documents: Mapping[str, tuple[Document, Sequence[Passage]]],
    *,
    per_document: int,
    near: Mapping[Passage, float] | None = None,
) -> list[TitledPassage]:
    """List the passages of hits, document by document; `documents` by docid, with passages.

    `near` holds the cosines of passages with the question, as far as they are known. There are
    `per_document` passages of each document on average, of one at most twice as many.
    """
    shown = {hit.docid: hit.passage for hit in hits if hit.passage and hit.docid in documents}
    titles = {docid: documents[docid][0].title for docid in shown}
    others = [
        each
        for docid, own in shown.items()
        for each in documents[docid][1]
        if each != own and each.text.strip() != titles[docid].strip()
    ]
    scores = score_passages(question, [each.text for each in others])
    if near:
        known = {at: near[each] for at, each in enumerate(others) if each in near}
        scores = add_nearness(scores, known)
    room = Counter({docid: _MOST_TIMES * per_document - 1 for docid in shown})
    chosen = {docid: [own] for docid, own in shown.items()}
    left = (per_document - 1) * len(shown)
    for at in sorted(range(len(others)), key=lambda at: -scores[at]):
        docid = others[at].docid
        if left and room[docid]:
            left, room[docid] = left - 1, room[docid] - 1
            chosen[docid].append(others[at])
    return [
        TitledPassage(each, titles[docid], standing_of(rank))
        for rank, (docid, own) in enumerate(chosen.items(), start=1)
        for each in own
    ]


def score_passages(question: str, passages: Sequence[str]) -> list[float]:
    """Score passages by the telling words of a question, as BM25 does with them alone.

    >>> score_passages("Do owls hunt?", ["Owls hunt.", "Owls sleep.", "Hens sleep."])[2]
    0.0
    """
    telling = telling_words(question)
    counts = [count_stems(each) for each in passages]
    lengths = [sum(each.values()) for each in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    held = Counter(stem for each in counts for stem in telling.keys() & each.keys())
    rarity = {
        stem: telling[stem] * math.log1p((len(passages) - held[stem] + 0.5) / (held[stem] + 0.5))
        for stem in held
    }

    def score(own: Counter[str], length: int) -> float:
        damping = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / mean)
        return math.fsum(
            rarity[each] * own[each] / (own[each] + damping) for each in telling if own[each]
        )

    return [score(own, length) for own, length in zip(counts, lengths, strict=True)]
