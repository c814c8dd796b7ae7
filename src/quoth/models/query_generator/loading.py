"""The parts of a query generator, of whatever kind: made anew, or read from a folder."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from quoth.errors import ConfigError
from quoth.models.pretrained import EncoderSource, digest_weights, find_folder, load_tokenizer
from quoth.models.query_generator import causal_files
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.query_generator.causal_inputs import load_causal_inputs
from quoth.models.query_generator.config import CausalGeneratorConfig, QueryGeneratorConfig
from quoth.models.query_generator.files import build_network, load_bert, load_network, save_network
from quoth.models.query_generator.foreign import ForeignNetwork, load_foreign
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.query_generator.saved import encoder_folder, is_own, read_saved
from quoth.models.saving import save_tokenizer, writing_tensors

Network = QueryGeneratorNetwork | ForeignNetwork | CausalNetwork
GeneratorConfig = QueryGeneratorConfig | CausalGeneratorConfig


class GeneratorParts(NamedTuple):
    """What a query generator is made of."""

    network: Network
    inputs: QueryGeneratorInputs
    config: GeneratorConfig
    encoder: EncoderSource | None
    """What it was made for: an encoder, or the language model of a causal generator; None for
    another's model, which is whole."""

    identity: dict[str, Any]


def start_parts(encoder: str, config: QueryGeneratorConfig) -> GeneratorParts:
    """Start from an encoder, by folder or name."""
    folder = find_folder(encoder)
    inputs = QueryGeneratorInputs(load_tokenizer(folder), config)
    network = build_network(load_bert(folder), config, start_id=start_id(inputs))
    source = EncoderSource(encoder, digest_weights(folder))
    return GeneratorParts(network, inputs, config, source, _untrained(source, config))


def start_causal_parts(base: Path, config: CausalGeneratorConfig, seed: int) -> GeneratorParts:
    """Start from a language model, by its folder."""
    inputs, source = load_causal_inputs(base, config), causal_files.name_base(base)
    network = causal_files.start_network(base, config, prefix=inputs.prefix, seed=seed)
    return GeneratorParts(network, inputs, config, source, _untrained(source, config))


def load_parts(name: str, folder: Path) -> GeneratorParts:
    """Load a generator of ours, of either kind, or another's BART or T5; all in fp32."""
    if causal_files.is_causal(folder):
        return _load_causal(name, folder)
    return _load_own(name, folder) if is_own(folder) else _load_foreign(name, folder)


def save_parts(folder: Path, parts: GeneratorParts, *, dtype: str) -> None:
    """Write a generator of ours; of a causal one the adapters, in bf16 whatever is asked for."""
    network, inputs, config, encoder, _identity = parts
    if isinstance(network, CausalNetwork):
        assert isinstance(config, CausalGeneratorConfig) and encoder is not None
        causal_files.save_causal(folder, network, config, base=encoder)
    elif isinstance(network, ForeignNetwork) or encoder is None:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; name a new folder")
        with writing_tensors(folder):
            network.model.save_pretrained(str(folder))  # type: ignore[operator,union-attr]
        save_tokenizer(inputs.tokenizer, folder / "tokenizer.json")
    else:
        assert isinstance(config, QueryGeneratorConfig)
        save_network(
            folder, network, config, encoder=encoder, tokenizer=inputs.tokenizer, dtype=dtype
        )


def start_id(inputs: QueryGeneratorInputs) -> int:
    """Return the symbol that starts a query: what opens a passage."""
    if not inputs.symbols.opening:
        raise ConfigError("the encoder's tokenizer has no [CLS] to start a query with")
    return inputs.symbols.opening[0]


def _load_own(name: str, folder: Path) -> GeneratorParts:
    saved = read_saved(folder)
    base = encoder_folder(folder, saved)
    inputs = QueryGeneratorInputs(load_tokenizer(base), saved.config)
    network = load_network(folder, saved, base=base, start_id=start_id(inputs))
    identity = _identify(name, _joined(saved.encoder.digest, saved.sha256), saved.config)
    return GeneratorParts(network, inputs, saved.config, saved.encoder, identity)


def _load_causal(name: str, folder: Path) -> GeneratorParts:
    saved = causal_files.read_causal(folder)
    base = causal_files.find_base(folder, saved)
    inputs = load_causal_inputs(base, saved.config)
    network = causal_files.load_network(folder, saved, base=base, prefix=inputs.prefix)
    identity = _identify(name, _joined(saved.base.digest, saved.sha256), saved.config)
    return GeneratorParts(network, inputs, saved.config, saved.base, identity)


def _load_foreign(name: str, folder: Path) -> GeneratorParts:
    config, network = QueryGeneratorConfig(train_encoder=True), load_foreign(folder)
    inputs = QueryGeneratorInputs(load_tokenizer(folder), config)
    identity = _identify(name, digest_weights(folder), config)
    return GeneratorParts(network, inputs, config, None, identity)


def _identify(name: str, digest: str, config: GeneratorConfig) -> dict[str, Any]:
    return {"name": Path(name).name, "digest": digest, "config": asdict(config)}


def _untrained(source: EncoderSource, config: GeneratorConfig) -> dict[str, Any]:
    return _identify("untrained", source.digest, config)


def _joined(*digests: str) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()
