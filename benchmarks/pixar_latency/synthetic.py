"""A head of the wanted shape whose rows cluster, and queries that fall among the clusters.

Latency depends on shapes, and on how far the lists of near centroids overlap. Rows belong to topics
and topics to subjects, sixteen each, so that a query's nearest centroids share much of their lists,
as those of a trained head may. How many rows were scored is reported with every time, and the worst
case (lists that share nothing, rows all over the head) is measured as well.

To list the best rows of 4096 centroids among 5 million takes far longer than all that is timed, so
a list is put together from what is known: the best rows of the topic's subject, and rows drawn at
random where these are too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

TOPICS_PER_SUBJECT = 16
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class World:
    """A head, its bias, and the centroids of its topics."""

    head: Tensor  # (V, D) bfloat16
    bias: Tensor  # (V,) float32
    topics: Tensor  # (m, D) float32, unit length
    subject_of_row: Tensor  # (V,)
    subject_of_topic: Tensor  # (m,)


def make_world(num_rows: int, *, width: int, num_topics: int, seed: int, device: str) -> World:
    """Draw a head, block by block."""
    chance = torch.Generator(device).manual_seed(seed)
    num_subjects = max(1, num_topics // TOPICS_PER_SUBJECT)
    subjects = _draw((num_subjects, width), chance)
    own = torch.arange(num_topics, device=device) % num_subjects
    topics = _mix(subjects[own], _draw((num_topics, width), chance), share=0.7)
    head = torch.empty((num_rows, width), dtype=torch.bfloat16, device=device)
    subject_of_row = torch.empty(num_rows, dtype=torch.int64, device=device)
    for start in range(0, num_rows, _ROWS_AT_ONCE):
        block = head[start : start + _ROWS_AT_ONCE]
        chosen = torch.randint(0, num_topics, (len(block),), generator=chance, device=device)
        subject_of_row[start : start + len(block)] = own[chosen]
        noise = _draw((len(block), width), chance)
        block.copy_(_mix(topics[chosen], noise, share=0.5))
    bias = torch.randn(num_rows, generator=chance, device=device) * 0.01
    return World(head, bias, topics, subject_of_row, own)


def list_rows(world: World, *, length: int, seed: int) -> Tensor:  # (m, r) int32
    """List rows for each topic, best first."""
    device = world.head.device
    chance = torch.Generator(device).manual_seed(seed)
    length = min(length, len(world.head))
    lists = torch.empty((len(world.topics), length), dtype=torch.int32, device=device)
    rows_by_subject = torch.argsort(world.subject_of_row, stable=True)
    counts = torch.bincount(world.subject_of_row, minlength=int(world.subject_of_topic.max()) + 1)
    groups = torch.split(rows_by_subject, counts.tolist())
    for subject, rows in enumerate(groups):
        topics = (world.subject_of_topic == subject).nonzero().flatten()
        scores = world.topics[topics] @ world.head[rows].float().T + world.bias[rows]
        best = rows[scores.topk(min(length, len(rows)), dim=1).indices]
        others = _draw_others(world, subject, length - best.shape[1], chance)
        lists[topics, : best.shape[1]] = best.int()
        lists[topics, best.shape[1] :] = others.int()
    return lists


def _draw_others(world: World, subject: int, count: int, chance: torch.Generator) -> Tensor:
    """Draw distinct rows of other subjects for a subject's topics, (topics, count)."""
    topics = int((world.subject_of_topic == subject).sum())
    device = world.head.device
    picks = []
    for _ in range(topics):
        wanted = torch.randint(
            0, len(world.head), (2 * count + 100,), generator=chance, device=device
        )
        strange = torch.unique(wanted[world.subject_of_row[wanted] != subject])
        order = torch.randperm(len(strange), generator=chance, device=device)[:count]
        picks.append(strange[order])
    return torch.stack(picks)


def draw_queries(
    world: World, count: int, *, num_slots: int, seed: int
) -> tuple[Tensor, Tensor]:  # (N, D), (N, S, D)
    """Draw pooled vectors near topics, and slot vectors near the pooled ones."""
    device = world.head.device
    chance = torch.Generator(device).manual_seed(seed)
    width = world.topics.shape[1]
    chosen = torch.randint(0, len(world.topics), (count,), generator=chance, device=device)
    pooled = _mix(world.topics[chosen], _draw((count, width), chance), share=0.8)
    noise = _draw((count, num_slots, width), chance)
    return 10 * pooled, 10 * _mix(pooled[:, None].expand_as(noise), noise, share=0.7)


def _draw(shape: tuple[int, ...], chance: torch.Generator) -> Tensor:
    return functional.normalize(torch.randn(shape, generator=chance, device=chance.device), dim=-1)


def _mix(centre: Tensor, noise: Tensor, *, share: float) -> Tensor:
    """Return unit vectors whose cosine with the centre is about `share`."""
    return functional.normalize(share * centre + (1 - share**2) ** 0.5 * noise, dim=-1)
