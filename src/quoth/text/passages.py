"""Cut the fields of a document into passages, keeping character spans.

A text is cut along headings, then paragraphs, then sentences, and only where one of those exceeds
the word budget along lines, words and, last, characters. The pieces are packed greedily: each joins
the open passage if it fits, or else opens the next. Every step divides a stretch at positions and
trims what lies between, so nothing but white space can be lost.

What counts as a word is told in `blocks.py`; a passage never exceeds its budget of them. All of it
takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, not_empty
from quoth.records import Document, Passage, Span
from quoth.text.blocks import (
    Kind,
    Unit,
    divide_into_blocks,
    divide_unit,
    find_word,
    find_word_starts,
    has_few_words,
    has_plain_words,
    trim,
)
from quoth.text.sentences import find_last_sentence_end, find_sentence_ends

PassagePlace = tuple[str, int, int, int]
"""Where a passage stands in a document: field, instance, start and end."""


@dataclass(frozen=True)
class PassageConfig(CheckedConfig, title="passages"):
    """How fields are cut into passages."""

    max_words: AtLeastOne = 180
    """Maximum words per passage, including overlap."""

    overlap_words: AtLeastZero = 0
    """Words repeated from the previous passage at the start of the next, unless it starts with a
    heading."""

    fields: tuple[Annotated[str, not_empty("nonempty names")], ...] = ()
    """Fields to split into passages; empty means every field."""

    def conflicts(self) -> Iterator[str]:
        """Say where passages would consist of repeated words alone."""
        if self.overlap_words >= max(1, self.max_words):
            yield (
                f"overlap_words is {self.overlap_words}, expected less than max_words"
                f" ({self.max_words})"
            )


def cut_document(document: Document, config: PassageConfig) -> tuple[Passage, ...]:
    """Cut every instance of every configured field, in the document's order."""
    return tuple(
        Passage(document.docid, field, span, text[span.start : span.end], instance)
        for field, instances in document.fields.items()
        if not config.fields or field in config.fields
        for instance, text in enumerate(instances)
        for span in cut_text(text, config)
    )


def place_passages(document: Document, config: PassageConfig) -> tuple[PassagePlace, ...]:
    """Say where the passages that `cut_document` cuts stand, without making them.

    >>> place_passages(Document("d", {"text": ("An owl.", "It hunts.")}), PassageConfig())
    (('text', 0, 0, 7), ('text', 1, 0, 9))
    """
    return tuple(
        (field, instance, span.start, span.end)
        for field, instances in document.fields.items()
        if not config.fields or field in config.fields
        for instance, text in enumerate(instances)
        for span in cut_text(text, config)
    )


def cut_text(text: str, config: PassageConfig) -> tuple[Span, ...]:
    """Cut a text into the spans of its passages: in order, trimmed, within the budget.

    A heading starts a new passage and stays with what follows it. It ends one only where the text
    ends, or where further headings follow that no longer fit.

    >>> text = "# Birds\\n\\nA raven spoke. It said one word."
    >>> [text[span.start : span.end] for span in cut_text(text, PassageConfig(max_words=6))]
    ['# Birds\\n\\nA raven spoke.', 'It said one word.']
    """
    if _fits_at_a_glance(text, config.max_words):
        start = len(text) - len(text.lstrip())
        return (Span(start, len(text.rstrip())),)
    packer = _Packer(text, config)
    for unit in divide_into_blocks(text):
        packer.add(unit)
    packer.close()
    return tuple(packer.spans)


_MARKS = r"""[^\S\n]*([=\-`:'"~^_*+<>.])\1\1"""
_RULE_FIRST, _RULE_LATER = re.compile(_MARKS), re.compile(rf"\n{_MARKS}")


def _fits_at_a_glance(text: str, max_words: int) -> bool:
    """Whether a text is surely one passage: written with spaces, few words, and no heading."""
    return (
        has_plain_words(text)
        and has_few_words(text, max_words)
        and not text.isspace()
        and not _may_have_heading(text)
    )


def _may_have_heading(text: str) -> bool:
    return (
        "#" in text
        or "\r" in text
        or _RULE_FIRST.match(text) is not None
        or _RULE_LATER.search(text) is not None
    )


