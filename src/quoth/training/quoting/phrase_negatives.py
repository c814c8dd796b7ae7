"""Which phrases a batch offers beside the right ones: the columns P of the softmax over V ∪ P.

Follows section 3 of Generation with Dynamic Vocabulary. In-batch: the phrases of all samples.
Pre-batch: those of the batch before, their vectors as they were. Prefixes of the right phrase, and
the right phrase with what follows it: in its own text (self-retrieval), elsewhere in the corpus
(corpus-retrieval), or as the untouched language model goes on (generation).

The encoder is causal, so one pass over the longest string gives the vectors of all its prefixes; a
string that begins another one is not encoded by itself. Equal strings are one column, which is
right in one place and wrong in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quoth.selfsupervision.phrase_matching import (
    Flags,
    Ids,
    OccurrenceIndex,
    SubwordText,
)
from quoth.selfsupervision.phrase_sampling import MixedSample
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.set import Continuations

_WIDTH = 4  # bytes of a subword in a key


class PhraseString(NamedTuple):
    """A string to encode, and the lengths of it that become columns."""

    key: bytes
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PhraseColumns:
    """What is encoded for a batch, and which states of it are the columns."""

    subword_ids: Ids  # (R, L)
    mask: Flags  # (R, L)
    rows: Ids  # (C,)
    ends: Ids  # (C,) place of the column's last subword in its row
    column_by_phrase: Mapping[bytes, int]

    def __len__(self) -> int:
        return len(self.rows)


def phrase_key(subword_ids: Sequence[int] | NDArray[np.integer]) -> bytes:
    """Write subwords as bytes; the key of a prefix is a prefix of the key."""
    return np.asarray(subword_ids, dtype=np.int32).tobytes()


def phrase_prefix(key: bytes, length: int) -> bytes:
    """Return the key of the first subwords of a string.

    >>> key_ids(phrase_prefix(phrase_key([7, 8, 9]), 2)).tolist()
    [7, 8]
    """
    return key[: _WIDTH * length]


def key_ids(key: bytes) -> NDArray[np.int32]:
    """Undo `phrase_key`."""
    return np.frombuffer(key, dtype=np.int32)


def negative_strings(
    sample: MixedSample,
    config: NegativesConfig,
    *,
    continuations: Continuations,
    occurrences: OccurrenceIndex | None,
    chance: np.random.Generator,
    row: int = -1,
) -> list[PhraseString]:
    """List what is encoded for a sample: its phrases first, then their extensions.

    `row` is the sample's own text in the index of occurrences.
    """
    strings: list[PhraseString] = []
    least = 1 if config.single_subwords else 2
    markers = sample.markers or (b"",) * len(sample.phrases)
    for (start, end), marker in zip(sample.phrases.tolist(), markers, strict=True):
        gold = phrase_key(sample.subword_ids[start:end])
        length = end - start
        shorter = tuple(range(least, length)) if config.prefixes else ()
        strings += marked(PhraseString(gold, (length, *shorter)), marker)
        longer: list[Sequence[int] | Ids] = []
        if config.self_retrieval:
            longer.append(sample.subword_ids[end : end + config.extension])
        if config.generation:
            longer.append(continuations[gold][: config.extension])
        if config.corpus_retrieval and occurrences is not None:
            longer.append(
                occurrences.followers(
                    sample.subword_ids[start:end].tolist(),
                    count=config.extension,
                    chance=chance,
                    avoid=row,
                )
            )
        for own in longer:
            lengths = tuple(range(length + 1, length + len(own) + 1))
            strings += marked(PhraseString(gold + phrase_key(own), lengths), marker)
    return strings


def marked(string: PhraseString, marker: bytes) -> list[PhraseString]:
    """Put a marker behind each of a string's prefixes, which then are strings of their own.

    >>> found = marked(PhraseString(phrase_key([7, 8, 9]), (2, 3)), phrase_key([5]))
    >>> [(key_ids(key).tolist(), lengths) for key, lengths in found]
    [([7, 8, 5], (3,)), ([7, 8, 9, 5], (4,))]
    """
    if not marker:
        return [string]
    return [
        PhraseString(phrase_prefix(string.key, length) + marker, (length + len(marker) // _WIDTH,))
        for length in string.lengths
    ]


def candidate_strings(
    passages: Sequence[SubwordText],
    quoted: Ids,  # (phrases, 3): passage, place in it, subwords
    *,
    opens_word: Flags,  # (V,)
    budget: int,
    max_subwords: int,
    chance: np.random.Generator,
    sentences: Ids | None = None,  # (sentences, 3): passage, first and last place
) -> dict[tuple[int, int], PhraseString]:
    """Find the stretches of whole words of some passages that are offered, by where they begin.

    All that begin inside or just before a quoted phrase are among them: they overlap it, begin it
    or extend it; and those that begin one of some sentences. Others are drawn up to the budget of
    beginnings.
    """
    places = [
        (number, int(at))
        for number, passage in enumerate(passages)
        for at in np.flatnonzero(passage.word_starts & opens_word[passage.subword_ids])
    ]
    near = {
        (number, each)
        for number, place, length in quoted.tolist()
        for each in range(place - max_subwords + 1, place + length)
    }
    if sentences is not None:
        near |= {(number, first) for number, first, _last in sentences.tolist()}
    far = [place for place in places if place not in near]
    drawn = chance.permutation(len(far))[: max(0, budget - len(near))]
    chosen = {*near, *(far[at] for at in drawn)}
    strings = {
        (number, at): _stretches(passages[number], at, max_subwords)
        for number, at in places
        if (number, at) in chosen
    }
    return {place: each for place, each in strings.items() if each.lengths}


def make_columns(strings: Iterable[PhraseString]) -> PhraseColumns:
    """Decide which strings are encoded and which of their states are columns.

    Columns stand in the order in which they were first named.
    """
    wanted = list(strings)
    host_by_key, longest = _hosts({each.key for each in wanted})
    column_by_phrase: dict[bytes, int] = {}
    rows: list[int] = []
    ends: list[int] = []
    for key, lengths in wanted:
        for length in lengths:
            own = phrase_prefix(key, length)
            if own not in column_by_phrase:
                column_by_phrase[own] = len(rows)
                rows.append(host_by_key[key])
                ends.append(length - 1)
    widest = max((len(key) // _WIDTH for key in longest), default=1)
    subword_ids = np.zeros((len(longest), widest), dtype=np.int64)
    mask = np.zeros(subword_ids.shape, dtype=np.bool_)
    for at, key in enumerate(longest):
        length = len(key) // _WIDTH
        subword_ids[at, :length] = key_ids(key)
        mask[at, :length] = True
    return PhraseColumns(
        subword_ids,
        mask,
        np.array(rows, dtype=np.int64),
        np.array(ends, dtype=np.int64),
        column_by_phrase,
    )


def valid_alternatives(
    subword_ids: Ids, places: Ids, columns: PhraseColumns
) -> Ids:  # (alternatives, 2): which of the places, column
    """Find the columns that spell exactly the text that begins at some places."""
    column_by_phrase = columns.column_by_phrase
    lengths = sorted({len(key) for key in column_by_phrase})
    text = phrase_key(subword_ids)
    found = [
        (at, column_by_phrase[spelled])
        for at, place in enumerate((_WIDTH * places).tolist())
        for length in lengths
        if place + length <= len(text)
        and (spelled := text[place : place + length]) in column_by_phrase
    ]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _stretches(passage: SubwordText, at: int, max_subwords: int) -> PhraseString:
    """Return the stretch of most subwords from a place on, and at which lengths it ends a word."""
    ids, starts = passage.subword_ids, passage.word_starts
    end = min(at + max_subwords, len(ids))
    lengths = [
        length
        for length in range(2, end - at + 1)
        if at + length == len(ids) or starts[at + length]
    ]
    end = at + (lengths[-1] if lengths else 0)
    return PhraseString(phrase_key(ids[at:end]), tuple(lengths))


def _hosts(keys: set[bytes]) -> tuple[dict[bytes, int], list[bytes]]:
    """Find for each string the longest one it begins; sorted, they follow each other."""
    longest: list[bytes] = []
    host_by_key: dict[bytes, int] = {}
    for key in sorted(keys, reverse=True):
        if not (longest and longest[-1].startswith(key)):
            longest.append(key)
        host_by_key[key] = len(longest) - 1
    return host_by_key, longest
