"""A causal language model as a query generator: it reads a passage and goes on with its query.

Offers what `QueryGeneratorNetwork` offers, over a Llama with adapters. What `encode` keeps of a
passage are the keys and values of all layers, as one tensor with a row per passage. A passage is
read once, however many queries are written for it or scored against it, and gradients flow back
through what was kept: training needs nothing else.

Shapes: N layers; H heads of which m share the key and value of one of G groups; d numbers each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.llama import LlamaShape, rotate, rotations
from quoth.models.kernels import steady_kernels
from quoth.models.lora import adapter_tensors, merge_adapters
from quoth.models.query_generator.attention import Kept
from quoth.models.query_generator.network import TextBatch, cross_entropy, decoder_inputs, spread

_HEAD_ROWS = 4096
_MODEL = "model."  # what files put before the names of all tensors but the output table
_HEAD = "lm_head.weight"

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention of new tokens: queries (R, H, T, d), keys and values (R, G, T, d) to (R, H, T, d)."""

Rotation = tuple[Tensor, Tensor]


class Past(NamedTuple):
    """What one layer kept of passages, (B, G, S, d) each."""

    keys: Tensor
    values: Tensor


class CausalAttention(nn.Module):
    """Four projections; whom tokens attend to is told by `attend`."""

    def __init__(self, shape: LlamaShape, *, width: int) -> None:
        super().__init__()
        self._head_width = shape.head_width
        inner, shared = (
            count * shape.head_width for count in (shape.num_heads, shape.num_key_heads)
        )
        self.q_proj = nn.Linear(width, inner, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor, rotation: Rotation, attend: Attend) -> Tensor:  # (R, T, D)
        """Attend from the states of new tokens."""
        query = _turn(self._heads(self.q_proj(states)), rotation)
        found = attend(query, *self.kept(states, rotation))
        output: Tensor = self.o_proj(found.transpose(1, 2).flatten(2))
        return output

    def kept(self, states: Tensor, rotation: Rotation) -> Past:
        """Return the keys and values of new tokens."""
        keys = _turn(self._heads(self.k_proj(states)), rotation)
        return Past(keys, self._heads(self.v_proj(states)))

    def _heads(self, states: Tensor) -> Tensor:  # (R, heads, T, d)
        return states.view(*states.shape[:2], -1, self._head_width).transpose(1, 2)


