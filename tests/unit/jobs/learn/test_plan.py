"""Plans of `quoth learn`: what fits into the time, on which device, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quoth.errors import ConfigError
from quoth.jobs.learn.plan import CPU, SHORTEST, LearnRequest, describe_plan, make_plan
from quoth.settings.learn import LearnConfig


def test_two_thousand_documents_fit_into_fifteen_minutes_on_two_cores() -> None:
    plan = make_plan(3200, LearnConfig(minutes=15), device="cpu", cores=2)
    assert sum(plan.seconds.values()) <= 15 * 60
    assert plan.reranker_steps >= 15, "what shows comes first"
    assert plan.num_written >= 25 * plan.reranker_steps and plan.queries_per_passage >= 1
    assert not plan.trains_encoder and "the encoder stays as it is" in plan.note
    told = describe_plan(plan)
    assert f"{plan.num_written:,} queries" in told and plan.note in told
    assert f"{plan.reranker_steps} steps of fitting the reranker" in told
    assert "warm-up" not in told


def test_an_encoder_is_trained_beside_the_reranker_if_its_method_is_named() -> None:
    plan = make_plan(3200, LearnConfig(minutes=60, method="distil"), device="cpu", cores=2)
    assert plan.reranker_steps == LearnConfig().reranker_steps and plan.trains_encoder
    assert 10 <= plan.warm_up_steps <= 100 and plan.warm_up_batch == 64
    assert f"{plan.warm_up_steps} steps of warm-up" in describe_plan(plan)
    packed = make_plan(3200, LearnConfig(minutes=15), device="cuda", is_packed=True)
    assert packed.trains_encoder, "which is what packing is for"
    asked = make_plan(3200, LearnConfig(minutes=15), device="cpu", has_queries=True)
    assert asked.trains_encoder, "which is what learns from queries that people asked"


def test_without_the_reranker_the_encoder_gets_its_time() -> None:
    config = LearnConfig(minutes=15, reranker=False)
    plan = make_plan(3200, config, device="cpu", cores=2)
    assert plan.reranker_steps == 0 and "reranker" not in plan.seconds
    assert plan.num_written == 3200 and 40 <= plan.warm_up_steps <= 100
    assert "reranker (" not in describe_plan(plan)


@pytest.mark.parametrize("minutes", [2, 10, 15, 60, 240])
@pytest.mark.parametrize("num_passages", [20, 500, 3000, 20_000])
def test_more_time_never_means_less_work(num_passages: int, minutes: int) -> None:
    config = LearnConfig(minutes=minutes)
    short = make_plan(num_passages, config, device="cpu")
    long = make_plan(num_passages, replace(config, minutes=2 * minutes), device="cpu")
    assert short.reranker_steps <= long.reranker_steps
    if short.reranker_steps < long.reranker_steps:
        return  # which comes first, so that less may be left for the encoder
    assert short.trains_encoder <= long.trains_encoder
    assert short.num_written * short.queries_per_passage <= (
        long.num_written * long.queries_per_passage
    )
    assert short.steps <= long.steps
    over = sum(short.seconds.values()) > 60 * minutes
    assert over == ("this will take longer" in short.note)


def test_a_gpu_gets_rumbart_and_larger_batches() -> None:
    plan = make_plan(3000, LearnConfig(minutes=15, reranker=False), device="cuda")
    assert (plan.method, plan.steps, plan.warm_up_steps) == ("rumbart", 300, 100)
    assert (plan.warm_up_batch, plan.batch_size, plan.k, plan.max_subwords) == (128, 32, 8, 256)
    assert plan.validation_passages == 3000


def test_queries_are_written_here_though_training_is_elsewhere() -> None:
    config = LearnConfig(minutes=30)
    here = make_plan(20_000, config, device="cuda", is_packed=True)
    there = make_plan(20_000, replace(config, method="rumbart"), device="cuda")
    written = here.num_written * here.queries_per_passage
    assert written < there.num_written * there.queries_per_passage
    assert "encode" not in here.seconds and here.method == "rumbart"
    assert here.seconds["queries"] == pytest.approx(written / CPU.writing)


def test_more_cores_do_more() -> None:
    config = LearnConfig(minutes=15, reranker=False)
    two, eight = (make_plan(3000, config, device="cpu", cores=cores) for cores in (2, 8))
    assert two.method == "none" and eight.method == "distil" and eight.steps >= SHORTEST
    assert make_plan(3000, config, device="cpu", cores=64) == eight


def test_what_is_asked_for_by_name_is_done_however_long_it_takes() -> None:
    plan = make_plan(3000, LearnConfig(minutes=1, method="rumbart", steps=40), device="cpu")
    assert plan.method == "rumbart" and plan.steps == 10 and "take longer" in plan.note
    own = LearnConfig(
        minutes=1, method="rumbart", k=5, batch_size=6, warm_up_batch=7, max_subwords=50
    )
    chosen = make_plan(100, own, device="cuda")
    assert (chosen.k, chosen.batch_size, chosen.warm_up_batch, chosen.max_subwords) == (5, 6, 7, 50)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        LearnConfig(method="magic", minutes=0, k=1, held_out=1.0, steps=0)
    for expected in ("method is 'magic'", "minutes", "k is 1", "held_out", "steps is 0"):
        assert expected in str(caught.value)
    with pytest.raises(ConfigError, match="not both"):
        LearnRequest(pack=Path("a"), unpack=Path("b"))


def test_a_larger_query_generator_is_given_more_time() -> None:
    small = make_plan(3200, LearnConfig(minutes=15), device="cpu", cores=2)
    config = LearnConfig(minutes=15, generator="causal-query-generator")
    large = make_plan(3200, config, device="cpu", cores=2)
    assert large.num_written == small.num_written
    assert large.seconds["queries"] == pytest.approx(8 * small.seconds["queries"])
    assert "this will take longer" in large.note and "this will take longer" not in small.note
