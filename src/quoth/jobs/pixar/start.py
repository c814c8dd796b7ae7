"""What training starts from: a network trained across collections, or the encoder alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from quoth.errors import ConfigError
from quoth.models.pixar.pretrained import NAME, PretrainedPixar, open_pretrained
from quoth.models.pretrained import DEFAULT_NAME
from quoth.settings.pixar import AUTO_START, NO_START, PixarBuildConfig


def choose_start(
    config: PixarBuildConfig, *, encoder: str, collection: Path
) -> PretrainedPixar | None:
    """Open the network to start from, None where the encoder alone is.

    Unless one is named, it is the shipped one, provided that the collection's encoder is the
    default or was learned from it: who chose another encoder has a reason, a language say. Slots
    are those of the network, so a setting that asks for others is refused.
    """
    start = config.start
    if start == AUTO_START:
        is_usual = encoder == DEFAULT_NAME or Path(encoder).is_relative_to(collection)
        start = NAME if is_usual else NO_START
    if start == NO_START:
        return None
    found = open_pretrained(start)
    if problems := "; ".join(_find_conflicts(config, found)):
        raise ConfigError(
            f"pixar: {problems}, which training goes on with; leave that out, or start anew from"
            f" {encoder} with --pixar.start {NO_START}"
        )
    return found


def _find_conflicts(config: PixarBuildConfig, start: PretrainedPixar) -> Iterator[str]:
    """Say which slots were asked for that a network does not have; the defaults ask for none."""
    usual, own, name = PixarBuildConfig(), start.config, start.folder.name
    for setting, has in (("slot_kind", own.slots), ("tail", own.tail), ("slots", own.num_slots)):
        asked = getattr(config, setting)
        if asked not in (getattr(usual, setting), has):
            yield f"{setting} is {asked}, but the network to start from ({name}) has {has}"
