"""The shortlist of a trained model: all phrases where they are few, PIXAR's centroids above."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.centroids import build_centroids, start_centroids
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.files import open_shortlist, save_shortlist
from quoth.models.pixar.shortlist.full import build_full
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.search.searcher import Progress
from quoth.training.identifiers.pairs import IdentifierPairs
from quoth.training.identifiers.shortlist import PixarShortlistRecipe, train_centroids
from quoth.training.recipes.pixar import query_batch

DEPTH = 2_000
"""Best phrases kept of each vector where all are scored: identifiers need all theirs among them."""

_MOST_SAMPLES = 50_000
_PER_CENTROID = 8  # queries, at the least
_JUDGED = 10  # one query in so many judges the rounds
_SHARE = 4  # a centroid lists at most one phrase in so many
_AT_ONCE = 256


def keep_shortlist(
    place: Path,
    pixar: Pixar,
    pairs: IdentifierPairs,
    *,
    config: ShortlistConfig,
    device: torch.device,
    progress: Progress,
) -> Shortlist:
    """Open the shortlist of a model, or build it; one that is learnt is kept for the next time."""
    if place.exists():
        return open_shortlist(place, threads=torch.get_num_threads())
    made = make_shortlist(pixar, pairs, config=config, device=device, progress=progress)
    if config.method != "full":
        save_shortlist(made, place)
    return made


def make_shortlist(
    pixar: Pixar,
    pairs: IdentifierPairs,
    *,
    config: ShortlistConfig,
    device: torch.device,
    progress: Progress | None = None,
) -> Shortlist:
    """Build the shortlist of a model; centroids learn from the queries it was trained on."""
    if config.method == "full":
        head, bias = _head(pixar, device)
        full = ShortlistConfig(method="full", storage="bfloat16", depth=min(DEPTH, len(head)))
        return build_full(head, bias, config=full, threads=torch.get_num_threads())
    centroids = learn_centroids(pixar, pairs, config=config, device=device, progress=progress)
    return list_phrases(pixar, centroids, config=config)


def learn_centroids(
    pixar: Pixar,
    pairs: IdentifierPairs,
    *,
    config: ShortlistConfig,
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:  # (m, D)
    """Find centroids of training queries, and let them learn which phrases those want.

    Every tenth query is kept back, to choose the round whose centroids serve those best.
    """

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress("learning the shortlist", done, total)

    rows = pairs.training_rows[:: max(1, len(pairs.training_rows) // _MOST_SAMPLES)]
    pooled = _pooled_vectors(pixar, pairs, rows, device=device)
    drawn = pairs.draw_targets(
        rows,
        count=1,
        num_slots=pixar.config.num_slots,
        generator=torch.Generator().manual_seed(config.seed),
    )
    targets = drawn.phrase_ids[:, 0].to(device)
    is_judged = torch.arange(len(rows), device=device) % _JUDGED == _JUDGED - 1
    count = max(1, min(config.num_centroids, int((~is_judged).sum()) // _PER_CENTROID))
    start = start_centroids(pooled[~is_judged], replace(config, num_centroids=count, num_lists=1))
    head, bias = _head(pixar, device)
    rounds = train_centroids(
        head,
        bias,
        pooled=pooled[~is_judged],
        targets=targets[~is_judged],
        start=start,
        recipe=PixarShortlistRecipe(),
        held_out=(pooled[is_judged], targets[is_judged]),
        progress=tell,
    )
    return min(rounds, key=lambda each: each.held_out_loss).centroids


def list_phrases(
    pixar: Pixar,
    centroids: Tensor,  # (m, D)
    *,
    config: ShortlistConfig,
) -> Shortlist:
    """List the phrases of each centroid; the list's length is cut to a quarter of all phrases."""
    head, bias = _head(pixar, centroids.device)
    fitting = replace(
        config,
        num_centroids=len(centroids),
        num_lists=min(config.num_lists, len(centroids)),
        list_length=min(config.list_length, -(-len(head) // _SHARE)),
    )
    return build_centroids(
        head, bias, centroids=centroids, config=fitting, threads=torch.get_num_threads()
    )


def _head(pixar: Pixar, device: torch.device) -> tuple[Tensor, Tensor]:  # (V, D), (V,)
    size = pixar.head.num_phrases
    rows = torch.from_numpy(np.array(pixar.head.rows[:size], dtype=np.float32))
    return rows.to(device), torch.from_numpy(np.array(pixar.head.bias[:size])).to(device)


@torch.inference_mode()
def _pooled_vectors(
    pixar: Pixar, pairs: IdentifierPairs, rows: np.ndarray, *, device: torch.device
) -> Tensor:  # (N, D)
    """Encode the queries of some inputs."""
    network, on_device = pixar.network.to(device), pairs.to(device)
    parts = [
        network(query_batch(on_device, rows[start : start + _AT_ONCE])).pooled.float()
        for start in range(0, len(rows), _AT_ONCE)
    ]
    network.cpu()
    return torch.cat(parts).clone()
