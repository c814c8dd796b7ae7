"""The embedded query generator's network: passages' subwords in, log-probabilities of queries out.

A stock BERT-like encoder reads the passage; a decoder of the same width, whose layers start as the
encoder's own (cross-attention as self-attention), writes the query. Input embedding and output head
are the encoder's table of words, which is never trained. Cross-attention takes an additive bias, so
that several passages can be read at once, each as strongly as a retriever trusts it (ACROBArT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.kernels import steady_kernels
from quoth.models.query_generator.attention import CrossAttention, Kept, SelfAttention, Sources

HEAD_SCALE = 0.25
"""Where the weight of the head's LayerNorm starts; at 1 the first logits are extreme."""

_HEAD_ROWS = 4096


class TextBatch(NamedTuple):
    """Padded sequences of subwords."""

    subword_ids: Tensor  # (B, T) int64
    mask: Tensor  # (B, T) bool, False where padded

    def to(self, device: torch.device) -> TextBatch:
        """Move both tensors."""
        return TextBatch(*(tensor.to(device, non_blocking=True) for tensor in self))


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and a feed-forward net, each normalised after it is added."""

    def __init__(self, width: int, *, num_heads: int, inner: int, epsilon: float) -> None:
        super().__init__()
        self.attention = SelfAttention(width, num_heads=num_heads)
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.cross_attention = CrossAttention(width, num_heads=num_heads)
        self.cross_norm = nn.LayerNorm(width, eps=epsilon)
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = nn.Dropout(0.0)

    def forward(self, hidden: Tensor, sources: Sources, kept: Kept | None) -> Tensor:  # (R, L, D)
        """Return the next states; `kept` holds what earlier steps left and is added to."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, kept)))
        hidden = self.cross_norm(hidden + self.dropout(self.cross_attention(hidden, sources)))
        inner = functional.gelu(self.expand(hidden))
        added: Tensor = self.output_norm(hidden + self.dropout(self.contract(inner)))
        return added

    def start_from(self, layer: Any) -> None:
        """Copy a layer of a BERT encoder."""
        own, output = layer.attention.self, layer.attention.output
        for attention in (self.attention, self.cross_attention):
            attention.query.load_state_dict(own.query.state_dict())
            attention.key.load_state_dict(own.key.state_dict())
            attention.value.load_state_dict(own.value.state_dict())
            attention.output.load_state_dict(output.dense.state_dict())
        for norm in (self.attention_norm, self.cross_norm):
            norm.load_state_dict(output.LayerNorm.state_dict())
        self.expand.load_state_dict(layer.intermediate.dense.state_dict())
        self.contract.load_state_dict(layer.output.dense.state_dict())
        self.output_norm.load_state_dict(layer.output.LayerNorm.state_dict())