class CausalMlp(nn.Module):
    """The gated feed-forward net of a Llama layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor) -> Tensor:  # (R, T, D)
        """Transform each token."""
        output: Tensor = self.down_proj(
            functional.silu(self.gate_proj(states)) * self.up_proj(states)
        )
        return output


class CausalLayer(nn.Module):
    """Attention and a feed-forward net, each normalised before and added."""

    def __init__(self, shape: LlamaShape, *, width: int, inner: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=shape.norm_epsilon)
        self.self_attn = CausalAttention(shape, width=width)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=shape.norm_epsilon)
        self.mlp = CausalMlp(width, inner)

    def forward(self, states: Tensor, rotation: Rotation, attend: Attend) -> Tensor:  # (R, T, D)
        """Return the next states."""
        states = states + self.self_attn(self.input_layernorm(states), rotation, attend)
        added: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return added

    def kept(self, states: Tensor, rotation: Rotation) -> Past:
        """Return the keys and values of states, where the next states are not needed."""
        return self.self_attn.kept(self.input_layernorm(states), rotation)


class CausalNetwork(nn.Module):
    """A Llama that writes queries; it is frozen, and adapters are put around its layers."""

    def __init__(
        self, tensors: Mapping[str, Tensor], shape: LlamaShape, *, prefix: tuple[int, ...]
    ) -> None:
        """`tensors` by their names in a file; `prefix` is what is read before a query."""
        super().__init__()
        words = tensors[f"{_MODEL}embed_tokens.weight"]
        inner = len(tensors[f"{_MODEL}layers.0.mlp.gate_proj.weight"])
        self.prefix = prefix
        self.shape = shape
        with torch.device("meta"):  # filled below
            self.embed_tokens = nn.Embedding(*words.shape)
            self.layers = nn.ModuleList(
                CausalLayer(shape, width=words.shape[1], inner=inner)
                for _ in range(shape.num_layers)
            )
            self.norm = nn.RMSNorm(words.shape[1], eps=shape.norm_epsilon)
            self.head = None if shape.is_tied else nn.Embedding(*words.shape)
        own = {name.removeprefix(_MODEL): each for name, each in tensors.items() if name != _HEAD}
        if not shape.is_tied:
            own["head.weight"] = tensors[_HEAD]
        self.load_state_dict({name: each.float() for name, each in own.items()}, assign=True)
        self.requires_grad_(False)
        self._exact_words: Tensor | None = None

    def encode(self, passages: TextBatch) -> Tensor:  # (B, N · 2 · G, S, d)
        """Return what all layers keep of passages; the last one needs to keep nothing else."""
        reading = _Reading()
        states: Tensor = self.embed_tokens(passages.subword_ids)
        places = torch.arange(states.shape[1], device=states.device)[None]
        rotation = rotations(places, self.shape, like=states)
        with steady_kernels(states.device):
            for layer in self.layers[:-1]:
                states = layer(states, rotation, reading)
        last = self.layers[-1].kept(states, rotation)  # type: ignore[operator]
        kept = [*reading.kept, last]
        return torch.cat([each.to(last.values.dtype) for past in kept for each in past], dim=1)

    def decode(
        self, inputs: Tensor, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L, V)
        """Return the logits after each input; inputs begin with `prefix`.

        `states` are of `encode`. Inputs may have n · B rows: then row r reads those of r // n.
        """
        _refuse(bias)
        return self._head(self._hidden(inputs, states, mask))

    def log_probs(
        self, targets: TextBatch, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L)
        """Return log p(target | earlier targets, passage), 0 where padded."""
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
        _refuse(bias)
        inputs = decoder_inputs(targets.subword_ids, self.prefix)
        hidden = self._hidden(inputs, states, mask)[:, len(self.prefix) - 1 :][targets.mask]
        wanted = targets.subword_ids[targets.mask]
        parts = [
            cross_entropy(self._head(some), ids, label_smoothing=label_smoothing)
            for some, ids in zip(
                torch.split(hidden, _HEAD_ROWS), torch.split(wanted, _HEAD_ROWS), strict=True
            )
        ]
        return spread(torch.cat(parts), targets.mask)

    def begin(self, states: Tensor, mask: Tensor, *, per_passage: int = 1) -> CausalDecoding:
        """Begin to write `per_passage` queries for each passage; they share what was kept of it."""
        return CausalDecoding(self, list(self._pasts(states)), mask, per_passage=per_passage)

    @property
    def is_merged(self) -> bool:
        """Whether the adapters are part of the weights, and can no longer be trained or saved."""
        return not adapter_tensors(self)

    def merge(self) -> None:
        """Make the adapters part of the weights: a passage is read in two thirds of the time."""
        merge_adapters(self)

    def use_bf16(self) -> None:
        """Merge the adapters and compute in bf16 from now on, all but the head.

        Logits in bf16 have steps of 1/16: many would tie, and scores be off by tenths of a nat.
        """
        self.merge()
        self._exact_words = self._words.detach().clone()
        self.to(torch.bfloat16)
        self.norm.float()

    def advance(self, inputs: Tensor, places: Tensor, attends: list[StepAttention]) -> Tensor:
        """Return the logits after one more input per row, (R, V), at its place in the text."""
        states: Tensor = self.embed_tokens(inputs[:, None])
        rotation = rotations(places[:, None], self.shape, like=states)
        for layer, attend in zip(self.layers, attends, strict=True):
            states = layer(states, rotation, attend)
        return self._head(states[:, 0])

    def _hidden(self, inputs: Tensor, states: Tensor, mask: Tensor) -> Tensor:  # (B, L, D)
        """Read inputs after passages, all at once."""
        count = inputs.shape[0] // states.shape[0]
        if count > 1:
            states, mask = (each.repeat_interleave(count, 0) for each in (states, mask))
        places = torch.arange(inputs.shape[1], device=inputs.device)
        visible = _visible(mask, places)
        hidden: Tensor = self.embed_tokens(inputs)
        rotation = rotations(mask.sum(1, keepdim=True) + places, self.shape, like=hidden)
        with steady_kernels(hidden.device):
            for layer, past in zip(self.layers, self._pasts(states), strict=True):
                hidden = layer(hidden, rotation, _Following(past, visible))
        return hidden

    def _pasts(self, states: Tensor) -> Iterator[Past]:
        """Cut what was kept of passages into its layers."""
        for both in torch.split(states, 2 * self.shape.num_key_heads, dim=1):
            yield Past(*both.chunk(2, dim=1))

    def _head(self, hidden: Tensor) -> Tensor:
        words = self._words if self._exact_words is None else self._exact_words
        with torch.autocast(hidden.device.type, enabled=False):
            return functional.linear(self.norm(hidden.float()), words)

    @property
    def _words(self) -> Tensor:
        return (self.head or self.embed_tokens).weight


class CausalDecoding:
    """Queries half written: what was computed for earlier steps, and the passages they read."""

    def __init__(
        self, network: CausalNetwork, pasts: list[Past], mask: Tensor, *, per_passage: int
    ) -> None:
        self._network = network
        self._kept = [Kept() for _ in pasts]
        self._attends = [
            StepAttention(past, mask, kept) for past, kept in zip(pasts, self._kept, strict=True)
        ]
        self._lengths = mask.sum(1).repeat_interleave(per_passage)
        self.num_rows = len(self._lengths)

    def __call__(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:  # (R, V)
        """Append a token to each row and give the logits of what follows.

        `parents` says which row each row continues, of the same passage; None is each its own.
        """
        if parents is not None:
            for kept in self._kept:
                kept.reorder(parents)
        places = self._lengths + self._kept[0].length
        return self._network.advance(tokens, places, self._attends).float()


class StepAttention:
    """One new token per row looks at its passage and at what its row wrote before.

    The rows of one passage stand together and share its keys and values, which are never copied.
    """

    def __init__(self, past: Past, mask: Tensor, kept: Kept) -> None:
        self._past = Past(past.keys.contiguous(), past.values.contiguous())
        self._hidden = ~mask[:, None, None, :]
        self._kept = kept

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # (R, H, 1, d)
        """Attend to both as one softmax."""
        keys, values = self._kept.add(key, value)
        rows, width = query.shape[0], query.shape[-1]
        query = query.reshape(rows, keys.shape[1], -1, width) * width**-0.5  # (R, G, m, d)
        far = self._gather(query) @ self._past.keys.transpose(2, 3)
        far = self._scatter(far.masked_fill(self._hidden, float("-inf")), rows)
        near = query @ keys.transpose(2, 3)
        weights = torch.cat((far, near), dim=-1).float().softmax(-1).to(values.dtype)
        far, near = torch.split(weights, [far.shape[-1], near.shape[-1]], dim=-1)
        found = self._scatter(self._gather(far) @ self._past.values, rows) + near @ values
        return found.reshape(rows, -1, 1, width)

    def _gather(self, rows: Tensor) -> Tensor:
        """Put the rows of a passage side by side: (R, G, m, x) to (B, G, n · m, x)."""
        count = rows.shape[0] // len(self._past.keys)
        return rows.reshape(-1, count, *rows.shape[1:]).transpose(1, 2).flatten(2, 3)

    def _scatter(self, joined: Tensor, rows: int) -> Tensor:
        """Undo `_gather`: (B, G, n · m, x) to (R, G, m, x)."""
        count = rows // len(joined)
        passages, groups, _joined, width = joined.shape
        apart = joined.view(passages, groups, count, -1, width)
        return apart.transpose(1, 2).flatten(0, 1)


class _Reading:
    """Attention of each token to those before it; what padding sees is never looked at."""

    def __init__(self) -> None:
        self.kept: list[Past] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.kept.append(Past(key, value))
        return functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )


class _Following:
    """Attention of a query's tokens to a passage and to those before them."""

    def __init__(self, past: Past, visible: Tensor) -> None:
        self._past = past
        self._visible = visible

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        count = query.shape[1] // key.shape[1]  # the quick kernels take a mask or shared keys
        keys, values = (
            torch.cat((before.to(new.dtype), new), dim=2).repeat_interleave(count, dim=1)
            for before, new in zip(self._past, (key, value), strict=True)
        )
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=self._visible)


def _visible(mask: Tensor, places: Tensor) -> Tensor:  # (B, 1, L, S + L)
    """Say what each token of a query looks at: its passage, and the query up to itself."""
    passage = mask[:, None, None, :].expand(-1, 1, len(places), -1)
    query = (places[None, :] <= places[:, None]).expand(len(mask), 1, -1, -1)
    return torch.cat((passage, query), dim=-1)


def _turn(heads: Tensor, rotation: Rotation) -> Tensor:
    cosines, sines = rotation
    return rotate(heads, (cosines.to(heads.dtype), sines.to(heads.dtype)))


def _refuse(bias: Tensor | None) -> None:
    if bias is not None:
        raise ConfigError(
            "a causal query generator has no cross-attention that could be biased; use a generator"
            " of the encoder–decoder kind"
        )
