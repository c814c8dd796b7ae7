"""Divide a text into blocks, and blocks into sentences, lines and words, for passages.

A *word* here is what the budget of a passage counts: a stretch without white space, except that
each Han, Hiragana or Katakana character (with the punctuation after it) is a word of its own, as
these scripts write no spaces, and that a stretch of more than 2,000 characters counts once per
2,000. Hangul counts by spaces. Adding up the counts of pieces never gives less than counting the
whole. All of it takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import chain, pairwise
from typing import NamedTuple

from quoth.records import Span
from quoth.text.sentences import find_sentence_ends

LONGEST_WORD = 2000
"""Characters from which on a stretch without white space counts as several words."""

# Han with 々 and 〇, Hiragana, Katakana; the combining (han)dakuten goes with the kana before it.
_CJK = (
    "\u2e80-\u2fdf\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_CJK}][^\w\s]{{0,{LONGEST_WORD}}}|[^\s{_CJK}]{{1,{LONGEST_WORD}}}")
_WORD_SHAPES = bytes(ord(" ") if chr(byte).isspace() else ord("x") for byte in range(128)) * 2
_MAYBE_UNSPACED = re.compile("[\u2e80-\U0010ffff]")
# As above, but cut before a letter or digit where there is one: not before a mark or a stop.
_WORD_PIECE = re.compile(
    rf"[{_CJK}][^\w\s]{{0,{LONGEST_WORD}}}"
    rf"|[^\s{_CJK}]{{1,{LONGEST_WORD}}}(?![^\w\s])|[^\s{_CJK}]{{1,{LONGEST_WORD}}}"
)


def count_words(text: str) -> int:
    """Count the words of a text as the budget does.

    >>> count_words("a raven, 3.5 kg"), count_words("大鸦说：永不"), count_words("a" * 4001)
    (4, 5, 3)
    """
    if has_plain_words(text):
        return _count_stretches(text)  # the same, many times as fast
    return len(_WORD.findall(text))


def _count_stretches(text: str) -> int:
    """Count stretches without white space; in plain text none of them is taken out.

    >>> _count_stretches(" an owl\\nhunts "), _count_stretches("une\\u00a0œuvre")
    (3, 2)
    """
    if text.isascii():
        return (b" " + text.encode().translate(_WORD_SHAPES)).count(b" x")
    return len(text.split())


def is_spaced(text: str) -> bool:
    """Whether all of a text is surely of scripts that write spaces."""
    return text.isascii() or _MAYBE_UNSPACED.search(text) is None


def has_plain_words(text: str) -> bool:
    """Whether spaces part the words of a text and each counts once."""
    return is_spaced(text) and (not _may_have_long_word(text) or _has_short_words(text))


def _may_have_long_word(text: str) -> bool:
    """Whether spaces are missing for so long that there may be a word which counts several times.

    >>> _may_have_long_word(" " + "x" * 2001), _may_have_long_word("an owl " * 400)
    (True, False)
    """
    step = LONGEST_WORD // 2  # a longer word covers a whole step, wherever it stands
    return len(text) > LONGEST_WORD and any(
        text.find(" ", at, at + step) < 0 for at in range(0, len(text) - step, step)
    )


def _has_short_words(text: str) -> bool:
    return max(map(len, text.split()), default=0) <= LONGEST_WORD


def has_few_words(text: str, max_words: int) -> bool:
    """Whether a text of plain words has at least a character, and at most so many words.

    >>> has_few_words("an owl hunts", 3), has_few_words("an owl hunts", 2), has_few_words("", 2)
    (True, False, False)
    """
    if text.isascii():
        return bool(text) and _count_stretches(text) <= max_words
    return len(text.split(None, max_words)) <= max_words


def find_word_starts(text: str, start: int, end: int) -> list[int]:
    """Find where the words of a stretch begin."""
    return [match.start() for match in _WORD.finditer(text, start, end)]


class Kind(Enum):
    """What a unit is, which decides how it is cut when it does not fit."""

    HEADING = auto()
    CODE = auto()
    PARAGRAPH = auto()
    SENTENCE = auto()
    LINE = auto()
    RUN = auto()  # without white space
    CLAUSE = auto()
    WORD = auto()


class Unit(NamedTuple):
    """A trimmed, non-empty stretch of the text."""

    start: int
    end: int
    words: int
    kind: Kind


# --- from text to blocks -------------------------------------------------------------------------

_LINE = re.compile(r"\S[^\r\n]*")
_PLAIN_LINE = re.compile(r"\S.*")  # the same in a text without \r, several times as fast
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
    for match in (_LINE if "\r" in text else _PLAIN_LINE).finditer(text):
        start = match.start()
        gap = text[previous:start]
        breaks = 1 if gap == "\n" else len(_LINE_BREAK.findall(gap))
        indent = len(gap) - 1 - max(gap.rfind("\n"), gap.rfind("\r"))
        lines.append(_Line(start, start + len(match[0].rstrip()), indent, breaks > 1))
        previous = match.end()
    return lines


def divide_into_blocks(text: str) -> Iterator[Unit]:
    """Divide a text into headings, fenced code, list items and paragraphs."""
    lines = _divide_into_lines(text)
    first = 0
    while first < len(lines):
        kind, after = _read_block(text, lines, first)
        start, end = lines[first].start, lines[after - 1].end
        yield Unit(start, end, count_words(text[start:end]), kind)
        first = after


def _read_block(text: str, lines: list[_Line], first: int) -> tuple[Kind, int]:
    """Say what block starts at a line, and which line comes after it."""
    line = lines[first]
    is_marked = text[line.start] in "`~"
    if is_marked and (fence := _FENCE.fullmatch(text, line.start, line.end)):
        return Kind.CODE, _find_fence_end(text, lines, first, fence[1] or fence[2])
    if heading := _count_heading_lines(text, lines, first):
        return Kind.HEADING, first + heading
    after = first + 1
    while after < len(lines) and not _starts_block(text, lines[after]):
        after += 1
    return Kind.PARAGRAPH, after


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
    whole = Unit(0, len(text), 0, Kind.PARAGRAPH)
    return tuple(Span(unit.start, unit.end) for unit in divide_unit(text, whole))


def _cut_after(pattern: re.Pattern[str]) -> Callable[[str, int, int], Iterator[int]]:
    def find_ends(text: str, start: int, end: int) -> Iterator[int]:
        return (match.end() for match in pattern.finditer(text, start, end))

    return find_ends


_DIVISIONS: dict[Kind, tuple[Callable[[str, int, int], Iterator[int]], Kind]] = {
    Kind.PARAGRAPH: (find_sentence_ends, Kind.SENTENCE),
    Kind.CODE: (_cut_after(_LINE_BREAK), Kind.LINE),
    Kind.SENTENCE: (_cut_after(_LINE_BREAK), Kind.LINE),
    Kind.LINE: (_cut_after(re.compile(r"\s++")), Kind.RUN),
    Kind.RUN: (_cut_after(re.compile("[，、；：]++")), Kind.CLAUSE),
    Kind.CLAUSE: (_cut_after(_WORD_PIECE), Kind.WORD),
}


def divide_unit(text: str, unit: Unit) -> Iterator[Unit]:
    """Divide a unit into units of the next finer kind; a word always fits."""
    find_ends, kind = _DIVISIONS[unit.kind]
    ends = find_ends(text, unit.start, unit.end)
    for start, end in pairwise(chain((unit.start,), ends, (unit.end,))):
        if not text[start:end].isspace() and start < end:
            yield trim(text, start, end, kind)


def trim(text: str, start: int, end: int, kind: Kind) -> Unit:
    """Make a unit of a stretch that holds a word, without the white space around it."""
    piece = text[start:end].rstrip()
    trimmed = piece.lstrip()
    end = start + len(piece)
    return Unit(end - len(trimmed), end, count_words(trimmed), kind)


def find_word(text: str, start: int, end: int, *, number: int) -> int | None:
    """Find where the word begins that has `number` words before it; None where none has.

    >>> find_word("an owl hunts", 0, 12, number=2), find_word("an owl", 0, 6, number=2)
    (7, None)
    """
    width = 8 * (number + 1)
    while True:
        window = text[start : min(start + width, end)]
        words = window.split(None, number)
        if len(words) > number:
            return start + len(window) - len(words[number])
        if start + width >= end:
            return None
        width *= 2