class Memory(nn.Module):
    """What the decoder reads of a passage: the last states, and a mix of earlier ones.

    The last layer of a sentence encoder tells what a passage is about, and little of which words it
    holds; the embeddings and the middle layer do. The mix starts at nothing.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(2 * width, width)
        nn.init.zeros_(self.mix.weight)
        nn.init.zeros_(self.mix.bias)

    def forward(self, states: Sequence[Tensor]) -> Tensor:  # (B, T, D)
        """Join the states of all layers, the embeddings first."""
        earlier = torch.cat((states[0], states[len(states) // 2]), dim=-1)
        joined: Tensor = states[-1] + self.mix(earlier)
        return joined


class QueryGeneratorNetwork(nn.Module):
    """A BERT-like encoder, frozen unless said otherwise, and a decoder made from it."""

    def __init__(
        self,
        encoder: nn.Module,
        *,
        num_layers: int,
        max_query_subwords: int,
        start_id: int,
        train_encoder: bool = False,
        memory: str = "layers",
    ) -> None:
        super().__init__()
        settings: Any = encoder.config
        width, epsilon = settings.hidden_size, settings.layer_norm_eps
        self.num_decoder_layers: int = num_layers
        self.num_heads: int = settings.num_attention_heads
        self.prefix: tuple[int, ...] = (start_id,)
        self.train_encoder = train_encoder
        self.encoder = encoder
        self.memory = Memory(width) if memory == "layers" else None
        self.positions = nn.Embedding(max_query_subwords, width)
        self.embedding_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = nn.Dropout(0.0)
        self.layers = nn.ModuleList(
            DecoderLayer(
                width, num_heads=self.num_heads, inner=settings.intermediate_size, epsilon=epsilon
            )
            for _ in range(num_layers)
        )
        self.head_norm = nn.LayerNorm(width, eps=epsilon)
        self.head_bias = nn.Parameter(torch.zeros(settings.vocab_size))
        self._exact_words: Tensor | None = None
        self._start_from_encoder()
        self._freeze()

    def encode(self, passages: TextBatch) -> Tensor:  # (B, T, D)
        """Return the states of passages; no gradient reaches the encoder unless it is trained."""
        return self.encode_twice(passages)[1]

    def encode_twice(self, passages: TextBatch) -> tuple[Tensor, Tensor]:  # (B, T, D) each
        """Return the encoder's last states of passages, and what the decoder reads of them."""
        grad = torch.is_grad_enabled() and self.train_encoder
        with torch.set_grad_enabled(grad), steady_kernels(passages.mask.device):
            output = self.encoder(
                input_ids=passages.subword_ids,
                attention_mask=passages.mask.long(),
                output_hidden_states=self.memory is not None,
            )
        last: Tensor = output.last_hidden_state
        return last, last if self.memory is None else self.memory(output.hidden_states)

    def decode(
        self, inputs: Tensor, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L, V)
        """Return the logits after each decoder input; inputs begin with the start symbol.

        `states` (B, S, D) and `mask` (B, S) may join several passages. `bias` is added to the
        logits of cross-attention, before masking; it broadcasts to (layers, B, heads, S). Inputs
        may have n · B rows: then row r reads the states of r // n.
        """
        return self._head(self._hidden(inputs, states, mask, bias))

    def log_probs(
        self, targets: TextBatch, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L)
        """Return log p(target | earlier targets, states), 0 where padded.

        Targets end with the end symbol and do not begin with the start symbol.
        """
        return -self.target_losses(targets, states, mask, bias=bias)

    def target_losses(
        self,
        targets: TextBatch,
        states: Tensor,
        mask: Tensor,
        *,
        bias: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:  # (B, L)
        """Return the cross-entropy of each target, 0 where padded; padding never meets the head."""
        inputs = decoder_inputs(targets.subword_ids, self.prefix)
        hidden = self._hidden(inputs, states, mask, bias)[targets.mask]  # (real targets, D)
        wanted = targets.subword_ids[targets.mask]
        parts = [
            cross_entropy(self._head(some), ids, label_smoothing=label_smoothing)
            for some, ids in zip(
                torch.split(hidden, _HEAD_ROWS), torch.split(wanted, _HEAD_ROWS), strict=True
            )
        ]
        return spread(torch.cat(parts), targets.mask)

    def begin(self, states: Tensor, mask: Tensor, *, per_passage: int = 1) -> Decoding:
        """Begin to write `per_passage` queries for each passage, step by step."""
        return Decoding(self, self._sources(states, mask, None), states.shape[0] * per_passage)

    def use_bf16(self) -> None:
        """Compute in bf16 from now on, all but the head.

        Logits in bf16 have steps of 1/16: many would tie, and scores be off by tenths of a nat.
        """
        self._exact_words = self._words.detach().clone()
        self.to(torch.bfloat16)
        self.head_norm.float()
        self.head_bias.data = self.head_bias.data.float()

    def train(self, mode: bool = True) -> QueryGeneratorNetwork:
        """Switch dropout on or off; a frozen encoder never drops anything."""
        super().train(mode)
        if not self.train_encoder:
            self.encoder.eval()
        return self

    def advance(self, inputs: Tensor, sources: list[Sources], kept: list[Kept]) -> Tensor:
        """Return the logits after one more input per row, (R, V); `kept` grows by one step."""
        hidden = self._embed(inputs[:, None], first=kept[0].length)
        with steady_kernels(hidden.device):
            for layer, own, past in zip(self.layers, sources, kept, strict=True):
                hidden = layer(hidden, own, past)
        return self._head(hidden[:, 0])

    def _hidden(
        self, inputs: Tensor, states: Tensor, mask: Tensor, bias: Tensor | None
    ) -> Tensor:  # (B, L, D)
        hidden = self._embed(inputs, first=0)
        with steady_kernels(hidden.device):
            for layer, own in zip(self.layers, self._sources(states, mask, bias), strict=True):
                hidden = layer(hidden, own, None)
        return hidden

    def _embed(self, inputs: Tensor, *, first: int) -> Tensor:
        places = torch.arange(first, first + inputs.shape[1], device=inputs.device)
        if first + inputs.shape[1] > self.positions.num_embeddings:
            raise ConfigError(
                f"a query of {first + inputs.shape[1]} subwords was given to a generator that"
                f" knows {self.positions.num_embeddings}; cut it, or raise max_query_subwords"
            )
        words = functional.embedding(inputs, self._words)
        embedded: Tensor = self.dropout(self.embedding_norm(words + self.positions(places)))
        return embedded

    def _head(self, hidden: Tensor) -> Tensor:
        words = self._words if self._exact_words is None else self._exact_words
        normed = self.head_norm(hidden.to(self.head_norm.weight.dtype))
        return functional.linear(normed, words, self.head_bias)

    def _sources(self, states: Tensor, mask: Tensor, bias: Tensor | None) -> list[Sources]:
        """Prepare what each layer's cross-attention reads; it stays the same for all steps."""
        if bias is not None:
            shape = (self.num_decoder_layers, states.shape[0], self.num_heads, states.shape[1])
            bias = bias.float().expand(shape)
        return [
            layer.cross_attention.sources(states, mask, None if bias is None else bias[at])  # type: ignore[operator,union-attr]
            for at, layer in enumerate(self.layers)
        ]

    @property
    def _words(self) -> Tensor:
        return self.encoder.get_input_embeddings().weight  # type: ignore[operator,no-any-return]

    def _start_from_encoder(self) -> None:
        encoder: Any = self.encoder
        layers, embeddings = encoder.encoder.layer, encoder.embeddings
        if self.num_decoder_layers > len(layers):
            raise ConfigError(
                f"the encoder has {len(layers)} layers, a decoder of {self.num_decoder_layers}"
                " cannot start from them; lower num_layers"
            )
        for own, at in zip(self.layers, spaced(len(layers), len(self.layers)), strict=True):
            own.start_from(layers[at])  # type: ignore[operator]
        with torch.no_grad():  # the one token type of a query is part of its positions
            count = self.positions.num_embeddings
            known = embeddings.position_embeddings.weight[:count]
            self.positions.weight.copy_(known + embeddings.token_type_embeddings.weight[0])
            self.head_norm.weight.fill_(HEAD_SCALE)
        self.embedding_norm.load_state_dict(embeddings.LayerNorm.state_dict())

    def _freeze(self) -> None:
        """Keep the encoder as it is, or at least its table of words, which is the head's too."""
        self.encoder.requires_grad_(self.train_encoder)
        self._words.requires_grad_(False)
        pooler = getattr(self.encoder, "pooler", None)
        if pooler is not None:
            pooler.requires_grad_(False)


class Decoding:
    """Queries half written: what was computed for earlier steps, and the passages they read."""

    def __init__(self, network: QueryGeneratorNetwork, sources: list[Sources], rows: int) -> None:
        self._network = network
        self._sources = sources
        self._kept = [Kept() for _ in sources]
        self.num_rows = rows

    def __call__(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:  # (R, V)
        """Append a token to each row and give the logits of what follows.

        `parents` says which row each row continues, of the same passage; None is each its own.
        """
        if parents is not None:
            for kept in self._kept:
                kept.reorder(parents)
        return self._network.advance(tokens, self._sources, self._kept).float()


def decoder_inputs(targets: Tensor, prefix: tuple[int, ...]) -> Tensor:  # (B, prefix + L − 1)
    """Return what the decoder reads to write some targets: the prefix, then all but the last.

    >>> decoder_inputs(torch.tensor([[7, 8, 9]]), (1,)).tolist()
    [[1, 7, 8]]
    """
    first = targets.new_tensor(prefix).expand(targets.shape[0], -1)
    return torch.cat((first, targets[:, :-1]), dim=1)


def cross_entropy(logits: Tensor, wanted: Tensor, *, label_smoothing: float) -> Tensor:  # (N,)
    """Return −log p of the wanted subwords, in fp32 whatever the logits are in."""
    with torch.autocast(logits.device.type, enabled=False):
        return functional.cross_entropy(
            logits.float(), wanted, reduction="none", label_smoothing=label_smoothing
        )


def spread(values: Tensor, mask: Tensor) -> Tensor:
    """Put values where a mask is True, in its order, and 0 elsewhere.

    >>> spread(torch.tensor([1.0, 2.0]), torch.tensor([[True, False], [False, True]])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return values.new_zeros(mask.shape).masked_scatter(mask, values)


def spaced(count: int, chosen: int) -> list[int]:
    """Choose positions from the first to the last, evenly.

    >>> spaced(6, 6), spaced(6, 3), spaced(6, 1)
    ([0, 1, 2, 3, 4, 5], [0, 2, 5], [0])
    """
    return [int(at) for at in torch.linspace(0, count - 1, chosen)]
