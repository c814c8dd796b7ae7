"""Causal query generators on disk: adapters alone, and which language model they belong to.

    config.json           kind, format, settings, the base's name and digest, checksum
    adapters.safetensors  bf16, by peft's names

The language model is named, not copied: rank 8 over the embedded one takes 5 MB instead of 270.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from quoth.artifact import write_folder
from quoth.errors import ConfigError, Damaged
from quoth.models.digests import cache_folder
from quoth.models.dynamic_lm.llama import WEIGHTS_FILE, read_shape, tensor_names
from quoth.models.language_models import (
    EMBEDDED_NAME,
    digest_language_model,
    find_language_model,
)
from quoth.models.lora import adapter_tensors, add_adapters, load_adapters
from quoth.models.pretrained import EncoderSource
from quoth.models.quantised import read_sealed
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.query_generator.config import CausalGeneratorConfig
from quoth.models.query_generator.saved import CONFIG_FILE, read_config
from quoth.models.saving import save_tensors
from quoth.models.tensor_files import describe_weights

KIND, FORMAT = "causal-query-generator", 1
ADAPTER_FILE = "adapters.safetensors"


@dataclass(frozen=True, slots=True)
class SavedCausal:
    """What `config.json` says."""

    config: CausalGeneratorConfig
    base: EncoderSource
    sha256: str


def is_causal(folder: Path) -> bool:
    """Whether a folder holds a causal query generator."""
    content = read_config(folder) if (folder / CONFIG_FILE).exists() else {}
    return content.get("kind") == KIND


def read_causal(folder: Path) -> SavedCausal:
    """Read what a causal query generator is."""
    content = read_config(folder)
    if content.get("kind") != KIND:
        raise ConfigError(f"{folder} holds no causal query generator; name another folder")
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{folder} has format {content.get('format')}, this Quoth reads {FORMAT};"
            " train it again, or install the Quoth that wrote it"
        )
    try:
        config = replace(CausalGeneratorConfig(), **content["config"])
        return SavedCausal(config, EncoderSource(**content["base"]), content["sha256"])
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder / CONFIG_FILE} cannot be read ({error}); copy it anew") from error


def find_base(folder: Path, saved: SavedCausal) -> Path:
    """Find the language model that a generator's adapters belong to; another is refused."""
    base = find_language_model(saved.base.name, cache=cache_folder())
    require_base(folder, saved, base)
    return base


def require_base(folder: Path, saved: SavedCausal, base: Path) -> None:
    """Refuse another language model than the one that the adapters were trained over."""
    found = digest_language_model(base)
    if found != saved.base.digest:
        raise ConfigError(
            f"{folder} was trained over another {saved.base.name} than the one in {base}: its"
            f" digest is {found[:12]}, expected {saved.base.digest[:12]}; restore that language"
            " model, or train the generator again"
        )


def name_base(base: Path) -> EncoderSource:
    """Name a language model: the embedded one by its name, others by their folder."""
    name = EMBEDDED_NAME if base.name == EMBEDDED_NAME else str(base)
    return EncoderSource(name, digest_language_model(base))


def start_network(
    base: Path, config: CausalGeneratorConfig, *, prefix: tuple[int, ...], seed: int = 0
) -> CausalNetwork:
    """Load a language model in fp32, with fresh adapters that change nothing yet."""
    shape = read_shape(base)
    if shape is None:
        raise ConfigError(
            f"{base} holds no plain Llama, which causal query generators stand on; name another"
        )
    longest = config.max_passage_subwords + len(prefix) + config.max_query_subwords
    if longest > shape.max_position_embeddings:
        raise ConfigError(
            f"{base} reads {shape.max_position_embeddings} subwords at most, passage and query"
            f" may have {longest}; lower max_passage_subwords"
        )
    try:
        tensors = load_file(str(base / WEIGHTS_FILE))
    except (OSError, SafetensorError) as error:
        raise Damaged(f"{base / WEIGHTS_FILE} cannot be read ({error})") from error
    wanted = {name: tensors[name] for name in tensor_names(shape) & tensors.keys()}
    if missing := sorted(tensor_names(shape) - tensors.keys()):
        raise Damaged(f"{base / WEIGHTS_FILE} lacks {', '.join(missing[:3])}; copy it anew")
    network = CausalNetwork(wanted, shape, prefix=prefix)
    add_adapters(
        network,
        rank=config.lora_rank,
        alpha=config.lora_alpha,
        dropout=0.0,
        generator=torch.Generator().manual_seed(seed),
    )
    return network.eval()


def load_network(
    folder: Path, saved: SavedCausal, *, base: Path, prefix: tuple[int, ...]
) -> CausalNetwork:
    """Load the language model in `base` and the adapters; altered ones are refused."""
    network = start_network(base, saved.config, prefix=prefix)
    wrong = load_adapters(network, read_sealed(folder / ADAPTER_FILE, sha256=saved.sha256))
    if wrong:
        raise Damaged(
            f"{folder / ADAPTER_FILE} does not fit its settings: {', '.join(wrong[:3])};"
            " copy the folder anew"
        )
    return network


def save_causal(
    folder: Path, network: CausalNetwork, config: CausalGeneratorConfig, *, base: EncoderSource
) -> None:
    """Write adapters, over older ones only when complete."""
    if folder.exists() and any(folder.iterdir()) and not is_causal(folder):
        raise ConfigError(
            f"{folder} holds something else than a causal query generator; name a new folder"
        )
    tensors = {
        name: each.to(torch.bfloat16).cpu().contiguous()
        for name, each in adapter_tensors(network).items()
    }
    with write_folder(folder) as unfinished:
        save_tensors(tensors, unfinished / ADAPTER_FILE)
        describe_weights(
            unfinished / CONFIG_FILE,
            ADAPTER_FILE,
            kind=KIND,
            format=FORMAT,
            config=asdict(config),
            base=asdict(base),
        )
