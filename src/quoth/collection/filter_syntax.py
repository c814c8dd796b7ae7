"""Metadata conditions as text and as a tree: `year >= 2020 and lang in ("en", "de")`.

Read by hand-written rules, limited in length, depth and number of tests; nothing is evaluated. What
a condition means is said in `filters`.

    condition  = all-of ("or" all-of)*          all-of = one ("and" one)*
    one        = "not" one | "(" condition ")" | key test
    test       = ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") value | "exists"
               | "contains" text | ["not"] "in" "(" value, … ")"
    key        = bare word, or anything between backticks
    value      = text in ' or ", with backslash escapes | number | true | false
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from quoth.errors import FilterError
from quoth.records import Scalar

Operator = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Some value of the key compares so with `value`; for `!=`, none equals it."""

    key: str
    operator: Operator
    value: Scalar


@dataclass(frozen=True, slots=True)
class Membership:
    """Some value of the key is among `values`."""

    key: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The key has a value."""

    key: str


@dataclass(frozen=True, slots=True)
class Contains:
    """Some text of the key has `text` in it, in any case."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition


Test = Comparison | Membership | Exists | Contains
Condition = Test | And | Or | Not

MAX_TESTS = 100
"""Tests that a condition may be made of; a list of values after "in" is one."""

