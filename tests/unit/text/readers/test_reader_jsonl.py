"""JSON Lines and .json files."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LINE = b'{"_id": "a", "title": "One", "text": "First"}'
TIDY = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def record(**values: Any) -> bytes:
    return json.dumps({"_id": "a", "text": "words", **values}).encode()


def test_fields_and_place(read_bytes):
    reading = read_bytes("a.jsonl", b"\n" + LINE + b"\r\n  \n")
    assert reading.document.docid == "a"
    assert reading.document.fields == {"title": ("One",), "text": ("First",)}
    assert reading.document.metadata == {}
    assert str(reading.located[0].place) == "a.jsonl:2"


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "A.JSONL"])
def test_extensions(read_bytes, name):
    assert read_bytes(name, LINE).docids == ["a"]


def test_gzip(read_bytes):
    assert read_bytes("a.jsonl.gz", gzip.compress(LINE + b"\n" + LINE)).docids == ["a", "a"]


def test_kinds_of_values(read_bytes):
    document = read_bytes(
        "a.jsonl",
        record(
            year=2020,
            score=1.5,
            open=True,
            none=None,
            tags=["x", "", "y"],
            years=[1, 2.5, False],
            mixed=["s", 3, {"k": [1]}, None],
            empty=[],
            nulls=[None],
            blank="",
            a={"b": {"c": "deep", "n": 7}, "s": "flat"},
        ),
    ).document
    assert document.fields == {
        "text": ("words",),
        "tags": ("x", "y"),
        "mixed": ("s", "3", '{"k": [1]}'),
        "a.b.c": ("deep",),
        "a.s": ("flat",),
    }
    expected = {"year": 2020, "score": 1.5, "open": True, "years": (1, 2.5, False), "a.b.n": 7}
    assert document.metadata == expected


def test_beir_metadata_is_kept_under_its_own_keys(read_bytes):
    metadata = {"url": "http://x", "pubmed": 3, "tags": ["a", 1], "deep": {"k": "v"}, "no": None}
    document = read_bytes("a.jsonl", record(metadata=metadata)).document
    assert document.fields == {"text": ("words",)}
    assert document.metadata == {"url": "http://x", "pubmed": 3, "tags": ("a", 1), "deep.k": "v"}


def test_metadata_that_is_a_string_is_a_field(read_bytes):
    assert read_bytes("a.jsonl", record(metadata="m")).document.fields["metadata"] == ("m",)


def test_metadata_keys(read_bytes):
    data = record(lang="en", tags=["x", "y"], a={"b": "c"}, title="T")
    document = read_bytes("a.jsonl", data, metadata_keys=("lang", "tags", "a")).document
    assert document.fields == {"text": ("words",), "title": ("T",)}
    assert document.metadata == {"lang": "en", "tags": ("x", "y"), "a.b": "c"}


def test_keys_that_flatten_to_one_must_agree(read_bytes):
    assert "a.b" in read_bytes("a.jsonl", record(**{"a.b": "x", "a": {"b": "y"}})).problem
    assert read_bytes("b.jsonl", record(**{"a.b": "x", "a": {"b": "x"}})).document
    assert "year" in read_bytes("c.jsonl", record(year=1, metadata={"year": 2})).problem


@pytest.mark.parametrize(
    ("keys", "docid"),
    [({"_id": "x", "id": 1}, "x"), ({"id": 7, "docid": "d"}, "7"), ({"docid": "d"}, "d")],
)
def test_usual_id_keys(read_bytes, keys, docid):
    assert read_bytes("a.jsonl", json.dumps({**keys, "text": "t"}).encode()).document.docid == docid


def test_configured_id_key(read_bytes):
    document = read_bytes("a.jsonl", record(key="k"), id_key="key").document
    assert (document.docid, document.fields["_id"]) == ("k", ("a",))


def test_line_as_docid(read_bytes):
    data = b'\n{"text": "t", "#line": "kept"}'
    document = read_bytes("a.jsonl", data, id_key="#line").document
    assert (document.docid, document.fields["#line"]) == ("a.jsonl:2", ("kept",))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"text": "t"}', "no docid"),
        (b'{"_id": null, "text": "t"}', "found null"),
        (b'{"_id": "  ", "text": "t"}', "a blank string"),
        (b'{"_id": true, "text": "t"}', "a boolean"),
        (b'{"_id": 1.5, "text": "t"}', "a number"),
        (b'{"_id": ["a"], "text": "t"}', "a list"),
        (b'{"_id": {"_id": "a", "_id": "b"}, "text": "t"}', "appears twice"),
        (b'{"_id": "a", "n": NaN, "text": "t"}', "NaN"),
        (b'{"_id": "a", "n": [1, -Infinity], "text": "t"}', "-Infinity"),
        (b'{"_id": "a", "n": ["s", [Infinity]], "text": "t"}', "Infinity"),
        (b'{"_id": "a", "n": 1e999, "text": "t"}', "1e999"),
        (b'{"_id": "a", "n": ' + b"9" * 5000 + b', "text": "t"}', "5,000 digits"),
        (b'{"_id": "a", "text": "t", "text": "u"}', 'key "text" appears twice'),
        (b'{"_id": "a", "x": {"k": 1, "k": 2}, "text": "t"}', 'key "k" appears twice'),
        (b'{"_id": "a", "text": "\\ud800"}', "surrogate"),
        (b'{"_id": "\\udfff", "text": "t"}', "surrogate"),
        (b'{"_id": "a", "\\udfff": 1, "text": "t"}', "surrogate"),
        (b'{"_id": "a", "metadata": {"k": ["\\udfff"]}, "text": "t"}', "surrogate"),
        (b'{"_id": "a", "text": " \\n\\t"}', "no text"),
        (b'{"_id": "a", "year": 3}', "no text"),
        (b'["a"]', "expected a JSON object, found a list"),
        (b'"a"', "a string"),
        (b'{"_id": "a", "text": "t"} x', "Extra data"),
        (b'{"_id": "a", "text": "t"', "not valid JSON"),
        (b'{"_id": "a", "text": "\x01"}', "not valid JSON"),
        (b'{"_id": "a", "text": "\xff"}', "not valid utf-8"),
        (b'{"_id": "a", "text": ' + b"[" * 100_000, "too deeply"),
    ],
)
def test_bad_line_is_skipped_alone(read_bytes, line, why):
    reading = read_bytes("a.jsonl", LINE + b"\n" + line + b"\n\n" + LINE)
    assert [str(located.place) for located in reading.located] == ["a.jsonl:1", "a.jsonl:4"]
    assert reading.places == ["a.jsonl:2"]
    assert why in reading.problems[0].message


@pytest.mark.parametrize("depth", [100, 600, 800, 900, 950, 2000, 50_000])
def test_depth_gives_a_document_or_a_problem(read_bytes, depth):
    data = b'{"_id": "a", "k": ' + b'{"k":' * depth + b'"t"' + b"}" * depth + b"}"
    reading = read_bytes("a.jsonl", data + b"\n" + LINE)
    assert len(reading.located) + len(reading.problems) == 2
    assert depth > 100 or reading.documents[0].fields == {".".join(["k"] * 101): ("t",)}


def test_nul_is_kept(read_bytes):
    assert read_bytes("a.jsonl", record(text="a\0b")).document.fields["text"] == ("a\0b",)


def test_byte_order_marks(read_bytes):
    line = '{"_id": "a", "text": "é €"}\n'
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        reading = read_bytes("a.jsonl", (line * 3).encode(encoding))
        assert reading.docids == ["a"] * 3
        assert reading.documents[2].fields["text"] == ("é €",)


def test_configured_encoding(read_bytes):
    line = '{"_id": "a", "text": "é"}\n'
    for encoding in ("latin-1", "utf-16-le", "utf-8-sig"):
        reading = read_bytes("a.jsonl", line.encode(encoding) * 1, encoding=encoding)
        assert reading.document.fields["text"] == ("é",)


def test_broken_utf_16_ends_in_a_problem(read_bytes):
    data = '{"_id": "a", "text": "é"}\n'.encode("utf-16")
    reading = read_bytes("a.jsonl", data + b"\x00\xd8\x00")
    assert reading.places[-1].startswith("a.jsonl:")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.ndjson"])
def test_empty_file_is_a_problem(read_bytes, name):
    assert read_bytes(name, b"").problem.startswith(f"{name}: ")


def test_json_array(read_bytes):
    reading = read_bytes("a.json", b'[\n{"id": 1, "text": "x"},\n\n {"id": 2,\n "text": "y"}]\n')
    assert reading.docids == ["1", "2"]
    assert [str(located.place) for located in reading.located] == ["a.json:2", "a.json:4"]
    assert reading.problems == []


def test_json_object_and_sequence_of_objects(read_bytes):
    assert read_bytes("a.json", b'\xef\xbb\xbf\n{"id": 1, "text": "x"}').document.docid == "1"
    reading = read_bytes("b.json", LINE + b"\n" + LINE + b"\n")
    assert [str(located.place) for located in reading.located] == ["b.json:1", "b.json:2"]


def test_flawed_element_of_an_array_is_skipped_alone(read_bytes):
    data = b'[{"id": 1, "text": "x"},\n{"id": 2, "n": NaN},\n3,\n{"id": 4, "text": "y"}]'
    reading = read_bytes("a.json", data)
    assert reading.docids == ["1", "4"]
    assert reading.places == ["a.json:2", "a.json:3"]


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        (b"", "a.json:1"),
        (b",", "a.json:1"),
        (b"\n}", "a.json:2"),
        (b"]\nx", "a.json:2"),
        (b",\n{]", "a.json:2"),
        (b",\n" + b"[" * 100_000, "a.json:2"),
    ],
)
def test_broken_array_keeps_what_came_before(read_bytes, rest, place):
    reading = read_bytes("a.json", b'[{"id": 1, "text": "x"}' + rest)
    assert reading.docids == ["1"]
    assert reading.places == [place]


def test_array_of_nothing(read_bytes):
    assert "contains no documents" in read_bytes("a.json", b" [ ] ").problem


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
fields = st.dictionaries(
    text.filter(lambda name: "." not in name and name not in ("_id", "metadata")),
    st.lists(text, min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)
scalars = st.one_of(
    text, st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)
metadata = st.dictionaries(
    text.filter(lambda name: "." not in name),
    st.one_of(scalars, st.lists(scalars, min_size=1, max_size=3)),
    max_size=4,
)
documents = st.lists(st.tuples(text.filter(str.strip), fields, metadata), min_size=1, max_size=5)


@TIDY
@given(documents=documents, is_ascii=st.booleans())
def test_round_trip(read_bytes, documents, is_ascii):
    records = [{"_id": docid, **fields, "metadata": about} for docid, fields, about in documents]
    lines = "\n".join(json.dumps(record, ensure_ascii=is_ascii) for record in records)
    reading = read_bytes("a.jsonl", lines.encode())
    expected = [
        (docid, {name: tuple(texts) for name, texts in fields.items()}, as_metadata(about))
        for docid, fields, about in documents
        if any(text.strip() for texts in fields.values() for text in texts)
    ]
    found = [(found.docid, found.fields, found.metadata) for found in reading.documents]
    assert found == expected
    assert len(reading.problems) == len(documents) - len(expected)


def as_metadata(about: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in about.items()}


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@TIDY
@given(values=st.lists(st.dictionaries(text | st.just("_id"), json_values, max_size=4), max_size=6))
def test_every_line_is_a_document_or_a_problem(read_bytes, values):
    data = "\n".join(map(json.dumps, values)).encode()
    reading = read_bytes("a.jsonl", data)
    assert len(reading.located) + len(reading.problems) == max(1, len(values))
