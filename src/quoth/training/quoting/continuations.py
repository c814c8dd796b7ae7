"""What the untouched language model writes after phrases, made once and kept with a training set.

These are the paper's `generation` negatives: the right phrase, and the subwords a model finds
likely behind it. Greedy, and from the phrase alone, so a phrase has one continuation wherever it
stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.phrase_negatives import key_ids, phrase_key
from quoth.training.quoting.set import Continuations


def drawn_phrases(maker: BatchMaker, numbers: Iterable[int]) -> list[bytes]:
    """List the distinct phrases of some batches, as keys."""
    found: dict[bytes, None] = {}
    for number in numbers:
        for drawn in maker.draw(number):
            ids = drawn.sample.subword_ids
            for start, end in drawn.sample.phrases.tolist():
                found.setdefault(phrase_key(ids[start:end]))
    return list(found)


@torch.inference_mode()
def make_continuations(
    network: DynamicNetwork, phrases: Sequence[bytes], *, length: int = 4, batch_size: int = 1024
) -> Continuations:
    """Let a network go on from phrases, greedily; it should be one that was not trained yet."""
    device = next(network.parameters()).device
    by_length = sorted(set(phrases), key=lambda key: (len(key), key))
    made: dict[bytes, tuple[int, ...]] = {}
    for _, own in groupby(by_length, key=len):
        keys = list(own)
        for start in range(0, len(keys), batch_size):
            batch = keys[start : start + batch_size]
            rows = torch.tensor([key_ids(key).tolist() for key in batch], device=device)
            written = _continue(network, rows, length)[:, rows.shape[1] :].tolist()
            made |= {key: tuple(ids) for key, ids in zip(batch, written, strict=True)}
    return Continuations(made)


def _continue(network: DynamicNetwork, rows: Tensor, length: int) -> Tensor:
    """Append the likeliest subword again and again; so short a text needs no cache."""
    none = torch.zeros(0, network.width, device=rows.device)
    for _ in range(length):
        embedded = network.embed(rows, phrase_vectors=none)
        states = network.states(embedded, mask=torch.ones_like(rows, dtype=torch.bool))
        likeliest = network.subword_scores(states[:, -1]).argmax(1)
        rows = torch.cat((rows, likeliest[:, None]), dim=1)
    return rows
