"""Filters: the store and Python agree on every condition, and no text breaks the parser."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from filter_reference import matches
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from quoth.collection.database import Database
from quoth.collection.filter_rows import find_rows, gather, to_bits, to_rows
from quoth.collection.filter_syntax import (
    MAX_TESTS,
    And,
    Comparison,
    Condition,
    Contains,
    Exists,
    Membership,
    Not,
    Or,
    parse_filter,
    render,
)
from quoth.collection.filters import filter_entries
from quoth.errors import FilterError
from quoth.records import Document, Scalar

INJECTION = """x' OR 1=1; DROP TABLE documents; --"""
KEYS = ["year", "lang", "my key", "a`b", 'q"', "in", INJECTION]
SCALARS: list[Scalar] = [
    *(
        True,
        False,
        0,
        1,
        1.0,
        -0.0,
        2,
        1.5,
        0.1,
        0.1 + 0.2,
        0.3,
        5e-324,
        1e300,
        math.inf,
        -math.inf,
    ),
    *(2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 2**63, 2**64, 10**400, -(10**400)),
    *("", "1", "true", "en", "EN", "de", "2020-01-31", "a*b?[c]", "^-]", "Straße", "ΟΔΟΣ", "οδος"),
    *("nul\0nul", "lone \ud800", "\uffff", "\ufffd", "𐐀", "x" * 1000, "x" * 1001, INJECTION, "😀"),
]
values = (
    st.sampled_from(SCALARS) | st.text(max_size=3) | st.integers() | st.floats() | st.booleans()
)
keys = st.sampled_from(KEYS)
tests = st.one_of(
    st.builds(Comparison, keys, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), values),
    st.builds(Membership, keys, st.lists(values, max_size=4).map(tuple)),
    st.builds(Exists, keys),
    st.builds(Contains, keys, st.sampled_from([v for v in SCALARS if isinstance(v, str)])),
    st.builds(Contains, keys, st.text(max_size=2)),
)


def grow(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, inner))


conditions = st.recursive(tests, grow, max_leaves=8)
metadata = st.dictionaries(keys, values | st.lists(values, max_size=3).map(tuple), max_size=4)
documents = st.builds(
    lambda data, texts: Document("d", {"year": tuple(texts)}, data),
    metadata,
    st.lists(st.text(max_size=101), max_size=2),
)


def open_store(documents: Sequence[Document], removed: Sequence[int] = ()) -> sqlite3.Connection:
    store = sqlite3.connect(":memory:")
    store.execute(
        "CREATE TABLE filter_values (key TEXT NOT NULL, kind INTEGER NOT NULL, value NOT NULL,"
        " row INTEGER NOT NULL, PRIMARY KEY (key, kind, value, row)) WITHOUT ROWID"
    )
    store.execute("CREATE TABLE documents (row INTEGER PRIMARY KEY, removed INTEGER)")
    for row, document in enumerate(documents):
        store.execute("INSERT INTO documents VALUES (?, ?)", (row, 9 if row in removed else None))
        entries = [(*entry, row) for entry in filter_entries(document)]
        store.executemany("INSERT INTO filter_values VALUES (?, ?, ?, ?)", entries)
    return store


def select(store: sqlite3.Connection, condition: Condition) -> list[int]:
    return sorted(find_rows(condition, Database(store, Path("memory"))))


def values_of(document: Document) -> dict[str, list[Scalar]]:
    found: dict[str, list[Scalar]] = {}
    for key, value in document.metadata.items():
        found.setdefault(key, []).extend(value if isinstance(value, tuple) else (value,))
    for key, instances in document.fields.items():
        found.setdefault(key, []).extend(text for text in instances if len(text) <= 100)
    return found


# --- SQL and Python agree ------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(documents, max_size=5), conditions, st.sets(st.integers(0, 4)))
def test_sql_selects_what_matches(
    documents: list[Document], condition: Condition, removed: set[int]
) -> None:
    store = open_store(documents, sorted(removed))
    expected = [
        row
        for row, document in enumerate(documents)
        if row not in removed and matches(condition, values_of(document))
    ]
    assert select(store, condition) == expected
    store.close()


