"""What metadata conditions mean, and what is kept of a document to tell.

`filter_rows` finds the documents of a store for which a condition (see `filter_syntax`) holds, from
what `filter_entries` keeps of each.

- A key may have many values; a test holds if any one of them passes. `!=` and `not in` are the
exact negations of `==` and `in`, so they also hold for documents without the key. - Booleans,
numbers and texts are three kinds; values of different kinds are never equal or ordered. - Integers
and fractions compare exactly; an integer beyond 64 bits is taken as the nearest fraction. - Texts
compare by code point, so dates compare rightly when written as ISO 8601 (`"2020-01-31"`). Only
their first 1,000 characters are kept and compared, in documents and conditions alike; what SQLite
cannot hold in a text (NUL, lone surrogates, U+FFFE, U+FFFF) counts as U+FFFD. - `contains` ignores
case character by character: ß and ss stay different.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from quoth.collection.filter_syntax import fit_integer
from quoth.records import Document, Scalar

_BOOL, _NUMBER = 0, 1
TEXT = 2
"""The kind of texts, as it is stored."""

_LONGEST_TEXT = 1000
_LONGEST_INSTANCE = 100
_UNSTORABLE = re.compile("[\0\ud800-\udfff\ufffe\uffff]")


def filter_entries(document: Document) -> Iterator[tuple[str, int, Scalar]]:
    """Yield the distinct (key, kind, value) to store for a document, sorted.

    Besides the metadata, field instances of at most 100 characters can be filtered on. NaN cannot.

    >>> list(filter_entries(Document("d1", {"genre": ("Action",)}, {"year": 1999, "hit": True})))
    [('genre', 2, 'Action'), ('hit', 0, 1), ('year', 1, 1999)]
    """
    pairs: list[tuple[str, Scalar]] = []
    for key, value in document.metadata.items():
        pairs.extend((key, each) for each in (value if isinstance(value, tuple) else (value,)))
    for key, instances in document.fields.items():
        pairs.extend([(key, each) for each in instances if len(each) <= _LONGEST_INSTANCE])
    if not pairs:
        return
    stored = ((clean(key), store_value(value)) for key, value in pairs)
    yield from sorted({(key, *typed): None for key, typed in stored if typed})


def store_value(value: Scalar) -> tuple[int, Scalar] | None:
    """Turn a value into its kind and the value kept for it; None if it cannot be kept.

    >>> store_value(True), store_value(2**64), store_value(float("nan"))
    ((0, 1), (1, 1.8446744073709552e+19), None)
    """
    if isinstance(value, bool):
        return _BOOL, int(value)
    if isinstance(value, str):
        return TEXT, clip(value)
    number = fit_integer(value) if isinstance(value, int) else value
    return None if math.isnan(number) else (_NUMBER, number)


def clean(text: str) -> str:
    """Replace what SQLite cannot hold in a text.

    >>> clean("nul\\0") == "nul\\ufffd"
    True
    """
    return _UNSTORABLE.sub("\ufffd", text)


def clip(text: str) -> str:
    """Keep what is compared of a text: its first 1,000 characters, cleaned."""
    return clean(text)[:_LONGEST_TEXT]


def fold(text: str) -> str:
    """Fold the case of each character that stays one character.

    >>> fold("Straße Σ")
    'straße σ'
    """
    folded = text.casefold()
    if len(folded) == len(text):  # characters only ever become more
        return folded
    pairs = ((character, character.casefold()) for character in text)
    return "".join(new if len(new) == 1 else old for old, new in pairs)


def fold_all(texts: Sequence[str]) -> list[str]:
    """Fold many texts, at once where none has a character that becomes several."""
    folded = [text.casefold() for text in texts]
    is_plain = sum(map(len, folded)) == sum(map(len, texts))
    return folded if is_plain else [fold(text) for text in texts]
