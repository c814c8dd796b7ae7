"""Pseudo-queries: what is taken, what may be found, and that chance is seeded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quoth.errors import ConfigError
from quoth.selfsupervision.pseudo_pairs import (
    FoundQuery,
    PseudoPairConfig,
    SourceText,
    find_queries,
    label_queries,
    near_duplicates,
    words_of,
)

OWL = "Barn owls hunt mice in open fields at night. They nest in old towers and quiet barns."
RAVEN = "Ravens build nests of sticks on cliffs.\n\n# Food of ravens\n\nThey eat nearly anything."
PASSAGES = [
    SourceText(OWL, "The barn owl"),
    SourceText(RAVEN, "Ravens at large"),
    SourceText(OWL + " A copy of it.", "Another owl"),
    SourceText("Mice in open fields are hunted by many birds, owls above all.", "Field mice"),
]


def by_overlap(queries: Sequence[str], k: int) -> list[list[int]]:
    """Stand in for BM25: passages by the number of words they share, ties by row."""
    ranked = []
    for query in queries:
        words = set(words_of(query))
        shared = [len(words & set(words_of(each.whole))) for each in PASSAGES]
        ranked.append(sorted(range(len(PASSAGES)), key=lambda row: (-shared[row], row))[:k])
    return ranked


def test_every_kind_is_taken_as_it_stands() -> None:
    found = find_queries(PASSAGES, PseudoPairConfig(per_passage=4))
    assert {query.kind for query in found} == {"title", "heading", "sentence", "span"}
    texts = {(query.kind, query.source_row): query.text for query in found}
    assert texts["title", 0] == "The barn owl"
    assert texts["heading", 1] == "Food of ravens"
    assert all(q.text in PASSAGES[q.source_row].text for q in found if q.kind == "sentence")
    spans = [query for query in found if query.kind == "span"]
    assert spans and all(4 <= len(query.text.split()) <= 8 for query in spans)


def test_chance_is_seeded() -> None:
    first, again = (find_queries(PASSAGES, PseudoPairConfig(seed=1)) for _ in range(2))
    assert first == again
    others = {find_queries(PASSAGES, PseudoPairConfig(seed=seed)) for seed in range(6)}
    assert len(others) > 1


def test_a_stretch_finds_neither_its_source_nor_a_copy() -> None:
    query = FoundQuery("Barn owls hunt mice in open fields at night.", "sentence", 0)
    (found,) = label_queries([query], PASSAGES, top_k=by_overlap, config=PseudoPairConfig())
    assert found.excluded_rows == (0, 2)
    assert found.lexical_rows[0] == 3  # the best that does not copy it
    assert not set(found.lexical_rows) & {0, 2}


def test_free_text_may_find_its_source() -> None:
    query = FoundQuery("barn owls hunt mice", "generated", 0)
    (found,) = label_queries([query], PASSAGES, top_k=by_overlap, config=PseudoPairConfig())
    assert found.excluded_rows == () and found.lexical_rows[0] == 0


def test_a_title_is_held_out_of_its_source() -> None:
    found = find_queries(PASSAGES, PseudoPairConfig(kinds=("title",)))
    labelled = label_queries(found, PASSAGES, top_k=by_overlap, config=PseudoPairConfig())
    assert labelled[0].positive_text == OWL and "barn owl " not in labelled[0].positive_text.lower()
    assert 0 in labelled[0].excluded_rows  # it must not be found with its title either
    plain = find_queries(PASSAGES, PseudoPairConfig(kinds=("title",), hold_out=()))
    assert all(query.rest == "" for query in plain)


def test_a_held_out_heading_is_gone_from_the_rest() -> None:
    (query,) = find_queries(PASSAGES[1:2], PseudoPairConfig(kinds=("heading",)))
    assert query.text == "Food of ravens" and "Food of ravens" not in query.rest
    assert "sticks on cliffs" in query.rest and "nearly anything" in query.rest


def test_copies_are_found_by_runs_of_words() -> None:
    texts = [each.whole for each in PASSAGES]
    assert near_duplicates(texts, share=0.5) == [(2,), (), (0,), ()]
    assert near_duplicates(texts, share=1.0) == [(), (), (), ()]  # titles differ
    assert near_duplicates(["too short", ""], share=0.5) == [(), ()]


def test_a_share_of_the_queries_is_held_out() -> None:
    queries = [FoundQuery(f"query number {at}", "log") for at in range(400)]
    config = PseudoPairConfig(held_out_share=0.2)
    found = label_queries(queries, PASSAGES, top_k=by_overlap, config=config)
    assert 50 <= sum(query.is_held_out for query in found) <= 110
    assert label_queries(queries, PASSAGES, top_k=by_overlap, config=config) == found


def test_impossible_settings_are_all_reported() -> None:
    with pytest.raises(ConfigError, match=r"kinds has 'verse'.*per_passage"):
        PseudoPairConfig(kinds=("verse",), per_passage=0)


def test_a_title_of_many_passages_is_no_query() -> None:
    parts = [SourceText(f"Part {n} tells something of its own.", "A long book") for n in range(4)]
    config = PseudoPairConfig(kinds=("title",))
    assert find_queries([*parts, *PASSAGES[:1]], config) == find_queries(
        [SourceText("", "")] * 4 + [PASSAGES[0]], config
    )
    assert len(find_queries(parts[:3], config)) == 3
