"""What a user may type: free text, `"exact phrase"`, `+must`, `-not`, `field:word`.

Anything else is free text, so no input is ever a syntax error: a lone quote, a dash between words,
a colon after a word that names no field are all read as plain words. A quoted phrase must occur, as
in web search.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

Occur = Literal["should", "must", "must_not"]

_SIGN: dict[str, Occur] = {"+": "must", "-": "must_not"}
_UNIT = re.compile(
    r"""(?P<sign>(?<!\S)[+-](?=["\w]))?   # a sign counts at the start of a word only
        (?:(?P<field>[^\s:"]+):(?=["\w]))?
        (?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+|"))""",
    re.VERBOSE,
)


_MEANS_SOMETHING = re.compile(r"""[":]|(?<!\S)[+-]""")


@dataclass(frozen=True, slots=True)
class QueryClause:
    """One thing asked for: words or a phrase, in one field or (None) anywhere."""

    text: str
    occur: Occur = "should"
    field: str | None = None
    is_phrase: bool = False


def has_signs(text: str) -> bool:
    """Whether anything in a query may mean more than words; what has none needs no parsing.

    >>> has_signs("a state-of-the-art C++"), has_signs("owl -barn"), has_signs("why: nobody knows")
    (False, True, True)
    """
    return _MEANS_SOMETHING.search(text) is not None


def parse_query(text: str, *, fields: Collection[str]) -> tuple[QueryClause, ...]:
    """Read a query; `fields` are the names that may stand before a colon.

    >>> parse_query('title:owl -barn "night bird"', fields=["title"])[0]
    QueryClause(text='owl', occur='should', field='title', is_phrase=False)
    >>> [clause.occur for clause in parse_query('title:owl -barn "night bird"', fields=["title"])]
    ['should', 'must_not', 'must']
    >>> [clause.text for clause in parse_query('why: state-of-the-art "', fields=["title"])]
    ['why:', 'state-of-the-art', '"']
    """
    return tuple(_clauses(text, fields))


def read_query(text: str, *, fields: Collection[str] | None) -> tuple[QueryClause, ...]:
    """Read a query for its terms, by `parse_query` where signs of its may mean something.

    Without `fields`, none does.

    >>> [len(read_query(text, fields=())) for text in ("a state-of-the-art C++", "an owl -barn")]
    [1, 3]
    """
    if fields is None or not has_signs(text):
        return plain_query(text)  # the same terms, sooner
    return parse_query(text, fields=fields)


def wanted_text(text: str, *, fields: Collection[str]) -> str:
    """Return the words that a query with signs asks for, without the signs.

    >>> wanted_text('title:owl -barn "night bird" +dusk', fields=["title"])
    'owl night bird dusk'
    >>> wanted_text("state-of-the-art: why?", fields=["title"])
    'state-of-the-art: why?'
    """
    clauses = parse_query(text, fields=fields)
    return " ".join(each.text for each in clauses if each.occur != "must_not")


def plain_query(text: str) -> tuple[QueryClause, ...]:
    """Read a query as words alone, whatever signs it holds."""
    return (QueryClause(text),)


def _clauses(text: str, fields: Collection[str]) -> Iterator[QueryClause]:
    for match in _UNIT.finditer(text):
        field, phrase, word = match["field"], match["phrase"], match["word"]
        content = word if phrase is None else phrase
        if field is not None and field not in fields:
            content, field = f"{field}:{content}", None
        occur = _SIGN.get(match["sign"] or "", "must" if phrase is not None else "should")
        yield QueryClause(content, occur, field, phrase is not None)
