"""Query generators on disk: the decoder alone in one safetensors file, and what it is.

    config.json          kind, format, settings, encoder it reads with, checksum of the weights
    decoder.safetensors  int8 per row with fp32 row scales (symmetric; biases and norms fp16), or
                         bf16, or fp32
    encoder/             Hugging Face's layout, only where the encoder was trained as well

A frozen encoder is named, not copied: six layers of decoder take 14 MiB instead of 150.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from quoth.artifact import write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.pretrained import EncoderSource, load_encoder
from quoth.models.quantised import dequantise, quantise, read_sealed
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.query_generator.saved import (
    CONFIG_FILE,
    DECODER_FILE,
    ENCODER_FOLDER,
    FORMAT,
    KIND,
    SavedGenerator,
    is_own,
)
from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors
from quoth.models.tensor_files import describe_weights

_ENCODER = "encoder."


def load_bert(folder: Path) -> nn.Module:
    """Load an encoder of the BERT kind, whose layers a decoder can start from."""
    encoder = load_encoder(folder)
    if not hasattr(getattr(encoder, "encoder", None), "layer"):
        raise ConfigError(
            f"{folder} holds a {type(encoder).__name__}, whose layers cannot start a decoder;"
            " name an encoder of the BERT kind"
        )
    return encoder


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
