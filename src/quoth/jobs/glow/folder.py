"""What a training keeps on disk, and how it is told that it may go on.

Beside the folder that is to hold the encoder stands one named `.training` while it is made:

    settings.json     everything that decides what comes out; a run with others is refused
    training-set/     the pairs as subwords
    checkpoints/      where an interrupted run goes on

It is removed when the encoder is saved, which then carries its settings and scores with it
(`quoth_training.json`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quoth.artifact import seal_file, write_text_atomically
from quoth.errors import ConfigError, Damaged
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.files import SETTINGS_FILE, plain_config
from quoth.training.recipes.glow_config import GlowRecipe
from quoth.training.retriever.held_out import HeldOutScores

REPORT_FILE = "quoth_training.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be trained, from what, and where."""

    pairs: Path
    out: Path
    recipe: GlowRecipe
    encoder: GlowConfig
    base: str
    collection: Path | None = None
    held_out: float = 0.1
    device: str = "auto"
    checkpoint_every: int = 100
    resume: bool = True

    @property
    def work(self) -> Path:
        """Where the training keeps what it needs to go on."""
        return self.out.with_name(self.out.name + ".training")


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training did; scores are None where nothing was held out."""

    out: Path
    num_pairs: int
    num_queries: int
    num_passages: int
    steps: int
    losses: tuple[tuple[int, float], ...]
    device: str
    before: HeldOutScores | None
    after: HeldOutScores | None
    is_old: bool = False
    """Whether this is the report of an earlier run with the same settings."""

    def as_record(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        scores = {
            name: {"RR@10": each.mrr, "nDCG@10": each.ndcg}
            for name, each in (("before", self.before), ("after", self.after))
            if each is not None
        }
        return {
            "encoder": str(self.out),
            "pairs": self.num_pairs,
            "held_out_queries": self.num_queries,
            "passages": self.num_passages,
            "steps": self.steps,
            "losses": [list(each) for each in self.losses],
            "device": self.device,
            "held_out": scores,
        }


def make_settings(plan: Plan, *, base: str, basis: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides what comes out, as JSON gives it back."""
    content = {
        "pairs": seal_file(plan.pairs).sha256,
        "base": base,
        "held_out": plan.held_out,
        "statistics": dict(basis),
        "glow": asdict(plan.recipe),
        "encoder": plain_config(plan.encoder),
    }
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


def require_free(out: Path) -> None:
    """Refuse, before any work, to save over something that is no encoder."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; name a new folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / SETTINGS_FILE).exists():
        raise ConfigError(f"{out} holds something else than an encoder; name a new folder")


def prepare_folder(plan: Plan, settings: Mapping[str, Any]) -> None:
    """Make the working folder, or make sure that what stands in it belongs to these settings."""
    path = plan.work / "settings.json"
    if not plan.resume:
        shutil.rmtree(plan.work, ignore_errors=True)
    if path.exists():
        differing = differences(json.loads(path.read_text(encoding="utf-8")), settings)
        if differing:
            raise ConfigError(
                f"{plan.work} holds an unfinished training with other settings"
                f" ({', '.join(differing)}); use those, name another --out, or --restart"
            )
        return
    plan.work.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, json.dumps(settings, indent=1, sort_keys=True) + "\n")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name the settings that differ, with their values where these are short.

    >>> differences({"pairs": "a", "glow": {"steps": 3}}, {"pairs": "b", "glow": {"steps": 4}})
    ['pairs', 'glow.steps was 3, is 4']
    """
    was, is_now = _flatten(before), _flatten(now)
    return [
        f"{name} was {was.get(name)}, is {is_now.get(name)}" if name.count(".") else name
        for name in {**is_now, **was}
        if was.get(name) != is_now.get(name)
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Name values by the way to them.

    >>> _flatten({"recipe": {"negatives": {"prefixes": True}}})
    {'recipe.negatives.prefixes': True}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flatten(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def finish(plan: Plan, settings: Mapping[str, Any], trained: Trained, encoder: GlowEncoder) -> None:
    """Save the encoder with its settings and scores, then drop what was needed to go on."""
    encoder.save(plan.out)
    content = {"settings": settings, "trained": asdict(trained) | {"out": ""}}
    write_text_atomically(plan.out / REPORT_FILE, json.dumps(content, indent=1) + "\n")
    shutil.rmtree(plan.work, ignore_errors=True)


def read_report(plan: Plan, settings: Mapping[str, Any]) -> Trained | None:
    """Read what an earlier run with these very settings did; None where there was none."""
    path = plan.out / REPORT_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["settings"] != settings:
            return None
        told = content["trained"]
        scores = {
            name: None if told[name] is None else HeldOutScores(**told[name])
            for name in ("before", "after")
        }
        losses = tuple((step, loss) for step, loss in told["losses"])
        return Trained(**told | scores | {"out": plan.out, "losses": losses, "is_old": True})
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); delete it, or use --restart") from error
