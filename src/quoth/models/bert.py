"""BERT to read with, not to train: sentences to vectors without loading transformers.

Loading transformers takes longer than answering a question, and abstaining needs the vectors of a
few sentences. These are its BertModel's operations in their order, in fp32, and the inputs, batches
and pooling are those of `GlowEncoder.encode_queries`: both give the same numbers. Any other family,
any variant of this one and any folder that is not described here is left to that encoder.

Shapes: H heads of the width d = D / H.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from quoth.models.batching import batches_by_length
from quoth.models.glow.files import SETTINGS_FILE, published_config
from quoth.models.pretrained import load_tokenizer

_WEIGHTS_FILE = "model.safetensors"
_EMBEDDED = "embeddings.LayerNorm"
_ATTENDED = "attention.output.LayerNorm"
_TRANSFORMED = "output.LayerNorm"
_PLAIN = {
    "model_type": ("bert",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class BertShape:
    """What `config.json` says of a model."""

    width: int
    inner_width: int
    num_heads: int
    num_layers: int
    num_subwords: int
    num_positions: int
    num_fields: int
    norm_epsilon: float


def read_shape(folder: Path) -> BertShape | None:
    """Read the shape of a BERT model; None where transformers has to be asked."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        is_plain = all(content.get(name) in allowed for name, allowed in _PLAIN.items())
        if not is_plain or int(content["hidden_size"]) % int(content["num_attention_heads"]):
            return None
        return BertShape(
            width=int(content["hidden_size"]),
            inner_width=int(content["intermediate_size"]),
            num_heads=int(content["num_attention_heads"]),
            num_layers=int(content["num_hidden_layers"]),
            num_subwords=int(content["vocab_size"]),
            num_positions=int(content["max_position_embeddings"]),
            num_fields=int(content["type_vocab_size"]),
            norm_epsilon=float(content["layer_norm_eps"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None


def tensor_sizes(shape: BertShape) -> dict[str, tuple[int, ...]]:
    """List the tensors that vectors are made with, but for the pooler, each with its size."""
    width, inner = shape.width, shape.inner_width
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (shape.num_subwords, width),
        "embeddings.position_embeddings.weight": (shape.num_positions, width),
        "embeddings.token_type_embeddings.weight": (shape.num_fields, width),
    }
    norms = [_EMBEDDED]
    for layer in range(shape.num_layers):
        within = f"encoder.layer.{layer}."
        norms += [within + _ATTENDED, within + _TRANSFORMED]
        matrices = {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (inner, width),
            "output.dense": (width, inner),
        }
        for name, size in matrices.items():
            sizes |= {f"{within}{name}.weight": size, f"{within}{name}.bias": size[:1]}
    return sizes | {f"{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}


class Bert:
    """The transformer without its pooler: subwords in, states out."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: BertShape) -> None:
        """`tensors` by the names that transformers gives them."""
        self.shape = shape
        self._tensors = tensors

    def states(
        self,
        subword_ids: Tensor,
        mask: Tensor,
        field_ids: Tensor | None = None,
        *,
        first: int | None = None,
    ) -> Tensor:  # all (B, T) -> (B, T, D)
        """Read sequences, each from its first position on; the mask is False where padded.

        Without `field_ids`, everything is of the first kind. Only the states of the `first`
        subwords are returned (None: all), which spares most of the last layer.
        """
        words, positions, fields = (
            self._tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        kinds = fields[0] if field_ids is None else fields[field_ids]
        states = words[subword_ids] + kinds + positions[: subword_ids.shape[1]]
        states = self._normalise(_EMBEDDED, states)
        seen = None if bool(mask.all()) else mask[:, None, None, :]
        last = self.shape.num_layers - 1
        for layer in range(last + 1):
            kept = first if layer == last else None
            states = self._read_layer(f"encoder.layer.{layer}.", states, seen, kept)
        return states

    def _read_layer(
        self, within: str, states: Tensor, seen: Tensor | None, kept: int | None
    ) -> Tensor:
        """Attend, then transform each subword that is kept; both are added to what was read."""
        attended = self._attend(within, states, seen, kept)
        states = self._normalise(within + _ATTENDED, attended + states[:, :kept])
        inner = functional.gelu(self._project(f"{within}intermediate.dense", states))
        transformed = self._project(f"{within}output.dense", inner)
        return self._normalise(within + _TRANSFORMED, transformed + states)

    def _attend(self, within: str, states: Tensor, seen: Tensor | None, kept: int | None) -> Tensor:
        query, key, value = (
            each.view(*each.shape[:2], self.shape.num_heads, -1).transpose(1, 2)  # (B, H, T, d)
            for each in self._project_attended(within, states, kept)
        )
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self._project(f"{within}attention.output.dense", found.transpose(1, 2).flatten(2))

    def _project_attended(
        self, within: str, states: Tensor, kept: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries of the subwords that are kept, keys and values of all."""
        name = f"{within}attention.self."
        query = self._project(f"{name}query", states[:, :kept])
        return query, self._project(f"{name}key", states), self._project(f"{name}value", states)

    def _project(self, name: str, states: Tensor) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return functional.linear(states, weight, bias)

    def _normalise(self, name: str, states: Tensor) -> Tensor:
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return functional.layer_norm(
            states, weight.shape, weight=weight, bias=bias, eps=self.shape.norm_epsilon
        )


class SentenceEncoder:
    """Encodes sentences as queries are: cut to a length, mean of the states, unit length."""

    def __init__(
        self, network: Bert, tokenizer: Tokenizer, *, ends: tuple[int, int], max_subwords: int
    ) -> None:
        """`ends` are the special subwords before and after, which `max_subwords` includes."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._network = network
        self._tokenizer = tokenizer
        self._ends = ends
        self._cap = max_subwords - len(ends)

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:  # (N, D)
        """Encode sentences, in their order, in batches of like length."""
        encodings = self._tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        first, last = self._ends
        sequences = [[first, *each.ids[: self._cap], last] for each in encodings]
        vectors = np.zeros((len(sequences), self._network.shape.width), dtype=np.float32)
        for rows in batches_by_length([len(each) for each in sequences]):
            subword_ids, mask = pad([sequences[row] for row in rows])
            states = self._network.states(subword_ids, mask)
            vectors[rows] = mean_unit(states, mask).numpy()
        return vectors


def open_sentence_encoder(folder: Path) -> SentenceEncoder | None:
    """Open the encoder in a folder; None where that is left to `GlowEncoder`."""
    shape = read_shape(folder)
    tensors = None if shape is None else read_weights(folder, shape)
    if shape is None or tensors is None or (folder / SETTINGS_FILE).exists():
        return None
    config, tokenizer = published_config(folder), load_tokenizer(folder)
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if config.pooling != "mean" or first is None or last is None:
        return None
    longest = min(config.max_query_subwords, shape.num_positions)
    return SentenceEncoder(
        Bert(tensors, shape), tokenizer, ends=(first, last), max_subwords=longest
    )


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:  # both (B, T)
    """Pad sequences to the longest of them; what fills them up is masked, so it may be anything.

    >>> [each.tolist() for each in pad([[5, 6], [7]])]
    [[[5, 6], [7, 0]], [[True, True], [True, False]]]
    """
    longest = max(map(len, sequences))
    lengths = torch.tensor([len(each) for each in sequences])
    filled = [[*each, *[0] * (longest - len(each))] for each in sequences]
    return torch.tensor(filled), torch.arange(longest) < lengths[:, None]


def mean_unit(states: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, D)
    """Return the mean of the states that are not padding, brought to unit length.

    >>> states = torch.tensor([[[6.0, 0.0], [0.0, 8.0], [9.0, 9.0]]])
    >>> torch.equal(mean_unit(states, torch.tensor([[True, True, False]])),
    ...             torch.tensor([[3.0, 4.0]]) / 5.0)
    True
    """
    kept = states.masked_fill(~mask[..., None], 0.0)
    return functional.normalize(kept.sum(1) / mask.sum(1, keepdim=True), dim=-1)


def read_weights(folder: Path, shape: BertShape) -> dict[str, Tensor] | None:
    """Map a model's tensors into memory, in fp32; None where they are not those of its shape."""
    try:
        tensors = load_file(str(folder / _WEIGHTS_FILE))
    except (OSError, SafetensorError):
        return None
    sizes = tensor_sizes(shape)
    fits = all(name in tensors and tensors[name].shape == size for name, size in sizes.items())
    return {name: tensors[name].float() for name in sizes} if fits else None
