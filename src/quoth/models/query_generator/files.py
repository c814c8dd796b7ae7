"""Query generators on disk: the decoder alone in one safetensors file, and what it is.

    config.json          kind, format, settings, encoder it reads with, checksum of the weights
    decoder.safetensors  int8 per row with fp32 row scales (symmetric; biases and norms fp16), or
                         bf16, or fp32
    encoder/             Hugging Face's layout, only where the encoder was trained as well

A frozen encoder is named, not copied: six layers of decoder take 14 MiB instead of 150.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor, nn

from quoth.artifact import write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.pretrained import EncoderSource, load_encoder
from quoth.models.quantised import dequantise, quantise, read_sealed
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors
from quoth.models.tensor_files import describe_weights

KIND, FORMAT = "query-generator", 1
CONFIG_FILE, DECODER_FILE, ENCODER_FOLDER = "config.json", "decoder.safetensors", "encoder"
_ENCODER = "encoder."


@dataclass(frozen=True, slots=True)
class SavedGenerator:
    """What `config.json` says."""

    config: QueryGeneratorConfig
    encoder: EncoderSource
    sha256: str


def load_bert(folder: Path) -> nn.Module:
    """Load an encoder of the BERT kind, whose layers a decoder can start from."""
    encoder = load_encoder(folder)
    if not hasattr(getattr(encoder, "encoder", None), "layer"):
        raise ConfigError(
            f"{folder} holds a {type(encoder).__name__}, whose layers cannot start a decoder;"
            " name an encoder of the BERT kind"
        )
    return encoder


def is_own(folder: Path) -> bool:
    """Whether a folder holds a query generator that Quoth wrote."""
    content = read_config(folder) if (folder / CONFIG_FILE).exists() else {}
    return content.get("kind") == KIND


def read_saved(folder: Path) -> SavedGenerator:
    """Read what a generator of ours is."""
    content = read_config(folder)
    if content.get("kind") != KIND:
        raise ConfigError(f"{folder} holds no query generator that Quoth wrote; name another")
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{folder} has format {content.get('format')}, this Quoth reads {FORMAT};"
            " train it again, or install the Quoth that wrote it"
        )
    try:
        config = replace(QueryGeneratorConfig(), **content["config"])
        return SavedGenerator(config, EncoderSource(**content["encoder"]), content["sha256"])
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder / CONFIG_FILE} cannot be read ({error}); copy it anew") from error


def load_network(
    folder: Path, saved: SavedGenerator, *, base: Path, start_id: int
) -> QueryGeneratorNetwork:
    """Load the encoder in `base` and the decoder, in fp32; altered weights are refused."""
    network = build_network(load_bert(base), saved.config, start_id=start_id)
    own = decoder_tensors(network)
    loaded = dequantise(read_sealed(folder / DECODER_FILE, sha256=saved.sha256))
    wrong = [
        name
        for name in own.keys() | loaded.keys()
        if name not in own or name not in loaded or own[name].shape != loaded[name].shape
    ]
    if wrong:
        raise Damaged(
            f"{folder / DECODER_FILE} does not fit its settings: {', '.join(sorted(wrong)[:3])};"
            " copy the folder anew"
        )
    network.load_state_dict(loaded, strict=False)
    return network


def encoder_folder(folder: Path, saved: SavedGenerator) -> Path:
    """Find the encoder of a generator: beside it, or by its name if it is still the same."""
    if (folder / ENCODER_FOLDER).is_dir():
        return folder / ENCODER_FOLDER
    if saved.config.train_encoder:
        raise Damaged(f"{folder / ENCODER_FOLDER} is missing; copy the folder anew")
    return saved.encoder.find(folder)


def build_network(
    encoder: nn.Module, config: QueryGeneratorConfig, *, start_id: int
) -> QueryGeneratorNetwork:
    """Join an encoder with a decoder that starts from it."""
    limit = int(encoder.config.max_position_embeddings)  # type: ignore[union-attr,arg-type]
    longest = max(config.max_passage_subwords, config.max_query_subwords)
    if longest > limit:
        raise ConfigError(f"the encoder reads {limit} subwords at most, {longest} were asked for")
    return QueryGeneratorNetwork(
        encoder,
        num_layers=config.num_layers,
        max_query_subwords=config.max_query_subwords,
        start_id=start_id,
        train_encoder=config.train_encoder,
        memory=config.memory,
    ).eval()


def save_network(
    folder: Path,
    network: QueryGeneratorNetwork,
    config: QueryGeneratorConfig,
    *,
    encoder: EncoderSource,
    tokenizer: Tokenizer,
    dtype: str = "int8",
) -> None:
    """Write a generator, over an older one only when complete.

    The tokenizer goes with an encoder that was trained; a named one has its own.
    """
    if folder.exists() and any(folder.iterdir()) and not is_own(folder):
        raise ConfigError(
            f"{folder} holds something else than a query generator; name a new folder"
        )
    tensors = quantise(decoder_tensors(network), dtype=dtype)
    with write_folder(folder) as unfinished:
        save_tensors(tensors, unfinished / DECODER_FILE)
        if config.train_encoder:
            inner = unfinished / ENCODER_FOLDER
            with writing_tensors(inner):
                network.encoder.save_pretrained(str(inner))  # type: ignore[operator]
            save_tokenizer(tokenizer, inner / "tokenizer.json")
        describe_weights(
            unfinished / CONFIG_FILE,
            DECODER_FILE,
            kind=KIND,
            format=FORMAT,
            config=asdict(config),
            encoder=asdict(encoder),
            dtype=dtype,
        )


def decoder_tensors(network: QueryGeneratorNetwork) -> dict[str, Tensor]:
    """List the tensors of the decoder; the encoder's are not among them."""
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in network.state_dict().items()
        if not name.startswith(_ENCODER)
    }


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a folder."""
    path = folder / CONFIG_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder} holds no model: {CONFIG_FILE} cannot be read ({error})"
        ) from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not an object; name a folder that holds a model")
    return content
