"""What a dynamic language model is trained on, in one plain file: subwords, no text, no tokenizer.

Two kinds of samples. *Texts* are chunks of a corpus, with the rows of related chunks (where forward
maximum matching looks for phrases). *Quotations* are a prompt, the answer that follows it, which
stretches of the answer are phrases, and where each of them stands in which passage of the prompt;
the phrases offered beside them are cut from the passages when a batch is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.selfsupervision.phrase_matching import Flags, Ids, SubwordText
from quoth.training.packed_file import Arrays, read_packed, write_packed
from quoth.training.sequences import find_offsets, narrow_ids

_KIND, _VERSION = "dynamic-set", 2
NO_ROW = -1


@dataclass(frozen=True, slots=True)
class SubwordTable:
    """Texts as subwords, end to end."""

    subword_ids: NDArray[Any]  # (all,) uint16 where the vocabulary allows it
    word_starts: Flags  # (all,)
    offsets: Ids  # (N + 1,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ids:
        """Subwords of each text."""
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> SubwordText:
        """Return one text."""
        own = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        return SubwordText(self.subword_ids[own].astype(np.int64), self.word_starts[own])


@dataclass(frozen=True, slots=True)
class Quotation:
    """A prompt and its answer; an answer without phrases says that there is none, or is plain."""

    prompt_ids: Ids
    target_ids: Ids
    phrases: Ids
    """(phrases, 4): start and end in the answer, number of the passage, place in the passage."""
    passages: tuple[SubwordText, ...]
    is_answerable: bool
    sentences: Ids = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    """(sentences, 3): passage, first and last place; the one that answers, then its rivals."""


@dataclass(frozen=True, slots=True)
class QuotationTable:
    """Quotations as flat arrays; passages that several of them read are stored once.

    They are taken out of the prompts, and put back when a quotation is read.
    """

    prompts: SubwordTable  # without their passages
    targets: SubwordTable
    passages: SubwordTable
    phrases: Ids  # (all phrases, 4)
    phrase_offsets: Ids  # (N + 1,)
    passage_rows: Ids  # (all passages of all prompts,)
    passage_places: Ids  # (all passages of all prompts,) where in what is left; −1: not taken out
    passage_offsets: Ids  # (N + 1,)
    sentences: Ids  # (all sentences, 3)
    sentence_offsets: Ids  # (N + 1,)
    is_answerable: Flags  # (N,)

    def __len__(self) -> int:
        return len(self.is_answerable)

    @property
    def lengths(self) -> Ids:
        """Subwords of each prompt and its answer."""
        inside = np.where(self.passage_places < 0, 0, self.passages.lengths[self.passage_rows])
        total = np.concatenate(([0], np.cumsum(inside)))
        return np.diff(total[self.passage_offsets]) + self.prompts.lengths + self.targets.lengths

    def __getitem__(self, row: int) -> Quotation:
        """Return one quotation."""
        own = slice(int(self.phrase_offsets[row]), int(self.phrase_offsets[row + 1]))
        of = slice(int(self.passage_offsets[row]), int(self.passage_offsets[row + 1]))
        told = slice(int(self.sentence_offsets[row]), int(self.sentence_offsets[row + 1]))
        passages = tuple(self.passages[int(each)] for each in self.passage_rows[of])
        return Quotation(
            _put_back(self.prompts[row].subword_ids, passages, self.passage_places[of]),
            self.targets[row].subword_ids,
            self.phrases[own],
            passages,
            bool(self.is_answerable[row]),
            self.sentences[told],
        )


@dataclass(frozen=True, slots=True)
class Continuations:
    """What the untouched language model writes after phrases, greedily; looked up by subwords."""

    subword_ids: Mapping[bytes, tuple[int, ...]] = field(default_factory=dict)

    def __getitem__(self, phrase: bytes) -> tuple[int, ...]:
        """Return the continuation of a phrase (its ids as bytes); empty where none was made."""
        return self.subword_ids.get(phrase, ())


@dataclass(frozen=True, slots=True)
class DynamicSet:
    """Samples of both kinds; either may be empty."""

    texts: SubwordTable
    support_rows: Ids  # (N, K) related texts of each text; −1 where there are fewer
    quotations: QuotationTable
    is_punctuation: Flags  # (V,) subwords without a letter or digit
    opens_word: Flags  # (V,) subwords that begin with a space
    continuations: Continuations = field(default_factory=Continuations)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_subwords(self) -> int:
        """Size of the subword vocabulary."""
        return len(self.is_punctuation)

    def support(self, row: int) -> tuple[SubwordText, ...]:
        """Return the texts related to a text."""
        return tuple(self.texts[int(each)] for each in self.support_rows[row] if each != NO_ROW)


def make_table(texts: Sequence[SubwordText]) -> SubwordTable:
    """Lay texts end to end."""
    return SubwordTable(
        narrow_ids(_concatenate([each.subword_ids for each in texts], np.int64)),
        _concatenate([each.word_starts for each in texts], np.bool_),
        find_offsets([len(each.subword_ids) for each in texts]),
    )


def make_quotations(quotations: Sequence[Quotation]) -> QuotationTable:
    """Turn quotations into arrays, each passage once."""
    row_by_passage: dict[bytes, int] = {}
    passages: list[SubwordText] = []
    rows: list[int] = []
    for passage in (each for own in quotations for each in own.passages):
        key = passage.subword_ids.tobytes()
        if key not in row_by_passage:
            row_by_passage[key] = len(passages)
            passages.append(passage)
        rows.append(row_by_passage[key])
    taken = [_take_out(each.prompt_ids, each.passages) for each in quotations]
    return QuotationTable(
        prompts=make_table([_bare(rest) for rest, _places in taken]),
        targets=make_table([_bare(each.target_ids) for each in quotations]),
        passages=make_table(passages),
        phrases=_concatenate([each.phrases for each in quotations], np.int64, (0, 4)),
        phrase_offsets=find_offsets([len(each.phrases) for each in quotations]),
        passage_rows=np.array(rows, dtype=np.int64),
        passage_places=_concatenate([places for _rest, places in taken], np.int64),
        passage_offsets=find_offsets([len(each.passages) for each in quotations]),
        sentences=_concatenate([each.sentences for each in quotations], np.int64, (0, 3)),
        sentence_offsets=find_offsets([len(each.sentences) for each in quotations]),
        is_answerable=np.array([each.is_answerable for each in quotations], dtype=np.bool_),
    )


def save_dynamic_set(path: Path, dynamic_set: DynamicSet) -> None:
    """Write a set as one file, over an older one only when complete."""
    arrays: Arrays = {
        "is_punctuation": np.packbits(dynamic_set.is_punctuation),
        "opens_word": np.packbits(dynamic_set.opens_word),
    }
    quotations = dynamic_set.quotations
    for name, table in _tables(dynamic_set).items():
        arrays[f"{name}_ids"] = table.subword_ids
        arrays[f"{name}_starts"] = np.packbits(table.word_starts)
        arrays[f"{name}_lengths"] = table.lengths.astype(np.uint16)
    arrays |= {
        "support_rows": dynamic_set.support_rows.astype(np.int32),
        "phrases": quotations.phrases.astype(np.uint16),
        "phrase_counts": np.diff(quotations.phrase_offsets).astype(np.uint16),
        "passage_rows": quotations.passage_rows.astype(np.uint32),
        "passage_places": quotations.passage_places.astype(np.int32),
        "passage_counts": np.diff(quotations.passage_offsets).astype(np.uint8),
        "sentences": quotations.sentences.astype(np.uint16),
        "sentence_counts": np.diff(quotations.sentence_offsets).astype(np.uint8),
        "is_answerable": quotations.is_answerable,
    }
    for name, lists in _continuation_lists(dynamic_set.continuations).items():
        arrays[f"{name}_ids"] = _concatenate(lists, np.int32)
        arrays[f"{name}_lengths"] = np.array([len(each) for each in lists], dtype=np.uint16)
    facts = {
        "version": _VERSION,
        "num_subwords": dynamic_set.num_subwords,
        "about": dict(dynamic_set.about),
    }
    write_packed(path, arrays, kind=_KIND, facts=facts)


def open_dynamic_set(path: Path) -> DynamicSet:
    """Read a set, checking every byte of it."""
    arrays, header = read_packed(path, kind=_KIND, expected={"version": _VERSION})
    texts, prompts, targets, passages = (
        _read_table(arrays, name) for name in ("texts", "prompts", "targets", "passages")
    )
    quotations = QuotationTable(
        prompts,
        targets,
        passages,
        phrases=arrays["phrases"].astype(np.int64),
        phrase_offsets=find_offsets(arrays["phrase_counts"]),
        passage_rows=arrays["passage_rows"].astype(np.int64),
        passage_places=arrays["passage_places"].astype(np.int64),
        passage_offsets=find_offsets(arrays["passage_counts"]),
        sentences=arrays["sentences"].astype(np.int64),
        sentence_offsets=find_offsets(arrays["sentence_counts"]),
        is_answerable=arrays["is_answerable"],
    )
    return DynamicSet(
        texts,
        arrays["support_rows"].astype(np.int64),
        quotations,
        _unpack(arrays["is_punctuation"], header["num_subwords"]),
        _unpack(arrays["opens_word"], header["num_subwords"]),
        _read_continuations(arrays),
        header["about"],
    )


def _tables(dynamic_set: DynamicSet) -> dict[str, SubwordTable]:
    own = dynamic_set.quotations
    return {
        "texts": dynamic_set.texts,
        "prompts": own.prompts,
        "targets": own.targets,
        "passages": own.passages,
    }


def _read_table(arrays: Arrays, name: str) -> SubwordTable:
    ids = arrays[f"{name}_ids"]
    starts = _unpack(arrays[f"{name}_starts"], len(ids))
    return SubwordTable(ids, starts, find_offsets(arrays[f"{name}_lengths"]))


def _continuation_lists(continuations: Continuations) -> dict[str, list[NDArray[Any]]]:
    """List phrases and what follows them, in the same order."""
    phrases = [np.frombuffer(key, dtype=np.int32) for key in continuations.subword_ids]
    followers = [np.array(own) for own in continuations.subword_ids.values()]
    return {"phrase": phrases, "follower": followers}


def _read_continuations(arrays: Arrays) -> Continuations:
    return Continuations(
        {
            phrase.tobytes(): tuple(own.tolist())
            for phrase, own in zip(_cut(arrays, "phrase"), _cut(arrays, "follower"), strict=True)
        }
    )


def _cut(arrays: Arrays, name: str) -> list[NDArray[Any]]:
    bounds = find_offsets(arrays[f"{name}_lengths"])
    return [arrays[f"{name}_ids"][start:end] for start, end in pairwise(bounds)]


def _take_out(prompt: Ids, passages: Sequence[SubwordText]) -> tuple[Ids, Ids]:
    """Cut passages out of a prompt that holds them in this order; also gives where they stood."""
    rest: list[Ids] = []
    places: list[int] = []
    at = kept = 0
    for passage in passages:
        ids = passage.subword_ids
        found = _find(prompt, ids, at) if len(ids) else -1
        if found >= 0:
            rest.append(prompt[at:found])
            kept += found - at
            at = found + len(ids)
        places.append(kept if found >= 0 else NO_ROW)
    return np.concatenate([*rest, prompt[at:]]), np.array(places, dtype=np.int64)


def _put_back(rest: Ids, passages: Sequence[SubwordText], places: Ids) -> Ids:
    """Undo `_take_out`."""
    pieces: list[Ids] = []
    at = 0
    for passage, place in zip(passages, places.tolist(), strict=True):
        if place != NO_ROW:
            pieces += [rest[at:place], passage.subword_ids]
            at = place
    return np.concatenate([*pieces, rest[at:]])


def _find(ids: Ids, wanted: Ids, start: int) -> int:
    """Find the first place, from a start on, where some subwords stand; −1 where they do not.

    >>> _find(np.array([1, 2, 1, 2, 3]), np.array([1, 2, 3]), 0)
    2
    """
    for at in start + np.flatnonzero(ids[start : len(ids) - len(wanted) + 1] == wanted[0]):
        if np.array_equal(ids[at : at + len(wanted)], wanted):
            return int(at)
    return -1


def _bare(ids: Ids) -> SubwordText:
    return SubwordText(ids, np.zeros(len(ids), dtype=np.bool_))


def _unpack(bits: NDArray[np.uint8], count: int) -> Flags:
    return np.unpackbits(bits, count=count).astype(np.bool_)


def _concatenate(
    pieces: Sequence[NDArray[Any]], kind: Any, empty: tuple[int, ...] = (0,)
) -> NDArray[Any]:
    return np.concatenate([np.zeros(empty, dtype=kind), *pieces]).astype(kind)
