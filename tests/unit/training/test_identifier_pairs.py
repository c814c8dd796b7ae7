"""Pairs of queries and identifiers: who asks for what, what is drawn, and the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quoth.errors import ConfigError, Damaged
from quoth.training.identifiers.pairs import (
    NONE,
    IdentifierPairConfig,
    IdentifierPairs,
    LabelledQuery,
    make_identifier_pairs,
    open_identifier_pairs,
    phrase_counts,
    save_identifier_pairs,
)

WORDS = ("barn", "owl", "night", "raven", "hen", "dusk", "mouse", "wing")
PASSAGES = [
    ["barn owl", "owl night", "Barn  owl", "owl"],  # the third is the first, written otherwise
    ["raven", "raven hen dusk"],
    ["mouse"],
    ["", "wing mouse owl night dusk", "owl"],
]


@dataclass(frozen=True)
class Cut:
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]


def segment(texts: Sequence[str]) -> Cut:
    """Every word is a phrase."""
    sequences = [[WORDS.index(word) for word in text.lower().split()] for text in texts]
    flat = np.array([each for own in sequences for each in own], dtype=np.int32)
    return Cut(flat, np.cumsum([0, *map(len, sequences)], dtype=np.int64))


def tokenise(texts: Sequence[str]) -> list[list[int]]:
    return [[1, *text.encode(), 2] for text in texts]


def make(
    passages: Sequence[Sequence[str]] = PASSAGES,
    labelled: Sequence[LabelledQuery] = (),
    **settings_: object,
) -> IdentifierPairs:
    return make_identifier_pairs(
        passages,
        tokenise=tokenise,
        segment=segment,
        num_phrases=len(WORDS),
        labelled=labelled,
        config=replace(IdentifierPairConfig(held_out_share=0.0), **settings_),  # type: ignore[arg-type]
        about={"made": "by a test"},
    )


def queries_of(pairs: IdentifierPairs) -> list[str]:
    """Read the inputs' texts off their subwords."""
    batch = pairs.queries.batch(pairs.query_rows)
    found = [ids[mask].tolist()[1:-1] for ids, mask in zip(*batch[:2], strict=True)]
    return [bytes(each).decode() for each in found]


def drawn(pairs: IdentifierPairs, *, count: int, slots: int = 6, seed: int = 0) -> list[list[str]]:
    """Draw targets for all inputs, and write them as texts."""
    generator = torch.Generator().manual_seed(seed)
    found = pairs.draw_targets(
        np.arange(len(pairs)), count=count, num_slots=slots, generator=generator
    )
    texts = []
    for own, lengths in zip(found.phrase_ids.tolist(), found.lengths.tolist(), strict=True):
        for ids, length in zip(own, lengths, strict=True):
            assert sum(each != NONE for each in ids) == min(length, slots)
        texts.append(
            [" ".join(WORDS[each] for each in ids if each != NONE) for ids in own if ids[0] != NONE]
        )
    return texts


def test_identifiers_ask_for_the_others_of_their_passage() -> None:
    pairs = make()
    targets = [sorted(each) for each in drawn(pairs, count=9)]
    assert dict(zip(queries_of(pairs), targets, strict=True)) == {
        "barn owl": ["owl", "owl night"],
        "owl night": ["barn owl", "owl"],
        "owl": ["wing mouse owl night dusk"],
        "raven": ["raven hen dusk"],
        "raven hen dusk": ["raven"],
        "wing mouse owl night dusk": ["owl"],
    }
    assert len(pairs) == 7, "one asks for two passages, and the lone mouse for none"
    assert pairs.about == {"made": "by a test"}


def test_labelled_queries_ask_for_all_but_themselves() -> None:
    queries = [LabelledQuery("hen", 0), LabelledQuery("owl", 0), LabelledQuery("mouse", 2)]
    pairs = make(labelled=queries)
    found = list(zip(queries_of(pairs), map(sorted, drawn(pairs, count=9)), strict=True))
    assert found[len(make()) :] == [
        ("hen", ["barn owl", "owl", "owl night"]),
        ("owl", ["barn owl", "owl night"]),
    ]


