"""Packing for the robustness benchmark: new documents teach nothing and can be found; typos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from benchmarks.pixar_quality.robustness_pack import choose_new, leave_out
from benchmarks.pixar_quality.typos import WORD, add_typos
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.test_identifier_pairs import WORDS, segment

from quoth.training.identifiers.pairs import (
    IdentifierPairConfig,
    make_identifier_pairs,
    open_identifier_pairs,
    phrase_counts,
    save_identifier_pairs,
)

IDENTIFIERS = [["owl", "barn night"], ["owl", "hen", "dusk wing"], ["raven", "mouse"]]
word = st.sampled_from(["oil", "Crisis", "größte", "committee", "in", "1973", "embargo"])


def test_new_documents_give_no_queries_and_keep_their_identifiers(tmp_path: Path) -> None:
    whole = make_identifier_pairs(
        IDENTIFIERS,
        tokenise=lambda texts: [[len(text)] for text in texts],
        segment=segment,
        num_phrases=len(WORDS),
        config=IdentifierPairConfig(held_out_share=0.0),
    )
    left = leave_out(whole, np.array([False, True, False]))
    assert left.passage_rows.tolist() == [0, 0, 2, 2]
    save_identifier_pairs(tmp_path / "left.bin", left)
    again = open_identifier_pairs(tmp_path / "left.bin")
    assert again.training_rows.tolist() == [0, 1, 2, 3]
    assert torch.equal(again.passage_targets, whole.passage_targets)
    assert torch.equal(again.phrase_ids, whole.phrase_ids)
    assert np.array_equal(phrase_counts(again), phrase_counts(whole))
    drawn = again.draw_targets(
        again.training_rows, count=2, num_slots=2, generator=torch.Generator().manual_seed(0)
    )
    other = whole.draw_targets(
        np.array([0, 1, 5, 6]), count=2, num_slots=2, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(drawn.phrase_ids, other.phrase_ids)


def test_new_documents_are_a_share_of_documents_not_of_passages() -> None:
    documents = [f"d{at // 3}" for at in range(60)]
    new = choose_new(documents, share=0.1, seed=1)
    assert len(new) == 2 and new == choose_new(documents[::-1], share=0.1, seed=1)
    assert new != choose_new(documents, share=0.1, seed=2)


@given(st.lists(word, min_size=1, max_size=8).map(" ".join), st.integers(0, 9))
def test_typos_change_one_or_two_of_the_longest_words(text: str, seed: int) -> None:
    found = add_typos(text, seed=seed)
    assert found == add_typos(text, seed=seed)
    before, after = text.split(), found.split()
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    long = sorted((len(each) for each in before if WORD.fullmatch(each)), reverse=True)
    assert sorted(map(len, changed), reverse=True) == long[: len(changed)]
    assert min(len(long), 1) <= len(changed) <= 2
    for old, new in zip(before, after, strict=True):
        assert old[0] == new[0] and abs(len(old) - len(new)) <= 1
