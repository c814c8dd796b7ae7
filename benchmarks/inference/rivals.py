"""Ways of reading BERT that Quoth does not take: int8 by torch, and numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from quoth.models.bert import Ids, ReadsBert
from quoth.models.bert_files import (
    ATTENDED,
    EMBEDDED,
    TRANSFORMED,
    BertShape,
    read_shape,
    read_weights,
)
from quoth.models.glow.files import find_config
from quoth.models.glow.plain import PlainEncoder
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.models.tensor_files import Floats

ENGINES = ("torch fp32", "torch int8", "ONNX Runtime fp32", "ONNX Runtime int8", "numpy fp32")


def open_engine(name: str, tensors: Mapping[str, Floats], shape: BertShape) -> ReadsBert:
    """Open one of the ways, and import no more than it needs."""
    if name == "numpy fp32":
        return NumpyBert(tensors, shape)
    if name.startswith("ONNX"):
        from quoth.models.onnx_bert import OnnxBert

        return OnnxBert(tensors, shape, quick=name.endswith("int8"))
    from quoth.models.torch_bert import TorchBert

    return make_int8(tensors, shape) if name.endswith("int8") else TorchBert(tensors, shape)


def open_encoder(name: str) -> PlainEncoder:
    """Open the embedded encoder, read by one of the libraries."""
    folder = find_folder(DEFAULT_NAME)
    shape = read_shape(folder)
    assert shape is not None
    tensors = read_weights(folder, shape)
    assert tensors is not None
    network, tokenizer = open_engine(name, tensors, shape), load_tokenizer(folder)
    config = find_config(folder)
    return PlainEncoder(name, network, tensors, tokenizer, config, identity={}, maps={})


def make_int8(tensors: Mapping[str, Floats], shape: BertShape) -> ReadsBert:
    """Return torch's network with matrices of int8 by rows, states rounded each by its range."""
    import torch

    from quoth.models.torch_bert import TorchBert

    class Int8Bert(TorchBert):
        """Multiplies in int8."""

        def __init__(self) -> None:
            super().__init__(tensors, shape)
            self._matrices: dict[str, Any] = {}
            for name, weight in self._tensors.items():
                if name.endswith(".weight") and weight.ndim == 2 and ".layer." in name:
                    scales = weight.abs().amax(1) / 127
                    small = (weight / scales[:, None]).round().to(torch.int8)
                    self._matrices[name.removesuffix(".weight")] = small.t(), scales

        def _project(self, name: str, states: Any) -> Any:
            weight, scales = self._matrices[name]
            flat = states.reshape(-1, states.shape[-1])
            ranges = flat.abs().amax(1, keepdim=True) / 127
            small = (flat / ranges).round_().to(torch.int8)
            product = torch._int_mm(small, weight) * ranges
            found = torch.addcmul(self._tensors[f"{name}.bias"], product, scales, out=product)
            return found.view(*states.shape[:-1], -1)

    return Int8Bert()


class NumpyBert:
    """The transformer in plain numpy."""

    def __init__(self, tensors: Mapping[str, Floats], shape: BertShape) -> None:
        self.shape = shape
        self._tensors = tensors

    def states(
        self,
        subword_ids: Ids,
        lengths: Ids,
        field_ids: Ids | None = None,
        *,
        first: int | None = None,
    ) -> Floats:
        """Read sequences."""
        words, positions, fields = (
            self._tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        kinds = fields[0] if field_ids is None else fields[field_ids]
        longest = subword_ids.shape[1]
        states = self._normalise(EMBEDDED, words[subword_ids] + kinds + positions[:longest])
        hidden = np.where(np.arange(longest) < lengths[:, None], 0.0, -np.inf)
        last = self.shape.num_layers - 1
        for layer in range(last + 1):
            within, kept = f"encoder.layer.{layer}.", first if layer == last else None
            attended = self._attend(within, states, hidden.astype(np.float32), kept)
            states = self._normalise(within + ATTENDED, attended + states[:, :kept])
            inner = gelu(self._project(f"{within}intermediate.dense", states))
            transformed = self._project(f"{within}output.dense", inner)
            states = self._normalise(within + TRANSFORMED, transformed + states)
        return states

    def _attend(self, within: str, states: Floats, hidden: Floats, kept: int | None) -> Floats:
        query, key, value = (
            self._heads(self._project(f"{within}attention.self.{name}", own))
            for name, own in (("query", states[:, :kept]), ("key", states), ("value", states))
        )
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
        scores = scores + hidden[:, None, None, :]
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        found = shares / shares.sum(-1, keepdims=True) @ value
        joined = found.swapaxes(1, 2).reshape(*found.swapaxes(1, 2).shape[:2], -1)
        return self._project(f"{within}attention.output.dense", joined)

    def _heads(self, states: Floats) -> Floats:
        return states.reshape(*states.shape[:2], self.shape.num_heads, -1).swapaxes(1, 2)

    def _project(self, name: str, states: Floats) -> Floats:
        return states @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _normalise(self, name: str, states: Floats) -> Floats:
        centred = states - states.mean(-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(-1, keepdims=True) + self.shape.norm_epsilon)
        scaled = centred / deviation.astype(np.float32)
        return scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]


def gelu(states: Floats) -> Floats:
    """Apply GELU with the error function of Abramowitz and Stegun (7.1.26), within 1.5e-7.

    >>> gelu(np.float32([-1.0, 0.0, 1.0])).round(4).tolist()
    [-0.15870000422000885, 0.0, 0.8413000106811523]
    """
    size = np.abs(states) * np.float32(np.sqrt(0.5))
    step = 1 / (1 + np.float32(0.3275911) * size)
    series = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    total = np.zeros_like(step)
    for each in reversed(series):
        total = (total + np.float32(each)) * step
    error = np.copysign(1 - total * np.exp(-size * size), states)
    return np.asarray(states * (1 + error) / 2, np.float32)
