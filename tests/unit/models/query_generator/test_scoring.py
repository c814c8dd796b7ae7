"""Scorers: log p as the generator gives it, the states that its encoder gives, and no torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_generator import CONFIG, PASSAGES, make_generator

from quoth.errors import ConfigError
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.heard import cut_where_read
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.models.query_generator.onnx_scorer import open_onnx_scorer
from quoth.models.query_generator.saved import encoder_folder, read_saved
from quoth.models.query_generator.scoring import QueryScorer, open_scorer
from quoth.models.query_generator.torch_scorer import TorchScorer
from quoth.search.rerank import ReadPassage
from quoth.search.second_look import Look, look_again
from quoth.text.words import Analyser, AnalyserConfig

QUERY = "the raven in the field"
LONG = "an owl and a raven " * 40


@pytest.fixture
def saved(generator: QueryGenerator, tmp_path: Path) -> Path:
    generator.save(tmp_path / "saved", dtype="fp32")
    return tmp_path / "saved"


def scorers(folder: Path, generator: QueryGenerator) -> list[QueryScorer]:
    """By ONNX Runtime in fp32, and by torch."""
    base = encoder_folder(folder, read_saved(folder))
    exact = open_onnx_scorer(folder, base, int8=False)
    assert exact is not None
    config = read_saved(folder).config
    sizes = {"passage": config.max_passage_subwords, "query": config.max_query_subwords}
    tokenizer = generator.inputs.tokenizer
    return [QueryScorer(each, tokenizer, **sizes) for each in (exact, TorchScorer(generator))]


def test_log_p_is_that_of_the_generator_however_texts_are_batched_and_cut(
    generator: QueryGenerator, saved: Path
) -> None:
    passages = [*PASSAGES, LONG]
    for query in (QUERY, LONG):
        expected = generator.score([query] * len(passages), passages)
        for scorer in scorers(saved, generator):
            found = scorer.read(query, passages)
            np.testing.assert_allclose(found.log_probs, expected, atol=1e-3)
            alone = scorer.read(query, passages[1:2])
            assert alone.log_probs[0] == pytest.approx(found.log_probs[1], abs=1e-3)


def test_states_are_the_encoders_last_ones_brought_to_unit_length(
    generator: QueryGenerator, saved: Path
) -> None:
    network = generator.network
    assert isinstance(network, QueryGeneratorNetwork)
    sequences = generator.inputs.passages(PASSAGES)
    for scorer in scorers(saved, generator):
        found = scorer.read(QUERY, PASSAGES)
        for sequence, own in zip(sequences, found.states, strict=True):
            with torch.inference_mode():
                output = network.encoder(input_ids=torch.tensor([sequence]))
            states = output.last_hidden_state[0].numpy()
            expected = states / np.linalg.norm(states, axis=-1, keepdims=True)
            np.testing.assert_allclose(own, expected, atol=1e-4)
            np.testing.assert_allclose(scorer.states(sequence), expected, atol=1e-4)


def test_int8_is_near(generator: QueryGenerator, saved: Path) -> None:
    quick = open_onnx_scorer(saved, encoder_folder(saved, read_saved(saved)), int8=True)
    assert quick is not None
    sequences, (query,) = generator.inputs.passages(PASSAGES), generator.inputs.queries([QUERY])
    found = quick.read(sequences, query)
    expected = generator.score([QUERY] * len(PASSAGES), PASSAGES)
    np.testing.assert_allclose(found.log_probs, expected, rtol=0.15)


def test_a_second_look_says_both(generator: QueryGenerator, saved: Path) -> None:
    scorer = scorers(saved, generator)[0]
    passages = [ReadPassage("Owls", "An owl hunts at night."), ReadPassage("", "The raven.")]
    analyser = Analyser(AnalyserConfig())
    (term,) = analyser.terms("raven")
    looks = look_again(scorer, QUERY, passages, weights={term: 2.0}, analyser=analyser)
    joined = ["Owls\nAn owl hunts at night.", "The raven."]
    heard = scorer.read(QUERY, joined)
    place = generator.inputs.passages([QUERY])[0].index(
        generator.inputs.tokenizer.token_to_id("raven")
    )
    raven = scorer.states(generator.inputs.passages([QUERY])[0])[place]
    for look, states, likelihood in zip(looks, heard.states, heard.log_probs, strict=True):
        best = max(float(raven @ each) for each in states[1:-1])
        assert look == (pytest.approx(best, abs=1e-5), pytest.approx(likelihood))
    silent = look_again(scorer, QUERY, passages, weights={}, analyser=analyser)
    assert silent == [Look(0.0, pytest.approx(each)) for each in heard.log_probs]


def test_only_generators_over_a_sentence_encoder_are_opened(saved: Path, tmp_path: Path) -> None:
    assert isinstance(open_scorer(str(saved)), QueryScorer)
    assert open_scorer("causal-query-generator") is None
    (tmp_path / "other").mkdir()
    assert open_scorer(str(tmp_path / "other")) is None


def test_a_generator_that_remembers_the_last_layer_alone_scores_as_well(tmp_path: Path) -> None:
    last = make_generator(tmp_path / "base", replace(CONFIG, memory="last"))
    last.save(tmp_path / "last", dtype="fp32")
    expected = last.score([QUERY] * len(PASSAGES), PASSAGES)
    for scorer in scorers(tmp_path / "last", last):
        found = scorer.read(QUERY, PASSAGES).log_probs
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_every_sequence_has_states() -> None:
    with pytest.raises(ConfigError, match="1 sequences were read, 2 were asked for"):
        cut_where_read(np.ones((1, 2, 3), np.float32), [2, 2])


def test_torch_is_not_loaded(saved: Path) -> None:
    code = (
        "import sys; from quoth.models.query_generator.scoring import open_scorer;"
        f"found = open_scorer({str(saved)!r}).read('owl', ['An owl.']);"
        "assert found.log_probs[0] < 0; assert 'torch' not in sys.modules, 'torch'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