class _Packer:
    """Packs units into passages; at most one passage is open."""

    def __init__(self, text: str, config: PassageConfig) -> None:
        self.spans: list[Span] = []
        self._text = text
        self._max_words = config.max_words
        self._overlap_words = config.overlap_words
        self._start = self._end = self._words = 0
        self._has_body = False  # something besides headings and repeated words

    def add(self, unit: Unit) -> None:
        """Add the next unit of the text."""
        if unit.kind is not Kind.HEADING:
            self._add_body(unit)
            return
        if self._has_body or self._words + unit.words >= self._max_words:
            self.close()  # also where no word of what follows the headings would fit
        if unit.words < self._max_words:
            self._append(unit)
        else:
            self._add_body(unit._replace(kind=Kind.PARAGRAPH))

    def close(self) -> None:
        """Close the open passage, if there is one."""
        if self._words:
            self.spans.append(Span(self._start, self._end))
        self._words = 0
        self._has_body = False

    def _add_body(self, unit: Unit) -> None:
        fits = self._words + unit.words <= self._max_words
        repeated = min(self._overlap_words, self._words - 1)
        if not fits and self._has_body and repeated + unit.words <= self._max_words:
            self.close()
            self._repeat_words()
            fits = self._words + unit.words <= self._max_words
        if fits:
            self._append(unit)
            self._has_body = True
        elif unit.kind is Kind.PARAGRAPH and self._can_leap(unit):
            self._add_sentences(unit)
        elif unit.kind is Kind.LINE and self._can_leap(unit):
            self._add_words(unit)
        else:
            for piece in divide_unit(self._text, unit):  # as deep as there are kinds
                self._add_body(piece)

    def _can_leap(self, unit: Unit) -> bool:
        """Whether the words of stretches add up to those of the whole, as spaces part them."""
        return not self._overlap_words and has_plain_words(self._text[unit.start : unit.end])

    def _add_sentences(self, unit: Unit) -> None:
        """Add the sentences of a paragraph: as many at once as fit, the same as one by one."""
        start, is_full = unit.start, False
        while start < unit.end:
            room = 0 if is_full else self._max_words - self._words
            end = self._find_fitting_end(unit, start, room=room) if room else start
            if end == start and self._has_body:
                end = self._find_fitting_end(unit, start, room=self._max_words)
                if end > start:  # what does not fit here begins the next passage
                    self.close()
            is_full = end > start
            if is_full:  # of sentences: the next one does not fit
                self._append(trim(self._text, start, end, Kind.SENTENCE))
                self._has_body = True
            else:  # longer than a passage, or than what headings leave of it
                end = next(find_sentence_ends(self._text, start, unit.end), unit.end)
                self._add_body(trim(self._text, start, end, Kind.SENTENCE))
            start = end

    def _find_fitting_end(self, unit: Unit, start: int, *, room: int) -> int:
        """Find where the last sentence ends that fits with all from `start` on; else `start`."""
        limit = find_word(self._text, start, unit.end, number=room)
        if limit is None:
            return unit.end
        return find_last_sentence_end(self._text, unit.start, limit, since=start) or start

    def _add_words(self, unit: Unit) -> None:
        """Add the words of a line: as many at once as fit, the same as one by one."""
        start = unit.start
        while start < unit.end:
            if self._words == self._max_words:
                self.close()
            room = self._max_words - self._words
            end = find_word(self._text, start, unit.end, number=room) or unit.end
            self._append(trim(self._text, start, end, Kind.RUN))
            self._has_body = True
            start = end

    def _append(self, unit: Unit) -> None:
        if not self._words:
            self._start = unit.start
        self._end = unit.end
        self._words += unit.words

    def _repeat_words(self) -> None:
        """Open a passage with the last words of the one before, but never with all of them."""
        if not self._overlap_words:
            return
        last = self.spans[-1]
        starts = find_word_starts(self._text, last.start, last.end)
        self._words = min(self._overlap_words, len(starts) - 1)
        if self._words:
            self._start, self._end = starts[-self._words], last.end
