"""Every document comes back from JSON as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import CorpusError
from quoth.interchange.shapes import from_record, to_beir, to_record
from quoth.records import Document

NAMES = st.sampled_from(
    ["title", "name", "text", "id", "_id", "docid", "metadata", "fields", "a.b", "ä"]
)
TEXTS = st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple)
SCALARS = st.one_of(st.text(max_size=4), st.integers(), st.booleans(), st.floats(allow_nan=False))
DOCUMENTS = st.builds(
    Document,
    st.text(min_size=1, max_size=6),
    st.dictionaries(NAMES, TEXTS, min_size=1, max_size=4),
    st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=3),
)


@given(DOCUMENTS)
@pytest.mark.parametrize("write", [to_record, to_beir])
def test_round_trip(write: object, document: Document) -> None:
    assert callable(write)
    back = from_record(json.loads(json.dumps(write(document))))
    assert back == document
    assert list(back.fields) == list(document.fields)


def test_what_others_write() -> None:
    found = from_record({"_id": "1", "title": "", "text": "Owls.", "year": 2020, "tags": None})
    assert found == Document("1", {"text": ("Owls.",)}, {"year": 2020})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "expected an object"),
        ({"text": "a"}, "no docid: expected one of _id, id, docid"),
        ({"_id": True, "text": "a"}, "_id must be a string or a whole number"),
        ({"_id": "a", "text": {"b": 1}}, "field 'text' must be a string or a list of strings"),
        ({"_id": "a", "text": "b", "metadata": {"c": {}}}, "metadata 'c' must be a string"),
        ({"_id": "a", "fields": 3}, "fields must be an object"),
    ],
)
def test_what_cannot_be_a_document_is_explained(record: object, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        from_record(record)
