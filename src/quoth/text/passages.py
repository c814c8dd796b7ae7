"""Cut the fields of a document into passages, keeping character spans.

A text is cut along headings, then paragraphs, then sentences, and only where one of those exceeds
the word budget along lines, words and, last, characters. The pieces are packed greedily: each joins
the open passage if it fits, or else opens the next. Every step divides a stretch at positions and
trims what lies between, so nothing but white space can be lost.

A *word* here is what the budget counts: a stretch without white space, except that each Han,
Hiragana or Katakana character (with the punctuation after it) is a word of its own, as these
scripts write no spaces, and that a stretch of more than 2,000 characters counts once per 2,000.
Hangul counts by spaces. Adding up the counts of pieces never gives less than counting the whole, so
a passage never exceeds its budget. All of it takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, pairwise
from typing import Annotated, NamedTuple

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, not_empty
from quoth.records import Document, Passage, Span
from quoth.text.sentences import find_sentence_ends


@dataclass(frozen=True)
class PassageConfig(CheckedConfig, title="passages"):
    """How fields are cut into passages."""

    max_words: AtLeastOne = 180
    """Most words of a passage, repeated ones included."""

    overlap_words: AtLeastZero = 0
    """Words of the previous passage repeated at the start of the next, unless that is a heading."""

    fields: tuple[Annotated[str, not_empty("names of fields")], ...] = ()
    """Fields that are cut into passages; empty means every field."""

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
    for unit in _divide_into_blocks(text):
        packer.add(unit)
    packer.close()
    return tuple(packer.spans)


_LONGEST_WORD = 2000
_MAYBE_HEADING = re.compile(r"""[#\r]|^[^\S\n]*([=\-`:'"~^_*+<>.])\1\1""", re.MULTILINE)


def _fits_at_a_glance(text: str, max_words: int) -> bool:
    """Whether a text is surely one passage: plain characters, few words, and no heading."""
    return (
        text.isascii()
        and len(text) <= max_words * _LONGEST_WORD
        and 0 < count_words(text) <= max_words
        and _MAYBE_HEADING.search(text) is None
    )


# Han with 々 and 〇, Hiragana, Katakana; the combining (han)dakuten goes with the kana before it.
_CJK = (
    "\u2e80-\u2fdf\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_CJK}][^\w\s]{{0,{_LONGEST_WORD}}}|[^\s{_CJK}]{{1,{_LONGEST_WORD}}}")
# As above, but cut before a letter or digit where there is one: not before a mark or a stop.
_WORD_PIECE = re.compile(
    rf"[{_CJK}][^\w\s]{{0,{_LONGEST_WORD}}}"
    rf"|[^\s{_CJK}]{{1,{_LONGEST_WORD}}}(?![^\w\s])|[^\s{_CJK}]{{1,{_LONGEST_WORD}}}"
)


def count_words(text: str) -> int:
    """Count the words of a text as the budget does.

    >>> count_words("a raven, 3.5 kg"), count_words("大鸦说：永不"), count_words("a" * 4001)
    (4, 5, 3)
    """
    if text.isascii():  # the same, several times as fast
        words = text.split()
        if len(text) <= _LONGEST_WORD or max(map(len, words), default=0) <= _LONGEST_WORD:
            return len(words)
    return len(_WORD.findall(text))


class _Kind(Enum):
    """What a unit is, which decides how it is cut when it does not fit."""

    HEADING = auto()
    CODE = auto()
    PARAGRAPH = auto()
    SENTENCE = auto()
    LINE = auto()
    RUN = auto()  # without white space
    CLAUSE = auto()
    WORD = auto()


class _Unit(NamedTuple):
    """A trimmed, non-empty stretch of the text."""

    start: int
    end: int
    words: int
    kind: _Kind


class _Packer:
    """Packs units into passages; at most one passage is open."""

    def __init__(self, text: str, config: PassageConfig) -> None:
        self.spans: list[Span] = []
        self._text = text
        self._max_words = config.max_words
        self._overlap_words = config.overlap_words
        self._start = self._end = self._words = 0
        self._has_body = False  # something besides headings and repeated words

    def add(self, unit: _Unit) -> None:
        """Add the next unit of the text."""
        if unit.kind is not _Kind.HEADING:
            self._add_body(unit)
            return
        if self._has_body or self._words + unit.words >= self._max_words:
            self.close()  # also where no word of what follows the headings would fit
        if unit.words < self._max_words:
            self._append(unit)
        else:
            self._add_body(unit._replace(kind=_Kind.PARAGRAPH))

    def close(self) -> None:
        """Close the open passage, if there is one."""
        if self._words:
            self.spans.append(Span(self._start, self._end))
        self._words = 0
        self._has_body = False

    def _add_body(self, unit: _Unit) -> None:
        fits = self._words + unit.words <= self._max_words
        repeated = min(self._overlap_words, self._words - 1)
        if not fits and self._has_body and repeated + unit.words <= self._max_words:
            self.close()
            self._repeat_words()
            fits = self._words + unit.words <= self._max_words
        if fits:
            self._append(unit)
            self._has_body = True
        else:
            for piece in _divide_unit(self._text, unit):  # as deep as there are kinds
                self._add_body(piece)

    def _append(self, unit: _Unit) -> None:
        if not self._words:
            self._start = unit.start
        self._end = unit.end
        self._words += unit.words

    def _repeat_words(self) -> None:
        """Open a passage with the last words of the one before, but never with all of them."""
        if not self._overlap_words:
            return
        last = self.spans[-1]
        starts = [match.start() for match in _WORD.finditer(self._text, last.start, last.end)]
        self._words = min(self._overlap_words, len(starts) - 1)
        if self._words:
            self._start, self._end = starts[-self._words], last.end


# --- from text to blocks -------------------------------------------------------------------------

_LINE = re.compile(r"\S[^\r\n]*")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_ATX_HEADING = re.compile(r"#{1,6}(?=\s|\Z)")
_LIST_ITEM = re.compile(r"(?:[-*+•]|[0-9]{1,9}[.)])\s")
_FENCE = re.compile(r"(`{3,}+)[^`]*+|(~{3,}+).*+")
_BLOCK_STARTS = frozenset("#-*+•0123456789`~")
_RULE = re.compile(r"""([=\-`:'"~^_*+#<>.])\1{2,}+""")


class _Line(NamedTuple):
    """A line that is not blank, without the white space around it."""

    start: int
    end: int
    indent: int
    after_blank: bool


def _divide_into_lines(text: str) -> list[_Line]:
    lines = []
    previous = 0
    for match in _LINE.finditer(text):
        start = match.start()
        gap = text[previous:start]
        breaks = 1 if gap == "\n" else len(_LINE_BREAK.findall(gap))
        indent = len(gap) - 1 - max(gap.rfind("\n"), gap.rfind("\r"))
        lines.append(_Line(start, start + len(match[0].rstrip()), indent, breaks > 1))
        previous = match.end()
    return lines


def _divide_into_blocks(text: str) -> Iterator[_Unit]:
    """Divide a text into headings, fenced code, list items and paragraphs."""
    lines = _divide_into_lines(text)
    first = 0
    while first < len(lines):
        kind, after = _read_block(text, lines, first)
        start, end = lines[first].start, lines[after - 1].end
        yield _Unit(start, end, count_words(text[start:end]), kind)
        first = after


def _read_block(text: str, lines: list[_Line], first: int) -> tuple[_Kind, int]:
    """Say what block starts at a line, and which line comes after it."""
    line = lines[first]
    is_marked = text[line.start] in "`~"
    if is_marked and (fence := _FENCE.fullmatch(text, line.start, line.end)):
        return _Kind.CODE, _find_fence_end(text, lines, first, fence[1] or fence[2])
    if heading := _count_heading_lines(text, lines, first):
        return _Kind.HEADING, first + heading
    after = first + 1
    while after < len(lines) and not _starts_block(text, lines[after]):
        after += 1
    return _Kind.PARAGRAPH, after


def _find_fence_end(text: str, lines: list[_Line], first: int, fence: str) -> int:
    """Find the line after the closing fence; without one, code goes on to the end of the text."""
    for number in range(first + 1, len(lines)):
        line = text[lines[number].start : lines[number].end]
        if line.startswith(fence) and not line.strip(fence[0]):
            return number + 1
    return len(lines)


def _count_heading_lines(text: str, lines: list[_Line], first: int) -> int:
    """Count the lines of the heading that starts here: 1 ATX, 2 underlined, 3 also overlined."""
    line = lines[first]
    if _is_atx_heading(text, line):
        return 1
    if _is_underlined(text, lines, first):
        return 2
    if _is_rule(text, line) and _is_underlined(text, lines, first + 1):
        under = lines[first + 2]
        same = text[under.start : under.end] == text[line.start : line.end]
        return 3 if same and not lines[first + 1].after_blank else 0
    return 0


def _is_atx_heading(text: str, line: _Line) -> bool:
    return (
        text[line.start] == "#"
        and line.indent < 4
        and _ATX_HEADING.match(text, line.start, line.end) is not None
    )


def _is_rule(text: str, line: _Line) -> bool:
    marks = "=-`:'\"~^_*+#<>."
    return text[line.start] in marks and _RULE.fullmatch(text, line.start, line.end) is not None


def _is_underlined(text: str, lines: list[_Line], number: int) -> bool:
    """Whether a line is a title over a rule: of = or -, or of another mark and not shorter."""
    if number + 1 >= len(lines) or lines[number + 1].after_blank:
        return False
    title, rule = lines[number], lines[number + 1]
    if not _is_rule(text, rule):
        return False
    if title.indent > 3 or _LIST_ITEM.match(text, title.start, title.end):
        return False
    long_enough = text[rule.start] in "=-" or rule.end - rule.start >= title.end - title.start
    return long_enough and re.search(r"\w", text[title.start : title.end]) is not None


def _starts_block(text: str, line: _Line) -> bool:
    """Whether a line opens a block even right after a line of a paragraph."""
    if line.after_blank or text[line.start] not in _BLOCK_STARTS:
        return line.after_blank
    return (
        _is_atx_heading(text, line)
        or _LIST_ITEM.match(text, line.start, line.end) is not None
        or _FENCE.fullmatch(text, line.start, line.end) is not None
    )


# --- from blocks to words ------------------------------------------------------------------------


def split_sentences(text: str) -> tuple[Span, ...]:
    """Split a text into sentences; where in doubt, a stop ends none.

    >>> text = 'Dr. J. K. Poe paid $3.5, e.g. to U.S. ravens. "Why?" he asked. 我。你！'
    >>> [text[span.start : span.end] for span in split_sentences(text)]
    ['Dr. J. K. Poe paid $3.5, e.g. to U.S. ravens.', '"Why?" he asked.', '我。', '你！']
    """
    whole = _Unit(0, len(text), 0, _Kind.PARAGRAPH)
    return tuple(Span(unit.start, unit.end) for unit in _divide_unit(text, whole))


def _cut_after(pattern: re.Pattern[str]) -> Callable[[str, int, int], Iterator[int]]:
    def find_ends(text: str, start: int, end: int) -> Iterator[int]:
        return (match.end() for match in pattern.finditer(text, start, end))

    return find_ends


_DIVISIONS: dict[_Kind, tuple[Callable[[str, int, int], Iterator[int]], _Kind]] = {
    _Kind.PARAGRAPH: (find_sentence_ends, _Kind.SENTENCE),
    _Kind.CODE: (_cut_after(_LINE_BREAK), _Kind.LINE),
    _Kind.SENTENCE: (_cut_after(_LINE_BREAK), _Kind.LINE),
    _Kind.LINE: (_cut_after(re.compile(r"\s++")), _Kind.RUN),
    _Kind.RUN: (_cut_after(re.compile("[，、；：]++")), _Kind.CLAUSE),
    _Kind.CLAUSE: (_cut_after(_WORD_PIECE), _Kind.WORD),
}


def _divide_unit(text: str, unit: _Unit) -> Iterator[_Unit]:
    """Divide a unit into units of the next finer kind; a word always fits."""
    find_ends, kind = _DIVISIONS[unit.kind]
    ends = find_ends(text, unit.start, unit.end)
    for start, end in pairwise(chain((unit.start,), ends, (unit.end,))):
        piece = text[start:end].rstrip()
        trimmed = piece.lstrip()
        if trimmed:
            end = start + len(piece)
            yield _Unit(end - len(trimmed), end, count_words(trimmed), kind)
