"""A document written down is what Python's own JSON says, and reads back as it was."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.collection.content import read_content, write_content
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
