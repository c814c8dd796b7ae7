"""The split of names into what names documents and what asks for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import Damaged
from quoth.jobs.pixar.texts import (
    CORRUPTED,
    LABELLED,
    PSEUDO,
    AskedQuery,
    BuildTexts,
    LabelledAsked,
    Names,
    corrupt_name,
    open_texts,
    read_lines,
    split_texts,
)

word = st.sampled_from(["owl", "barn", "night", "raven", "two", "wing"])
name = st.lists(word, min_size=1, max_size=4).map(" ".join)


@given(st.lists(st.lists(name, max_size=5, unique=True), max_size=30), st.integers(0, 3))
def test_a_judged_name_names_nothing_and_nothing_is_trained_on_it(
    texts: list[list[str]], seed: int
) -> None:
    names = [Names(f"d{at}", tuple(own)) for at, own in enumerate(texts)]
    found = split_texts(names, most_judged=5, seed=seed)
    assert found.docids == tuple(each.docid for each in names)
    known = {text for own in found.names for text in own}
    asked = {each.text for each in found.training}
    for each in found.judged:
        (at,) = each.documents
        assert each.text not in asked
        if each.kind == PSEUDO:
            assert each.text not in known and each.text in texts[at] and len(found.names[at]) > 1
        else:
            assert each.kind == CORRUPTED and len(texts[at]) == 1
    given_away = {each.documents[0]: each.text for each in found.judged if each.kind == PSEUDO}
    for at, own in enumerate(texts):
        assert list(found.names[at]) == [text for text in own if text != given_away.get(at)]
    assert found == split_texts(names, most_judged=5, seed=seed)


def test_one_document_in_five_gives_a_name_and_no_more_than_asked_for() -> None:
    names = [Names(f"d{at}", (f"a{at}", f"b{at}", f"c{at}")) for at in range(100)]
    assert len(split_texts(names, most_judged=300, seed=0).judged) == 20
    assert len(split_texts(names, most_judged=7, seed=0).judged) == 7
    assert split_texts(names, most_judged=0, seed=0).judged == ()


@given(st.lists(st.lists(name, max_size=5, unique=True), max_size=40), st.integers(0, 3))
def test_what_training_looks_at_is_apart_from_all_else(texts: list[list[str]], seed: int) -> None:
    names = [Names(f"d{at}", tuple(own)) for at, own in enumerate(texts)]
    taught = tuple(AskedQuery(f"Asked {at}", (at % 2,), LABELLED) for at in range(20))
    labelled = LabelledAsked(taught, (AskedQuery("asked 3", (1,), LABELLED),))
    found = split_texts(names, most_judged=5, most_looked=4, seed=seed, labelled=labelled)
    without = split_texts(names, most_judged=5, seed=seed, labelled=labelled)
    assert found.judged == without.judged and without.looked == ()
    kept_back = {each.text.lower() for each in found.looked}
    assert not kept_back & {each.text.lower() for each in (*found.training, *found.judged)}
    known = {text.lower() for own in found.names for text in own}
    assert not kept_back & known - {each.text for each in found.looked if each.kind == CORRUPTED}
    reported = {each.documents for each in found.judged if each.kind != LABELLED}
    assert not reported & {each.documents for each in found.looked if each.kind != LABELLED}
    counts = Counter(each.kind for each in found.looked)
    assert 1 <= counts[LABELLED] <= 2 and counts[PSEUDO] <= 4 and counts[CORRUPTED] <= 4


def test_a_name_that_two_documents_share_is_never_judged_by() -> None:
    names = [Names(f"d{at}", ("same", "Other", f"own {at}")) for at in range(10)]
    judged = split_texts(names, most_judged=9, seed=0).judged
    assert judged and all(each.text.startswith("own") for each in judged)


def test_keywords_are_asked_for_by_corrupted_copies() -> None:
    names = [Names(f"k{at}", (f"red shoes {at}",)) for at in range(10)]
    taught = (AskedQuery("crimson 4", (4,), LABELLED), AskedQuery("Red 3", (2,), LABELLED))
    labelled = LabelledAsked(taught, (AskedQuery("red 3", (3,), LABELLED),))
    found = split_texts(names, most_judged=4, seed=1, labelled=labelled)
    assert [each.kind for each in found.judged] == [LABELLED, CORRUPTED, CORRUPTED]
    assert {each.documents[0] for each in found.training} == set(range(10))
    asked = {each.text for each in found.training}
    assert "crimson 4" in asked and not {"red 3", "Red 3"} & asked


@given(name, st.integers(0, 5))
def test_copies_differ_from_the_name_and_use_its_words_or_letters(text: str, seed: int) -> None:
    copies = corrupt_name(text, count=3, seed=seed)
    assert text not in copies and len(set(copies)) == len(copies) <= 3
    for copy in copies:
        own = copy.split() if " " in text else list(copy)
        whole = text.split() if " " in text else list(text)
        assert all(own.count(each) <= whole.count(each) for each in own)
    assert corrupt_name("x", count=3, seed=seed) == []


def test_texts_are_read_back_and_damage_is_told(tmp_path: Path) -> None:
    judged = (AskedQuery("owl", (0, 1), PSEUDO),)
    texts = BuildTexts(
        ("a", "b"), (("barn owl", "ü"), ()), (AskedQuery("x", (1,), LABELLED),), judged, judged
    )
    path = tmp_path / "texts.json"
    texts.save(path)
    assert open_texts(path) == texts and texts.num_names == 2
    for content in ("{", '{"docids": []}', '{"docids": [], "names": [], "training": [[1]]}'):
        path.write_text(content)
        with pytest.raises(Damaged, match="--restart"):
            open_texts(path)


def test_lines_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("barn owl\n \r\nnüsse\n".encode())
    assert read_lines(path) == ["barn owl", "nüsse"]
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(Damaged, match="cannot be read as text"):
        read_lines(path)
