"""The study of rankings orders hits as the product does, and counts as ranx would."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.learn.ranking.orders import Table, counted, mixed, ndcg, raised
from benchmarks.learn.ranking.study import leave_out, plain, sum_up, with_look

from quoth.records import Hit
from quoth.search.feedback import likeness
from quoth.search.standings import Look, lift, mix, raise_alike

QUERIES, PLACES = 3, 12
WORDS = [f"d{at:02}" for at in range(PLACES)]


@pytest.fixture
def table() -> Table:
    chance = np.random.default_rng(0)
    vectors = chance.normal(size=(QUERIES, PLACES, 4))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    size = QUERIES, PLACES
    return Table(
        "owls",
        {"share": 0.4},
        {
            "fused": -np.sort(-chance.random(size), axis=1),
            "relevance": chance.normal(scale=5, size=size),
            "late": chance.random(size),
            "likelihood": chance.normal(-40, 5, size=size),
            "alike": np.round(127 * vectors @ vectors.transpose(0, 2, 1)).astype(np.int8),
            "grade": chance.integers(0, 3, size=size),
            "ideal": np.tile([2, 2, 1, 1, 0, 0, 0, 0, 0, 0], (QUERIES, 1)),
            "qids": np.array(["test/0", "test/1", "train/2"]),
            "vectors": vectors,
        },
    )


def test_hits_are_ordered_as_the_product_orders_them(table: Table) -> None:
    order = with_look(0.5, 0.004, hits=5)(table)
    for at in range(QUERIES):
        hits = [Hit(docid, each) for docid, each in zip(WORDS, table["fused"][at], strict=True)]
        standings = mix(hits, table["relevance"][at].tolist(), weight=0.4, width=16.0)
        np.testing.assert_allclose(mixed(table)[at], [each.score for each in standings])
        best = sorted(range(PLACES), key=lambda place: -standings[place].score)[:5]
        looks = {p: Look(table["late"][at, p], table["likelihood"][at, p]) for p in best}
        lifted = lift(standings, looks, weights=Look(0.5, 0.004))
        scores = [each.score for each in lifted]
        vectors = dict(zip(WORDS, table["vectors"][at], strict=True))
        cosines = likeness(WORDS, scores, vectors, num_best=2)
        expected = [each.score for each in raise_alike(lifted, cosines, weight=0.6)]
        np.testing.assert_allclose(order[at], expected, atol=0.01)  # cosines are kept as int8


def test_what_is_not_known_is_not_ranked_and_counts_nothing(table: Table) -> None:
    scores = mixed(table)
    scores[:, 7:] = np.nan
    found = counted(table["late"], scores, hits=3)
    assert (np.count_nonzero(found, axis=1) == 3).all() and (found[:, 7:] == 0).all()
    np.testing.assert_allclose(found.sum(1), 0, atol=1e-12)
    assert np.isnan(raised(table, scores)[:, 7:]).all()
    best = np.argsort(-scores[0, :7])
    gains = table["grade"][0, best] / np.log2(np.arange(2, 9))
    ideal = 2 + 2 / np.log2(3) + 1 / np.log2(4) + 1 / np.log2(5)
    assert ndcg(table, scores)[0] == pytest.approx(gains.sum() / ideal)


def test_queries_that_choose_never_judge(table: Table) -> None:
    assert table.judges.tolist() == [True, True, False]
    assert not (table.judges & table.chooses).any()
    other = Table("squad-train-slice", {}, {"qids": np.array(["train/1", "train rest/2"])})
    assert other.judges.tolist() == [True, False]


def test_one_collection_is_left_out_at_a_time(table: Table) -> None:
    again = Table("hens", table.about, table.columns)
    assert set(leave_out([table, again])) == {"owls", "hens"}
    assert plain(table).shape == (QUERIES, PLACES)


def test_a_state_that_is_missing_is_that_without_fine_tuning() -> None:
    own = {"before": [0.5, 0.7], "before, twice": [0.6, 0.7], "learned 0": [0.6, 0.9]}
    rows = [
        {"set": "owls", "by_query": {"test": own}, "learned 0": {"fine-tuned": False}},
        {
            "set": "hens",
            "by_query": {"test": {**own, "learned 1": [0.5, 0.8]}},
            "learned 0": {},
            "learned 1": {},
        },
    ]
    rows[0]["means"] = {"learned 1": 0.55}
    found = {row["state"]: row for row in sum_up(rows)}
    assert found["before"]["mean"] == 0.6
    assert found["learned 0"]["by_set"] == {"owls": 0.15, "hens": 0.15}
    assert found["learned 0, once"]["difference"] == 0.0
    assert found["learned 1"]["sets"] == 1 and found["learned 1"]["mean"] == 0.6
