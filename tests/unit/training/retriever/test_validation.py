"""Validation: which passage a held-out query should find, and at which rank it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import World

from quoth.errors import ConfigError
from quoth.models.glow.network import TokenBatch
from quoth.selfsupervision.pseudo_pairs import KINDS
from quoth.training.retriever.passage_set import PassageSet, pad_rows
from quoth.training.retriever.validation import held_out_mrr, natural_targets


class Counter:
    """Vectors that count subwords: what shares most words is nearest."""

    similarity = "cosine"

    def encode_queries(self, batch: TokenBatch) -> torch.Tensor:
        counts = torch.nn.functional.one_hot(batch.subword_ids, 100).float()
        kept = (counts * batch.mask[..., None])[..., 10:].sum(1)
        return torch.nn.functional.normalize(kept, dim=-1)

    encode_passages = encode_queries


@pytest.fixture
def passages() -> PassageSet:
    return World(wrong=0.0).passage_set


def test_a_retriever_by_words_finds_all_in_a_world_of_words(passages: PassageSet) -> None:
    assert held_out_mrr(passages)(Counter()) == 1.0
    elsewhere = (passages.positive_rows + 1) % 30
    assert held_out_mrr(passages, targets=elsewhere)(Counter()) < 0.5


def test_generated_and_held_out_queries_should_find_their_source(passages: PassageSet) -> None:
    count = len(passages.queries)
    kinds = np.full(count, KINDS.index("sentence"), dtype=np.uint8)
    kinds[0] = KINDS.index("generated")
    positives = np.full(count, 4)
    positives[1] = 30  # a copy behind the passages that can be found
    own = replace(passages, kinds=kinds, positive_rows=positives, source_rows=np.full(count, 7))
    assert natural_targets(own)[:3].tolist() == [7, 7, 4]


def test_a_target_is_never_excluded(passages: PassageSet) -> None:
    own = replace(passages, excluded_rows=pad_rows([(row,) for row in passages.positive_rows]))
    assert held_out_mrr(own)(Counter()) == 1.0


def test_nothing_held_out_is_an_error(passages: PassageSet) -> None:
    bare = replace(passages, is_held_out=np.zeros(len(passages.queries), dtype=bool))
    with pytest.raises(ConfigError, match="raise held_out_share"):
        held_out_mrr(bare)


def test_among_fewer_passages_the_targets_are_still_there(passages: PassageSet) -> None:
    assert held_out_mrr(passages, most_passages=5)(Counter()) == 1.0
    elsewhere = (passages.positive_rows + 1) % 30
    every = held_out_mrr(passages, targets=elsewhere)(Counter())
    assert held_out_mrr(passages, targets=elsewhere, most_passages=10**6)(Counter()) == every
    # BM25's best are first among the others, so the wrong passages are found as before
    few = held_out_mrr(passages, targets=elsewhere, most_passages=12)(Counter())
    assert every <= few < 1.0
