"""Spherical k-means: clusters found, no cell empty, the same seed the same cells."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.pixar.shortlist.kmeans import nearest, spherical_kmeans


def _cluster(vectors: torch.Tensor, num_cells: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(0)
    return spherical_kmeans(vectors, num_cells=num_cells, iterations=10, generator=chance)


def test_separate_clusters_become_cells_with_their_mean() -> None:
    chance = torch.Generator().manual_seed(1)
    noise = torch.randn(90, 16, generator=chance)
    vectors = 10.0 * torch.eye(16)[:3].repeat(30, 1) + 0.1 * noise
    means = _cluster(vectors, 3)
    expected = torch.stack([vectors[at::3].mean(dim=0) for at in range(3)])
    order = nearest(expected, means)[0]
    assert sorted(order.tolist()) == [0, 1, 2]
    assert torch.allclose(means[order], expected, atol=1e-4)


def test_no_cell_is_empty_where_most_vectors_are_the_same() -> None:
    vectors = torch.cat((torch.ones(20, 4), torch.eye(4)))
    means = _cluster(vectors, 5)
    assert (means.norm(dim=1) > 0).all()
    cells = nearest(vectors, functional.normalize(means, dim=1))[0]
    assert len(set(cells[20:].tolist())) == 4  # the rare ones got cells of their own


def test_the_seed_decides_all() -> None:
    vectors = torch.randn(200, 8, generator=torch.Generator().manual_seed(2))
    assert torch.equal(_cluster(vectors, 12), _cluster(vectors, 12))


def test_too_few_vectors_are_an_error() -> None:
    with pytest.raises(ConfigError, match="3 vectors cannot fill 4 cells"):
        _cluster(torch.eye(3), 4)
