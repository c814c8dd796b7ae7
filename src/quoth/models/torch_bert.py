"""BERT to read with by torch, where ONNX Runtime is not installed.

These are the operations of transformers' BertModel in their order, in fp32.

Shapes: H heads of the width d = D / H.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from quoth.models.bert_files import ATTENDED, EMBEDDED, TRANSFORMED, BertShape
from quoth.models.tensor_files import Floats


class TorchBert:
    """The transformer without its pooler: subwords in, states out."""

    def __init__(
        self, tensors: Mapping[str, Floats], shape: BertShape, *, device: str = "cpu"
    ) -> None:
        """`tensors` by the names that transformers gives them."""
        self.shape = shape
        self._device = device
        self._tensors = {name: torch.tensor(each, device=device) for name, each in tensors.items()}

    @torch.inference_mode()
    def states(
        self,
        subword_ids: NDArray[np.int64],
        lengths: NDArray[np.int64],
        field_ids: NDArray[np.int64] | None = None,
        *,
        first: int | None = None,
    ) -> Floats:  # (B, T), (B,) -> (B, T, D)
        """Read sequences of these lengths; fields and `first` as in `ReadsBert`."""
        longest = subword_ids.shape[1]
        words, positions, fields = (
            self._tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        kinds = fields[0] if field_ids is None else fields[self._put(field_ids)]
        states = words[self._put(subword_ids)] + kinds + positions[:longest]
        states = self._normalise(EMBEDDED, states)
        mask = torch.arange(longest, device=self._device) < self._put(lengths)[:, None]
        seen = None if bool(mask.all()) else mask[:, None, None, :]
        last = self.shape.num_layers - 1
        for layer in range(last + 1):
            kept = first if layer == last else None
            states = self._read_layer(f"encoder.layer.{layer}.", states, seen, kept)
        return states.cpu().numpy()

    def _put(self, numbers: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)

    def _read_layer(
        self, within: str, states: Tensor, seen: Tensor | None, kept: int | None
    ) -> Tensor:
        """Attend, then transform each subword that is kept; both are added to what was read."""
        attended = self._attend(within, states, seen, kept)
        states = self._normalise(within + ATTENDED, attended + states[:, :kept])
        inner = functional.gelu(self._project(f"{within}intermediate.dense", states))
        transformed = self._project(f"{within}output.dense", inner)
        return self._normalise(within + TRANSFORMED, transformed + states)

    def _attend(self, within: str, states: Tensor, seen: Tensor | None, kept: int | None) -> Tensor:
        name = f"{within}attention.self."
        query, key, value = (
            each.view(*each.shape[:2], self.shape.num_heads, -1).transpose(1, 2)  # (B, H, T, d)
            for each in (
                self._project(f"{name}query", states[:, :kept]),
                self._project(f"{name}key", states),
                self._project(f"{name}value", states),
            )
        )
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self._project(f"{within}attention.output.dense", found.transpose(1, 2).flatten(2))

    def _project(self, name: str, states: Tensor) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return functional.linear(states, weight, bias)

    def _normalise(self, name: str, states: Tensor) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return functional.layer_norm(
            states, weight.shape, weight=weight, bias=bias, eps=self.shape.norm_epsilon
        )
