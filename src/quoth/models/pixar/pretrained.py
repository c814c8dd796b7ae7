"""A PIXAR network that was trained across collections, as it is shipped: what others start from.

    config.json         kind, format, settings, encoder whose table of words it reads, checksum
    pixar.safetensors   all other tensors, int8 per row with fp32 row scales, the rest fp16

It has no head: the rows of a collection's phrases are the network's own vectors of their texts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from quoth.artifact import write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.network import PixarNetwork
from quoth.models.pretrained import EncoderSource, find_shipped
from quoth.models.quantised import dequantise, quantise, read_sealed
from quoth.models.saving import save_tensors
from quoth.models.tensor_files import describe_weights

NAME = "pixar"
"""What the shipped network is called."""

KIND, FORMAT = "pixar-start", 1
CONFIG_FILE, WEIGHTS_FILE = "config.json", "pixar.safetensors"
_LEFT_OUT = ("embeddings.word_embeddings", "pooler")


@dataclass(frozen=True, slots=True)
class PretrainedPixar:
    """A network to start from, on disk."""

    folder: Path
    config: PixarConfig
    encoder: EncoderSource
    sha256: str

    def find_encoder(self) -> Path:
        """Find the encoder whose table of words it reads, if it is still the same."""
        return self.encoder.find(self.folder)

    def restore(self, network: PixarNetwork) -> None:
        """Put its tensors into a network that was built with its settings and encoder."""
        tensors = dequantise(read_sealed(self.folder / WEIGHTS_FILE, sha256=self.sha256))
        sizes = {name: tensor.shape for name, tensor in own_tensors(network).items()}
        if sizes != {name: tensor.shape for name, tensor in tensors.items()}:
            raise Damaged(f"{self.folder} does not fit its encoder; copy the folder anew")
        network.load_state_dict(tensors, strict=False)


def open_pretrained(name: str) -> PretrainedPixar:
    """Find a network to start from: the shipped one, or a folder that holds one."""
    folder = Path(name) if Path(name).is_dir() else None
    if folder is None and name != NAME:
        raise ConfigError(
            f"there is no pretrained PIXAR {name!r}: it is no folder, and not {NAME}, which is"
            " shipped; name one of these, or none"
        )
    folder = folder or find_shipped(NAME)
    path = folder / CONFIG_FILE
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if (content["kind"], content["format"]) != (KIND, FORMAT):
            raise ConfigError(
                f"{folder} holds a {content['kind']} of format {content['format']}, expected a"
                f" {KIND} of format {FORMAT}; name another folder, or none"
            )
        config = replace(PixarConfig(), **content["config"])
        encoder = EncoderSource(**content["encoder"])
        return PretrainedPixar(folder, config, encoder, content["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); copy the folder anew") from error


def save_pretrained(
    folder: Path, network: PixarNetwork, *, encoder: EncoderSource, dtype: str = "int8"
) -> None:
    """Write a network that others may start from, over an older one only when complete."""
    if folder.exists() and any(folder.iterdir()):
        open_pretrained(str(folder))  # something else is not overwritten
    with write_folder(folder) as unfinished:
        save_tensors(quantise(own_tensors(network), dtype=dtype), unfinished / WEIGHTS_FILE)
        describe(unfinished, network.config, encoder)


def describe(folder: Path, config: PixarConfig, encoder: EncoderSource) -> None:
    """Write the settings of a network beside its tensors."""
    describe_weights(
        folder / CONFIG_FILE,
        WEIGHTS_FILE,
        kind=KIND,
        format=FORMAT,
        config=asdict(config),
        encoder=asdict(encoder),
    )


def own_tensors(network: PixarNetwork) -> dict[str, Tensor]:
    """List the tensors of a network, but for the table of words and what is never used."""
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in network.state_dict().items()
        if tensor.is_floating_point() and not any(part in name for part in _LEFT_OUT)
    }
