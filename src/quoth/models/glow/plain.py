"""Encoders that are plain BERT, which most collections are encoded with, without torch.

Importing torch takes longer than a search. ONNX Runtime reads a query in half torch's time, but
passages more slowly (benchmarks/inference): so torch takes over where there are many, in bf16 where
the processor has it.

Shapes: H heads of the width d = D / H.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.interruption import check_interruption
from quoth.models.batching import batches_by_length
from quoth.models.bert import ReadsBert, open_bert, pad
from quoth.models.bert_files import read_shape, read_weights
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoded import Encoded, Encoder, Vectors
from quoth.models.glow.files import PROJECTION_FILE, find_config, plain_config
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.weights import WordCounts
from quoth.models.pretrained import digest_weights, find_folder, load_tokenizer
from quoth.models.processor import has_fast_bf16
from quoth.models.tensor_files import Floats, map_tensors

MANY = 1024
"""Passages after which torch has made up for the time that its start takes."""

_BUDGET = 512  # subwords of a batch; what more need leaves the caches of a CPU
_FEW = 256  # of a batch where texts are few and differ in length: filling up costs more than a call


def open_encoder(name: str) -> Encoder:
    """Open an encoder to search with, by folder, embedded name or hub name."""
    plain = open_plain_encoder(name)
    if plain is not None:
        return plain
    from quoth.models.glow.encoder import GlowEncoder

    return GlowEncoder.load(name)


def open_plain_encoder(name: str) -> PlainEncoder | None:
    """Open an encoder that is plain BERT, unweighted; None where transformers has to load it."""
    folder = find_folder(name)
    config = find_config(folder)
    parts = (config.weighting, config.statistics, config.towers, config.layout)
    if parts != ("none", "words", "shared", "joined"):
        return None
    if config.pooling == "pooler" or config.num_layers:
        return None
    shape = read_shape(folder)
    tensors = None if shape is None else read_weights(folder, shape)
    if shape is None or tensors is None:
        return None
    config = replace(
        config,
        max_subwords=min(shape.num_positions, config.max_subwords),
        max_query_subwords=min(shape.num_positions, config.max_query_subwords),
    )
    identity = {
        "name": Path(name).name,
        "digest": digest_weights(folder),
        "config": plain_config(config),
    }
    maps = _read_projection(folder) if config.projection else {}
    network, tokenizer = open_bert(tensors, shape), load_tokenizer(folder)
    return PlainEncoder(name, network, tensors, tokenizer, config, identity=identity, maps=maps)


class PlainEncoder:
    """Encodes queries and documents with one BERT, and a linear map for each side if there is."""

    def __init__(
        self,
        name: str,
        network: ReadsBert,
        tensors: Mapping[str, Floats],
        tokenizer: Tokenizer,
        config: GlowConfig,
        *,
        identity: dict[str, Any],
        maps: dict[str, Floats],
    ) -> None:
        self.name = name
        self.config = config
        self.width = config.projection or network.shape.width
        self.inputs = GlowInputs(tokenizer, config, analyser=None)
        self._identity = identity
        self._maps = maps
        self._network, self._tensors, self._shape = network, tensors, network.shape
        self._num_documents = 0

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which vectors come out, to be kept with an index."""
        return dict(self._identity)

    def encode_queries(self, texts: Sequence[str], *, counts: WordCounts | None = None) -> Encoded:
        """Encode queries, in their order."""
        return self._encode(self.inputs.queries(texts, None), "queries.weight")

    def encode_documents(
        self, documents: Sequence[Fields], *, counts: WordCounts | None = None
    ) -> Encoded:
        """Encode documents or passages, in their order."""
        self._num_documents += len(documents)
        sequences = self.inputs.documents(documents, None)
        if self._num_documents <= MANY or not importlib.util.find_spec("torch"):
            return self._encode(sequences, "documents.weight")
        if has_fast_bf16():
            return self._in_bf16.encode_documents(documents)
        return self._encode(sequences, "documents.weight", network=self._by_torch)

    def encode_subwords(self, sequences: Sequence[SubwordSequence]) -> list[Vectors]:
        """Return a vector of unit length for each subword of each sequence.

        In int8 where that is quicker: these are compared with one another, never with an index.
        """
        found = [np.zeros((0, self._shape.width), np.float32)] * len(sequences)
        lengths = tuple(len(each.subword_ids) for each in sequences)
        for rows in batches_by_length(lengths, budget=_FEW):
            check_interruption()
            padded = pad([sequences[row].subword_ids for row in rows])
            for row, states in zip(rows, self._quick.states(*padded), strict=True):
                found[row] = unit(states[: lengths[row]])
        return found

    def look(self, sequence: SubwordSequence, *, is_query: bool) -> Sequence[float] | None:
        """Return the share of each subword in the looks that end in the vector."""
        states = self._below.states(*pad([sequence.subword_ids]))[0]  # (T, D)
        query, key = (self._last_heads(name, states) for name in ("query", "key"))  # (H, T, d)
        scores = query @ key.swapaxes(1, 2) * np.float32(query.shape[-1] ** -0.5)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        looks = (shares / shares.sum(-1, keepdims=True)).mean(0)  # (T, T)
        pooled = looks[0] if self.config.pooling == "cls" else looks.mean(0)
        return [float(each) for each in pooled]

    def _last_heads(self, name: str, states: Floats) -> Floats:
        """Project states as the last layer does before its heads look."""
        within = f"encoder.layer.{self._shape.num_layers - 1}.attention.self.{name}"
        made = states @ self._tensors[f"{within}.weight"].T + self._tensors[f"{within}.bias"]
        return made.reshape(len(states), self._shape.num_heads, -1).swapaxes(0, 1)

    @cached_property
    def _below(self) -> ReadsBert:
        """The network without its last layer."""
        shape = replace(self._shape, num_layers=self._shape.num_layers - 1)
        return open_bert(self._tensors, shape)

    @cached_property
    def _quick(self) -> ReadsBert:
        return open_bert(self._tensors, self._shape, quick=True)

    @cached_property
    def _by_torch(self) -> ReadsBert:
        from quoth.models.torch_bert import TorchBert

        return TorchBert(self._tensors, self._shape)

    @cached_property
    def _in_bf16(self) -> Encoder:
        from quoth.models.glow.encoder import GlowEncoder

        return GlowEncoder.load(self.name, config=self.config)

    def _encode(
        self, sequences: Sequence[SubwordSequence], side: str, *, network: ReadsBert | None = None
    ) -> Encoded:
        """Encode in batches of like length, which wastes little work on padding."""
        vectors = np.zeros((len(sequences), self.width), dtype=np.float32)
        lengths = tuple(len(each.subword_ids) for each in sequences)
        for rows in batches_by_length(lengths, budget=_BUDGET):
            check_interruption()
            pooled = self._pool(
                [sequences[row].subword_ids for row in rows], network or self._network
            )
            vectors[rows] = unit(pooled @ self._maps[side].T if self._maps else pooled)
        return Encoded(vectors, lengths, tuple(each.num_cut for each in sequences))

    def _pool(self, sequences: Sequence[Sequence[int]], network: ReadsBert) -> Vectors:
        subword_ids, lengths = pad(sequences)
        if self.config.pooling == "cls":
            return network.states(subword_ids, lengths, first=1)[:, 0]
        return mean(network.states(subword_ids, lengths), lengths)


def mean(states: Floats, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Vectors:
    """Return the mean of each sequence's states (B, T, D), without those that fill it up.

    >>> mean(np.float32([[[6, 0], [0, 8], [9, 9]]]), np.array([2])).tolist()
    [[3.0, 4.0]]
    """
    inside = np.arange(states.shape[1]) < lengths[:, None]
    total = np.where(inside[..., None], states, np.float32(0)).sum(1)
    return np.asarray(total / lengths[:, None], np.float32)


def unit(vectors: Vectors) -> Vectors:
    """Bring vectors to unit length.

    >>> unit(np.float32([[3, 4], [0, 0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def _read_projection(folder: Path) -> dict[str, Floats]:
    path = folder / PROJECTION_FILE
    try:
        return {name: np.asarray(each, np.float32) for name, each in map_tensors(path).items()}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder} has no {PROJECTION_FILE} that can be read, but projection is set; set it"
            " to 0, or train one with a recipe that projects"
        ) from error
