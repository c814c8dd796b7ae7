"""An encoder ready for use: network, inputs and files joined. Texts in, numpy vectors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from quoth.artifact import write_folder
from quoth.errors import ConfigError
from quoth.interruption import check_interruption
from quoth.models.attention import register_attention
from quoth.models.batching import batches_by_length
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoded import Encoded, Vectors
from quoth.models.glow.files import (
    DOCUMENT_TOWER,
    FIELDS_FILE,
    MERGE_FILE,
    PROJECTION_FILE,
    SETTINGS_FILE,
    find_config,
    plain_config,
    write_module_files,
)
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.network import (
    WEIGHTABLE,
    GlowNetwork,
    TokenBatch,
    grow_field_table,
    has_added_fields,
    keep_layers,
    pooled_shares,
)
from quoth.models.glow.quick import can_quicken, quicken
from quoth.models.glow.subword_counts import digest_counts, load_counts, save_counts
from quoth.models.glow.weights import WordCounts
from quoth.models.pretrained import digest_weights, find_folder, load_tokenizer
from quoth.models.processor import has_fast_bf16
from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.counting import CountedTerms


class GlowEncoder:
    """Encodes queries and documents with one model."""

    def __init__(
        self,
        name: str,
        network: GlowNetwork,
        tokenizer: Tokenizer,
        config: GlowConfig,
        *,
        identity: dict[str, Any],
        subword_counts: CountedTerms | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.network = network.eval()
        self.tokenizer = tokenizer
        analyser = None if config.weighting == "none" else Analyser(AnalyserConfig())
        self.inputs = GlowInputs(
            tokenizer, config, analyser=analyser, subword_counts=subword_counts
        )
        self._subword_counts = subword_counts
        self._identity = identity

    @classmethod
    def load(cls, name: str, *, config: GlowConfig | None = None, fast: bool = True) -> Self:
        """Load an encoder by folder, by the embedded default's name, or from a hub by its name.

        `config` overrides what was saved with it; `fast` is for searching: in bf16 where the
        processor has it. Such an encoder cannot be saved.
        """
        folder = find_folder(name)
        chosen = config or find_config(folder)
        base = _load_tower(folder, chosen)
        chosen = _within_positions(base, chosen, is_asked=config is not None)
        network = GlowNetwork(
            base,
            pooling=chosen.pooling,
            weighting=chosen.weighting,
            separate=chosen.towers == "separate",
            projection=chosen.projection,
        )
        _load_rest(folder, network, chosen)
        if fast and has_fast_bf16():
            network = network.to(torch.bfloat16)
            _quicken(network)
        identity = {
            "name": Path(name).name,
            "digest": digest_weights(folder),
            "config": plain_config(chosen),
        }
        counts = load_counts(folder) if chosen.statistics == "subwords" else None
        if counts is not None:
            identity["subwords"] = digest_counts(folder)
        return cls(
            name,
            network,
            load_tokenizer(folder),
            chosen,
            identity=identity,
            subword_counts=counts,
        )

    @property
    def num_layers(self) -> int:
        """Layers of a tower."""
        return int(self.network.query_encoder.config.num_hidden_layers)  # type: ignore[union-attr,arg-type]

    @property
    def width(self) -> int:
        """Length of a vector."""
        return self.config.projection or self._hidden

    @property
    def _hidden(self) -> int:
        return int(self.network.query_encoder.config.hidden_size)  # type: ignore[union-attr,arg-type]

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which vectors come out, to be kept with an index."""
        return dict(self._identity)

    def encode_queries(self, texts: Sequence[str], *, counts: WordCounts | None = None) -> Encoded:
        """Encode queries, in their order."""
        return self._encode(self.inputs.queries(texts, counts), self.network.encode_queries)

    def encode_documents(
        self, documents: Sequence[Fields], *, counts: WordCounts | None = None
    ) -> Encoded:
        """Encode documents or passages, in their order."""
        return self._encode(self.inputs.documents(documents, counts), self.network.encode_documents)

    @torch.inference_mode()
    def look(self, sequence: SubwordSequence, *, is_query: bool) -> Sequence[float] | None:
        """Return the share of each subword in the looks that end in the vector."""
        network = self.network
        tower: Any = network.query_encoder if is_query else network.document_encoder
        if tower.config.model_type not in WEIGHTABLE:
            return None
        layers: list[torch.Tensor] = []
        batch = self.inputs.pad([sequence])
        network.states(tower, batch, record=layers)
        (shares,) = pooled_shares(layers[-1], batch.mask, how=self.config.pooling)
        return [float(each) for each in shares]

    def encode_subwords(self, sequences: Sequence[SubwordSequence]) -> list[Vectors] | None:
        """Return None: states of weighted, separate or other networks are not compared."""
        return None

    def save(self, folder: Path) -> None:
        """Write the encoder in the Hugging Face layout, over an older one only when complete."""
        if _is_bf16(self.network):
            raise ConfigError("an encoder to search with cannot be saved; load it with fast=False")
        is_other = folder.exists() and any(folder.iterdir())
        if is_other and not (folder / SETTINGS_FILE).exists():
            raise ConfigError(f"{folder} holds something else than an encoder; name a new folder")
        with write_folder(folder) as unfinished:
            self._write(unfinished)

    def _write(self, folder: Path) -> None:
        _save_tower(self.network.query_encoder, folder)
        if self.config.towers == "separate":
            _save_tower(self.network.document_encoder, folder / DOCUMENT_TOWER)
        if self.network.merge is not None:
            save_tensors(self.network.merge.state_dict(), folder / MERGE_FILE)
        if self.network.projection is not None:
            save_tensors(self.network.projection.state_dict(), folder / PROJECTION_FILE)
        if self._subword_counts is not None:
            save_counts(folder, self._subword_counts)
        save_tokenizer(self.tokenizer, folder / "tokenizer.json")
        write_module_files(folder, self.config, width=self._hidden)

    @torch.inference_mode()
    def _encode(
        self, sequences: list[SubwordSequence], run: Callable[[TokenBatch], torch.Tensor]
    ) -> Encoded:
        """Encode in batches of like length, which wastes little work on padding."""
        vectors = np.zeros((len(sequences), self.width), dtype=np.float32)
        lengths = tuple(len(each.subword_ids) for each in sequences)
        for rows in batches_by_length(lengths):
            check_interruption()
            batch = self.inputs.pad([sequences[row] for row in rows])
            vectors[rows] = run(batch).float().numpy()
        return Encoded(vectors, lengths, tuple(each.num_cut for each in sequences))


