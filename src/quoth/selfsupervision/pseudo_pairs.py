"""Make pseudo-queries from passages, and give every query BM25's best passages as pseudo-labels.

Queries come from the corpus itself (titles, headings, sentences, spans of content words), from a
query generator, or from a log; the first are made here, all are labelled here. A query that stands
in its source word for word would find it by copying, so the source, its near-duplicates and every
other candidate that holds the query verbatim are excluded; or, for the kinds named in `hold_out`,
the source without the stretch becomes the positive, as in `known_items`. What is generated or
logged is free text: its source, if any, stays.

Pure and seeded: equal passages and settings give equal queries, in the same order.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quoth.constraints import AtLeastOne, CheckedConfig, OneOf, PositiveShare, Seed, ShareBelowOne
from quoth.records import Document
from quoth.selfsupervision.known_items import Stretch, find_headings, find_sentences

CORPUS_KINDS = ("title", "heading", "sentence", "span")
KINDS = (*CORPUS_KINDS, "generated", "log")
CorpusKind = Annotated[str, OneOf(*CORPUS_KINDS)]

TopK = Callable[[Sequence[str], int], Sequence[Sequence[int]]]
"""BM25: queries and a depth to rows of passages, best first."""

_NUM_WORDS = {"title": range(2, 26), "heading": range(2, 26), "sentence": range(6, 26)}
_SPAN_WORDS = range(4, 9)
_GRAM = 5
_MOST_HOLDERS = 50  # a run of words in more passages than this is boilerplate, no sign of a copy
_MOST_TITLED = 3  # passages of one title, such as those of a long document
_WORD = re.compile(r"\w+")
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A passage as its encoder reads it: its own text, and the title before it, if any."""

    text: str
    title: str = ""

    @property
    def whole(self) -> str:
        """Title and text."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class FoundQuery:
    """A query before BM25 labelled it."""

    text: str
    kind: str
    source_row: int = -1
    negative_rows: tuple[int, ...] = ()
    """Passages known not to answer it."""
    rest: str = ""
    """The source without the query's stretch, where that serves as the positive."""


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """A query with BM25's best passages."""

    text: str
    kind: str
    source_row: int = -1
    lexical_rows: tuple[int, ...] = ()
    excluded_rows: tuple[int, ...] = ()
    negative_rows: tuple[int, ...] = ()
    positive_text: str = ""
    is_held_out: bool = False


@dataclass(frozen=True, slots=True)
class PseudoPairConfig(CheckedConfig, title="pseudo pairs"):
    """How queries are made and labelled."""

    kinds: tuple[CorpusKind, ...] = CORPUS_KINDS
    """What is taken from the corpus: title, heading, sentence, span; sentences suit long queries
    and hurt on short ones, so mix."""

    per_passage: AtLeastOne = 3
    """Most queries taken from one passage, of as many kinds as it has."""

    depth: AtLeastOne = 20
    """BM25's passages kept per query."""

    hold_out: tuple[CorpusKind, ...] = ("title", "heading")
    """Kinds whose positive is their source without the stretch; others exclude their source."""

    duplicate_share: PositiveShare = 0.5
    """Passages that share this part of the shorter one's runs of five words are copies."""

    held_out_share: ShareBelowOne = 0.05
    """Share of the queries kept for validation."""

    seed: Seed = 0
    """Decides which stretches are taken and which queries are held out."""


