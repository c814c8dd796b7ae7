"""A dynamic language model ready for use: network, inputs and files joined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from quoth.errors import ConfigError
from quoth.interruption import check_interruption
from quoth.models.batching import batches_by_length
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.files import (
    find_saved_base,
    load_language_model,
    load_network,
    read_saved,
    require_base,
    save_network,
)
from quoth.models.dynamic_lm.inputs import DynamicLMInputs, load_plain_tokenizer
from quoth.models.dynamic_lm.network import DynamicNetwork
from quoth.models.language_models import digest_language_model
from quoth.models.pretrained import EncoderSource

_SAMPLE = 64  # phrases that the scale starts from
_SAMPLE_LENGTHS = (2, 5)


class DynamicLM:
    """Encodes phrases, and holds what scores them together with subwords."""

    def __init__(
        self,
        network: DynamicNetwork,
        *,
        inputs: DynamicLMInputs,
        config: DynamicLMConfig,
        source: EncoderSource,
    ) -> None:
        self.network = network.eval()
        self.inputs = inputs
        self.config = config
        self.source = source

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        config: DynamicLMConfig,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> Self:
        """Make an untrained one from a causal model in the Hugging Face layout."""
        model = load_language_model(folder, dtype=dtype)
        generator = torch.Generator().manual_seed(seed)
        network = DynamicNetwork(model, config, generator=generator).to(device).eval()
        network.calibrate(*_sample_phrases(network.num_subwords, generator=generator))
        return cls(
            network,
            inputs=load_inputs(folder, network, config),
            config=config,
            source=EncoderSource(config.base, digest_language_model(folder)),
        )

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    @property
    def max_positions(self) -> int:
        """Most tokens that the language model can read."""
        return _max_positions(self.network)

    def encode_phrases(
        self,
        rows: Sequence[Sequence[int]],
        *,
        lengths: Sequence[Sequence[int]],
        batch_size: int = 256,
    ) -> Tensor:  # (C, D)
        """Encode for each row of subwords its prefixes of the given lengths, in that order."""
        starts = [0]
        for own in lengths:
            starts.append(starts[-1] + len(own))
        network = self.network
        vectors = torch.empty(
            starts[-1],
            network.phrase_width,
            device=self.device,
            dtype=next(network.parameters()).dtype,
        )
        needed = [max(own, default=0) for own in lengths]
        was_training = network.training
        network.eval()
        with torch.inference_mode():
            for batch in _batches(needed, batch_size):
                check_interruption()
                padded = self.inputs.pad([rows[row][: needed[row]] for row in batch])
                found = network.encode_prefixes(
                    padded.ids.to(self.device), mask=padded.mask.to(self.device)
                )
                at = [(n, length - 1) for n, row in enumerate(batch) for length in lengths[row]]
                to = [starts[row] + n for row in batch for n in range(len(lengths[row]))]
                row_at, place_at = torch.tensor(at, device=self.device).T
                vectors[torch.tensor(to, device=self.device)] = found[row_at, place_at]
        network.train(was_training)
        return vectors

    def passage_marker(self, passage: int) -> list[int]:
        """Return the subwords that phrases of a passage are encoded with behind them."""
        if self.config.marker == "none":
            return []
        return self.inputs.mark((), passage=passage)

    def save(self, folder: Path, *, dtype: str = "bf16") -> None:
        """Write what was trained, in bf16 or fp32; the base is named, unless it was trained."""
        save_network(
            folder,
            self.network,
            config=self.config,
            source=self.source,
            tokenizer=self.inputs.tokenizer,
            dtype=dtype,
        )


def open_dynamic_lm(
    folder: Path,
    *,
    base: Path | None,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> DynamicLM:
    """Open one that was saved, over the language model in `base`, or else the one it names.

    An embedded language model has to be found first (`find_language_model`) and given as `base`.
    """
    saved = read_saved(folder)
    base = find_saved_base(folder, saved, base=base)
    require_base(folder, saved, base=base)
    network = load_network(folder, saved, base=base, dtype=dtype).to(device)
    inputs = load_inputs(base, network, saved.config)
    return DynamicLM(network, inputs=inputs, config=saved.config, source=saved.source)


def load_inputs(base: Path, network: DynamicNetwork, config: DynamicLMConfig) -> DynamicLMInputs:
    """Load the tokenizer of a language model; it has to know no more subwords than the network."""
    tokenizer = load_plain_tokenizer(base)
    if tokenizer.get_vocab_size() > network.num_subwords:
        raise ConfigError(
            f"the tokenizer in {base} knows {tokenizer.get_vocab_size():,} subwords, the model"
            f" only {network.num_subwords:,}; restore the files that belong together"
        )
    return DynamicLMInputs(tokenizer, config, max_positions=_max_positions(network))


def _max_positions(network: DynamicNetwork) -> int:
    return int(network.language_model.config.max_position_embeddings)  # type: ignore[union-attr,arg-type]


def _batches(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Group rows of like length, and leave out those that nothing is asked of."""
    longest = max(lengths, default=0)
    groups = batches_by_length(lengths, budget=max(1, size * longest), most=size)
    return [kept for group in groups if (kept := [row for row in group if lengths[row]])]


def _sample_phrases(num_subwords: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw phrases of subwords, those with low ids (frequent ones) more often, and their mask."""
    shortest, longest = _SAMPLE_LENGTHS
    drawn = torch.rand(_SAMPLE, longest, generator=generator)
    lengths = torch.randint(shortest, longest + 1, (_SAMPLE, 1), generator=generator)
    return (num_subwords * drawn**2).long(), torch.arange(longest) < lengths
