from __future__ import annotations

import pytest

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.config import DynamicLMConfig


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        DynamicLMConfig(
            tuning="half",
            template="poem",
            base="",
            lora_rank=0,
            lora_alpha=float("nan"),
            lora_dropout=1.0,
            encoder_dropout=-0.1,
            encoder_layers=-1,
            max_phrase_subwords=1,
            max_prompt_subwords=5,
        )
    for name in (
        *("tuning", "template", "base", "lora_rank", "lora_alpha", "lora_dropout"),
        *("encoder_dropout", "encoder_layers", "max_phrase_subwords", "max_prompt_subwords"),
    ):
        assert f"{name} is " in str(error.value)


@pytest.mark.parametrize("field", ["phrase_input", "marker"])
def test_unknown_choices_are_named_with_those_known(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is 'other', expected (vector|none) or"):
        DynamicLMConfig(**{field: "other"})  # type: ignore[arg-type]
