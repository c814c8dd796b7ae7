"""The store: what goes in comes out, every change has a number, and a write is all or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quoth.collection.content import find_problem
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store, Written
from quoth.collection.store_reader import StoredDocument
from quoth.errors import CollectionError, CorpusError
from quoth.records import Document, Passage, Scalar
from quoth.text.passages import PassageConfig, cut_document

CUT = partial(cut_document, config=PassageConfig(max_words=5))


def _document(docid: str, text: str = "owl", **metadata: Scalar | tuple[Scalar, ...]) -> Document:
    return Document(docid, {"text": (text,)}, metadata)


def _docids(stored: Iterator[StoredDocument]) -> list[str]:
    return [each.document.docid for each in stored]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path)) as opened:
        yield opened


# --- Adding, updating, removing -------------------------------------------------------------------


def test_a_batch_says_what_it_added_updated_and_left_alone(store: Store) -> None:
    assert store.add([_document("a"), _document("b")], cut=CUT) == Written(2, 0, 0)
    batch = [_document("a"), _document("b", "barn"), _document("c")]
    assert store.add(batch, cut=CUT) == Written(added=1, updated=1, unchanged=1)
    assert store.get("b") == _document("b", "barn") and store.num_documents == 3
    assert store.add([], cut=CUT) == Written(0, 0, 0)


def test_metadata_alone_make_an_update(store: Store) -> None:
    store.add([_document("a", year=1999)], cut=CUT)
    assert store.add([_document("a", year=2000)], cut=CUT) == Written(updated=1)
    assert store.add([_document("a", year=True)], cut=CUT) == Written(updated=1)


def test_a_document_twice_in_one_batch_counts_as_added_and_updated(store: Store) -> None:
    batch = [_document("a", "one"), _document("a", "two"), _document("a", "two")]
    assert store.add(batch, cut=CUT) == Written(1, 1, 1)
    assert store.get("a") == _document("a", "two") and store.num_documents == 1


def test_removing_says_what_was_not_there(store: Store) -> None:
    store.add([_document("a"), _document("b")], cut=CUT)
    assert store.remove(["a", "x", "a"]) == ("x", "a")
    assert store.all_docids() == ("b",) and store.get("a") is None and store.num_documents == 1
    assert store.add([_document("a")], cut=CUT) == Written(added=1)
    assert store.all_docids() == ("b", "a")


def test_every_change_has_the_next_number_and_nothing_else_has_one(store: Store) -> None:
    assert store.change == 0
    store.add([_document("a"), _document("b")], cut=CUT)
    assert store.change == 2
    store.add([_document("a"), _document("b", "barn")], cut=CUT)
    assert store.change == 2 + 1
    store.remove(["a", "x"])
    assert store.change == 3 + 1
    store.put_identifiers({"b": ["barn owl"]}, origin="model")
    assert store.change == 4 + 1
    store.set_setting("anything", 1)
    store.forget(upto=5)
    assert store.change == 5


def test_rows_are_never_used_again(store: Store) -> None:
    seen: set[int] = set()
    for number in range(4):
        store.add([_document("a", str(number)), _document("b", str(number))], cut=CUT)
        rows = {each.row for each in store.live_documents()}
        assert len(rows) == 2 and not rows & seen and (not seen or min(rows) > max(seen))
        seen |= rows
        store.remove(["a", "b"])
        store.forget(upto=store.change)
    assert len(seen) == 2 * 4


def test_fields_are_listed_in_order_of_first_appearance(store: Store) -> None:
    store.add([Document("a", {"title": ("x",), "text": ("y",)})], cut=CUT)
    store.add([Document("b", {"anchor": ("x",), "title": ("y",)})], cut=CUT)
    store.remove(["a"])
    assert store.fields() == ("title", "text", "anchor")


def test_a_document_that_cannot_be_stored_undoes_its_whole_batch(store: Store) -> None:
    store.add([_document("a")], cut=CUT)
    batch = [_document("b"), _document("a", "changed"), _document("c", " "), _document("", "owl")]
    with pytest.raises(CorpusError, match="empty docid"):
        store.add(batch, cut=CUT)
    assert store.change == 1 and store.all_docids() == ("a",) and store.get("a") == _document("a")


def test_a_transaction_that_fails_midway_leaves_nothing(store: Store) -> None:
    calls = count()

    def cut_until_it_breaks(document: Document) -> tuple[Passage, ...]:
        if next(calls) == 2:
            raise ZeroDivisionError
        return CUT(document)

    batch = [Document(f"d{n}", {f"field {n}": ("owl",)}, {"year": n}) for n in range(4)]
    with pytest.raises(ZeroDivisionError):
        store.add(batch, cut=cut_until_it_breaks)
    assert (store.change, store.num_documents, store.num_passages) == (0, 0, 0)
    assert store.fields() == () and store.allowed_rows(parse_filter("year exists")) == set()
    assert store.add(batch, cut=CUT) == Written(added=4)


def test_a_removal_that_fails_midway_leaves_everything(store: Store) -> None:
    store.add([_document("a"), _document("b")], cut=CUT)

    def break_after_one() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.remove(break_after_one())
    assert store.all_docids() == ("a", "b") and store.change == 2


# --- The log --------------------------------------------------------------------------------------


def _digests(folder: Path, steps: list[list[Document] | str]) -> list[str]:
    with closing(Store.create(folder)) as store:
        for step in steps:
            if isinstance(step, str):
                store.remove([step])
            else:
                store.add(step, cut=CUT)
        return [store.log_digest(change) for change in range(1, store.change + 1)]


def test_equal_histories_have_equal_digests_however_they_were_batched(tmp_path: Path) -> None:
    a, b, c = _document("a"), _document("b"), _document("c")
    apart = _digests(tmp_path / "apart", [[a], [b], "a", [c]])
    together = _digests(tmp_path / "together", [[a, b, a], "a", "none", [c]])
    assert apart == together and len(set(apart)) == 4


@pytest.mark.parametrize(
    "steps",
    [
        [[_document("b"), _document("a")], "a"],
        [[_document("a"), _document("b", "barn")], "a"],
        [[_document("a"), _document("b", year=1)], "a"],
        [[_document("a"), _document("b")], "b"],
        [[_document("a"), _document("b"), _document("a", "other")]],
        [[_document("a"), _document("ab")], "a"],
    ],
    ids=["order", "text", "metadata", "removed", "updated", "docid"],
)
def test_another_history_ends_in_another_digest(
    tmp_path: Path, steps: list[list[Document] | str]
) -> None:
    one = _digests(tmp_path / "one", [[_document("a"), _document("b")], "a"])
    assert one[-1] != _digests(tmp_path / "other", steps)[-1]


def test_once_apart_histories_never_meet_again(tmp_path: Path) -> None:
    left = _digests(tmp_path / "left", [[_document("a", "x")], "a", [_document("b")]])
    right = _digests(tmp_path / "right", [[_document("a", "y")], "a", [_document("b")]])
    assert all(one != other for one, other in zip(left, right, strict=True))


def test_a_change_that_never_was_has_no_digest(store: Store) -> None:
    assert store.log_digest(0) == store.log_digest(7) == ""


# --- Between two changes --------------------------------------------------------------------------


def test_what_an_index_lacks_is_the_net_effect_of_the_changes(store: Store) -> None:
    store.add([_document("kept"), _document("changed"), _document("gone")], cut=CUT)  # 1 2 3
    store.add([_document("changed", "barn"), _document("passing"), _document("new")], cut=CUT)
    store.remove(["gone", "passing"])  # changes 7 and 8
    assert store.change == 8
    added = list(store.added_between(3, 8))
    assert [each.document for each in added] == [_document("changed", "barn"), _document("new")]
    removed = list(store.removed_between(3, 8))
    assert [each.document for each in removed] == [_document("changed"), _document("gone")]
    assert store.count_between(3, 8) == len(added)
    assert _docids(store.added_between(0, 3)) == ["kept", "changed", "gone"]
    assert _docids(store.added_between(3, 6)) == ["changed", "passing", "new"]
    assert _docids(store.removed_between(6, 8)) == ["gone", "passing"]
    assert not list(store.added_between(8, 8)) and not list(store.removed_between(8, 8))


steps = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("abc"), st.integers(0, 2)),
    max_size=14,
)


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps, cuts=st.lists(st.integers(0, 14), min_size=2, max_size=4))
def test_a_mirror_that_follows_the_log_is_the_store_at_every_change(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]], cuts: list[int]
) -> None:
    with closing(Store.create(tmp_path_factory.mktemp("store"))) as store:
        states: list[set[str]] = [set()]
        for kind, docid, number in steps:
            before = store.change
            if kind == "add":
                store.add([_document(docid, str(number))], cut=CUT)
            else:
                store.remove([docid])
            states += [set(store.all_docids())] * (store.change - before)
        mirror: dict[int, Document] = {}
        stops = [0, *sorted(min(cut, store.change) for cut in cuts), store.change]
        for after, upto in pairwise(stops):
            for stored in store.removed_between(after, upto):
                assert mirror.pop(stored.row) == stored.document
            mirror |= {each.row: each.document for each in store.added_between(after, upto)}
            assert {each.docid for each in mirror.values()} == states[upto]
        assert mirror == {each.row: each.document for each in store.live_documents()}


def test_forgetting_drops_what_was_retired_and_remembers_how_far(store: Store) -> None:
    store.add([_document("a", "one two three four five six", year=1), _document("b")], cut=CUT)
    store.add([_document("a", "new")], cut=CUT)
    store.put_identifiers({"b": ["name"]}, origin="model")
    store.remove(["b"])
    assert store.change == 5 and store.forgotten == 0
    assert store.forget(upto=3) == 1
    assert store.forgotten == 3 and _docids(store.removed_between(3, 5)) == ["b"]
    assert store.forget(upto=5) == 1 and store.forgotten == 5
    assert store.forget(upto=5) == 0
    with closing(sqlite3.connect(store.path)) as connection:
        for table, column in (("passages", "document"), ("filter_values", "row")):
            left = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            assert left == [(each.row,) for each in store.live_documents()]
        assert connection.execute("SELECT count(*) FROM identifiers").fetchone() == (0,)
    assert store.get("a") == _document("a", "new")


def test_nothing_forgotten_leaves_the_mark_where_it_was(store: Store) -> None:
    store.add([_document("a")], cut=CUT)
    assert store.forget(upto=1) == 0 and store.forgotten == 0


def test_retired_rows_can_be_read_until_they_are_forgotten(store: Store) -> None:
    store.add([_document("a", "old")], cut=CUT)
    store.add([_document("a", "new")], cut=CUT)
    store.add([_document("b")], cut=CUT)
    store.remove(["b"])
    assert store.docids([1, 2, 3, 99]) == {1: "a", 2: "a", 3: "b"}
    assert store.documents([1, 2])[1] == _document("a", "old")
    assert store.rows(["a", "b", "x"]) == {"a": 2, "b": 3}
    store.forget(upto=store.change)
    assert store.docids([1, 2, 3]) == {2: "a"} and store.rows(["a", "b"]) == {"a": 2}


# --- Round trips ----------------------------------------------------------------------------------

texts = st.text(max_size=8) | st.sampled_from(
    ["nul\0inside", "🦉 emoji", "線路", "\ufeffbom", "\n"]
)
scalars: st.SearchStrategy[Scalar] = st.one_of(
    texts, st.booleans(), st.integers(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False)
)
documents = st.builds(
    Document,
    st.text(min_size=1, max_size=6),
    st.dictionaries(texts, st.lists(texts, max_size=3).map(tuple), max_size=3),
    st.dictionaries(texts, scalars | st.lists(scalars, max_size=3).map(tuple), max_size=3),
)


def _exactly(document: Document) -> str:
    """Tell 1 from True and from 1.0, which are equal to Python."""
    return repr((document.docid, dict(document.fields), dict(document.metadata)))


@settings(deadline=None, max_examples=60)
@given(document=documents)
@example(Document("d", {"text": ("a\0b", "", "🦉")}, {"n": (10**400, -(2**63), True, 1, 1.0, "")}))
@example(Document("🦉/é", {"\0": ("x",)}, {"": (), "k": -0.0, "e": 5e-324}))
def test_any_document_that_is_accepted_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, document: Document
) -> None:
    with closing(Store.create(tmp_path_factory.mktemp("store"))) as store:
        if problem := find_problem(document):
            with pytest.raises(CorpusError) as caught:
                store.add([document], cut=CUT)
            assert problem in str(caught.value) and store.change == 0
            return
        store.add([document], cut=CUT)
        assert _exactly(store.get(document.docid) or _document("?")) == _exactly(document)
        assert store.add([document], cut=CUT) == Written(unchanged=1)
        assert list(store.find_damage(cut=CUT)) == []
        ((row, read),) = [(each.row, each.document) for each in store.live_documents()]
        assert read == document and store.passages(read, row) == CUT(document)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (_document(""), "empty docid"),
        (_document("x" * 4097), "over 4096 characters"),
        (_document("a\0b"), "NUL"),
        (_document("d", ""), "no text"),
        (Document("d", {}), "no text"),
        (Document("d", {"": ("x",)}), r"'' or '\*'"),
        (Document("d", {"*": ("x",)}), r"'' or '\*'"),
        (_document("d", "\ud800"), "Unicode"),
        (_document("\ud800"), "Unicode"),
        (_document("d", key="\udfff"), "Unicode"),
        (_document("d", key=float("nan")), "finite"),
        (_document("d", key=(1, float("inf"))), "finite"),
        (_document("d", key=((1, 2),)), "metadata"),  # type: ignore[arg-type]
        (_document("d", key={"a": 1}), "metadata"),  # type: ignore[arg-type]
        (_document("d", key=None), "metadata"),  # type: ignore[arg-type]
        (_document("d", key=10**5000), "too long"),
        (Document("d", {"text": "owl"}), "tuple of texts"),  # type: ignore[dict-item]
        (Document("d", {"text": ["owl"]}), "tuple of texts"),  # type: ignore[dict-item]
        (Document("d", {"text": (1,)}), "tuple of texts"),  # type: ignore[dict-item]
        (Document("d", {"text": ("x",)}, {1: 2}), "not a text"),  # type: ignore[dict-item]
    ],
    ids=range(20),
)
def test_a_document_that_cannot_be_kept_is_refused_with_the_reason(
    store: Store, document: Document, problem: str
) -> None:
    with pytest.raises(CorpusError, match=problem):
        store.add([document], cut=CUT)
    assert store.change == 0


def test_repeated_fields_stay_apart_and_in_order(store: Store) -> None:
    document = Document("d", {"tag": ("b", "a", "b"), "text": ("x",), "empty": ()})
    store.add([document], cut=CUT)
    read = store.get("d")
    assert read == document and read is not None and list(read.fields) == ["tag", "text", "empty"]


def test_passages_are_literal_stretches_as_cut(store: Store) -> None:
    long = "One two three four. Five six seven eight nine ten. 線路線路線路線路"
    document = Document("d", {"title": ("Owls",), "text": ("short", long), "none": ("",)})
    store.add([_document("other", long), document], cut=CUT)
    row = store.rows(["d"])["d"]
    passages = store.passages(document, row)
    assert passages == cut_document(document, PassageConfig(max_words=5)) and len(passages) > 4
    for each in passages:
        field = document.fields[each.field][each.instance]
        assert each.text == field[each.span.start : each.span.end]
    assert store.num_passages == len(passages) + len(CUT(_document("other", long)))
    store.remove(["other"])
    assert store.num_passages == len(passages)


def test_passages_can_be_cut_anew(store: Store) -> None:
    store.add([_document("a", "one two three four five six")], cut=CUT)
    whole = partial(cut_document, config=PassageConfig())
    store.recut(cut=whole, config={"passages": {"max_words": 2}})
    assert [each.text for each in store.passages(_document("a", "one two three four five six"), 1)]
    assert store.num_passages == 1 and list(store.find_damage(cut=whole)) == []


def test_identifiers_are_kept_in_order_by_origin_and_die_with_their_document(store: Store) -> None:
    store.add([_document("a"), _document("b")], cut=CUT)
    assert store.put_identifiers({"a": ["z", "a"], "x": ["q"]}, origin="one") == ("x",)
    store.put_identifiers({"a": ["other"]}, origin="two")
    assert store.identifiers("a") == ("z", "a", "other") and store.identifiers("b") == ()
    store.put_identifiers({"a": ["new"]}, origin="one")
    assert store.identifiers("a") == ("other", "new") and store.identifiers("x") == ()
    store.add([_document("a", "changed")], cut=CUT)
    assert store.identifiers("a") == ()


@pytest.mark.parametrize("value", [None, 0, "text", [1, {"a": None}], {"東京": 1.5}])
def test_settings_read_back_and_can_be_replaced(store: Store, value: object) -> None:
    assert store.setting("name") is None
    store.set_setting("name", "before")
    store.set_setting("name", value)
    assert store.setting("name") == value


def test_filters_allow_the_rows_of_live_documents_that_meet_them(store: Store) -> None:
    store.add([_document(f"d{n}", year=2000 + n, tags=("x", n)) for n in range(4)], cut=CUT)
    store.add([_document("d0", year=2009)], cut=CUT)
    store.remove(["d3"])
    rows = store.rows(["d0", "d1", "d2"])

    def allowed(text: str) -> set[str]:
        found = store.allowed_rows(parse_filter(text))
        return {docid for docid, row in rows.items() if row in found} if found else set()

    assert allowed("year >= 2002") == {"d0", "d2"}
    assert allowed("tags == 'x' and not tags == 2") == {"d1"}
    assert allowed("not tags exists") == {"d0"}
    assert allowed("text == 'owl'") == {"d0", "d1", "d2"}
    assert allowed("year == 2003") == set()
    assert store.allowed_rows(parse_filter("text exists")) == set(rows.values())


# --- Readers --------------------------------------------------------------------------------------


def test_a_reader_inside_a_snapshot_sees_one_state_and_the_next_one_afterwards(
    store: Store,
) -> None:
    store.add([_document("a")], cut=CUT)
    with closing(Store.open(store.path.parent)) as reader:
        with reader.snapshot():
            assert reader.all_docids() == ("a",)
            store.add([_document("a", "changed"), _document("b")], cut=CUT)
            store.forget(upto=store.change)
            with reader.snapshot():  # an inner one changes nothing
                assert reader.all_docids() == ("a",) and reader.change == 1
            assert reader.get("a") == _document("a")
        assert reader.all_docids() == ("a", "b") and reader.change == 3
        assert reader.get("a") == _document("a", "changed")


def test_rows_that_were_looked_up_follow_every_change(store: Store, tmp_path: Path) -> None:
    store.add([_document("a"), _document("b")], cut=CUT)
    with closing(Store.open(tmp_path)) as reader:
        assert reader.rows(["a", "b", "x"]) == {"a": 1, "b": 2}
        store.add([_document("a", "barn")], cut=CUT)
        assert reader.rows(["b", "a"]) == {"a": 3, "b": 2}
        store.remove(["b"])
        assert reader.rows(["a", "b"]) == {"a": 3, "b": 2}  # its last row, while that is kept
        store.forget(upto=store.change)
        assert reader.rows(["a", "b"]) == {"a": 3}
        store.add([_document("b", "back")], cut=CUT)
        assert reader.rows(["a", "b"]) == {"a": 3, "b": 4}


def test_rows_looked_up_in_a_batch_that_failed_are_forgotten(store: Store) -> None:
    with pytest.raises(CorpusError), store._db.transaction():
        store._db.run("INSERT INTO changes VALUES (1, 'add', 'a', x'00', x'01')")
        store._db.run(
            "INSERT INTO documents (row, docid, hash, content, added) VALUES (9, 'a', x'', '', 1)"
        )
        assert store.rows(["a"]) == {"a": 9}
        raise CorpusError("given up")
    assert store.rows(["a"]) == {}
    store.add([_document("a")], cut=CUT)
    assert store.rows(["a"]) == {"a": 1}


def test_a_snapshot_ends_even_when_its_block_fails(store: Store) -> None:
    store.add([_document("a")], cut=CUT)
    with closing(Store.open(store.path.parent)) as reader:
        with pytest.raises(ZeroDivisionError), reader.snapshot():
            _ = reader.change / 0
        store.remove(["a"])
        assert reader.all_docids() == ()


def test_a_reader_cannot_write(store: Store) -> None:
    store.add([_document("a")], cut=CUT)
    with closing(Store.open(store.path.parent)) as reader:
        with pytest.raises(CollectionError):
            reader.remove(["a"])
        assert reader.all_docids() == ("a",)


def test_what_was_acknowledged_is_there_after_reopening(tmp_path: Path) -> None:
    with closing(Store.create(tmp_path)) as store:
        store.add([_document("a", year=1)], cut=CUT)
        digest = store.log_digest(1)
    with closing(Store.create(tmp_path)) as store:
        assert store.get("a") == _document("a", year=1) and store.log_digest(1) == digest
        store.add([_document("b")], cut=CUT)
        assert store.change == 2 and store.log_digest(1) == digest