@pytest.mark.parametrize("sign", ["==", "<", ">="])
@pytest.mark.parametrize("wanted", SCALARS, ids=lambda value: repr(value)[:20])
def test_sql_compares_every_value_as_python_does(sign: str, wanted: Scalar) -> None:
    documents = [Document("d", {}, {"k": value}) for value in SCALARS]
    store = open_store(documents)
    for condition in (parse_filter(f"k {sign} 0"), Membership("k", (wanted,))):
        if isinstance(condition, Comparison):
            condition = Comparison("k", condition.operator, wanted)
        expected = [row for row, v in enumerate(SCALARS) if matches(condition, {"k": (v,)})]
        assert select(store, condition) == expected
    store.close()


def test_long_lists_are_one_parameter_each() -> None:
    listed = (*range(40_000), *map(str, range(40_000)), *(n / 8 for n in range(40_000)), True)
    document = [Document("d", {}, {"k": v}) for v in (39_999, "39999", 39_999 / 8, -1, "x", False)]
    store = open_store(document)
    assert select(store, Membership("k", listed)) == [0, 1, 2]
    store.close()


def test_many_operands_and_deep_nesting_stay_within_the_limits_of_sqlite() -> None:
    store = open_store([Document("d", {}, {"a": 1})])
    wide = Or(tuple(Comparison("a", "==", n) for n in range(1400)))
    deep = parse_filter("not(a=2 or " * 25 + "a=1" + ")" * 25)
    widest = parse_filter("(b=1 or(a=1 and " * 25 + "a=1" + "))" * 25)
    assert select(store, wide) == [0]
    assert select(store, deep) == ([0] if matches(deep, {"a": [1]}) else [])
    assert select(store, widest) == [0]
    store.close()


@pytest.mark.parametrize("step", [1, 9, 2_000])
def test_rows_come_back_from_bits_however_many_they_are(step: int) -> None:
    rows = list(range(3, 20_000, step))
    flags = bytearray(20_000)
    for row in rows:
        flags[row] = 1
    assert gather(rows) == to_bits(flags)
    assert to_rows(gather(rows)) == set(rows)
    assert (gather([]), to_rows(0)) == (0, set())


def test_values_of_thousands_of_rows_are_combined_like_those_of_a_few() -> None:
    documents = [
        Document(f"d{n}", {"title": (f"Straße {n}",)}, {"n": n, "even": n % 2 == 0, "rest": n % 3})
        for n in range(4_000)
    ]
    store = open_store(documents, [10, 11])
    for text in (
        "even == true and not rest in (0, 1)",
        "n > 100 and n <= 3500 or n == 7 or even == false and n >= 3990",
        "n < 5 or n >= 1500 and n < 1502 or n > 3998",
        "rest != 1 and (title contains 'SE 1' or title contains 'straße 39')",
        "rest in (0, 2, 17) and rest in (2, 0, 'x') and even exists",
        "not n exists or not even == true",
    ):
        condition = parse_filter(text)
        expected = [
            row
            for row, document in enumerate(documents)
            if row not in (10, 11) and matches(condition, values_of(document))
        ]
        assert select(store, condition) == expected, text
    store.close()


def test_tests_on_one_key_share_what_they_read() -> None:
    store = open_store([Document("d", {}, {"n": n, "text": f"number {n}"}) for n in range(3_000)])
    database, read = Database(store, Path("memory")), 0

    def count(sql: str) -> None:
        nonlocal read
        read += sql.count("filter_values")

    store.set_trace_callback(count)
    for text, most in (
        (" and ".join(f"n >= {n}" for n in range(100)), 2 * 201),
        (" or ".join(f"n in (5, 'x{n}')" for n in range(100)), 102),
        (" or ".join(f"text contains 'r {n}'" for n in range(100)), 1),
        (" or ".join(["text exists", "not text exists"] * 50), 2),
    ):
        read = 0
        find_rows(parse_filter(text), database)
        assert read <= most, text[:30]
    store.close()


def test_injected_sql_is_only_text() -> None:
    store = open_store([Document("d", {}, {INJECTION: INJECTION}), Document("e", {})])
    for condition in (Comparison(INJECTION, "==", INJECTION), Contains(INJECTION, INJECTION)):
        assert select(store, condition) == [0]
    assert select(store, Not(Membership("k", (INJECTION,)))) == [0, 1]
    store.close()


