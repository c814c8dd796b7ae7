"""Comma- and tab-separated tables."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def test_rows_become_documents(read_bytes):
    reading = read_bytes("a.csv", b'id,title,text,year\n1,One,"a, b",2020\n2,Two,"c\nd",x\n')
    first, second = reading.documents
    assert (first.docid, first.fields) == ("1", {"title": ("One",), "text": ("a, b",)})
    assert first.metadata == {"year": 2020}
    assert second.fields == {"title": ("Two",), "text": ("c\nd",), "year": ("x",)}
    assert [str(located.place) for located in reading.located] == ["a.csv:2", "a.csv:3"]


def test_tabs_and_gzip(read_bytes):
    data = b"docid\ttext\nx\ta,b\n"
    assert read_bytes("a.tsv", data).document.fields == {"text": ("a,b",)}
    assert read_bytes("a.tsv.gz", gzip.compress(data)).document.docid == "x"
    assert read_bytes("a.csv.gz", gzip.compress(b"id,text\n1,t")).document.docid == "1"


def test_numbers_become_metadata_but_not_docids_titles_or_texts(read_bytes):
    data = b"id,title,text,n,f,b,code,none\n007,1984,42,-3,1.5,true,007,\n"
    document = read_bytes("a.csv", data).document
    assert document.docid == "007"
    assert document.fields == {"title": ("1984",), "text": ("42",), "code": ("007",)}
    assert document.metadata == {"n": -3, "f": 1.5, "b": True}


def test_metadata_columns(read_bytes):
    data = b"id,text,lang\n1,t,en\n"
    assert read_bytes("a.csv", data, metadata_keys=("lang",)).document.metadata == {"lang": "en"}


def test_line_as_docid(read_bytes):
    data = b'text\n"a\nb"\nc\n'
    assert read_bytes("a.csv", data, id_key="#line").docids == ["a.csv:2", "a.csv:4"]


def test_rows_of_a_table_without_docids_are_named_by_their_lines(read_bytes):
    reading = read_bytes("a.csv", b'dish,minutes,notes\nLasagne,90,"rest\nit"\nFocaccia,200,rise\n')
    assert reading.docids == ["a.csv:2", "a.csv:4"]
    first = reading.documents[0]
    assert (first.fields, first.metadata["minutes"]) == (
        {"title": ("Lasagne",), "notes": ("rest\nit",)},
        90,
    )


def test_titles_and_texts_of_a_table_without_docids_keep_their_columns(read_bytes):
    named = read_bytes("a.csv", b"year,name\n1999,Ada\n").document
    assert named.fields == {"name": ("Ada",)}
    text = read_bytes("b.csv", b"text\nonly this\n").document
    assert text.fields == {"text": ("only this",)}


@pytest.mark.parametrize("separator", [b";", b"\t"])
def test_tables_of_spreadsheets_are_parted_as_their_header_is(read_bytes, separator):
    data = b"\nid;text;price\n1;one, two;3\n2;three;4\n".replace(b";", separator)
    reading = read_bytes("a.csv", data)
    assert reading.docids == ["1", "2"]
    first = reading.documents[0]
    assert (first.fields["text"], first.metadata["price"]) == (("one, two",), 3)


def test_semicolons_beside_commas_part_nothing(read_bytes):
    assert read_bytes("a.csv", b"id,text;note\n1,a;b\n").document.fields == {"text;note": ("a;b",)}


def test_a_column_that_was_asked_for_is_not_replaced_by_lines(read_bytes):
    assert "docid" in read_bytes("a.csv", b"name,text\n1,a\n", id_key="key").problem


def test_unnamed_column_is_called_after_its_position(read_bytes):
    assert read_bytes("a.csv", b",id,text\n0,x,t\n").document.metadata == {"column_1": 0}


def test_wrong_number_of_columns(read_bytes):
    data = b'id,text\n1,"a\nb"\n2\n\n3,"x\ny",z\n4,d\n'
    reading = read_bytes("a.csv", data)
    assert reading.docids == ["1", "4"]
    assert reading.places == ["a.csv:4", "a.csv:6"]
    assert reading.problems[1].message == "row with 3 columns, but the header has 2"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no header"),
        (b"\n\n", "no header"),
        (b"id,text,text\n1,a,b\n", 'column "text" appears twice'),
        (b"id,text\n", "contains no documents"),
    ],
)
def test_bad_header_is_a_problem_of_the_file(read_bytes, data, why):
    problem = read_bytes("a.csv", data).problem
    assert problem.startswith("a.csv: ") and why in problem


def test_unreadable_header(read_bytes):
    reading = read_bytes("a.csv", b"id,\xff\n1,a\n")
    assert reading.places == ["a.csv:1", "a.csv"]
    assert reading.located == []


@pytest.mark.parametrize("row", [b"2,", b"2,   ", b",text", b"3,\xff"])
def test_bad_row_is_skipped_alone(read_bytes, row):
    reading = read_bytes("a.csv", b"id,text\n1,a\n" + row + b"\n4,d\n")
    assert reading.docids == ["1", "4"]
    assert reading.places == ["a.csv:3"]


def test_bad_byte_inside_a_quoted_cell_spoils_its_row_only(read_bytes):
    reading = read_bytes("a.csv", b'id,text\n1,"a\n\xff\nb"\n2,c\n')
    assert reading.docids == ["2"]
    assert reading.places == ["a.csv:3"]


def test_malformed_quotes(read_bytes):
    reading = read_bytes("a.csv", b'id,text\n1,"a"b\n2,c\n3,"never\nclosed\n')
    assert reading.docids == ["2"]
    assert reading.places == ["a.csv:2", "a.csv:4"]
    assert "lines 4 to 5 were skipped" in reading.problems[1].message


def test_row_and_line_too_long(read_bytes):
    row = b'2,"' + b"x" * 15 + b"\n" + b"y" * 15 + b'"\n'
    data = b"id,text\n1,a\n" + row + b"3," + b"z" * 40 + b"\n4,d\n"
    reading = read_bytes("a.csv", data, max_line_bytes=25)
    assert reading.docids == ["1", "4"]
    assert reading.places == ["a.csv:3", "a.csv:5"]


def test_cells_beyond_the_limit_of_the_csv_module(read_bytes):
    before = csv.field_size_limit()
    document = read_bytes("a.csv", b"id,text\n1," + b"x" * (before + 10)).document
    assert len(document.fields["text"][0]) == before + 10
    assert csv.field_size_limit() == before


def test_truncated_archive(read_bytes):
    rows = b"".join(b"%d,word %d\n" % (i, i * i) for i in range(5000))
    packed = gzip.compress(b"id,text\n" + rows)
    reading = read_bytes("a.csv.gz", packed[: len(packed) // 2])
    assert len(reading.located) > 1000
    assert reading.places == [f"a.csv.gz:{len(reading.located) + 2}"]


def test_byte_order_marks_and_nul(read_bytes):
    for encoding in ("utf-8-sig", "utf-16"):
        document = read_bytes("a.tsv", "id\ttext\n1\té\0\n".encode(encoding)).document
        assert document.fields == {"text": ("é\0",)}


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=st.lists(st.tuples(cells, cells), max_size=6))
def test_round_trip(read_bytes, rows):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["id", "text"])
    writer.writerows(rows)
    reading = read_bytes("a.csv", stream.getvalue().encode())
    good = [(docid, text) for docid, text in rows if docid.strip() and text.strip()]
    found = [(document.docid, document.fields["text"][0]) for document in reading.documents]
    assert found == good
    assert len(reading.problems) == max(len(rows), 1) - len(good)
