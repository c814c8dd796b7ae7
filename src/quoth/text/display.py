"""Texts as a terminal or a page shows them: safe, short, numbers with nouns and signs.

Text from documents is never trusted: control and direction-changing characters are shown as �.
"""

from __future__ import annotations

import re

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that could command a terminal or reorder a line."""


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun.

    >>> count(1, "hit"), count(1200, "hit"), count(2, "query", "queries")
    ('1 hit', '1,200 hits', '2 queries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def make_safe(text: str) -> str:
    r"""Replace what could command a terminal or reorder the line, character by character.

    Form feeds and carriage returns, which end lines on Windows with a line feed, become spaces.

    >>> make_safe("red\x1b[31m"), make_safe("one\ftwo"), make_safe("one\r\ntwo")
    ('red�[31m', 'one two', 'one \ntwo')
    """
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\f", " ").replace("\r", " "))


def one_line(text: str, *, max_chars: int) -> str:
    r"""Make text safe and fit for one line; what is too long loses its middle.

    >>> one_line("a\n title ", max_chars=20), one_line("0123456789", max_chars=7)
    ('a title', '012…789')
    """
    line = make_safe(" ".join(text.split()))
    half = (max_chars - 1) // 2
    return line if len(line) <= max_chars else f"{line[:half]}…{line[-half:]}"


def duration(seconds: float) -> str:
    """Write a time as people say it.

    >>> duration(0.04), duration(9.44), duration(75.2), duration(7384)
    ('0.0 s', '9.4 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: int) -> str:
    """Write a number of bytes in its own unit.

    >>> size(812), size(90_900_000), size(3_200_000_000)
    ('812 B', '90.9 MB', '3.2 GB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def signed(value: float, *, digits: int = 3) -> str:
    """Write a difference with its sign; none where it rounds to nothing.

    >>> signed(0.0349), signed(-0.2), signed(-0.0001)
    ('+0.035', '−0.200', '0.000')
    """
    shown = f"{abs(value):.{digits}f}"
    if float(shown) == 0:
        return shown
    return f"{'+' if value > 0 else '−'}{shown}"
