"""Statistics equal a recount after any adds and removes, and a pinned reader keeps its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import Damaged
from quoth.vocabulary import statistics as module
from quoth.vocabulary.statistics import Statistics
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms, view_terms

terms = st.lists(st.sampled_from(["owl", "barn", "night", "東京", "the"]), max_size=5)
documents = st.dictionaries(
    st.sampled_from(["title", "text", "tags"]), st.lists(terms, max_size=2), max_size=3
)
batches = st.lists(
    st.tuples(st.lists(documents, max_size=3), st.lists(st.integers(0, 99), max_size=2)), max_size=5
)


def _recount(live: Iterable[FieldTerms]) -> tuple[int, dict[str, int], list[tuple[str, str, int]]]:
    lengths: Counter[str] = Counter()
    frequencies: Counter[tuple[str, str]] = Counter()
    every = list(live)
    for document in every:
        for view, found in view_terms(document):
            lengths[view] += len(found)
            frequencies.update((view, term) for term in set(found))
    counted = sorted((view, term, df) for (view, term), df in frequencies.items())
    return len(every), {view: total for view, total in lengths.items() if total}, counted


def _write(path: Path, added: Iterable[FieldTerms], *, change: int) -> None:
    with closing(Statistics.open(path, write=True)) as statistics:
        statistics.begin()
        for document in added:
            statistics.count(document)
        statistics.commit(change=change, basis={"log": str(change)})


@settings(deadline=None, max_examples=25)
@given(batches, st.sampled_from([1, 300_000]))
def test_counts_after_any_adds_and_removes_equal_a_recount(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[FieldTerms], list[int]]],
    max_pending: int,
) -> None:
    path = tmp_path_factory.mktemp("statistics") / "statistics.db"
    live: list[FieldTerms] = []
    with (
        pytest.MonkeyPatch.context() as patched,
        closing(Statistics.open(path, write=True)) as statistics,
    ):
        patched.setattr(module, "_MAX_PENDING", max_pending)
        for change, (added, doomed) in enumerate(batches, start=1):
            statistics.begin()
            for document in added:
                statistics.count(document)
                live.append(document)
            for at in doomed:
                if live:
                    statistics.count(live.pop(at % len(live)), sign=-1)
            statistics.commit(change=change, basis={"log": "x"})
            with closing(Statistics.open(path)) as reader:
                total, lengths, frequencies = _recount(live)
                assert reader.summary() == (total, lengths) and reader.change == change
                assert list(reader.all_frequencies()) == frequencies


def test_averages_count_documents_without_the_field_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "statistics.db"
    _write(
        path, [{"title": [["a", "b"]], "text": [["a"], ["c", "a"]]}, {"text": [["a"]]}], change=1
    )
    with closing(Statistics.open(path)) as reader:
        averages = {"title": 2 / 2, "text": (3 + 1) / 2, EVERYTHING: (5 + 1) / 2}
        assert reader.average_lengths() == averages and reader.num_terms == len("abc")
        assert reader.document_frequencies("text", ["a", "b", "c"]) == {"a": 2, "c": 1}
        assert reader.document_frequencies(EVERYTHING, ["a", "b"]) == {"a": 2, "b": 1}
        assert reader.document_frequencies("none", ["a"]) == {}
        assert reader.basis == {"log": "1"}


def test_an_empty_collection_has_no_averages(tmp_path: Path) -> None:
    path = tmp_path / "statistics.db"
    _write(path, [], change=0)
    with closing(Statistics.open(path)) as reader:
        assert (reader.summary(), reader.average_lengths(), reader.num_terms) == ((0, {}), {}, 0)


def test_a_pinned_reader_keeps_its_state_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "statistics.db"
    _write(path, [{"text": [["owl"]]}], change=1)
    with closing(Statistics.open(path)) as pinned, closing(Statistics.open(path)) as loose:
        pinned.pin()
        _write(path, [{"text": [["owl", "barn"]]}], change=2)
        assert pinned.change == 1 and pinned.summary() == (1, {"text": 1, EVERYTHING: 1})
        assert pinned.document_frequencies("text", ["owl", "barn"]) == {"owl": 1}
        assert loose.change == 2 and loose.num_documents == 2
    with closing(Statistics.open(path)) as reader:
        assert reader.document_frequencies("text", ["owl", "barn"]) == {"owl": 2, "barn": 1}


def test_a_batch_that_is_dropped_or_never_committed_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "statistics.db"
    _write(path, [{"text": [["owl"]]}], change=1)
    with closing(Statistics.open(path, write=True)) as statistics:
        statistics.begin()
        statistics.count({"text": [["barn"]]})
        statistics.roll_back()
        statistics.begin()
        statistics.clear()
        statistics.count({"text": [["night"]]})
    with closing(Statistics.open(path)) as reader:
        assert list(reader.all_frequencies()) == [(EVERYTHING, "owl", 1), ("text", "owl", 1)]
        assert reader.change == 1 and reader.num_documents == 1


def test_clearing_starts_from_nothing(tmp_path: Path) -> None:
    path = tmp_path / "statistics.db"
    _write(path, [{"title": [["owl"]]}], change=1)
    with closing(Statistics.open(path, write=True)) as statistics:
        statistics.begin()
        statistics.clear()
        statistics.count({"text": [["barn"]]})
        statistics.commit(change=2, basis={})
        assert statistics.summary() == (1, {"text": 1, EVERYTHING: 1})
        assert statistics.check_structure() == ()


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=r"statistics\.db"):
        Statistics.open(tmp_path / "statistics.db")
    (tmp_path / "statistics.db").write_bytes(b"not a database at all " * 50)
    with (
        closing(Statistics.open(tmp_path / "statistics.db")) as reader,
        pytest.raises(Damaged, match=r"statistics\.db"),
    ):
        _ = reader.change
    with pytest.raises(Damaged, match=r"statistics\.db"):
        Statistics.open(tmp_path / "statistics.db", write=True)
