"""A PIXAR model ready for use: network, head, inputs and files joined. Texts in, vectors out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from quoth.errors import ConfigError
from quoth.models.batching import BATCH_SUBWORDS, batches_by_length
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.files import (
    build_network,
    encoder_folder,
    load_head,
    load_network,
    read_saved,
    save_pixar,
)
from quoth.models.pixar.head import HeadVectors, start_head
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PixarNetwork, QueryBatch
from quoth.models.pixar.pretrained import PretrainedPixar
from quoth.models.pretrained import (
    DEFAULT_NAME,
    EncoderSource,
    digest_weights,
    find_folder,
    load_encoder,
    load_tokenizer,
)
from quoth.models.processor import has_fast_bf16

_CUDA_TIMES = 16  # as many subwords at once on a GPU
_SAMPLE = 200_000  # phrases that principal directions are found from

Vectors = NDArray[np.float32]


class EncodedQueries(NamedTuple):
    """What queries become: x₀, x₁ … x_s, and vectors of words where the network has them."""

    pooled: Vectors  # (B, D)
    slots: Vectors  # (B, S, D)
    words: Sequence[Vectors]  # B of (T, D), T subwords of a query or none


class Pixar:
    """Turns queries into a pooled vector and slot vectors that meet the head's rows."""

    def __init__(
        self,
        name: str,
        network: PixarNetwork,
        *,
        inputs: PixarInputs,
        head: HeadVectors,
        encoder: EncoderSource,
        identity: dict[str, Any],
    ) -> None:
        self.name = name
        self.network = network.eval()
        self.inputs = inputs
        self.config = network.config
        self.head = head
        self.encoder = encoder
        self._identity = identity

    @classmethod
    def start(
        cls,
        encoder: str = DEFAULT_NAME,
        *,
        num_phrases: int,
        config: PixarConfig | None = None,
        phrase_texts: Sequence[str] | None = None,
        counts: NDArray[Any] | None = None,  # (P + 2,)
        device: torch.device | None = None,
        seed: int = 0,
        pretrained: PretrainedPixar | None = None,
    ) -> Self:
        """Make a model from an encoder, by folder or name, or from a pretrained network.

        `phrase_texts` are read where the head's rows start from the encoder; `counts` of the
        phrases, of the end and of padding set the biases (`phrase_counts`). A pretrained network
        brings its own settings and encoder.
        """
        if pretrained is not None:
            config, encoder = pretrained.config, pretrained.encoder.name
        chosen = config or PixarConfig()
        folder = find_folder(encoder) if pretrained is None else pretrained.find_encoder()
        inputs = PixarInputs(load_tokenizer(folder), chosen)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = build_network(load_encoder(folder), chosen, slot_id=inputs.mask_id)
        if pretrained is not None:
            pretrained.restore(network)
        network.to(device or torch.device("cpu"))
        vectors = None
        if chosen.rows == "encoder":
            if phrase_texts is None or len(phrase_texts) != num_phrases:
                raise ConfigError(
                    f"rows start from the encoder: give the texts of all {num_phrases:,} phrases,"
                    " or set rows to random"
                )
            vectors = _phrase_vectors(network, inputs, phrase_texts)
        head = start_head(
            chosen,
            num_phrases=num_phrases,
            width=network.width,
            seed=seed,
            vectors=vectors,
            counts=counts,
        )
        source = EncoderSource(encoder, digest_weights(folder))
        digest = source.digest + (pretrained.sha256 if pretrained is not None else "")
        identity = {"name": "untrained", "digest": digest, "config": asdict(chosen)}
        return cls(
            "untrained", network, inputs=inputs, head=head, encoder=source, identity=identity
        )

    @classmethod
    def load(cls, folder: Path, *, device: torch.device | None = None, fast: bool = True) -> Self:
        """Load a model that was saved.

        `fast` is for searching: bf16 where the processor has it and the head memory-mapped where a
        copy was saved for that; such a model cannot be trained or saved.
        """
        saved = read_saved(folder)
        base = encoder_folder(folder, saved)
        inputs = PixarInputs(load_tokenizer(base), saved.config)
        network = load_network(folder, saved, base=base, slot_id=inputs.mask_id)
        if device is not None:
            network.to(device)
        elif fast and has_fast_bf16():
            network.use_bf16()
        seals = "".join(seal.sha256 for _name, seal in sorted(saved.files.items()))
        identity = {
            "name": folder.name,
            "digest": hashlib.sha256((saved.encoder.digest + seals).encode()).hexdigest(),
            "config": asdict(saved.config),
        }
        return cls(
            folder.name,
            network,
            inputs=inputs,
            head=load_head(folder, saved, mapped=fast),
            encoder=saved.encoder,
            identity=identity,
        )

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which vectors and scores come out."""
        return dict(self._identity)

    @property
    def eos_id(self) -> int:
        """The row of the head that ends an identifier."""
        return self.head.eos_id

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    @property
    def is_exact(self) -> bool:
        """Whether all weights are in full precision, so that they can be trained and saved."""
        exact = all(each.dtype == torch.float32 for each in self.network.parameters())
        return exact and self.head.rows.dtype == np.float32

    def save(self, folder: Path, *, dtype: str = "bf16", mapped: str = "fp16") -> None:
        """Write the model; `mapped` rows are for serving, `dtype` rows for all else."""
        if not self.is_exact:
            raise ConfigError("a model loaded for searching cannot be saved; load with fast=False")
        save_pixar(
            folder,
            self.network,
            head=self.head,
            encoder=self.encoder,
            tokenizer=self.inputs.tokenizer,
            dtype=dtype,
            mapped=mapped,
        )

    def encode_queries(self, texts: Sequence[str]) -> EncodedQueries:
        """Encode queries, in their order."""
        width, slots = self.network.width, self.config.num_slots
        pooled = np.zeros((len(texts), width), dtype=np.float32)
        slot_vectors = np.zeros((len(texts), slots, width), dtype=np.float32)

        words = [np.zeros((0, width), dtype=np.float32)] * len(texts)

        def keep(rows: list[int], batch: QueryBatch) -> None:
            found = self.network(batch)
            pooled[rows], slot_vectors[rows] = _numpy(found.pooled), _numpy(found.slots)
            if found.words is not None:
                lengths = batch.mask.sum(1).tolist()
                for row, own, length in zip(rows, _numpy(found.words), lengths, strict=True):
                    words[row] = own[:length]

        _run(self.network, self.inputs, texts, keep)
        return EncodedQueries(pooled, slot_vectors, words)

    def encode_phrases(self, texts: Sequence[str]) -> Vectors:  # (B, D)
        """Return the rows that phrases of these texts would start from, in their order."""
        return _phrase_vectors(self.network, self.inputs, texts)


def _phrase_vectors(
    network: PixarNetwork, inputs: PixarInputs, texts: Sequence[str]
) -> Vectors:  # (P, D)
    """Encode phrases; a narrower head starts along the directions in which they differ most."""
    size = int(network.output.in_features)
    vectors = np.zeros((len(texts), size), dtype=np.float32)

    def keep(rows: list[int], batch: QueryBatch) -> None:
        vectors[rows] = _numpy(network.row_vectors(batch))

    _run(network, inputs, texts, keep)
    if network.projection is None:
        return vectors
    if network.width < size:
        sample = torch.from_numpy(vectors[:: -(-len(vectors) // _SAMPLE)]).double()
        directions = torch.linalg.eigh(sample.T @ sample).eigenvectors[:, -network.width :]
        network.start_projection(directions.T.float())
    small = vectors @ _numpy(network.projection.weight.detach()).T
    lengths = np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-12)
    unit: Vectors = small / lengths
    return unit


@torch.inference_mode()
def _run(
    network: PixarNetwork,
    inputs: PixarInputs,
    texts: Sequence[str],
    keep: Callable[[list[int], QueryBatch], None],
) -> None:
    """Go over texts in batches of like length, which wastes little work on padding."""
    sequences = inputs.queries(texts)
    device = next(network.parameters()).device
    times = _CUDA_TIMES if device.type == "cuda" else 1
    was_training = network.training
    network.eval()
    for rows in batches_by_length(list(map(len, sequences)), budget=times * BATCH_SUBWORDS):
        keep(rows, inputs.pad([sequences[row] for row in rows]).to(device))
    network.train(was_training)


def _numpy(tensor: Tensor) -> Vectors:
    found: Vectors = tensor.float().cpu().numpy()
    return found


def trained_identity(name: str, network: nn.Module, *, config: PixarConfig) -> dict[str, Any]:
    """Describe a model that was trained and not saved yet."""
    digest = hashlib.sha256()
    for _name, parameter in sorted(network.named_parameters()):
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return {"name": name, "digest": digest.hexdigest(), "config": asdict(config)}
