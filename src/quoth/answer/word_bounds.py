"""Where words start and end, marks that belong to them included."""

from __future__ import annotations

import re
import unicodedata

_OPENERS = "([{<\"'“‘«¿¡"
_JOINERS = "'’-–./,:_@&"
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces: Thai, Lao, Myanmar, Khmer, kana, Han."""


def is_start(text: str, at: int) -> bool:
    """Whether a word starts here.

    >>> text = 'He (not "she") ate. 大鸦'
    >>> [text[at : at + 3] for at in range(len(text)) if is_start(text, at)]
    ['He ', '(no', 'not', '"sh', 'she', 'ate', '大鸦', '鸦']
    """
    if text[at].isspace():
        return False
    if at == 0 or text[at - 1].isspace():
        return True
    if _is_between_characters(text, at):
        return True
    if text[at - 1] not in _OPENERS:
        return False
    opened = text[:at].rstrip(_OPENERS)
    return (not opened or opened[-1].isspace()) and text[at].isalnum()


def is_end(text: str, at: int) -> bool:
    """Whether a word, or a mark after it, ends before this place.

    >>> text = "It's 3.5 kg, (so)."
    >>> [text[:at] for at in range(1, len(text) + 1) if is_end(text, at)][:4]
    ["It's", "It's 3.5", "It's 3.5 kg", "It's 3.5 kg,"]
    """
    if text[at - 1].isspace():
        return False
    if at == len(text) or text[at].isspace():
        return text[at - 1] not in "([{“‘«"
    if _is_between_characters(text, at):
        return True
    if not text[at - 1].isalnum() or text[at].isalnum() or text[at] == "\u200d":
        return False
    joins = text[at] in _JOINERS and at + 1 < len(text) and text[at + 1].isalnum()
    return not joins and not _is_mark(text[at])


def _is_between_characters(text: str, at: int) -> bool:
    """Whether two letters meet here of which one belongs to a script without spaces."""
    before, after = text[at - 1], text[at]
    if not (before.isalnum() and after.isalnum()):
        return False
    return bool(UNSPACED.match(before) or UNSPACED.match(after))


def _is_mark(character: str) -> bool:
    """Whether a character belongs to the one before: combining marks."""
    return unicodedata.category(character).startswith("M")
