"""Metadata conditions, such as `year >= 2020 and lang in ("en", "de")`, and the rows they allow.

A condition is read by hand-written rules (nothing is evaluated) into a small tree; `matches` says
what the tree means, `to_sql` says the same to the store's tables `filter_values` and `documents`.

    condition  = all-of ("or" all-of)*          all-of = one ("and" one)*
    one        = "not" one | "(" condition ")" | key test
    test       = ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") value | "exists"
               | "contains" text | ["not"] "in" "(" value, … ")"
    key        = bare word, or anything between backticks
    value      = text in ' or ", with backslash escapes | number | true | false

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

import json
import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

from quoth.errors import FilterError
from quoth.records import Document, Scalar

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


Condition = Comparison | Membership | Exists | Contains | And | Or | Not


# --- from text to condition and back -------------------------------------------------------------

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
    return condition


class _Reader:
    """Reads a condition by recursive descent; `token` is the next one, not yet taken."""

    def __init__(self, text: str) -> None:
        self._text = text
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
        return _fit_integer(int(number)) if is_integer else float(number)

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
    number = _fit_integer(value) if isinstance(value, int) else value
    return repr(number).replace("inf", "1e999")


def _quote(text: str, mark: str) -> str:
    return mark + text.replace("\\", r"\\").replace(mark, f"\\{mark}") + mark


# --- what a condition means, in Python and in SQL ------------------------------------------------

_BOOL, _NUMBER, _TEXT = 0, 1, 2
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
        pairs.extend((key, each) for each in instances if len(each) <= _LONGEST_INSTANCE)
    stored = ((_clean(key), _store(value)) for key, value in pairs)
    yield from sorted({(key, *typed): None for key, typed in stored if typed})


def _store(value: Scalar) -> tuple[int, Scalar] | None:
    """Turn a value into its kind and the value kept for it; None if it cannot be kept.

    >>> _store(True), _store(2**64), _store(float("nan"))
    ((0, 1), (1, 1.8446744073709552e+19), None)
    """
    if isinstance(value, bool):
        return _BOOL, int(value)
    if isinstance(value, str):
        return _TEXT, _clean(value)[:_LONGEST_TEXT]
    number = _fit_integer(value) if isinstance(value, int) else value
    return None if math.isnan(number) else (_NUMBER, number)


def _fit_integer(value: int) -> float:
    """Keep an integer of 64 bits; take any other as the nearest fraction, or as infinite."""
    if -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _clean(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


# What each operator is in Python and in SQL; != is written as a negation.
_OPERATORS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "==": (operator.eq, "="),
    "<": (operator.lt, "<"),
    "<=": (operator.le, "<="),
    ">": (operator.gt, ">"),
    ">=": (operator.ge, ">="),
}


def matches(condition: Condition, values: Mapping[str, Sequence[Scalar]]) -> bool:
    """Whether a document with these values by key meets the condition.

    >>> matches(parse_filter("year >= 2020 and not lang exists"), {"year": (1999, 2021)})
    True
    """
    match condition:
        case And(parts):
            return all(matches(part, values) for part in parts)
        case Or(parts):
            return any(matches(part, values) for part in parts)
        case Not(part):
            return not matches(part, values)
        case Comparison(key, "!=", value):
            return not matches(Comparison(key, "==", value), values)
    found = [typed for typed in map(_store, values.get(condition.key, ())) if typed]
    return any(_passes(condition, *typed) for typed in found)


def _passes(test: Comparison | Membership | Exists | Contains, kind: int, value: Scalar) -> bool:
    match test:
        case Comparison(_, sign, wanted):
            typed = _store(wanted)
            return typed is not None and typed[0] == kind and _OPERATORS[sign][0](value, typed[1])
        case Membership(_, wanted_values):
            return (kind, value) in map(_store, wanted_values)
        case Contains(_, text):
            return isinstance(value, str) and _fold(_clean(text)[:_LONGEST_TEXT]) in _fold(value)
        case Exists():
            return True


def _fold(text: str) -> str:
    """Fold the case of each character that stays one character.

    >>> _fold("Straße Σ")
    'straße σ'
    """
    folded = ((character, character.casefold()) for character in text)
    return "".join(new if len(new) == 1 else old for old, new in folded)


def to_sql(condition: Condition) -> tuple[str, tuple[object, ...]]:
    """Write a condition as SQL that selects the rows of live documents, and its parameters.

    One common table per node, each named in a later one: nested selects would overflow SQLite's
    parser at the depth that conditions may have.

    >>> print(to_sql(Exists("year"))[0])
    WITH t0(row) AS (SELECT row FROM filter_values WHERE key = ?)
    SELECT row FROM documents WHERE removed IS NULL AND row IN (SELECT row FROM t0)
    """
    query = _SqlWriter()
    last = query.write(condition)
    tables = ",\n".join(f"t{number}(row) AS ({sql})" for number, sql in enumerate(query.tables))
    select = f"SELECT row FROM documents WHERE removed IS NULL AND row IN (SELECT row FROM {last})"
    return f"WITH {tables}\n{select}", tuple(query.parameters)


_MOST_OPERANDS = 100  # of one compound select; SQLite takes 500


class _SqlWriter:
    """Gathers the common tables of a query and the parameters in the order of their marks."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.parameters: list[object] = []

    def write(self, condition: Condition) -> str:
        """Add the tables of a condition; return the name of the one that holds its rows."""
        match condition:
            case And(parts):
                return self._join("INTERSECT", [self.write(part) for part in parts])
            case Or(parts):
                return self._join("UNION", [self.write(part) for part in parts])
            case Not(part):
                return self._negate(self.write(part))
            case Comparison(key, "!=", value):
                return self._negate(self.write(Comparison(key, "==", value)))
            case Comparison(key, sign, value):
                kind, stored = _store(value) or (_NUMBER, None)  # nothing compares with NULL
                return self._test(
                    key, f"AND kind = {kind} AND value {_OPERATORS[sign][1]} ?", stored
                )
            case Membership(key, values):
                return self._join("UNION", self._write_lists(key, values))
            case Contains(key, text):
                pattern = _glob(_clean(text)[:_LONGEST_TEXT])
                return self._test(key, f"AND kind = {_TEXT} AND value GLOB ?", pattern)
            case Exists(key):
                return self._test(key, "")

    def _write_lists(self, key: str, values: Sequence[Scalar]) -> list[str]:
        """Write one test per list of values; a list is one parameter, however long."""
        lists: dict[tuple[int, float], list[Scalar]] = defaultdict(list)
        for kind, value in filter(None, map(_store, values)):
            scale, listed = (1, value) if isinstance(value, str) else _scale_number(value)
            lists[kind, scale].append(listed)
        tests = []
        for (kind, scale), listed_values in lists.items():
            scaled, factors = ("j.value", ()) if kind == _TEXT else ("j.value * ?", (scale,))
            test = f"AND kind = {kind} AND value IN (SELECT {scaled} FROM json_each(?) AS j)"
            tests.append(self._test(key, test, *factors, json.dumps(listed_values)))
        return tests

    def _test(self, key: str, sql: str, *parameters: object) -> str:
        self.parameters += (_clean(key), *parameters)
        return self._add(f"SELECT row FROM filter_values WHERE key = ? {sql}".rstrip())

    def _negate(self, table: str) -> str:
        every = "SELECT row FROM documents WHERE removed IS NULL"
        return self._add(f"{every} EXCEPT SELECT row FROM {table}")

    def _join(self, word: Literal["INTERSECT", "UNION"], tables: list[str]) -> str:
        if not tables:
            return self._add(f"SELECT row FROM documents WHERE {int(word == 'INTERSECT')}")
        while len(tables) > 1:
            starts = range(0, len(tables), _MOST_OPERANDS)
            groups = [tables[start : start + _MOST_OPERANDS] for start in starts]
            selects = [[f"SELECT row FROM {table}" for table in group] for group in groups]
            tables = [self._add(f" {word} ".join(operands)) for operands in selects]
        return tables[0]

    def _add(self, sql: str) -> str:
        self.tables.append(sql)
        return f"t{len(self.tables) - 1}"


