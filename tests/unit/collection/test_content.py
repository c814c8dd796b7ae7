"""A document written down is what Python's own JSON says, and reads back as it was."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.collection import content
from quoth.collection.content import find_problem, read_content, write_content
from quoth.records import Document, Scalar

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    TEXTS, st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(TEXTS, st.lists(TEXTS, max_size=3).map(tuple), max_size=3),
    st.dictionaries(TEXTS, SCALARS, max_size=3),
)
def test_it_is_plain_json_and_reads_back(
    fields: dict[str, tuple[str, ...]], metadata: dict[str, Scalar]
) -> None:
    document = Document("d", fields, metadata)
    written = write_content(document)
    plain = {"fields": fields, "metadata": metadata}
    assert written == json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    assert read_content("d", written) == document


ANYTHING = st.one_of(st.text(max_size=3), st.sampled_from(["", "*", "owl", "\ud800", 3, None]))


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(ANYTHING, st.sampled_from(["d" * 4_096, "d" * 4_097, "a\0"])),
    st.dictionaries(
        ANYTHING,
        st.lists(ANYTHING, max_size=3).flatmap(lambda own: st.sampled_from([own, (*own,)])),
    ),
    st.dictionaries(ANYTHING, st.one_of(ANYTHING, st.just(float("inf"))), max_size=1),
)
def test_problems_are_the_same_where_a_glance_tells(docid: Any, fields: Any, metadata: Any) -> None:
    document = Document(docid, fields, metadata)
    with mock.patch.object(content, "_is_usual", return_value=False):
        expected = find_problem(document)
    assert find_problem(document) == expected
