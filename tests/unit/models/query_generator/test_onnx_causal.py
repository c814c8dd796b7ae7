"""Scoring by a causal query generator in int8: near the exact scores, and the same each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_language_model import save_language_model

from quoth.models.lora import adapter_tensors, load_adapters
from quoth.models.processor import has_fast_int8
from quoth.models.query_generator import generator
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.query_generator.config import CausalGeneratorConfig
from quoth.models.query_generator.generator import QueryGenerator

onnx_causal = pytest.importorskip("quoth.models.query_generator.onnx_causal")
if not has_fast_int8():
    pytest.skip("this processor does not multiply int8 in hardware", allow_module_level=True)

CONFIG = CausalGeneratorConfig(max_passage_subwords=48, max_query_subwords=10, lora_rank=2)
PASSAGES = [
    "The barn owl hunts at night. It finds mice by hearing.",
    "A raven watches.",
    "Swifts sleep on the wing; no owl does.",
    "Mice are found by night.",
]
QUERIES = ["Who hunts at night", "the raven", "swifts asleep", "where are the mice"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator whose adapters do something, on disk."""
    folder = Path(tmp_path_factory.mktemp("onnx"))
    base = save_language_model(folder / "base", num_heads=2)
    made = QueryGenerator.start_causal(base, config=CONFIG)
    chance = torch.Generator().manual_seed(1)
    moved = {
        name: 0.1 * torch.randn(each.shape, generator=chance)
        for name, each in adapter_tensors(made.network).items()
    }
    load_adapters(made.network, moved)
    made.save(folder / "generator")
    return folder / "generator"


@pytest.fixture
def quick(saved: Path, monkeypatch: pytest.MonkeyPatch) -> QueryGenerator:
    monkeypatch.setattr(generator, "has_fast_bf16", lambda: False)
    return QueryGenerator.load(str(saved))


def test_scores_are_near_the_exact_ones(saved: Path, quick: QueryGenerator) -> None:
    pairs = [(query, passage) for query in QUERIES for passage in PASSAGES]
    queries, passages = zip(*pairs, strict=True)
    exact = QueryGenerator.load(str(saved), fast=False).score(queries, passages)
    found = quick.score(queries, passages)
    assert quick._has_scorer
    assert found == pytest.approx(exact, rel=0.01)
    assert not np.array_equal(found, exact)
    assert np.corrcoef(found, exact)[0, 1] > 0.995


def test_adapters_are_part_of_what_scores(saved: Path, quick: QueryGenerator) -> None:
    exact = QueryGenerator.load(str(saved), fast=False)
    load_adapters(
        exact.network,
        {name: torch.zeros_like(each) for name, each in adapter_tensors(exact.network).items()},
    )
    without = exact.score(QUERIES, PASSAGES)
    assert np.abs(quick.score(QUERIES, PASSAGES) - without).max() > 0.5


def test_what_is_scored_beside_a_pair_changes_nothing(quick: QueryGenerator) -> None:
    together = quick.score(QUERIES, PASSAGES)
    pairs = zip(QUERIES, PASSAGES, strict=True)
    alone = [float(quick.score([query], [text])[0]) for query, text in pairs]
    assert together == pytest.approx(alone, abs=1e-5)


def test_a_causal_generator_counts_for_more(quick: QueryGenerator) -> None:
    assert quick.likelihood_factor == 0.4


def test_means_are_per_subword(quick: QueryGenerator) -> None:
    lengths = [len(each) for each in quick.inputs.queries(QUERIES)]
    means = quick.score(QUERIES, PASSAGES, per_token=True)
    assert means * lengths == pytest.approx(quick.score(QUERIES, PASSAGES), rel=1e-5)


def test_bf16_comes_first(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "has_fast_bf16", lambda: True)
    made = QueryGenerator.load(str(saved))
    assert isinstance(made.network, CausalNetwork)
    assert not made._has_scorer
    assert next(made.network.layers.parameters()).dtype == torch.bfloat16


def test_turning_states_changes_nothing_in_full_precision(saved: Path) -> None:
    exact = QueryGenerator.load(str(saved), fast=False)
    network = exact.network
    assert isinstance(network, CausalNetwork)
    network.merge()
    expected = exact.score(QUERIES, PASSAGES)
    turned = onnx_causal.turn_states(network.state_dict(), network.shape)
    assert not np.allclose(turned["embed_tokens.weight"], network.embed_tokens.weight.numpy())
    other = CausalNetwork(
        {_file_name(name): torch.from_numpy(each) for name, each in turned.items()},
        replace(network.shape, is_tied=False),
        prefix=network.prefix,
    )
    exact.network = other.eval()
    assert exact.score(QUERIES, PASSAGES) == pytest.approx(expected, abs=1e-3)


def _file_name(name: str) -> str:
    return "lm_head.weight" if name == "head.weight" else f"model.{name}"