_LONGEST_FILTER = 10_000
_DEEPEST_FILTER = 50
_RESERVED = frozenset(("and", "or", "not", "in", "exists", "contains", "true", "false"))
_BARE_KEY = re.compile(r"[^\W\d][\w.-]*")
_NUMBER_FORM = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TOKEN = re.compile(
    rf"""\s*+(?:(?P<word>{_BARE_KEY.pattern}) | (?P<number>[+-]?\.?[0-9][\w.:+-]*)
    | (?P<sign>[=!<>]=|[=<>(),]) | (?P<end>\Z)
    | (?P<quoted>(?P<mark>["'`])(?P<inside>(?:\\.|(?!(?P=mark))[^\\])*+)(?P=mark)))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse_filter(text: str) -> Condition:
    """Read a condition; a FilterError points at what cannot be read.

    >>> parse_filter("year >= 2020 or lang in ('en', 'de')").parts[0]
    Comparison(key='year', operator='>=', value=2020)
    """
    if len(text) > _LONGEST_FILTER:
        raise FilterError(
            f"the filter has {len(text):,} characters, expected at most {_LONGEST_FILTER:,};"
            " shorten it"
        )
    reader = _Reader(text)
    condition = reader.read_condition(0)
    if reader.token.lastgroup != "end":
        raise reader.error('"and", "or" or the end')
    if reader.num_tests > MAX_TESTS:
        raise FilterError(
            f"the filter has {reader.num_tests:,} tests, expected at most {MAX_TESTS:,}; leave some"
            ' out, or list the values of one key, as in: lang in ("en", "de")'
        )
    return condition


class _Reader:
    """Reads a condition by recursive descent; `token` is the next one, not yet taken."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.num_tests = 0
        self.token = self._find_token(0)

    def read_condition(self, depth: int) -> Condition:
        parts = [self._read_all_of(depth)]
        while self._take("or"):
            parts.append(self._read_all_of(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def error(self, expected: str, hint: str = "") -> FilterError:
        """Describe the next token as an error."""
        found = "the end" if self.token.lastgroup == "end" else _shorten(self._source())
        return self._point_at(self.token.end() - len(self._source()), found, expected, hint)

    def _read_all_of(self, depth: int) -> Condition:
        parts = [self._read_one(depth)]
        while self._take("and"):
            parts.append(self._read_one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _read_one(self, depth: int) -> Condition:
        if depth > _DEEPEST_FILTER:
            raise self.error(f"at most {_DEEPEST_FILTER} levels of parentheses and not")
        if self._take("not"):
            return Not(self._read_one(depth + 1))
        if not self._take("("):
            return self._read_test(self._read_key())
        inside = self.read_condition(depth + 1)
        self._expect(")", '"and", "or" or ")"')
        return inside

    def _read_test(self, key: str) -> Condition:
        self.num_tests += 1
        if sign := self._take("==", "=", "!=", "<", "<=", ">", ">="):
            return Comparison(
                key, cast(Operator, "==" if sign == "=" else sign), self._read_value()
            )
        if self._take("exists"):
            return Exists(key)
        if self._take("in"):
            return Membership(key, self._read_values())
        if self._take("not"):
            self._expect("in", '"in"')
            return Not(Membership(key, self._read_values()))
        if not self._take("contains"):
            raise self.error("an operator (== != < <= > >= in, not in, exists, contains)")
        if self.token["mark"] in (None, "`"):
            raise self.error("text in quotes", self._hint_quotes())
        return Contains(key, cast(str, self._read_value()))

    def _read_key(self) -> str:
        token = self.token
        is_word = token.lastgroup == "word"
        if token["mark"] == "`" or (is_word and token["word"].lower() not in _RESERVED):
            self._advance()
            return _unescape(token["inside"]) if token["mark"] else token["word"]
        raise self.error("a key", f"write `{token['word']}` for a key" if is_word else "")

    def _read_values(self) -> tuple[Scalar, ...]:
        self._expect("(", '"(" and a list of values')
        values = []
        while not self._take(")"):
            values.append(self._read_value())
            if not self._take(","):
                self._expect(")", '"," or ")"')
                break
        return tuple(values)

    def _read_value(self) -> Scalar:
        if truth := self._take("true", "false"):
            return truth == "true"
        token = self.token
        number = token["number"]
        if token["mark"] in (None, "`") and not (number and _NUMBER_FORM.fullmatch(number)):
            raise self.error(
                "a value (text in quotes, a number, true or false)", self._hint_quotes()
            )
        self._advance()
        if not number:
            return _unescape(token["inside"])
        is_short = len(number) <= 20  # so that int() takes it; what is longer is beyond 64 bits
        is_integer = is_short and number.strip("+-").isdigit()
        return fit_integer(int(number)) if is_integer else float(number)

    def _hint_quotes(self) -> str:
        is_bare = self.token.lastgroup in ("word", "number")
        return f'write "{_shorten(self._source())}" if it is text' if is_bare else ""

    def _take(self, *wanted: str) -> str:
        """Take the next token if it is one of these words or signs; return it, or nothing."""
        found = self._source().lower()
        if self.token["mark"] or found not in wanted:
            return ""
        self._advance()
        return found

    def _expect(self, wanted: str, description: str) -> None:
        if not self._take(wanted):
            raise self.error(description)

    def _advance(self) -> None:
        self.token = self._find_token(self.token.end())

    def _find_token(self, start: int) -> re.Match[str]:
        if token := _TOKEN.match(self._text, start):
            return token
        rest = self._text[start:].lstrip()
        column = len(self._text) - len(rest)
        if rest[0] in "\"'`":
            raise self._point_at(column, _shorten(rest), f"a closing {rest[0]}", "")
        expected = "a key, an operator, a value or a parenthesis"
        hint = "write a key with such characters in backticks and text in quotes"
        raise self._point_at(column, rest[0], expected, hint)

    def _source(self) -> str:
        return self.token[0].lstrip()

    def _point_at(self, column: int, found: str, expected: str, hint: str) -> FilterError:
        first = max(0, column - 60)
        shown = "".join(c if c.isprintable() else " " for c in self._text[first : column + 20])
        message = f"filter, column {column + 1}: found {found}, expected {expected}"
        caret = " " * (column - first) + "^"
        return FilterError("\n  ".join((f"{message}; {hint}" if hint else message, shown, caret)))


def _shorten(source: str) -> str:
    return source if len(source) <= 40 else f"{source[:39]}…"


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def render(condition: Condition) -> str:
    """Write a condition so that `parse_filter` reads the same one.

    >>> render(And((Not(Exists("my key")), Comparison("year", "<", 2000.5))))
    'not `my key` exists and year < 2000.5'
    """
    match condition:
        case And(parts):
            return " and ".join(map(_render_part, parts))
        case Or(parts):
            return " or ".join(map(_render_part, parts))
        case Not(part):
            return f"not {_render_part(part)}"
        case Comparison(key, sign, value):
            return f"{_render_key(key)} {sign} {_render_value(value)}"
        case Membership(key, values):
            return f"{_render_key(key)} in ({', '.join(map(_render_value, values))})"
        case Contains(key, text):
            return f"{_render_key(key)} contains {_render_value(text)}"
        case Exists(key):
            return f"{_render_key(key)} exists"


def _render_part(part: Condition) -> str:
    return f"({render(part)})" if isinstance(part, And | Or) else render(part)


def _render_key(key: str) -> str:
    is_bare = _BARE_KEY.fullmatch(key) and key.lower() not in _RESERVED
    return key if is_bare else _quote(key, "`")


def _render_value(value: Scalar) -> str:
    if isinstance(value, str):
        return _quote(value, '"')
    if isinstance(value, bool):
        return str(value).lower()
    number = fit_integer(value) if isinstance(value, int) else value
    return repr(number).replace("inf", "1e999")


def _quote(text: str, mark: str) -> str:
    return mark + text.replace("\\", r"\\").replace(mark, f"\\{mark}") + mark


def fit_integer(value: int) -> float:
    """Keep an integer of 64 bits; take any other as the nearest fraction, or as infinite."""
    if -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def join_conditions(conditions: Sequence[str]) -> str:
    """Join conditions that must all hold; each is checked alone, so that errors point into it.

    >>> join_conditions(["year > 2000", "", "lang == 'en' or lang == 'de'"])
    "(year > 2000) and (lang == 'en' or lang == 'de')"
    """
    given = [each for each in conditions if each.strip()]
    for each in given:
        parse_filter(each)
    return " and ".join(f"({each})" for each in given)
