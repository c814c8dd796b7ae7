"""Batches: unfolding gives the text back, places are aligned, and numbers decide everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.unit.training.dynamic_worlds import make_inputs, make_set
from unfolding import unfold

from quoth.errors import ConfigError
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.selfsupervision.phrase_sampling import MixedSample
from quoth.selfsupervision.sampling_config import PhraseSamplingConfig
from quoth.training.quoting.batches import BatchMaker, DynamicBatch, make_batch
from quoth.training.quoting.negatives_config import NegativesConfig
from quoth.training.quoting.phrase_negatives import PhraseString, key_ids, make_columns, phrase_key
from quoth.training.quoting.set import DynamicSet, Quotation
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

V = 100
PASSAGE = SubwordText(np.arange(40, 60), np.ones(20, dtype=bool))
QUOTED = Quotation(
    np.array([1, 2, 3]), np.array([45, 46, 47, 9]), np.array([[0, 3, 0, 5]]), (PASSAGE,), True
)
RECIPE = DynamicLMRecipe(batch_size=3, quote_batch_size=2, quote_share=0.25, candidate_budget=6)


@pytest.fixture(scope="module")
def dynamic_set() -> DynamicSet:
    made = make_set(make_inputs(), quotations=(QUOTED, QUOTED, QUOTED))
    return replace(made, opens_word=np.ones_like(made.opens_word))


def two_samples(*, blocks: bool = False) -> DynamicBatch:
    first = MixedSample(np.array([5, 6, 7, 8, 9]), np.array([[1, 3]]))
    second = MixedSample(np.array([1, 2, 6, 7, 8, 3, 4]), np.array([[2, 5]]), learn_from=2)
    columns = make_columns(
        PhraseString(phrase_key(each), (len(each),)) for each in ([6, 7], [6, 7, 8], [8, 9])
    )
    return make_batch([first, second], columns, num_subwords=V, blocks=blocks)


def test_places_are_aligned() -> None:
    batch = two_samples()
    assert batch.mixed_ids.tolist() == [[5, V, 8, 9, 0], [1, 2, V + 1, 3, 4]]
    assert batch.mixed_mask.sum(1).tolist() == [4, 5]
    assert batch.targets.tolist() == [V, 8, 9, V + 1, 3, 4]
    assert batch.mixed_rows.tolist() == [0, 1, 2, 5 + 1, 5 + 2, 5 + 3]
    assert batch.after_rows.tolist() == [0, 2, 3, 7 + 1, 7 + 4, 7 + 5]
    assert batch.literal_rows.tolist() == [1, 2, 3, 7 + 3, 7 + 4, 7 + 5]
    assert batch.plain_rows.tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 12]
    assert batch.plain_targets.tolist() == [6, 7, 8, 9, 6, 7, 8, 3, 4]
    assert not len(batch.blocked)


def test_phrases_that_spell_what_follows_are_blocked_where_asked() -> None:
    batch = two_samples(blocks=True)
    column = batch.phrases.index(phrase_key([8, 9]))
    assert batch.blocked.tolist() == [[1, column]], "[8, 9] follows where 8 is right"


def test_unfolding_gives_the_text_back(dynamic_set: DynamicSet) -> None:
    maker = BatchMaker(dynamic_set, RECIPE)
    for number in range(8):
        batch = maker[number]
        phrases = [key_ids(key).tolist() for key in batch.phrases]
        for row in range(len(batch.mixed_ids)):
            tokens = batch.mixed_ids[row][batch.mixed_mask[row]].tolist()
            found = unfold(tokens, num_subwords=dynamic_set.num_subwords, phrases=phrases)
            assert found.subword_ids == batch.plain_ids[row][batch.plain_mask[row]].tolist()
        for column, key in enumerate(batch.phrases):
            row, end = batch.column_rows[column], batch.column_ends[column] + 1
            assert batch.column_ids[row, :end].tolist() == key_ids(key).tolist()


def test_quotations_are_spread_by_their_share(dynamic_set: DynamicSet) -> None:
    maker = BatchMaker(dynamic_set, RECIPE)
    assert [maker.is_quotation(number) for number in range(8)] == [False, False, False, True] * 2
    batch = maker[3]
    assert batch.is_quotation and batch.plain_ids[0].tolist() == [1, 2, 3, 45, 46, 47, 9]
    assert batch.plain_targets.tolist() == [45, 46, 47, 9] * 2, "prompts are not learnt"
    offered = {tuple(key_ids(key).tolist()) for key in batch.phrases}
    assert {(45, 46, 47), (45, 46), (44, 45), (46, 47, 48)} <= offered


def test_batches_follow_from_their_number(dynamic_set: DynamicSet) -> None:
    recipe = replace(RECIPE, quote_share=0.0, sampling=PhraseSamplingConfig("fmm"))
    first, second = BatchMaker(dynamic_set, recipe), BatchMaker(dynamic_set, recipe)
    again = second[5]  # before the others
    for _ in range(5):
        assert torch.equal(first[5].mixed_ids, again.mixed_ids)
        assert first[5].phrases == again.phrases


def test_phrases_are_drawn_anew_each_epoch(dynamic_set: DynamicSet) -> None:
    recipe = replace(RECIPE, quote_share=0.0, batch_size=8)
    maker = BatchMaker(dynamic_set, recipe)
    drawn = [
        {each.sample.subword_ids.tobytes(): each.sample.phrases.tolist() for each in maker.draw(at)}
        for at in (0, 1)
    ]
    assert drawn[0].keys() == drawn[1].keys() and drawn[0] != drawn[1]


def test_corpus_retrieval_looks_into_the_set(dynamic_set: DynamicSet) -> None:
    negatives = NegativesConfig(self_retrieval=False, generation=False, corpus_retrieval=True)
    with_it, without = (
        len(BatchMaker(dynamic_set, replace(RECIPE, quote_share=0.0, negatives=each))[0].phrases)
        for each in (negatives, replace(negatives, corpus_retrieval=False))
    )
    assert with_it > without


def test_markers_are_encoded_behind_the_phrases_of_a_passage(dynamic_set: DynamicSet) -> None:
    """As when answering: a model that reads marked phrases learns to."""
    recipe = replace(RECIPE, quote_share=1.0)
    bare = BatchMaker(dynamic_set, recipe)[0]
    batch = BatchMaker(dynamic_set, recipe, mark=lambda passage: [3, passage])[0]
    keys = [key_ids(each).tolist() for each in batch.phrases]
    assert all(key[-2] == 3 and key[-1] in (0, 1, 2, 3) for key in keys)
    bare_keys = {tuple(key_ids(each).tolist()) for each in bare.phrases}
    assert {tuple(key[:-2]) for key in keys} == bare_keys
    quoted = batch.targets >= dynamic_set.num_subwords
    assert torch.equal(quoted, bare.targets >= dynamic_set.num_subwords) and bool(quoted.any())


def test_plain_batches_have_no_phrases(dynamic_set: DynamicSet) -> None:
    batch = BatchMaker(dynamic_set, RECIPE.without_phrases())[0]
    assert not batch.phrases and torch.equal(batch.mixed_ids, batch.plain_ids)


def test_a_set_must_hold_what_is_asked_for() -> None:
    empty = make_set(make_inputs())
    with pytest.raises(ConfigError, match=r"no quotations, but quote_share is 0\.25"):
        BatchMaker(empty, RECIPE)


def test_a_quotation_is_offered_the_phrases_of_its_own_passages() -> None:
    away = SubwordText(np.arange(60, 80), np.ones(20, dtype=bool))
    other = replace(
        QUOTED, target_ids=np.array([65, 66, 67, 9]), passages=(away,), prompt_ids=np.array([4])
    )
    made = make_set(make_inputs(), quotations=(QUOTED, other))
    made = replace(made, opens_word=np.ones_like(made.opens_word))
    recipe = replace(RECIPE, quote_share=1.0)
    batch = BatchMaker(made, recipe)[0]
    firsts = np.array([key_ids(key)[0] for key in batch.phrases])
    assert batch.offered.shape == (len(batch.targets), len(batch.phrases))
    places = batch.mixed_rows // batch.mixed_ids.shape[1]
    for row, sample in enumerate(places.tolist()):
        is_first = 40 <= int(batch.plain_ids[sample].max()) < 60
        mine = (firsts < 60) if is_first else (firsts >= 60)
        assert batch.offered[row].tolist() == mine.tolist()
    assert not BatchMaker(made, replace(recipe, quote_columns="batch"))[0].offered.numel()
