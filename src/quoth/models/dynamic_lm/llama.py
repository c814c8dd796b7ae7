"""Llama to read with, not to train: what answers without loading transformers.

Loading transformers takes longer than answering a question. These are its LlamaForCausalLM's
operations in their order, so both give the same numbers; what is called from outside bears the same
names, so `DynamicNetwork` stands on either. Any other family, and any variant of this one that is
not described here, is left to transformers.

Shapes: H heads of which G share one key and value each, d = D / H.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

WEIGHTS_FILE = "model.safetensors"
MATRICES = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
"""The matrices of a layer, by the part of it they belong to."""

_NORMS = ("input_layernorm", "post_attention_layernorm")
_PLAIN = {
    "model_type": ("llama",),
    "hidden_act": ("silu", None),
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "rope_scaling": (None,),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """What `config.json` says of a model."""

    num_heads: int
    num_key_heads: int
    head_width: int
    num_layers: int
    norm_epsilon: float
    rotation_base: float
    max_position_embeddings: int
    is_tied: bool


def read_shape(folder: Path) -> LlamaShape | None:
    """Read the shape of a Llama model; None where transformers has to be asked."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        rotation = content.get("rope_parameters") or {}
        is_plain = all(content.get(name) in allowed for name, allowed in _PLAIN.items())
        if not is_plain or rotation.get("rope_type", "default") != "default":
            return None
        num_heads = int(content["num_attention_heads"])
        return LlamaShape(
            num_heads=num_heads,
            num_key_heads=int(content["num_key_value_heads"]),
            head_width=int(content.get("head_dim") or int(content["hidden_size"]) // num_heads),
            num_layers=int(content["num_hidden_layers"]),
            norm_epsilon=float(content["rms_norm_eps"]),
            rotation_base=float(rotation.get("rope_theta") or content["rope_theta"]),
            max_position_embeddings=int(content["max_position_embeddings"]),
            is_tied=bool(content["tie_word_embeddings"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def tensor_names(shape: LlamaShape) -> set[str]:
    """List the tensors that a model of this shape is made of."""
    parts = [f"{part}.{name}" for part, names in MATRICES.items() for name in names]
    layers = {
        f"model.layers.{layer}.{part}.weight"
        for layer in range(shape.num_layers)
        for part in (*parts, *_NORMS)
    }
    head = set() if shape.is_tied else {"lm_head.weight"}
    return layers | head | {"model.embed_tokens.weight", "model.norm.weight"}


class LlamaStates(NamedTuple):
    """The final states (B, T, D)."""

    last_hidden_state: Tensor


class LlamaCache:
    """Keys and values of what was read, (B, H / G, T, d) per layer; methods as DynamicCache's."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, Tensor]] = []

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append to a layer, and give all that it holds."""
        if layer == len(self._kept):
            self._kept.append((keys, values))
        else:
            before = self._kept[layer]
            joined = (torch.cat((before[0], keys), 2), torch.cat((before[1], values), 2))
            self._kept[layer] = joined
        return self._kept[layer]

    def crop(self, length: int) -> None:
        """Keep the first tokens, or with a negative length forget as many of the last."""
        self._kept = [(keys[:, :, :length], values[:, :, :length]) for keys, values in self._kept]

    def batch_select_indices(self, rows: Tensor) -> None:
        """Keep some rows of the batch."""
        self._kept = [(keys[rows], values[rows]) for keys, values in self._kept]


class LlamaLayer(nn.Module):
    """One layer, made of its tensors by their names within it."""

    def __init__(self, number: int, tensors: Mapping[str, Tensor], shape: LlamaShape) -> None:
        super().__init__()
        self._number = number
        self._shape = shape
        for part, names in MATRICES.items():
            for name in names:
                self.register_parameter(name, _fixed(tensors[f"{part}.{name}.weight"]))
        for name in _NORMS:
            self.register_parameter(name, _fixed(tensors[f"{name}.weight"]))

    def forward(
        self,
        states: Tensor,  # (B, T, D)
        *,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: LlamaCache | None,
    ) -> Tensor:
        """Attend, then transform each token; both are added to what was read."""
        epsilon = self._shape.norm_epsilon
        states = states + self._attend(
            normalise(states, self.input_layernorm, epsilon=epsilon),  # type: ignore[arg-type]
            rotation=rotation,
            mask=mask,
            cache=cache,
        )
        inner = normalise(states, self.post_attention_layernorm, epsilon=epsilon)  # type: ignore[arg-type]
        gate = functional.silu(self._project("gate_proj", inner))
        return states + self._project("down_proj", gate * self._project("up_proj", inner))

    def _attend(
        self,
        states: Tensor,
        *,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: LlamaCache | None,
    ) -> Tensor:
        query, key, value = (self._heads(name, states) for name in ("q_proj", "k_proj", "v_proj"))
        query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.extend(self._number, key, value)
        shares_keys = self._shape.num_key_heads < self._shape.num_heads
        if mask is not None and shares_keys:  # the quick kernels take one or the other
            count = self._shape.num_heads // self._shape.num_key_heads
            key, value = (each.repeat_interleave(count, dim=1) for each in (key, value))
        found = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None and query.shape[2] > 1,
            scale=self._shape.head_width**-0.5,
            enable_gqa=mask is None and shares_keys,
        )
        return self._project("o_proj", found.transpose(1, 2).flatten(2))

    def _heads(self, name: str, states: Tensor) -> Tensor:  # (B, heads, T, d)
        found = self._project(name, states)
        return found.view(*states.shape[:2], -1, self._shape.head_width).transpose(1, 2)

    def _project(self, name: str, states: Tensor) -> Tensor:
        return functional.linear(states, getattr(self, name))


class LlamaBackbone(nn.Module):
    """The transformer without its output table, with as many layers as its shape has."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: LlamaShape) -> None:
        """`tensors` by the names that the whole model gives them."""
        super().__init__()
        self.config = shape
        table = tensors["model.embed_tokens.weight"]
        self.embed_tokens = nn.Embedding(len(table), table.shape[1], _weight=table, _freeze=True)
        self.norm = _fixed(tensors["model.norm.weight"])
        self.layers = nn.ModuleList(
            LlamaLayer(number, _within(tensors, f"model.layers.{number}."), shape)
            for number in range(shape.num_layers)
        )

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the input table."""
        return self.embed_tokens

    def forward(
        self,
        *,
        inputs_embeds: Tensor,  # (B, T, D)
        attention_mask: Tensor,  # (B, T_all), not 0 where there is a token
        position_ids: Tensor,  # (B, T)
        past_key_values: LlamaCache | None,
        use_cache: bool,
    ) -> LlamaStates:
        """Read embedded tokens after those in the cache, which is extended."""
        states = inputs_embeds
        rotation = rotations(position_ids, self.config, like=states)
        mask = causal_mask(attention_mask.bool(), num_new=states.shape[1])
        for layer in self.layers:
            states = layer(
                states, rotation=rotation, mask=mask, cache=past_key_values if use_cache else None
            )
        return LlamaStates(normalise(states, self.norm, epsilon=self.config.norm_epsilon))


class CausalLlama(nn.Module):
    """The transformer with its output table."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: LlamaShape) -> None:
        super().__init__()
        self.config = shape
        self.base_model = LlamaBackbone(tensors, shape)
        table = tensors["model.embed_tokens.weight" if shape.is_tied else "lm_head.weight"]
        self.lm_head = nn.Linear(table.shape[1], table.shape[0], bias=False, device="meta")
        self.lm_head.weight = (
            self.base_model.embed_tokens.weight if shape.is_tied else _fixed(table)
        )

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the input table."""
        return self.base_model.embed_tokens

    def get_output_embeddings(self) -> nn.Linear:
        """Return the output table."""
        return self.lm_head


def normalise(states: Tensor, weight: Tensor, *, epsilon: float) -> Tensor:
    """Divide states by their root mean square, in fp32, and weigh what is left.

    >>> normalise(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 3.0]), epsilon=0.0).tolist()
    [1.0, 3.0]
    """
    wide = states.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * wide.to(states.dtype)


def rotations(
    positions: Tensor, shape: LlamaShape, *, like: Tensor
) -> tuple[Tensor, Tensor]:  # each (B, 1, T, d)
    """Return the cosines and sines by which positions turn queries and keys."""
    powers = torch.arange(0, shape.head_width, 2, dtype=torch.float32, device=like.device)
    rates = 1.0 / (shape.rotation_base ** (powers / shape.head_width))
    angles = positions[:, None, :, None].float() * rates
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of numbers, one from either half, by its angle.

    >>> quarter = (torch.zeros(2), torch.ones(2))
    >>> rotate(torch.tensor([1.0, 2.0]), quarter).tolist()
    [-2.0, 1.0]
    """
    cosines, sines = rotation
    first, second = heads.chunk(2, dim=-1)
    return heads * cosines + torch.cat((-second, first), dim=-1) * sines


def causal_mask(mask: Tensor, *, num_new: int) -> Tensor | None:  # (B, 1, T, T_all)
    """Say which tokens each new one may look at; None where that is all, or all before it.

    >>> causal_mask(torch.tensor([[False, True, True]]), num_new=2)[0, 0].tolist()
    [[False, True, False], [False, True, True]]
    >>> causal_mask(torch.tensor([[True, True]]), num_new=2) is None
    True
    """
    num_all = mask.shape[1]
    if num_new in (1, num_all) and bool(mask.all()):
        return None
    places = torch.arange(num_all, device=mask.device)
    return mask[:, None, None, :] & (places <= places[-num_new:, None])


def _fixed(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def _within(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }
