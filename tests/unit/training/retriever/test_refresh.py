"""The index: exact, excluded passages stay out, and it is made anew when it should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.training.passage_worlds import World, make_network

from quoth.errors import ConfigError
from quoth.training.retriever.neighbourhood import explore
from quoth.training.retriever.refresh import (
    PassageIndex,
    RefreshConfig,
    Refresher,
    encode_passages,
    overlap,
    top_k,
)
from quoth.training.retriever.retriever import Retriever, vector_width
from quoth.training.retriever.similarity import score_all, score_own

CPU = torch.device("cpu")


@pytest.fixture
def world() -> World:
    return World()


def make_retriever(similarity: str = "cosine") -> Retriever:
    return Retriever(make_network().eval(), similarity=similarity)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_top_k_is_that_of_all_scores_written_out(similarity: str) -> None:
    chance = torch.Generator().manual_seed(0)
    queries = torch.randn(3, 8, generator=chance, dtype=torch.float64)
    vectors = torch.randn(20, 8, generator=chance, dtype=torch.float64)
    if similarity == "cosine":
        queries, vectors = (torch.nn.functional.normalize(x, dim=-1) for x in (queries, vectors))
    excluded = np.array([[4, 5], [-1, -1], [0, -1]])
    found = top_k(queries, vectors, k=5, similarity=similarity, excluded=excluded)
    for b in range(3):
        score = {
            row: (
                -float(((queries[b] - vectors[row]) ** 2).sum())
                if similarity == "l2"
                else float((queries[b] * vectors[row]).sum())
            )
            for row in range(20)
            if row not in excluded[b]
        }
        assert found[b].tolist() == sorted(score, key=lambda row: -score[row])[:5]
    own = score_own(queries, vectors[found], similarity=similarity)
    everything = score_all(queries, vectors, similarity=similarity)
    torch.testing.assert_close(own, everything.gather(1, found))


def test_passages_are_encoded_in_their_order(world: World) -> None:
    retriever = make_retriever()
    vectors = encode_passages(retriever, world.passage_set)
    assert vectors.shape == (30, vector_width(retriever, CPU))
    one = retriever.encode_passages(world.passage_set.passage_batch(np.array([17])))
    torch.testing.assert_close(vectors[17:18], one.detach())


def test_the_index_is_made_anew_every_n_steps(world: World) -> None:
    retriever = make_retriever()
    index = PassageIndex(30, 32)
    refresher = Refresher(index, retriever, world.passage_set, RefreshConfig(every=3), k=4)
    shares = [refresher.before_step(step) for step in range(1, 8)]
    assert [at for at, share in enumerate(shares, 1) if share is not None] == [1, 4, 7]
    assert shares[0] == shares[3] == 1.0  # nothing was trained in between
    torch.testing.assert_close(index.vectors, encode_passages(retriever, world.passage_set))


def test_the_index_is_made_anew_when_the_encoder_moved(world: World) -> None:
    retriever = make_retriever()
    config = RefreshConfig(every=0, min_overlap=0.9, check_every=2)
    index = PassageIndex(30, 32)
    refresher = Refresher(index, retriever, world.passage_set, config, k=4)
    assert [refresher.before_step(step) for step in range(1, 6)] == [1.0, None, None, None, None]
    with torch.no_grad():
        for parameter in retriever.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    assert refresher.before_step(6) is None  # not looked at
    share = refresher.before_step(7)
    assert share is not None and share < 0.9
    assert int(index.made_at) == 6


def test_exploration_takes_the_last_places(world: World) -> None:
    own = world.passage_set
    rows, found = np.array([3, 9]), np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    chance = np.random.default_rng(0)
    lexical = explore(found, own, rows, count=1, kind="bm25", chance=chance)
    assert lexical[:, :3].tolist() == found[:, :3].tolist()
    for at, row in enumerate(rows):
        missing = [each for each in own.lexical_rows[row] if each not in found[at, :3]]
        assert lexical[at, 3] == missing[0]
    mixed = explore(found, own, rows, count=2, kind="random", chance=chance)
    assert all(len(set(each)) == 4 for each in mixed.tolist())
    assert explore(found, own, rows, count=0, kind="random", chance=chance) is found


def test_overlap_counts_rows_whatever_their_order() -> None:
    assert overlap(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[4, 9, 1, 8]])) == 0.5


def test_impossible_settings_are_errors() -> None:
    with pytest.raises(ConfigError, match="min_overlap is 2"):
        RefreshConfig(min_overlap=2)
    with pytest.raises(ConfigError, match="only 3 passages"):
        top_k(torch.ones(1, 2), torch.ones(3, 2), k=4, similarity="dot")
