"""Numbers and truth values written as text, as in a table cell or in front matter."""

from __future__ import annotations

import math
import re

from quoth.records import Scalar

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?\.?[0-9]+(?:[eE][+-]?[0-9]{1,4})?")
_LONGEST_NUMBER = 64
_TRUTHS = {"true": True, "false": False}


def parse_scalar(text: str) -> Scalar:
    """Read a number or a truth value; anything else stays the text it is.

    What only looks like a number stays text: leading zeros mark a code, and whole numbers of more
    than 18 digits, infinities and NaN cannot be compared safely.

    >>> [parse_scalar(text) for text in ["42", " -1.5e3 ", "True", "007", "nan", "1e999", "v2"]]
    [42, -1500.0, True, '007', 'nan', '1e999', 'v2']
    """
    bare = text.strip()
    if len(bare) > _LONGEST_NUMBER:
        return text
    if bare.lower() in _TRUTHS:
        return _TRUTHS[bare.lower()]
    if _WHOLE.fullmatch(bare):
        return int(bare)
    if _is_decimal(bare):
        return float(bare)
    return text


def _is_decimal(bare: str) -> bool:
    """Tell whether a text is a finite decimal fraction.

    >>> [_is_decimal(text) for text in ["0.5", ".5", "2e3", "00.5", "1234", "1e999"]]
    [True, True, True, False, False, False]
    """
    has_mark = any(mark in bare for mark in ".eE")
    return has_mark and bool(_DECIMAL.fullmatch(bare)) and math.isfinite(float(bare))