def _scale_number(value: float) -> tuple[float, int]:
    """Write a number as a power of two times an integer, as SQLite may round decimals in JSON.

    >>> _scale_number(0.75), _scale_number(2**53 + 1)
    ((0.25, 3), (1, 9007199254740993))
    """
    if isinstance(value, int):
        return 1, value
    if math.isinf(value):
        return math.inf, 1 if value > 0 else -1
    top, bottom = value.as_integer_ratio()
    shift = max(0, top.bit_length() - 62)  # the bits shifted out are zeros
    return (1 / bottom if bottom > 1 else math.ldexp(1, shift)), top >> shift


def _glob(text: str) -> str:
    """Write a GLOB pattern for texts that contain this one in any case.

    >>> _glob("a*É1")
    '*[aA][*][éÉ]1*'
    """
    variants = (_list_case_variants().get(_fold(character), character) for character in text)
    return f"*{''.join(v if len(v) == 1 and v not in '*?[' else f'[{v}]' for v in variants)}*"


@cache
def _list_case_variants() -> dict[str, str]:
    """List the characters that fold to the same one, by that one, where there are several."""
    every = "".join(map(chr, range(0x20000)))  # no letter beyond has a case
    variants: dict[str, str] = {}
    for character, folded in zip(every, _fold(every), strict=True):
        if character != folded:
            variants[folded] = variants.get(folded, folded) + character
    return variants
