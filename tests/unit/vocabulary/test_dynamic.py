"""The dynamic vocabulary: rows that never move, sources that add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quoth.records import Span
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary, Source

CANDIDATES = st.lists(
    st.builds(
        lambda text, passage, at: Candidate(
            f" {text}", (ord(text),), (Source(passage, Span(at, at + 1)),)
        ),
        st.sampled_from("abcd"),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=12,
)


@given(CANDIDATES, CANDIDATES, st.booleans())
def test_growing_in_two_steps_is_growing_at_once(
    first: list[Candidate], second: list[Candidate], per_passage: bool
) -> None:
    at_once = DynamicVocabulary.of([*first, *second], per_passage=per_passage)
    assert DynamicVocabulary.of(first, per_passage=per_passage).grow(second) == at_once


@given(CANDIDATES)
def test_every_source_is_kept_once_under_its_string(candidates: list[Candidate]) -> None:
    vocabulary = DynamicVocabulary.of(candidates)
    kept = [(each.text, source) for each in vocabulary.candidates for source in each.sources]
    assert len(kept) == len(set(kept))
    assert set(kept) == {(each.text, source) for each in candidates for source in each.sources}
    assert vocabulary.offered == tuple(range(len({each.text for each in candidates})))


@given(CANDIDATES, CANDIDATES, st.sets(st.integers(0, 3)))
def test_rows_keep_their_strings_whatever_happens(
    first: list[Candidate], second: list[Candidate], rows: set[int]
) -> None:
    before = DynamicVocabulary.of(first)
    after = before.offer(set(before.offered) - rows).grow(second)
    texts = [each.text for each in before.candidates]
    assert [each.text for each in after.candidates][: len(texts)] == texts
    again = {each.text for each in second}
    assert all(
        (row in after.offered) == (row not in rows or text in again)
        for row, text in enumerate(texts)
    )


def test_strings_of_two_passages_are_two_where_markers_tell_them_apart() -> None:
    sources = [Source(0, Span(0, 1)), Source(1, Span(0, 1)), Source(1, Span(4, 5))]
    candidates = [Candidate(" a", (1,), (source,)) for source in sources]
    assert len(DynamicVocabulary.of(candidates).candidates) == 1
    apart = DynamicVocabulary.of(candidates, per_passage=True).candidates
    assert [each.sources for each in apart] == [(sources[0],), (sources[1], sources[2])]


def test_offering_exactly_some_rows_sorts_them() -> None:
    sources = (Source(0, Span(0, 1)),)
    vocabulary = DynamicVocabulary.of([Candidate(f" {each}", (1,), sources) for each in "abc"])
    assert vocabulary.offer([2, 0, 2]).offered == (0, 2)
