"""What training starts from: the shipped network, unless the encoder is one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quoth.errors import ConfigError
from quoth.jobs.pixar.start import choose_start
from quoth.models.pixar.pretrained import NAME, PretrainedPixar, describe, open_pretrained
from quoth.models.pretrained import DEFAULT_NAME
from quoth.settings.pixar import PixarBuildConfig


def _choose(config: PixarBuildConfig, *, encoder: str = DEFAULT_NAME) -> PretrainedPixar | None:
    return choose_start(config, encoder=encoder, collection=Path("notes.quoth"))


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
    found = _choose(PixarBuildConfig(start=start), encoder=encoder)
    assert (found is not None and found.folder.name == NAME) == is_shipped


def test_a_start_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="no pretrained PIXAR 'nowhere'"):
        _choose(PixarBuildConfig(start="nowhere"))
    with pytest.raises(ConfigError, match="start is"):
        PixarBuildConfig(start="")


def test_slots_that_the_start_does_not_have_are_refused_all_at_once() -> None:
    asked = PixarBuildConfig(slot_kind="input", tail="pad", slots=7)
    with pytest.raises(ConfigError) as caught:
        _choose(asked)
    for part in (
        "slot_kind is input, but the network to start from (pixar) has decoder",
        "tail is pad, but the network to start from (pixar) has eos",
        "slots is 7, but the network to start from (pixar) has 24",
        f"start anew from {DEFAULT_NAME} with --pixar.start none",
    ):
        assert part in str(caught.value)
    assert _choose(replace(asked, start="none")) is None
    assert _choose(asked, encoder="elsewhere/encoder") is None


def test_slots_that_the_start_has_may_be_asked_for(tmp_path: Path) -> None:
    shipped = open_pretrained(NAME)
    assert _choose(PixarBuildConfig(slots=shipped.config.num_slots)) is not None
    (tmp_path / "pixar.safetensors").touch()
    describe(tmp_path, replace(shipped.config, slots="mask", tail="none"), shipped.encoder)
    start = str(tmp_path)
    assert _choose(PixarBuildConfig(start=start)) is not None  # the defaults ask for none
    assert _choose(PixarBuildConfig(start=start, slot_kind="mask", tail="none")) is not None
    with pytest.raises(ConfigError, match=r"slot_kind is input, but .* has mask"):
        _choose(PixarBuildConfig(start=start, slot_kind="input"))
