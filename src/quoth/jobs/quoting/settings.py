"""The settings of `quoth train dynamic-lm`, ready for use, by the sections of `TRAINING_SECTIONS`.

On a CPU batches, prompts and what is judged by are small, unless that is set. All problems are
reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from quoth.errors import ConfigError
from quoth.jobs.device import choose_device
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.settings.config import Values
from quoth.settings.dynamic_lm import (
    TRAINING_DEFAULTS,
    TRAINING_SECTIONS,
    DynamicTrainingConfig,
)
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

_JUDGED = {"cpu": 12, "cuda": 64}
_LARGE_GPU = 60 * 2**30


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """What was set and what was not, ready for use; `recipe` holds sampling and negatives."""

    device: torch.device
    training: DynamicTrainingConfig = field(default_factory=DynamicTrainingConfig)
    recipe: DynamicLMRecipe = field(default_factory=DynamicLMRecipe)
    quoting: QuotingConfig = field(default_factory=QuotingConfig)
    model: DynamicLMConfig = field(default_factory=DynamicLMConfig)
    given: frozenset[str] = frozenset()
    """What was set by the user, as section.field."""

    def to_record(self) -> dict[str, Any]:
        """Return all that decides what is trained as plain values; the device does not."""
        names = ("training", "recipe", "quoting", "model")
        found = {name: asdict(getattr(self, name)) for name in names}
        del found["training"]["device"]
        return found


def read_settings(*layers: Values) -> DynamicSettings:
    """Lay settings over what is usual on the device, the last layer on top."""
    values = {name: _joined(name, layers) for name in TRAINING_SECTIONS}
    if steps := values["recipe"].pop("steps", None):
        values["training"]["steps"] = steps
    given = frozenset(f"{name}.{key}" for name, own in values.items() for key in own)
    problems: list[str] = []
    configs: dict[str, Any] = {}
    device = torch.device("cpu")
    try:
        training_config = DynamicTrainingConfig(**values["training"])
        device = choose_device(training_config.device)
        judged = training_config.judged or _JUDGED[device.type]
        configs["training"] = replace(training_config, judged=judged)
    except ConfigError as error:
        problems.append(str(error))
    usual = _usual(device, values["training"].get("seed", 0))
    for name in ("sampling", "negatives", "quoting", "model"):
        _build(name, {**usual.get(name, {}), **values[name]}, configs, problems)
    recipe = {**usual["recipe"], **values["recipe"]}
    recipe |= {name: configs[name] for name in ("sampling", "negatives") if name in configs}
    _build("recipe", recipe, configs, problems)
    if problems:
        raise ConfigError("; ".join(problems))
    kept = {name: configs[name] for name in ("training", "recipe", "quoting", "model")}
    return DynamicSettings(device, **kept, given=given)


def _joined(section: str, layers: Sequence[Values]) -> dict[str, Any]:
    return {key: value for layer in layers for key, value in layer.get(section, {}).items()}


def _usual(device: torch.device, seed: int) -> dict[str, dict[str, Any]]:
    """Return the values of what is not set, where they are not those of the sections."""
    found = {name: dict(own) for name, own in TRAINING_DEFAULTS.items()}
    found["recipe"] |= {**usual_sizes(_memory_bytes(device)), "seed": seed}
    found["quoting"] = {"seed": seed}
    if device.type == "cpu":
        found["recipe"]["candidate_budget"] = 32
        found["quoting"] |= {"num_passages": 2}
    return found


def usual_sizes(memory_bytes: int) -> dict[str, int]:
    """Choose sizes of batches by the memory of a GPU, 0 where there is none.

    A subword takes about 4 MB while the embedded model learns, half of that on a GPU.

    >>> usual_sizes(24 * 2**30)
    {'batch_size': 4, 'quote_batch_size': 2, 'accumulate': 4}
    """
    if not memory_bytes:
        return {"batch_size": 1, "quote_batch_size": 1, "accumulate": 1}
    large = memory_bytes >= _LARGE_GPU
    sizes = (16, 8, 1) if large else (4, 2, 4)
    return dict(zip(("batch_size", "quote_batch_size", "accumulate"), sizes, strict=True))


def _memory_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)


def _build(
    name: str, values: Mapping[str, Any], configs: dict[str, Any], problems: list[str]
) -> None:
    try:
        configs[name] = TRAINING_SECTIONS[name](**values)
    except ConfigError as error:
        problems.append(str(error))
