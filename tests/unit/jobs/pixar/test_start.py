"""What training starts from: the shipped network, unless the encoder is one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoth.errors import ConfigError
from quoth.jobs.pixar.start import choose_start
from quoth.models.pixar.pretrained import NAME
from quoth.models.pretrained import DEFAULT_NAME
from quoth.settings.pixar import PixarBuildConfig


@pytest.mark.parametrize(
    ("start", "encoder", "is_shipped"),
    [
        ("auto", DEFAULT_NAME, True),
        ("auto", "notes.quoth/models/learned-1", True),
        ("auto", "elsewhere/encoder", False),
        (NAME, "elsewhere/encoder", True),
        ("none", DEFAULT_NAME, False),
    ],
)
def test_the_shipped_network_is_the_start_where_the_encoder_is_the_usual_one(
    start: str, encoder: str, is_shipped: bool
) -> None:
    found = choose_start(start, encoder=encoder, collection=Path("notes.quoth"))
    assert (found is not None and found.folder.name == NAME) == is_shipped


def test_a_start_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="no pretrained PIXAR 'nowhere'"):
        choose_start("nowhere", encoder=DEFAULT_NAME, collection=Path("notes.quoth"))
    with pytest.raises(ConfigError, match="start is"):
        PixarBuildConfig(start="")
