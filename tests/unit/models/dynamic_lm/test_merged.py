"""A model opened to answer with is the model that was saved, and needs no transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_encoder import save_tiny_encoder
from torch import Tensor

from quoth.answer.abstain import Abstention, save_abstention
from quoth.errors import ConfigError, Damaged
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm
from quoth.models.dynamic_lm.files import ADAPTER_FILE, MODEL_FOLDER
from quoth.models.dynamic_lm.merged import open_merged
from quoth.models.pretrained import DEFAULT_NAME

CPU = torch.device("cpu")


@pytest.fixture
def save(bases: dict[str, Path], disturb: Any, tmp_path: Path) -> Any:
    def make(family: str = "llama", **settings: object) -> Path:
        config = DynamicLMConfig(base=str(bases[family]), **settings)  # type: ignore[arg-type]
        made: DynamicLM = disturb(DynamicLM.start(bases[family], config=config, device=CPU))
        made.save(tmp_path / "saved")
        return tmp_path / "saved"

    return make


def scores(model: DynamicLM) -> list[Tensor]:
    """Encode phrases, and score what follows a text; touches all that was trained."""
    vectors = model.encode_phrases([[5, 6, 7], [8, 9]], lengths=[[2, 3], [2]])
    network = model.network
    tokens = torch.tensor([[3, network.num_subwords + 1, 4, 5]])
    embedded = network.embed(tokens, phrase_vectors=vectors)
    cache, mask = network.new_cache(), torch.ones(1, 4, dtype=torch.bool)
    with torch.inference_mode():
        network.states(embedded[:, :3], mask=mask[:, :3], cache=cache)
        states = network.states(embedded[:, 3:], mask=mask, cache=cache)
        return [vectors, network.subword_scores(states), network.phrase_scores(states, vectors)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", [{"encoder_layers": 1}, {"vectors": "shared"}])
def test_it_scores_as_the_saved_model_does(
    save: Any, dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    folder = save(**settings)
    quick = open_merged(folder, base=None, device=CPU, dtype=dtype)
    slow = open_dynamic_lm(folder, base=None, device=CPU, dtype=dtype)
    slow.network.merge()
    assert quick is not None and quick.max_positions == slow.max_positions
    assert (quick.config, quick.source) == (slow.config, slow.source)
    assert all(map(torch.equal, scores(quick), scores(slow)))
    assert not any(parameter.requires_grad for parameter in quick.network.parameters())


def test_other_families_and_whole_models_are_left_to_transformers(
    bases: dict[str, Path], save: Any
) -> None:
    for folder in (save("gpt2"), save("llama", tuning="full")):
        assert open_merged(folder, base=None, device=CPU, dtype=torch.float32) is None


def test_weights_that_the_adapters_were_not_trained_over_are_refused(
    bases: dict[str, Path], save: Any, tmp_path: Path
) -> None:
    folder, other = save(), tmp_path / "other"
    other.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (other / name).write_bytes((bases["llama"] / name).read_bytes())
    tensors = load_file(bases["llama"] / "model.safetensors")
    tensors["model.norm.weight"] += 1
    save_file(tensors, other / "model.safetensors")
    with pytest.raises(ConfigError, match="trained over another"):
        open_merged(folder, base=other, device=CPU, dtype=torch.float32)
    del tensors["model.norm.weight"]
    save_file(tensors, other / "model.safetensors")
    assert open_merged(folder, base=other, device=CPU, dtype=torch.float32) is None


def test_adapters_that_do_not_fit_are_refused(save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save()
    path = folder / MODEL_FOLDER / ADAPTER_FILE
    tensors = load_file(path)
    del tensors[min(tensors)]
    save_file(tensors, path)
    with pytest.raises(Damaged, match="copy"):
        open_merged(folder, base=None, device=CPU, dtype=torch.float32)
    monkeypatch.setattr("quoth.models.dynamic_lm.files.find_damage", lambda *_given, **_more: ())
    with pytest.raises(Damaged, match=r"does not fit its settings: layers\.0"):
        open_merged(folder, base=None, device=CPU, dtype=torch.float32)


def test_transformers_is_not_loaded(save: Any, tmp_path: Path) -> None:
    """Which takes longer than answering; torch's compiler, which it would load, neither.

    Whether to abstain is decided by vectors too, of an encoder in a folder of the embedded one's
    name.
    """
    folder = save()
    save_abstention(folder, Abstention((0.5, 0.0, 0.0, -1.0), 0.0))
    save_tiny_encoder(tmp_path / DEFAULT_NAME)
    program = f"""
import sys
from pathlib import Path
from quoth.engine.answering import Asking
from quoth.settings.config import build_config
from quoth.records import Hit, Passage, Span
passage = Passage("owl", "text", Span(0, 27), "The barn owl hunts at night")
config = build_config({{"answer": {{"model": {str(folder)!r}, "threshold": 1.0}}}})
stream = Asking(Path("kept")).ask("When does it hunt?", [Hit("owl", 1.0, passage)], config=config)
assert stream.answer().text
assert "quoth.models.bert" in sys.modules  # which was needed
print([name for name in ("transformers", "torch._dynamo", "scipy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
