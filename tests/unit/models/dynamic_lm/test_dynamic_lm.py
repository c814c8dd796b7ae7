from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM

CPU = torch.device("cpu")


def start(base: Path, **settings: object) -> DynamicLM:
    config = DynamicLMConfig(base=str(base), **settings)  # type: ignore[arg-type]
    return DynamicLM.start(base, config=config, device=CPU, seed=1)


@pytest.mark.parametrize("batch_size", [1, 3, 256])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_phrases_come_in_the_order_they_were_asked_for(  # type: ignore[no-untyped-def]
    bases: dict[str, Path], disturb, family: str, batch_size: int
) -> None:
    model: DynamicLM = disturb(start(bases[family]))
    rows = [[7, 8, 9, 10], [11, 12], [13, 14, 15], [16, 17], [18]]
    lengths = [[4, 2], [2], [1, 3, 2], [], [1]]
    found = model.encode_phrases(rows, lengths=lengths, batch_size=batch_size)
    expected = [
        model.network.encode_prefixes(
            torch.tensor([row[:length]]), mask=torch.ones(1, length, dtype=torch.bool)
        )[0, -1]
        for row, own in zip(rows, lengths, strict=True)
        for length in own
    ]
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_no_phrases_are_no_vectors(bases: dict[str, Path]) -> None:
    model = start(bases["llama"])
    assert model.encode_phrases([], lengths=[]).shape == (0, 2 * 32)
    assert model.encode_phrases([[1, 2]], lengths=[[]]).shape == (0, 2 * 32)
    assert model.max_positions == 256


def test_encoding_leaves_training_mode_as_it_was(bases: dict[str, Path]) -> None:
    model = start(bases["llama"])
    model.network.train()
    first, second = (model.encode_phrases([[1, 2, 3]], lengths=[[3]]) for _ in range(2))
    assert torch.equal(first, second)  # dropout was off
    assert model.network.training


def test_the_seed_decides_the_start(bases: dict[str, Path]) -> None:
    config = DynamicLMConfig()
    made = [DynamicLM.start(bases["gpt2"], config=config, device=CPU, seed=s) for s in (1, 1, 2)]
    weights = [each.network.encoder.projection[2].weight for each in made]
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]


def test_a_tokenizer_larger_than_the_model_is_refused(
    tmp_path: Path, bases: dict[str, Path], tokenizer: Tokenizer
) -> None:
    for path in bases["llama"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    larger = Tokenizer.from_str(tokenizer.to_str())
    larger.add_tokens([f"<{number}>" for number in range(9)])
    larger.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match="restore the files that belong together"):
        start(tmp_path)


def test_bf16_models_give_bf16_vectors(bases: dict[str, Path]) -> None:
    model = DynamicLM.start(
        bases["llama"], config=DynamicLMConfig(), device=CPU, dtype=torch.bfloat16
    )
    exact = start(bases["llama"]).encode_phrases([[4, 5, 6]], lengths=[[3]])
    found = model.encode_phrases([[4, 5, 6]], lengths=[[3]])
    assert found.dtype == torch.bfloat16
    assert {each.dtype for each in model.network.parameters()} == {torch.bfloat16}
    assert {each.dtype for each in model.network.buffers()} == {torch.float32}  # rotations
    torch.testing.assert_close(found.float(), exact, atol=0.02, rtol=0.02)
