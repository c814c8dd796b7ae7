"""Queries are rebuilt as the formulas say, and told as they were written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.learn.rebuilt import (
    Neighbours,
    joined_step,
    marginal_step,
    read_passages,
    write_alone,
)
from benchmarks.learn.rebuilt_report import join, show_passages, sum_up, tell
from tests.unit.training.passage_worlds import CLS, SEP, World, make_writer

from quoth.models.query_generator.decoding import DecodingRules
from quoth.training.recipes.acrobart import attention_bias

RULES = DecodingRules(prefix=(CLS,), end=SEP, max_length=6, no_repeat=0)


def make_neighbours() -> Neighbours:
    """What two queries have found, three passages each."""
    rows = torch.tensor([[0, 4, 7], [3, 3, 9]])
    scores = torch.tensor([[0.9, 0.5, 0.1], [0.3, 0.3, 0.2]])
    return read_passages(make_writer().eval(), World().passage_set, scores, rows)


@torch.no_grad()
def test_the_mixture_is_the_weighted_mean_of_what_each_passage_says() -> None:
    writer, neighbours = make_writer().eval(), make_neighbours()
    prior = torch.softmax(5 * neighbours.scores, dim=-1)
    step = marginal_step(writer, neighbours, prior.log())
    tokens = torch.tensor([[CLS, CLS], [11, 12]])
    step(tokens[0], None)
    found = step(tokens[1], None).exp()
    for query in range(2):
        inputs = tokens[:, query].repeat(3, 1)
        alone = writer.decode(inputs, neighbours.states[query], neighbours.mask[query])[:, -1]
        expected = (prior[query, :, None] * alone.softmax(-1)).sum(0)
        torch.testing.assert_close(found[query], expected, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_all_passages_at_once_heed_their_bias() -> None:
    writer, neighbours = make_writer().eval(), make_neighbours()
    length = neighbours.mask.shape[2]
    strong = torch.tensor([[60.0, 0.0, 0.0], [0.0, 0.0, 60.0]])
    bias = attention_bias(strong, torch.ones(1, 1), num_subwords=length)
    found = joined_step(writer, neighbours, bias)(torch.tensor([CLS, CLS]), None)
    chosen = torch.stack((neighbours.states[0, 0], neighbours.states[1, 2]))
    mask = torch.stack((neighbours.mask[0, 0], neighbours.mask[1, 2]))
    alone = writer.decode(torch.tensor([[CLS], [CLS]]), chosen, mask)[:, -1]
    torch.testing.assert_close(found, alone, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_every_way_of_decoding_writes_one_query_a_passage() -> None:
    neighbours = make_neighbours()
    found = write_alone(make_writer().eval(), neighbours.states[0], neighbours.mask[0], RULES)
    assert {way: len(own) for way, own in found.items()} == dict(greedy=3, beam=3, nucleus=3)
    assert all(len(tokens) < RULES.max_length for own in found.values() for tokens in own)


def _written(query: str, marginal: str, alone: str, joined: str) -> dict[str, dict[str, Any]]:
    ways = {"greedy": alone, "beam": alone, "nucleus": alone}
    return {
        "rumbart": {"query": query, "rows": [2], "marginal": marginal, "alone": [ways]},
        "acrobart": {"query": query, "rows": [1], "joined": joined},
    }


def test_queries_are_shown_by_number_and_counted_by_words() -> None:
    both = (
        _written("what do owls eat", "owls owls eat", "what do owls eat", "x"),
        _written("barn owls", "barn", "owls", "barn barn"),
    )
    written = {arm: [each[arm] for each in both] for arm in ("rumbart", "acrobart")}
    tests = {"dl19": [["20", "what do owls eat"]], "dl20": [["3", "barn owls"]]}
    found = join(tests, written)
    assert [each["qid"] for each in found] == ["3", "20"]
    assert show_passages(found[0], ["one", "two"])[0]["passage"] == "two"
    told = sum_up(found)
    means = {each["way"]: each["mean"] for each in told["means"]}
    assert means["alone"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-4)
    assert means["marginal"] == pytest.approx((2 / 3 + 4 / 7) / 2, abs=1e-4)
    assert means["joined"] == pytest.approx((1 / 2 + 0) / 2, abs=1e-4)
    assert tell(told)["repeated"] == dict(query="all 2", marginal="50%", alone="0%", joined="50%")
    assert tell(told)["shared"]["joined"].startswith("0.25 [")
    assert told["repeats"] == {"marginal": 0.5, "alone": 0.0, "joined": 0.5}


def test_queries_that_were_not_rebuilt_are_refused() -> None:
    own = _written("owls", "a", "b", "c")
    with pytest.raises(SystemExit, match="not the one"):
        join({"dl19": [["1", "hens"]]}, {arm: [each] for arm, each in own.items()})