def test_conjunction_and_disjunction_of_nothing() -> None:
    store = open_store([Document("d", {})])
    assert (select(store, And(())), select(store, Or(()))) == ([0], [])
    assert (matches(And(()), {}), matches(Or(()), {})) == (True, False)
    store.close()


# --- meaning -------------------------------------------------------------------------------------

RAVEN: dict[str, list[Scalar]] = {
    "year": [1845, 1849],
    "lang": ["en"],
    "rating": [4.5],
    "read": [True],
    "date": ["1845-01-29"],
    "title": ["The Räven"],
}


@pytest.mark.parametrize(
    "text",
    [
        *("year == 1845", "year = 1849", "year > 1848", "year < 1846", "year == 1845.0"),
        *(
            "lang in ('de', 'en')",
            "lang not in ('de',)",
            "lang != 'de'",
            "pages != 3",
            "rating >= 4",
        ),
        *("read == true", "read = TRUE", "READ exists or read exists", "not pages exists"),
        *("date >= '1845-01-01' and date < '1846'", "title contains 'rÄV'", "title contains ''"),
        *("`lang` == 'en'", "year not in ()", "year<1846 and year>1848", "read > false"),
        "pages exists or lang == 'en' and not (year > 1900)",
    ],
)
def test_it_holds(text: str) -> None:
    assert matches(parse_filter(text), RAVEN)


@pytest.mark.parametrize(
    "text",
    [
        *("year == '1845'", "year > ''", "lang > 0", "read == 1", "read == 'true'", "year != 1845"),
        *("pages exists", "year in ()", "pages < 3", "not lang == 'en'", "year contains '18'"),
        *("title contains 'x'", "year not in (1849)", "lang == 'EN'", "rating == 4"),
    ],
)
def test_it_does_not_hold(text: str) -> None:
    assert not matches(parse_filter(text), RAVEN)


# --- reading and writing -------------------------------------------------------------------------


@settings(deadline=None)
@given(conditions)
def test_what_is_written_is_read_back(condition: Condition) -> None:
    text = render(condition)
    assume(len(text) <= 10_000 and "nan" not in repr(condition))
    assert render(parse_filter(text)) == text
    assume(not re.search(r"[0-9]{19}", repr(condition)))  # beyond 64 bits, read as fractions
    assert repr(parse_filter(text)) == repr(condition)


FRAGMENTS = st.sampled_from(
    [
        *"()<>=!,`'\"\\ \n\t.-+5eé&",
        "and",
        " or ",
        "not ",
        " in ",
        "exists",
        "true",
        "k",
        "'v'",
        "1e9",
    ]
)


@settings(deadline=None)
@given(st.text(max_size=30) | st.lists(FRAGMENTS, max_size=25).map("".join))
@example("a == " + "9" * 5000)
@example("a == 1e999999")
@example("`")
@example("a == ٣")
@example("a contains \\")
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        condition = parse_filter(text)
    except FilterError:
        return
    assert repr(parse_filter(render(condition))) == repr(condition)


def test_the_tree() -> None:
    assert parse_filter(
        "NOT a.b-c >= -1.5e3 AND (`x y` Not In (1, 'it\\'s', True,) OR z = .5)"
    ) == And(
        (
            Not(Comparison("a.b-c", ">=", -1500.0)),
            Or((Not(Membership("x y", (1, "it's", True))), Comparison("z", "==", 0.5))),
        )
    )