@settings(max_examples=30, deadline=None)
@given(
    passages=st.lists(
        st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=6),
        max_size=5,
    ),
    count=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_what_is_drawn_is_another_identifier_of_the_passage(
    passages: list[list[str]], count: int, seed: int
) -> None:
    passages = [*passages, ["owl", "hen"]]
    pairs = make(passages)
    for query, passage, targets in zip(
        queries_of(pairs),
        pairs.passage_rows.tolist(),
        drawn(pairs, count=count, seed=seed),
        strict=True,
    ):
        others = {text for text in passages[passage] if text} - {query}
        assert set(targets) <= others and len(set(targets)) == len(targets)
        assert len(targets) == min(count, len(others))


def test_draws_follow_the_generator() -> None:
    pairs = make([[*WORDS]])
    first, same, other = (drawn(pairs, count=2, seed=seed) for seed in (0, 0, 1))
    assert first == same != other


def test_long_identifiers_are_cut_to_the_slots() -> None:
    pairs = make()
    generator = torch.Generator().manual_seed(0)
    row = queries_of(pairs).index("raven")
    found = pairs.draw_targets(np.array([row]), count=1, num_slots=2, generator=generator)
    assert found.phrase_ids.tolist() == [[[WORDS.index("raven"), WORDS.index("hen")]]]
    assert found.lengths.tolist() == [[3]]


def test_a_passage_gives_at_most_so_many_inputs() -> None:
    pairs = make([[*WORDS]], per_passage=3)
    asked = queries_of(pairs)
    assert len(asked) == 3 and set(asked) <= set(WORDS)
    assert all(
        set(each) == set(WORDS) - {own}
        for own, each in zip(asked, drawn(pairs, count=8), strict=True)
    )
    assert asked == queries_of(make([[*WORDS]], per_passage=3))
    others = {tuple(queries_of(make([[*WORDS]], per_passage=3, seed=seed))) for seed in range(5)}
    assert len(others) > 1


def test_queries_are_held_out_whole() -> None:
    passages = [[f"{one} {other}" for other in WORDS] for one in WORDS] * 2
    pairs = make(passages, held_out_share=0.3)
    asked = np.array(queries_of(pairs))
    held_out, rest = set(asked[pairs.held_out_rows]), set(asked[pairs.training_rows])
    assert held_out and rest and not held_out & rest
    assert len(pairs.held_out_rows) + len(pairs.training_rows) == len(pairs)


def test_phrases_are_counted_as_often_as_passages_hold_them() -> None:
    counts = phrase_counts(make())
    expected = dict.fromkeys(WORDS, 0)
    distinct = ["barn owl", "owl night", "owl", "raven", "raven hen dusk", "mouse"]
    for text in [*distinct, "wing mouse owl night dusk", "owl"]:
        for word in text.split():
            expected[word] += 1
    assert counts.tolist() == [*expected.values(), 8, 0]


def test_pairs_come_back_from_their_file(tmp_path: Path) -> None:
    pairs = make(labelled=[LabelledQuery("hen", 0)], held_out_share=0.3)
    save_identifier_pairs(tmp_path / "pairs.bin", pairs)
    again = open_identifier_pairs(tmp_path / "pairs.bin")
    assert queries_of(again) == queries_of(pairs)
    assert drawn(again, count=3) == drawn(pairs, count=3)
    assert (again.is_held_out == pairs.is_held_out).all()
    assert (again.num_phrases, again.about) == (pairs.num_phrases, pairs.about)
    assert phrase_counts(again).tolist() == phrase_counts(pairs).tolist()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.bin"
    save_identifier_pairs(path, make())
    content = path.read_bytes()
    for damaged in (content[:-2], content[:-1] + b"x", b"x" + content[1:], b""):
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match="no whole identifier pairs"):
            open_identifier_pairs(path)
    path.write_bytes(content)
    open_identifier_pairs(path)


def test_what_cannot_be_learned_from_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no passage has two identifiers"):
        make([["owl"], [""]])
    with pytest.raises(ConfigError, match="phrase 4 is none of 2"):
        make_identifier_pairs([["owl", "hen"]], tokenise=tokenise, segment=segment, num_phrases=2)
    with pytest.raises(ConfigError, match=r"per_passage is 0.*held_out_share is 1"):
        IdentifierPairConfig(per_passage=0, held_out_share=1.0)
