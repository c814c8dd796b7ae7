"""Settings of answering: all problems at once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (AnswerConfig, {"model": "", "prompt_subwords": 3}, ["model is empty", "prompt_subwords"]),
        (AnswerConfig, {"max_question_chars": 0, "threshold": -1.0}, ["chars is 0", "is -1.0"]),
        (
            AnswerConfig,
            {"cache_megabytes": -1, "splice_penalty": -1.0, "far_penalty": math.inf},
            ["cache_megabytes is -1", "splice_penalty is -1.0", "far_penalty is inf"],
        ),
        (CandidateConfig, {"source": "x", "min_subwords": 9}, ["ngrams or chunks", "(8)"]),
        (CandidateConfig, {"max_subwords": 65, "max_candidates": -1}, ["1 to 64", "is -1"]),
        (DecodingConfig, {"method": "beam", "nucleus": 0.0}, ["greedy or nucleus", "nucleus is 0"]),
        (
            DecodingConfig,
            {"first_share": 1.5, "growth_share": 0.0},
            ["first_share", "growth_share"],
        ),
        (DecodingConfig, {"temperature": 0.0, "max_subwords": 0}, ["temperature", "max_subwords"]),
        (DecodingConfig, {"growth_every": 0, "best_kept": 0}, ["growth_every", "best_kept"]),
        (
            DecodingConfig,
            {"no_repeat_subwords": -1, "max_phrase_uses": -1, "off_load_after": -1},
            ["no_repeat_subwords", "max_phrase_uses", "off_load_after"],
        ),
    ],
)
def test_all_problems_are_reported_at_once(
    kind: type, given: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        kind(**given)
    assert all(each in str(raised.value) for each in said)


def test_answers_hold_together_unless_told_otherwise() -> None:
    usual = AnswerConfig()
    assert usual.phrase_first and usual.splice_penalty == 8.0
    assert usual.for_answering(DecodingConfig()) == DecodingConfig(no_repeat_subwords=8)
    chosen = DecodingConfig(no_repeat_subwords=5)
    assert usual.for_answering(chosen) == chosen
