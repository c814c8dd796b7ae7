"""A query generator as a scorer of passages that keeps their states, by torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from quoth.errors import ConfigError
from quoth.models.batching import BATCH_SUBWORDS, batches_by_length
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.heard import Heard, Vectors, cut_where_read
from quoth.models.query_generator.network import QueryGeneratorNetwork


class TorchScorer:
    """Reads with the network of a generator over a sentence encoder."""

    def __init__(self, generator: QueryGenerator) -> None:
        if not isinstance(generator.network, QueryGeneratorNetwork):
            raise ConfigError(f"{generator.name} is not made over a sentence encoder")
        self._network = generator.network
        self._inputs = generator.inputs
        self._device = generator.device

    @torch.inference_mode()
    def read(self, passages: Sequence[Sequence[int]], query: Sequence[int]) -> Heard:
        """Read passages, `[CLS] … [SEP]`, for a query that ends with `[SEP]`."""
        states: list[Vectors] = [None] * len(passages)  # type: ignore[list-item]
        log_probs = [0.0] * len(passages)
        lengths = [len(each) for each in passages]
        for rows in batches_by_length(lengths, budget=BATCH_SUBWORDS):
            batch = self._inputs.pad([passages[row] for row in rows]).to(self._device)
            last, joined = self._network.encode_twice(batch)
            targets = self._inputs.pad([query] * len(rows)).to(self._device)
            found = self._network.log_probs(targets, joined, batch.mask).float().sum(1).tolist()
            own = cut_where_read(last.float().cpu().numpy(), [lengths[row] for row in rows])
            for row, each, score in zip(rows, own, found, strict=True):
                states[row], log_probs[row] = each, score
        return Heard(states, log_probs)
