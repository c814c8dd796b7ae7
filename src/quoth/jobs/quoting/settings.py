"""All settings of `quoth train dynamic-lm`, by section, as `--set section.field=value` gives them.

    training    how much is read, made and judged, and how long is trained
    recipe      losses, batches, learning rate
    sampling    which stretches of texts become phrases
    negatives   which phrases are offered beside the right ones
    quoting     the samples that teach quoting
    model       what a model that is started anew is like

On a CPU batches, prompts and what is judged by are small, unless that is set. All problems are
reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args, get_type_hints

import torch

from quoth.errors import ConfigError
from quoth.jobs.device import choose_device
from quoth.jobs.quoting.plan import DynamicTrainingConfig
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.selfsupervision.phrase_sampling import PhraseSamplingConfig
from quoth.training.quoting.phrase_negatives import NegativesConfig
from quoth.training.quoting.quote_writer import QuotingConfig
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

_SECTIONS: Mapping[str, type] = {
    "training": DynamicTrainingConfig,
    "recipe": DynamicLMRecipe,
    "sampling": PhraseSamplingConfig,
    "negatives": NegativesConfig,
    "quoting": QuotingConfig,
    "model": DynamicLMConfig,
}
_ELSEWHERE = {"recipe.sampling", "recipe.negatives"}  # sections of their own
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "recipe": {"quote_share": 0.75, "checkpoint_every": 50},
    "negatives": {"generation": False},
}
_JUDGED = {"cpu": 12, "cuda": 64}
_LARGE_GPU = 60 * 2**30
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


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


def read_settings(texts: Sequence[str], training: Mapping[str, Any]) -> DynamicSettings:
    """Read `--set` as a command line gives it; `training` are options of the command's own."""
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    problems = _parse(texts, values)
    values["training"] |= training
    if steps := values["recipe"].pop("steps", None):
        values["training"]["steps"] = steps
    given = frozenset(f"{name}.{key}" for name, own in values.items() for key in own)
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
    if not problems:
        replace(configs["recipe"], steps=1).loop()  # has checks of its own
    if problems:
        raise ConfigError("; ".join(problems))
    kept = {name: configs[name] for name in ("training", "recipe", "quoting", "model")}
    return DynamicSettings(device, **kept, given=given)


def _usual(device: torch.device, seed: int) -> dict[str, dict[str, Any]]:
    """Return the values of what is not set, where they are not those of the sections."""
    found = {name: dict(own) for name, own in _USUAL.items()}
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
        configs[name] = _SECTIONS[name](**values)
    except ConfigError as error:
        problems.append(str(error))


def _parse(texts: Sequence[str], values: dict[str, dict[str, Any]]) -> list[str]:
    """Put what was set into its section; gives what is wrong with it."""
    problems = []
    for text in texts:
        name, equals, value = text.partition("=")
        section, _, key = name.strip().replace("-", "_").partition(".")
        if section not in _SECTIONS:
            known = ", ".join(_SECTIONS)
            problems.append(
                f"--set {text} names no section; expected SECTION.FIELD=VALUE of {known}"
            )
            continue
        kinds = _kinds(section)
        if not equals or key not in kinds:
            problems.append(f"--set {text} names no setting; {section} has {', '.join(kinds)}")
            continue
        try:
            values[section][key] = _PARSERS[kinds[key]](value.strip())
        except (ValueError, KeyError):
            problems.append(f"--set {text}: expected {_EXPECTED[kinds[key]]}")
    return problems


def _kinds(section: str) -> dict[str, type]:
    """Map the fields of a section to their types; a choice of words is text."""
    hints = get_type_hints(_SECTIONS[section])
    return {
        name: str if get_args(hint) else hint
        for name, hint in hints.items()
        if f"{section}.{name}" not in _ELSEWHERE
    }


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_PARSERS: Mapping[type, Callable[[str], Any]] = {
    int: int,
    float: _parse_number,
    str: str,
    bool: lambda text: _BOOLEANS[text.lower()],
}
_EXPECTED: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
}
