"""Which language model answers, where it is, and how it computes on this machine.

By default the shipped one, which has learned to quote. Where its weights are not installed, or
another causal model is named, that model answers as it is: untrained phrases would be noise, so it
is offered none and cites nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.answer.config import SHIPPED
from quoth.artifact import FILE_NAME, require_sealed, seal_file
from quoth.engine.models import be_quiet, missing_neural
from quoth.errors import ConfigError
from quoth.models.digests import cache_folder

if TYPE_CHECKING:
    import torch

    from quoth.answer.abstain import Abstention
    from quoth.models.dynamic_lm.config import DynamicLMConfig
    from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
    from quoth.models.dynamic_lm.files import SavedDynamicLM

_CHAT = '"<|im_start|>"'


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OpenedModel:
    """A language model ready to answer; `notice` is empty where it has learned to quote."""

    model: DynamicLM
    abstention: Abstention
    identity: str
    notice: str = ""


def open_language_model(name: str) -> OpenedModel:
    """Open the shipped model, a trained one's folder, or any causal model."""
    try:
        trained = find_trained(name)
        return _open_plain(name) if trained is None else _open_trained(trained)
    except ImportError as error:
        raise missing_neural(error, what="answers") from error


def find_trained(name: str) -> Path | None:
    """Find the folder of a model that has learned to quote; None where it has not."""
    from quoth.models.pretrained import find_shipped

    if name == SHIPPED and not Path(name).is_dir():
        try:
            return find_shipped(SHIPPED)
        except ConfigError:  # not installed, or an older release
            return None
    return Path(name) if (Path(name) / FILE_NAME).is_file() else None


def find_base(saved: SavedDynamicLM) -> Path | None:
    """Find the embedded model where adapters were trained over it; others find theirs by name."""
    from quoth.models.language_models import EMBEDDED_NAME, find_language_model

    if saved.config.tuning != "lora" or saved.source.name != EMBEDDED_NAME:
        return None
    return find_language_model(EMBEDDED_NAME, cache=cache_folder())


def template_of(folder: Path) -> str:
    """Say how prompts are written for the model in a folder: as a chat where it knows one."""
    path = folder / "tokenizer.json"
    is_chat = path.is_file() and _CHAT in path.read_text(encoding="utf-8")
    return "chat" if is_chat else "plain"


def _open_trained(folder: Path) -> OpenedModel:
    from quoth.answer.abstain import open_abstention
    from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
    from quoth.models.dynamic_lm.files import read_saved
    from quoth.models.dynamic_lm.merged import open_merged

    device, dtype = _place()
    require_sealed(folder)
    base = find_base(read_saved(folder))
    model = open_merged(folder, base=base, device=device, dtype=dtype)
    if model is None:
        be_quiet()
        model = open_dynamic_lm(folder, base=base, device=device, dtype=dtype)
        model.network.merge()
    identity = f"{seal_file(folder / FILE_NAME).sha256} {dtype}"
    return OpenedModel(model, open_abstention(folder), identity)


def _open_plain(name: str) -> OpenedModel:
    from quoth.answer.abstain import REFUSAL_ALONE
    from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
    from quoth.models.language_models import EMBEDDED_NAME, find_language_model

    chosen = EMBEDDED_NAME if name == SHIPPED else name
    folder = find_language_model(chosen, cache=cache_folder())
    device, dtype = _place()
    be_quiet()
    model = DynamicLM.start(
        folder, config=_plain_config(chosen, folder), device=device, dtype=dtype
    )
    why = (
        f"the weights of {SHIPPED!r} are not installed (pip install --upgrade quoth-weights)"
        if name == SHIPPED
        else f"{name} has not learned to quote"
    )
    notice = f"{why}; {chosen} answers in its own words, without citations"
    return OpenedModel(model, REFUSAL_ALONE, f"{model.source.digest} {dtype}", notice)


def _plain_config(name: str, folder: Path) -> DynamicLMConfig:
    """Describe a model that is used as it is: no adapters, and a phrase encoder hardly there."""
    from quoth.models.dynamic_lm.config import DynamicLMConfig

    return DynamicLMConfig(base=name, tuning="full", encoder_layers=1, template=template_of(folder))


def _place() -> tuple[torch.device, torch.dtype]:
    """Choose the device, and half precision where it is quick."""
    import torch

    from quoth.models.processor import has_fast_bf16

    if torch.cuda.is_available():
        return torch.device("cuda"), torch.bfloat16
    return torch.device("cpu"), torch.bfloat16 if has_fast_bf16() else torch.float32
