"""A training set comes back from its file as it was, and a damaged file is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.generation.joined_sets import join_sets
from tests.unit.training.dynamic_worlds import make_inputs, make_set

from quoth.errors import ConfigError, Damaged
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.quoting.phrase_negatives import phrase_key
from quoth.training.quoting.set import (
    Continuations,
    DynamicSet,
    Quotation,
    open_dynamic_set,
    save_dynamic_set,
)

PASSAGE = SubwordText(np.array([5, 6, 7]), np.array([True, False, True]))
OTHER = SubwordText(np.array([8, 9]), np.array([True, True]))
QUOTED = Quotation(
    np.array([1, 5, 5, 6, 7, 2, 8, 9]),
    np.array([3, 5, 6, 4]),
    np.array([[1, 3, 0, 0]]),
    (PASSAGE, OTHER),
    True,
)
REFUSED = Quotation(
    np.array([2]), np.array([3, 4]), np.zeros((0, 4), dtype=np.int64), (OTHER,), False
)


@pytest.fixture(scope="module")
def dynamic_set() -> DynamicSet:
    made = make_set(make_inputs(), num_texts=3, quotations=(QUOTED, REFUSED))
    return replace(made, continuations=Continuations({phrase_key([5, 6]): (7, 8)}))


def assert_equal_quotations(found: Quotation, expected: Quotation) -> None:
    for name in ("prompt_ids", "target_ids", "phrases"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.is_answerable == expected.is_answerable
    for own, other in zip(found.passages, expected.passages, strict=True):
        assert np.array_equal(own.subword_ids, other.subword_ids)
        assert np.array_equal(own.word_starts, other.word_starts)


def test_a_set_comes_back_as_it_was(dynamic_set: DynamicSet, tmp_path: Path) -> None:
    save_dynamic_set(tmp_path / "set.bin", dynamic_set)
    found = open_dynamic_set(tmp_path / "set.bin")
    assert len(found.texts) == 3 and found.texts.subword_ids.dtype == np.uint16
    for row in range(3):
        assert np.array_equal(found.texts[row].subword_ids, dynamic_set.texts[row].subword_ids)
        assert np.array_equal(found.texts[row].word_starts, dynamic_set.texts[row].word_starts)
    assert np.array_equal(found.support_rows, dynamic_set.support_rows)
    assert np.array_equal(found.is_punctuation, dynamic_set.is_punctuation)
    assert np.array_equal(found.opens_word, dynamic_set.opens_word)
    assert found.continuations == dynamic_set.continuations and found.about == dynamic_set.about
    assert_equal_quotations(found.quotations[0], QUOTED)
    assert_equal_quotations(found.quotations[1], REFUSED)
    assert len(found.quotations.passages) == 2, "a passage is stored once"
    assert found.quotations.prompts.lengths.tolist() == [3, 1], "and not in its prompts"
    assert found.quotations.lengths.tolist() == [8 + 4, 1 + 2]


@pytest.mark.parametrize("at", [30, -30])
def test_a_damaged_file_is_refused(dynamic_set: DynamicSet, tmp_path: Path, at: int) -> None:
    path = tmp_path / "set.bin"
    save_dynamic_set(path, dynamic_set)
    content = bytearray(path.read_bytes())
    content[at] ^= 255
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"no whole dynamic set .* make it again"):
        open_dynamic_set(path)


def test_joined_sets_keep_their_relations(dynamic_set: DynamicSet) -> None:
    narrow = replace(dynamic_set, support_rows=np.array([[1], [-1], [0]]))
    joined = join_sets([dynamic_set, narrow])
    assert len(joined.texts) == 6 and len(joined.quotations) == 4
    assert joined.support_rows[3:].tolist() == [[4, -1], [-1, -1], [3, -1]]
    ids = narrow.texts[1].subword_ids
    assert np.array_equal(joined.support(3)[0].subword_ids, ids) and not joined.support(4)
    assert_equal_quotations(joined.quotations[2], QUOTED)


def test_sets_of_other_vocabularies_are_not_joined(dynamic_set: DynamicSet) -> None:
    other = replace(dynamic_set, is_punctuation=~dynamic_set.is_punctuation)
    with pytest.raises(ConfigError, match="different vocabularies"):
        join_sets([dynamic_set, other])