def _is_bf16(network: GlowNetwork) -> bool:
    return next(network.parameters()).dtype == torch.bfloat16


def _quicken(network: GlowNetwork) -> None:
    if can_quicken():
        for tower in {network.query_encoder, network.document_encoder}:
            quicken(tower, keeps_pooler=network.pooling == "pooler")


def load_base(folder: str) -> torch.nn.Module:
    """Load a Hugging Face encoder, with attention that can be weighted where its kind allows.

    Other kinds keep their own: they would take the masks that ours goes by for something else.
    """
    from transformers import AutoConfig, AutoModel

    kind = AutoConfig.from_pretrained(folder).model_type
    base: torch.nn.Module = AutoModel.from_pretrained(
        folder,
        attn_implementation=register_attention() if kind in WEIGHTABLE else None,
        dtype=torch.float32,
    )
    return base


def _load_tower(folder: Path, config: GlowConfig) -> torch.nn.Module:
    """Load one encoder with the attention, the layers and the field table that are configured."""
    try:
        tower = load_base(str(folder))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{folder} is not an encoder in the Hugging Face layout ({reason})"
        ) from error
    if config.num_layers:
        keep_layers(tower, config.num_layers, spread=config.spread_layers)
    if config.layout == "fields":
        grow_field_table(tower)
        if (folder / FIELDS_FILE).exists():
            table: Any = tower.embeddings
            table.token_type_embeddings.load_state_dict(load_file(str(folder / FIELDS_FILE)))
    return tower


def _save_tower(tower: Any, folder: Path) -> None:
    """Write one encoder; a table of fields that its kind lacks goes to a file of its own."""
    state = tower.state_dict()
    if has_added_fields(tower):
        state = {name: each for name, each in state.items() if "token_type_embeddings" not in name}
    with writing_tensors(folder):
        tower.save_pretrained(str(folder), state_dict=state)
    if has_added_fields(tower):
        table = tower.embeddings.token_type_embeddings.state_dict()
        save_tensors(table, folder / FIELDS_FILE)


def _load_rest(folder: Path, network: GlowNetwork, config: GlowConfig) -> None:
    """Load what stands beside the first tower: the second one, merging network, projection."""
    if config.towers == "separate" and (folder / DOCUMENT_TOWER).is_dir():
        tower = _load_tower(folder / DOCUMENT_TOWER, config)
        words = network.query_encoder.get_input_embeddings()  # type: ignore[operator]
        tower.set_input_embeddings(words)  # type: ignore[operator]
        network.document_encoder = tower
    if network.merge is not None and (folder / MERGE_FILE).exists():
        network.merge.load_state_dict(load_file(str(folder / MERGE_FILE)))
    if network.projection is not None:
        if not (folder / PROJECTION_FILE).exists():
            raise ConfigError(
                f"{folder} has no {PROJECTION_FILE}, but projection is {config.projection}; set it"
                " to 0, or train one with a recipe that projects"
            )
        network.projection.load_state_dict(load_file(str(folder / PROJECTION_FILE)))


def _within_positions(base: Any, config: GlowConfig, *, is_asked: bool) -> GlowConfig:
    """Keep sequences within the positions that the encoder knows; more asked for is an error."""
    table = getattr(getattr(base, "embeddings", None), "position_embeddings", None)
    if table is None:
        return config
    limit = table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    longest = max(config.max_subwords, config.max_query_subwords)
    if is_asked and longest > limit:
        raise ConfigError(f"the encoder reads {limit} subwords at most, {longest} were asked for")
    return replace(
        config,
        max_subwords=min(limit, config.max_subwords),
        max_query_subwords=min(limit, config.max_query_subwords),
    )
