"""What training starts from: a network trained across collections, or the encoder alone."""

from __future__ import annotations

from pathlib import Path

from quoth.models.pixar.pretrained import NAME, PretrainedPixar, open_pretrained
from quoth.models.pretrained import DEFAULT_NAME
from quoth.settings.pixar import AUTO_START, NO_START


def choose_start(start: str, *, encoder: str, collection: Path) -> PretrainedPixar | None:
    """Open the network to start from, None where the encoder alone is.

    Unless one is named, it is the shipped one, provided that the collection's encoder is the
    default or was learned from it: who chose another encoder has a reason, a language say.
    """
    if start == AUTO_START:
        is_usual = encoder == DEFAULT_NAME or Path(encoder).is_relative_to(collection)
        start = NAME if is_usual else NO_START
    return None if start == NO_START else open_pretrained(start)