def find_queries(
    passages: Sequence[SourceText], config: PseudoPairConfig
) -> tuple[FoundQuery, ...]:
    """Take queries from the passages, each kind in turn until a passage has given enough.

    A title that heads many passages names a group and asks for none of them, so it is left out.
    """
    holders: Counter[str] = Counter()
    for passage in passages:
        holders.update(set(words_of(passage.whole)))
    titled = Counter(_title_key(passage) for passage in passages)
    most = max(1, len(passages) // 5)
    found: list[FoundQuery] = []
    for row, passage in enumerate(passages):
        chance = random.Random(f"{config.seed} {row} {passage.text[:64]}")
        is_group = titled[_title_key(passage)] > _MOST_TITLED
        kinds = [kind for kind in config.kinds if not (is_group and kind == "title")]
        streams = [_stretches(passage, kind, holders, most, chance) for kind in kinds]
        found += _deal(row, list(zip(kinds, streams, strict=True)), config)
    return tuple(found)


def label_queries(
    queries: Sequence[FoundQuery],
    passages: Sequence[SourceText],
    *,
    top_k: TopK,
    config: PseudoPairConfig,
) -> tuple[PseudoQuery, ...]:
    """Give each query BM25's best passages, without those it must not find.

    A query for which nothing is left keeps no passages; who trains leaves it out.
    """
    copies = near_duplicates([each.whole for each in passages], share=config.duplicate_share)
    normal = [f" {' '.join(words_of(each.whole))} " for each in passages]
    margin = max([0, *map(len, copies)]) + 5
    ranked = top_k([query.text for query in queries], config.depth + margin)
    labelled = []
    for query, rows in zip(queries, ranked, strict=True):
        excluded = _excluded(query, rows, copies, normal)
        kept = [int(row) for row in rows if row not in excluded][: config.depth]
        labelled.append(
            PseudoQuery(
                query.text,
                query.kind,
                query.source_row,
                tuple(kept),
                tuple(sorted(excluded)),
                query.negative_rows,
                query.rest,
                is_held_out(query.text, share=config.held_out_share, seed=config.seed),
            )
        )
    return tuple(labelled)


def near_duplicates(texts: Sequence[str], *, share: float) -> list[tuple[int, ...]]:
    """List each text's copies: those that share enough of the shorter one's runs of five words.

    >>> near_duplicates(["a b c d e f", "a b c d e f g", "v w x y z"], share=0.5)
    [(1,), (0,), ()]
    """
    grams, rows = _grams(texts)
    sizes = np.bincount(rows, minlength=len(texts))
    order = np.lexsort((rows, grams))
    grams, rows = grams[order], rows[order]
    cuts = np.flatnonzero(grams[1:] != grams[:-1]) + 1
    bounds = np.concatenate(([0], cuts, [len(grams)]))
    held = np.diff(bounds)
    shared: Counter[tuple[int, int]] = Counter()
    for at in np.flatnonzero((held > 1) & (held <= _MOST_HOLDERS)).tolist():
        own = rows[bounds[at] : bounds[at + 1]].tolist()
        shared.update((a, b) for place, a in enumerate(own) for b in own[place + 1 :])
    copies: list[list[int]] = [[] for _ in texts]
    for (first, second), count in shared.items():
        if count >= share * min(sizes[first], sizes[second]):
            copies[first].append(second)
            copies[second].append(first)
    return [tuple(sorted(each)) for each in copies]


def is_held_out(text: str, *, share: float, seed: int) -> bool:
    """Whether a query is kept for validation; equal words decide alike."""
    key = f"{seed} {' '.join(words_of(text))}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
    return number < share * 2**64


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; only equality matters, so no analyser is needed.

    >>> words_of("The Owl, again.")
    ['the', 'owl', 'again']
    """
    return _WORD.findall(text.lower())


def _grams(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash the distinct runs of words of each text, and say which text each is of."""
    number: dict[str, int] = {}
    hashes, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for row, text in enumerate(texts):
        words = words_of(text)
        ids = np.array([number.setdefault(w, len(number) + 1) for w in words], dtype=np.uint64)
        count = len(ids) - _GRAM + 1
        if count < 1:
            continue
        run = np.zeros(count, dtype=np.uint64)
        for at in range(_GRAM):
            run = run * _PRIME + ids[at : at + count]  # wraps around, as a hash may
        distinct = np.unique(run)
        hashes.append(distinct)
        rows.append(np.full(len(distinct), row, dtype=np.int64))
    return np.concatenate(hashes), np.concatenate(rows)


def _excluded(
    query: FoundQuery,
    rows: Sequence[int],
    copies: Sequence[tuple[int, ...]],
    normal: Sequence[str],
) -> set[int]:
    """List what a query must not find, as it would find it by copying."""
    if query.kind not in CORPUS_KINDS:
        return set()
    literal = f" {' '.join(words_of(query.text))} "
    own = {int(row) for row in rows if literal in normal[row]}
    source = query.source_row
    if source >= 0 and (query.kind == "span" or literal in normal[source]):
        own |= {source, *copies[source]}
    return own


def _title_key(passage: SourceText) -> str:
    return " ".join(words_of(passage.title))


def _stretches(
    passage: SourceText, kind: str, holders: Counter[str], most: int, chance: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield queries of one kind in an order left to chance, each with what is left without it."""
    document = Document("", {"text": (passage.text,)})
    if kind == "title":
        if len(words_of(passage.title)) in _NUM_WORDS["title"]:
            yield " ".join(passage.title.split()), passage.text
        return
    found = list(find_headings(document) if kind == "heading" else find_sentences(document))
    chance.shuffle(found)
    for each in found:
        if kind == "span":
            if query := _content_words(each.query, holders, most, chance):
                yield query, _without(passage, each)
        elif len(words_of(each.query)) in _NUM_WORDS[kind]:
            yield each.query, _without(passage, each)


def _content_words(text: str, holders: Counter[str], most: int, chance: random.Random) -> str:
    """Take words of a sentence that follow each other, leaving out those in one of five passages.

    >>> _content_words("the owl of the barn hunts the mouse", Counter(the=9, of=9), 5,
    ...     random.Random(0))
    'owl barn hunts mouse'
    """
    words = [word for word in _WORD.findall(text) if holders[word.lower()] <= most]
    if len(words) < _SPAN_WORDS.start:
        return ""
    size = chance.randint(_SPAN_WORDS.start, min(_SPAN_WORDS.stop - 1, len(words)))
    start = chance.randint(0, len(words) - size)
    return " ".join(words[start : start + size])


def _without(passage: SourceText, stretch: Stretch) -> str:
    text = passage.text
    rest = f"{text[: stretch.span.start]} {text[stretch.span.end :]}"
    return " ".join(f"{passage.title} {rest}".split())


def _deal(
    row: int,
    streams: list[tuple[str, Iterator[tuple[str, str]]]],
    config: PseudoPairConfig,
) -> Iterator[FoundQuery]:
    """Take one query of each kind in turn, no text twice."""
    seen: set[str] = set()
    while streams and len(seen) < config.per_passage:
        kind, stream = streams.pop(0)
        text, rest = next(stream, ("", ""))
        if not text:
            continue
        streams.append((kind, stream))
        if text not in seen:
            seen.add(text)
            enough = len(words_of(rest)) >= _GRAM
            positive = rest if kind in config.hold_out and enough else ""
            yield FoundQuery(text, kind, row, (), positive)