def test_escapes() -> None:
    condition = parse_filter(r"""`a\`b` == "tab\t, line\n, quote\", slash\\, other\q" """)
    assert condition == Comparison("a`b", "==", 'tab\t, line\n, quote", slash\\, otherq')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lang == en",
            "filter, column 9: found en, expected a value (text in quotes, a number, true or"
            ' false); write "en" if it is text\n  lang == en\n          ^',
        ),
        (
            "date >= 2020-01-31",
            "filter, column 9: found 2020-01-31, expected a value (text in quotes, a number, true"
            ' or false); write "2020-01-31" if it is text\n  date >= 2020-01-31\n          ^',
        ),
        ("", "filter, column 1: found the end, expected a key\n  \n  ^"),
        (
            "year",
            "filter, column 5: found the end, expected an operator"
            " (== != < <= > >= in, not in, exists, contains)\n  year\n      ^",
        ),
        (
            "year > 1 lang exists",
            'filter, column 10: found lang, expected "and", "or" or the end\n'
            "  year > 1 lang exists\n           ^",
        ),
        (
            "(year > 1",
            'filter, column 10: found the end, expected "and", "or" or ")"\n'
            "  (year > 1\n           ^",
        ),
        (
            "a ==\n'b",
            "filter, column 6: found 'b, expected a closing '\n  a == 'b\n       ^",
        ),
        (
            "a == 1 && b == 2",
            "filter, column 8: found &, expected a key, an operator, a value or a parenthesis;"
            " write a key with such characters in backticks and text in quotes\n"
            "  a == 1 && b == 2\n         ^",
        ),
        (
            "in == 1",
            "filter, column 1: found in, expected a key; write `in` for a key\n  in == 1\n  ^",
        ),
        ("'a' == 1", "filter, column 1: found 'a', expected a key\n  'a' == 1\n  ^"),
        (
            "a in 1",
            'filter, column 6: found 1, expected "(" and a list of values\n  a in 1\n       ^',
        ),
        ("a in (1 2)", 'filter, column 9: found 2, expected "," or ")"\n  a in (1 2)\n          ^'),
        ("a not 1", 'filter, column 7: found 1, expected "in"\n  a not 1\n        ^'),
        (
            "a contains 5",
            "filter, column 12: found 5, expected text in quotes;"
            ' write "5" if it is text\n  a contains 5\n             ^',
        ),
        (
            "x " * 50 + "y" * 99,
            "filter, column 3: found x, expected an operator"
            " (== != < <= > >= in, not in, exists, contains)\n"
            "  x x x x x x x x x x x \n    ^",
        ),
        (
            "a" * 10_001,
            "the filter has 10,001 characters, expected at most 10,000; shorten it",
        ),
        (
            " or ".join(["a=1"] * (MAX_TESTS + 1)),
            "the filter has 101 tests, expected at most 100; leave some out, or list the values of"
            ' one key, as in: lang in ("en", "de")',
        ),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert str(caught.value) == message


def test_as_many_tests_as_are_allowed_are_read() -> None:
    condition = parse_filter(" and ".join(f"(a{n} = 1)" for n in range(MAX_TESTS)))
    assert isinstance(condition, And) and len(condition.parts) == MAX_TESTS


@pytest.mark.parametrize("text", ["(" * 5000, "not " * 2400, "(" * 51 + "a=1" + ")" * 51])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match="expected at most 50 levels of parentheses and not"):
        parse_filter(text)


# --- what is stored ------------------------------------------------------------------------------


def test_entries_of_a_document() -> None:
    document = Document(
        "d1",
        {"genres": ("Action", "Drama", "Action"), "body": ("x" * 100, "y" * 101)},
        {
            "year": (1999, 1999.0, 1998),
            "hit": True,
            "score": math.nan,
            "genres": "Drama",
            "n": 2**64,
        },
    )
    assert list(filter_entries(document)) == [
        ("body", 2, "x" * 100),
        ("genres", 2, "Action"),
        ("genres", 2, "Drama"),
        ("hit", 0, 1),
        ("n", 1, float(2**64)),
        ("year", 1, 1998),
        ("year", 1, 1999),
    ]


def test_long_metadata_is_filtered_on_by_its_first_1000_characters() -> None:
    document = Document("d1", {}, {"abstract": "raven " + "x" * 2000})
    store = open_store([document])
    assert [len(str(value)) for _, _, value in filter_entries(document)] == [1000]
    assert select(store, Comparison("abstract", "==", "raven " + "x" * 2000)) == [0]
    assert select(store, Contains("abstract", "RAVEN")) == [0]
    store.close()


@settings(deadline=None)
@given(documents)
def test_entries_are_distinct_sorted_and_can_be_stored(document: Document) -> None:
    entries = list(filter_entries(document))
    assert entries == sorted(set(entries))
    open_store([document]).close()
