"""Identifiers are read by slots in their order, and what arms find is compared query by query."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.pixar_pretraining.data import Field
from benchmarks.pixar_pretraining.ordered import describe, read_slots, report, shorten
from torch.nn import functional

from quoth.models.pixar.network import PixarVectors

IDS = torch.tensor([[0, 1, 2], [3, 0, -1]])
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 3.0])


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_cosines_of_equal_slots_are_those_of_bags() -> None:
    pooled, table = _random(2, 8), _random(4, 8)
    vectors = PixarVectors(pooled, pooled[:, None].expand(-1, 3, -1))
    read = read_slots(shorten(vectors, "cosine"), table, IDS, weights=WEIGHTS, reading="cosine")
    bags = torch.stack(
        [
            sum(WEIGHTS[each] * table[each] for each in own if each >= 0)  # type: ignore[misc]
            for own in IDS.tolist()
        ]
    )
    wanted = functional.normalize(pooled, dim=1) @ functional.normalize(bags, dim=1).T
    assert torch.allclose(read, wanted, atol=1e-5)


def test_the_mean_is_over_the_phrases_that_are_there() -> None:
    slots, table = _random(1, 3, 8), _random(4, 8)
    read = read_slots(slots, table, IDS, weights=WEIGHTS, reading="mean")[0].tolist()
    first = sum(float(slots[0, at] @ table[at] - WEIGHTS[at]) for at in range(3)) / 3
    second = float(slots[0, 0] @ table[3] - 3.0 + slots[0, 1] @ table[0] - 0.5) / 2
    assert read == pytest.approx([first, second], abs=1e-5)
    unbiased = read_slots(slots, table, IDS, weights=WEIGHTS, reading="unbiased")[0].tolist()
    assert unbiased == pytest.approx([first + 3.5 / 3, second + 3.5 / 2], abs=1e-5)


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_a_passage_counts_by_its_best_identifier_and_the_mean_of_all() -> None:
    owner, counts = torch.tensor([0, 0, 1]), torch.tensor([2, 1])
    field = Field(torch.tensor([0]), torch.arange(3), owner, counts)
    ways = field.ways(torch.tensor([[0.2, 0.6, 0.5]]), heats=(1.0,))
    assert ways["max"].tolist() == [pytest.approx([0.6, 0.5])]
    assert ways["max+mean/2"].tolist() == [pytest.approx([0.6 + 0.4 / 2, 0.5 + 0.5 / 2])]
    shifted = np.log(np.exp(20 * (0.2 - 0.6)) + 1)  # from the best of all, times 20
    assert ways["logsumexp 1.0"].tolist() == [pytest.approx([shifted, 20 * (0.5 - 0.6)], abs=1e-5)]


def test_gains_and_what_is_above_bags_are_paired_by_query(tmp_path: Path) -> None:
    found = {
        "before bag_cos max": np.array([0.5, 0.5]),
        "before cosine max": np.array([0.0, 0.5]),
        "after bag_cos max": np.array([0.5, 1.0]),
        "after cosine max": np.array([1.0, 1.0]),
    }
    told = describe({"arm": "cosine", "steps": 2, "log": [[1]]}, found)
    assert told["gain"]["cosine max"]["mean"] == 0.75
    assert told["over_bags"]["cosine max"]["mean"] == 0.25
    assert (told["queries"], "log" in told) == (2, False)
    np.savez(tmp_path / "cosine.npz", **found)
    (tmp_path / "cosine.json").write_text(json.dumps({"arm": "cosine"}))
    report(tmp_path, tmp_path / "out.json")
    (row,) = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert row["after"]["cosine max"]["mean"] == 1.0
