"""Labelled negatives: drawn per query, pushed away by either loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from quoth.training.recipes.glow import GlowPairs, build_network, train_glow
from quoth.training.recipes.glow_config import GlowRecipe
from quoth.training.retriever.hard_negatives import NEGATIVE, HardNegatives, take_negatives
from quoth.training.retriever.training_set import TrainingSet

RECIPE = GlowRecipe(
    num_layers=2, steps=30, batch_size=4, learning_rate=5e-3, dropout=0.0, query_similarity=2.0
)


@pytest.fixture
def labelled(pairs: TrainingSet) -> TrainingSet:
    """Four pairs, of which the first two have one and two labelled negatives."""
    sources = np.array([0, 0, 0, 0, 1, 1, 1], dtype=np.uint8)
    return replace(
        pairs,
        query_rows=np.array([0, 1, 2, 3, 0, 1, 1]),
        document_rows=np.array([0, 1, 2, 3, 5, 6, 7]),
        source_ids=sources,
        sources=("", NEGATIVE),
    )


def test_negatives_are_set_apart(labelled: TrainingSet, pairs: TrainingSet) -> None:
    rest, negatives = take_negatives(labelled)
    assert rest.query_rows.tolist() == rest.document_rows.tolist() == [0, 1, 2, 3]
    assert isinstance(negatives, HardNegatives)
    assert take_negatives(pairs) == (pairs, None)


def test_each_query_draws_one_of_its_own(labelled: TrainingSet) -> None:
    rest, negatives = take_negatives(labelled)
    assert negatives is not None
    chance, seen = torch.Generator().manual_seed(0), set()
    for _ in range(20):
        drawn = negatives.draw(rest, np.array([3, 1, 0]), chance)
        assert drawn is not None and drawn.query_at.tolist() == [1, 2]
        assert int(drawn.document_rows[1]) == 5
        seen.add(int(drawn.document_rows[0]))
    assert seen == {6, 7}
    assert negatives.draw(rest, np.array([2, 3]), chance) is None


@pytest.mark.parametrize("loss", ["info_nce", "bce"])
def test_training_pushes_labelled_negatives_away(
    base: torch.nn.Module, labelled: TrainingSet, loss: str
) -> None:
    recipe = replace(RECIPE, loss=loss)
    rest, negatives = take_negatives(labelled)
    cosines = {}
    for name, used in (("without", None), ("with", negatives)):
        network, _ = train_glow(base, rest, recipe, device=torch.device("cpu"), negatives=used)
        with torch.inference_mode():
            queries = network.encode_queries(labelled.queries.batch(np.array([0, 1, 1])))
            documents = network.encode_documents(labelled.documents.batch(np.array([5, 6, 7])))
        cosines[name] = float((queries * documents).sum(1).mean())
    assert cosines["with"] < cosines["without"] - 0.1


def test_a_labelled_negative_adds_its_term_to_info_nce(
    base: torch.nn.Module, labelled: TrainingSet
) -> None:
    """−log softmax with one more document in the sum, for the query that has it and for others."""
    rest, negatives = take_negatives(labelled)
    assert negatives is not None
    model = GlowPairs(build_network(base, RECIPE), RECIPE).eval()
    rows, chance = np.array([0, 2]), torch.Generator().manual_seed(0)
    drawn = negatives.draw(rest, rows, chance)
    with torch.inference_mode():
        batch = rest.batch(rows)
        found = model(batch, strength=1.0, generator=chance, negatives=drawn)
        queries = model.network.encode_queries(batch.queries)
        documents = model.network.encode_documents(rest.documents.batch(np.array([0, 2, 5])))
    logits = RECIPE.scale * queries @ documents.T
    expected = (logits.logsumexp(1) - logits.diagonal()).mean()
    torch.testing.assert_close(found, expected)
