"""Texts in, queries and scores out: batching, seeds and precision change nothing that matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from half_precision import needs_bf16
from tiny_generator import PASSAGES

from quoth.errors import ConfigError
from quoth.models.query_generator import generator as module
from quoth.models.query_generator.generator import QueryGenerator

QUERIES = ["owl", "the raven sleeps", "birds", "dusk at one field"]


def score_by_hand(generator: QueryGenerator, query: str, passage: str) -> float:
    """Write out log p(query | passage), one pair alone."""
    source = generator.inputs.pad(generator.inputs.passages([passage]))
    (target,) = generator.inputs.queries([query])
    inputs = torch.tensor([[*generator.network.prefix, *target[:-1]]])
    with torch.inference_mode():
        states = generator.network.encode(source)
        logits = generator.network.decode(inputs, states, source.mask)[0]
    return sum(float(row.log_softmax(0)[at]) for row, at in zip(logits, target, strict=True))


def test_scores_are_log_probabilities(generator: QueryGenerator) -> None:
    expected = [score_by_hand(generator, *pair) for pair in zip(QUERIES, PASSAGES, strict=True)]
    found = generator.score(QUERIES, PASSAGES)
    assert found.dtype == np.float32 and found == pytest.approx(expected, abs=1e-4)
    lengths = [len(each) for each in generator.inputs.queries(QUERIES)]
    per_token = generator.score(QUERIES, PASSAGES, per_token=True)
    assert per_token == pytest.approx(np.array(expected) / lengths, abs=1e-4)


def test_pairs_that_share_passages_are_scored_alike(
    generator: QueryGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [query for query in QUERIES for _ in PASSAGES]
    passages = PASSAGES * len(QUERIES)
    expected = [score_by_hand(generator, *pair) for pair in zip(queries, passages, strict=True)]
    read: list[int] = []
    encode = generator.network.encode
    monkeypatch.setattr(
        generator.network, "encode", lambda batch: read.append(len(batch.mask)) or encode(batch)
    )
    assert generator.score(queries, passages) == pytest.approx(expected, abs=1e-4)
    assert sum(read) == len(PASSAGES)  # each is read once
    with pytest.raises(ConfigError, match="2 queries cannot be paired with 1 passages"):
        generator.score(["a", "b"], ["c"])


def test_nothing_in_gives_nothing_out(generator: QueryGenerator) -> None:
    assert generator.generate([]) == []
    assert generator.score([], []).shape == (0,)


def test_greedy_writes_what_is_likeliest_step_by_step(generator: QueryGenerator) -> None:
    found = generator.generate(PASSAGES, method="greedy")
    assert [len(own) for own in found] == [1] * len(PASSAGES)
    alone = [generator.generate([each], method="greedy")[0] for each in PASSAGES]
    assert alone == found and len({own[0] for own in found}) > 1


def test_a_beam_is_at_least_as_likely_as_greedy(generator: QueryGenerator) -> None:
    greedy = [own[0] for own in generator.generate(PASSAGES, method="greedy")]
    beams = generator.generate(PASSAGES, method="beam", per_passage=3)
    assert all(1 <= len(own) <= 3 and len(set(own)) == len(own) for own in beams)
    better = generator.score([own[0] for own in beams], PASSAGES, per_token=True)
    plain = generator.score(greedy, PASSAGES, per_token=True)
    assert better.mean() >= plain.mean()


def test_samples_are_distinct_and_seeded(generator: QueryGenerator) -> None:
    first = generator.generate(PASSAGES, per_passage=5, seed=3)
    assert all(len(own) == 5 == len({each.casefold() for each in own}) for own in first)
    assert first == generator.generate(PASSAGES, per_passage=5, seed=3)
    assert first != generator.generate(PASSAGES, per_passage=5, seed=4)


def test_samples_do_not_depend_on_the_passages_beside(generator: QueryGenerator) -> None:
    together = generator.generate(PASSAGES, per_passage=2, seed=1)
    backwards = generator.generate(PASSAGES[::-1], per_passage=2, seed=1)[::-1]
    alone = [generator.generate([each], per_passage=2, seed=1)[0] for each in PASSAGES]
    assert together == backwards == alone


def test_passages_are_read_once_for_all_queries(
    generator: QueryGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    encode = generator.network.encode
    monkeypatch.setattr(
        generator.network, "encode", lambda batch: read.append(len(batch.mask)) or encode(batch)
    )
    done: list[int] = []
    generator.generate(PASSAGES, per_passage=6, progress=done.append)
    assert sum(read) == len(PASSAGES) and done[-1] == len(PASSAGES)


def test_a_passage_that_always_gives_the_same_query_gives_it_once(
    generator: QueryGenerator,
) -> None:
    found = generator.generate(PASSAGES, per_passage=4, temperature=1e-4)
    greedy = generator.generate(PASSAGES, method="greedy")
    assert found == greedy


def test_queries_hold_no_symbols(generator: QueryGenerator) -> None:
    found = generator.generate(PASSAGES, per_passage=20, top_p=1.0, temperature=2.0)
    texts = [each for own in found for each in own]
    assert len(texts) == 20 * len(PASSAGES)
    assert not any("[" in each and "]" in each and "sep" in each.lower() for each in texts)
    assert all(each.strip() and not each.startswith("##") for each in texts)
    unknown = generator.inputs.tokenizer.token_to_id("[UNK]")
    assert not any(unknown in ids for ids in generator.inputs.queries(texts))


@needs_bf16
def test_bf16_scores_nearly_the_same(
    generator: QueryGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator.save(tmp_path / "saved", dtype="fp32")
    monkeypatch.setattr(module, "has_fast_bf16", lambda: True)
    fast = QueryGenerator.load(str(tmp_path / "saved"))
    dtypes = {each.dtype for each in fast.network.encoder.parameters()}  # type: ignore[union-attr]
    assert dtypes == {torch.bfloat16} and not fast.is_exact
    expected = generator.score(QUERIES, PASSAGES)
    assert fast.score(QUERIES, PASSAGES) == pytest.approx(expected, rel=0.1)
    assert all(own[0] for own in fast.generate(PASSAGES, method="greedy"))
    with pytest.raises(ConfigError, match="fast=False"):
        fast.save(tmp_path / "half")
    monkeypatch.setattr(module, "has_fast_bf16", lambda: False)
    slow = QueryGenerator.load(str(tmp_path / "saved"))
    assert slow.is_exact


def test_identity_says_what_decides_the_output(generator: QueryGenerator, tmp_path: Path) -> None:
    generator.save(tmp_path / "first")
    with torch.no_grad():
        generator.network.head_bias[7] += 1.0  # type: ignore[index,operator]
    generator.save(tmp_path / "second")
    with torch.no_grad():
        generator.network.head_bias[7] -= 1.0  # type: ignore[index,operator]
    first, second = (
        QueryGenerator.load(str(tmp_path / name)).identity() for name in ("first", "second")
    )
    assert first["name"] == "first" and first["config"]["num_layers"] == 2
    assert first["digest"] != second["digest"] and len(first["digest"]) == 64


def test_impossible_wishes_are_errors(generator: QueryGenerator) -> None:
    with pytest.raises(ConfigError, match=r"method is 'guess'.*per_passage is 0"):
        generator.generate(PASSAGES, method="guess", per_passage=0)
    with pytest.raises(ConfigError, match="greedy writes one query per passage"):
        generator.generate(PASSAGES, method="greedy", per_passage=2)
