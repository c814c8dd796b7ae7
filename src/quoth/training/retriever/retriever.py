"""What is trained to retrieve: batches in, vectors out, compared by one similarity.

`Retriever` is the dual encoder. `LayerRetriever` is the thesis' single model: a layer of the query
generator's own encoder, pooled. It collapsed there at every layer, and is kept to show that.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from quoth.errors import ConfigError
from quoth.models.glow.network import GlowNetwork, Projection, TokenBatch
from quoth.models.query_generator.foreign import ForeignNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.loop import set_dropout
from quoth.training.retriever.similarity import shape_vectors


class VectorMaker(Protocol):
    """What an index and a loss ask of a retriever."""

    similarity: str

    def encode_queries(self, batch: TokenBatch) -> Tensor:
        """Return the vectors of queries, (B, D)."""
        ...

    def encode_passages(self, batch: TokenBatch) -> Tensor:
        """Return the vectors of passages, (B, D)."""
        ...


class Retriever(nn.Module):
    """A dual encoder whose vectors fit its similarity."""

    def __init__(self, network: GlowNetwork, *, similarity: str) -> None:
        super().__init__()
        self.network = network
        self.similarity = similarity

    def encode_queries(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of queries."""
        return shape_vectors(self.network.raw_queries(batch), similarity=self.similarity)

    def encode_passages(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of passages."""
        return shape_vectors(self.network.raw_documents(batch), similarity=self.similarity)


class LayerRetriever(nn.Module):
    """The states of one layer of a query generator's encoder, pooled to a vector."""

    def __init__(
        self,
        query_generator: QueryGeneratorNetwork | ForeignNetwork,
        *,
        layer: int,
        pooling: str,
        similarity: str,
    ) -> None:
        super().__init__()
        count = int(query_generator.encoder.config.num_hidden_layers)  # type: ignore[union-attr,arg-type]
        if not query_generator.train_encoder or not 1 <= layer <= count:
            raise ConfigError(
                "a single model needs a query generator whose encoder is trained"
                f" (train_encoder = true) and a layer from 1 to {count}; layer is {layer}"
            )
        self.encoder = query_generator.encoder
        self.similarity = similarity
        self._layer = layer
        self._pooling = pooling

    def encode_queries(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of queries, which are encoded as passages are."""
        return self.encode_passages(batch)

    def encode_passages(self, batch: TokenBatch) -> Tensor:  # (B, D)
        """Return the vectors of passages."""
        output: Any = self.encoder(
            input_ids=batch.subword_ids,
            attention_mask=batch.mask.long(),
            output_hidden_states=True,
        )
        states = output.hidden_states[self._layer]  # (B, T, D); 0 are the embeddings
        if self._pooling == "cls":
            pooled = states[:, 0]
        else:
            kept = states.masked_fill(~batch.mask[..., None], 0.0)
            pooled = kept.sum(1) / batch.mask.sum(1, keepdim=True).clamp_min(1)
        return shape_vectors(pooled, similarity=self.similarity)


@torch.no_grad()
def vector_width(retriever: VectorMaker, device: torch.device) -> int:
    """Find out how long a retriever's vectors are, by making one."""
    one = torch.ones((1, 2), dtype=torch.long, device=device)
    batch = TokenBatch(one, one.bool(), one.float(), torch.zeros_like(one))
    return int(retriever.encode_passages(batch).shape[-1])


def prepare_network(
    network: GlowNetwork, *, projection: int, dropout: float, device: torch.device
) -> GlowNetwork:
    """Copy a network for training: on the device, with its dropout and a projection if asked."""
    own = copy.deepcopy(network).float()
    if projection and own.projection is None:
        width = int(own.query_encoder.config.hidden_size)  # type: ignore[union-attr,arg-type]
        own.projection = Projection(width, projection)
    set_dropout(own, dropout)
    return own.to(device)
