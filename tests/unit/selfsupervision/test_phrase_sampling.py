"""Phrases keep their distance, are whole words with their space, and change with the epoch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.training.dynamic_worlds import TEXTS, kinds_of, make_inputs

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.selfsupervision.phrase_sampling import as_subwords, draw_phrases, word_starts
from quoth.selfsupervision.sampling_config import SAMPLINGS, PhraseSamplingConfig, Sampling

TEXT = " ".join(TEXTS * 3)


@pytest.fixture(scope="module")
def inputs() -> DynamicLMInputs:
    return make_inputs()


def draw(inputs: DynamicLMInputs, config: PhraseSamplingConfig, seed: int) -> np.ndarray:
    return draw_phrases(
        as_subwords(TEXT, inputs.tokenise(TEXT)),
        config,
        chance=np.random.default_rng(seed),
        is_punctuation=kinds_of(inputs).is_punctuation,
        support=[as_subwords(text, inputs.tokenise(text)) for text in TEXTS],
    )


@pytest.mark.parametrize("method", SAMPLINGS)
@pytest.mark.parametrize("gaps", [(5, 10), (8, 12)])
def test_phrases_keep_their_distance(
    inputs: DynamicLMInputs, method: Sampling, gaps: tuple[int, int]
) -> None:
    config = PhraseSamplingConfig(method, gap_min=gaps[0], gap_max=gaps[1])
    for seed in range(20):
        phrases = draw(inputs, config, seed)
        assert len(phrases) > 20
        assert (phrases[1:, 0] - phrases[:-1, 1] >= gaps[0]).all()
        lengths = phrases[:, 1] - phrases[:, 0]
        assert (lengths >= 2).all() and (lengths <= config.max_subwords).all()
    assert draw(inputs, config, 1).tolist() == draw(inputs, config, 1).tolist()
    assert draw(inputs, config, 1).tolist() != draw(inputs, config, 2).tolist()


def test_n_words_takes_whole_words_with_their_space(inputs: DynamicLMInputs) -> None:
    tokenised = inputs.tokenise(TEXT)
    text = as_subwords(TEXT, tokenised)
    counts = set()
    for start, end in draw(inputs, PhraseSamplingConfig(), 0).tolist():
        spelled = TEXT[tokenised.starts[start] : tokenised.ends[end - 1]]
        assert inputs.tokenise(spelled).subword_ids == tokenised.subword_ids[start:end]
        assert text.word_starts[start] and (end == len(text.word_starts) or text.word_starts[end])
        counts.add(int(text.word_starts[start:end].sum()))
    assert counts == {2, 3, 4, 5}


def test_n_ids_counts_subwords(inputs: DynamicLMInputs) -> None:
    phrases = draw(inputs, PhraseSamplingConfig("n_ids"), 0)
    assert set((phrases[:, 1] - phrases[:, 0]).tolist()) == {2, 3, 4, 5}


def test_fmm_finds_what_stands_elsewhere_and_stops_at_marks(inputs: DynamicLMInputs) -> None:
    tokenised = inputs.tokenise(TEXT)
    for start, end in draw(inputs, PhraseSamplingConfig("fmm"), 0).tolist():
        spelled = TEXT[tokenised.starts[start] : tokenised.ends[end - 1]]
        assert spelled.strip() in " ".join(TEXTS)
        assert not set(spelled) & set(".,")


def test_long_phrases_lose_words_at_their_end(inputs: DynamicLMInputs) -> None:
    config = PhraseSamplingConfig(max_subwords=4, min_length=2, max_length=5)
    phrases = draw(inputs, config, 0)
    assert len(phrases) and (phrases[:, 1] - phrases[:, 0]).max() == 4
    starts = as_subwords(TEXT, inputs.tokenise(TEXT)).word_starts
    assert all(starts[end] for _start, end in phrases.tolist())


def test_words_are_not_cut() -> None:
    text = "a well-known 1,000 (owl) 日本\nNew"
    spans = [(at, at + 1) for at in range(len(text))]
    cut = [at for at, begins in enumerate(word_starts(text, spans)) if begins]
    pieces = [text[start:end] for start, end in zip(cut, [*cut[1:], None], strict=True)]
    assert pieces == ["a", " well-known", " 1,000", " (", "owl", ")", " 日本", "\n", "New"]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"method is 'x'.*max_subwords.*gap_min.*min_length"):
        replace(
            PhraseSamplingConfig(),
            method="x",  # type: ignore[arg-type]
            min_length=6,
            gap_min=0,
            max_subwords=1,
        )
