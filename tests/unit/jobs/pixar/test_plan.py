"""Plans of `quoth train pixar`: what fits into the time, and what is refused."""

from __future__ import annotations

import pytest

from quoth.errors import ConfigError
from quoth.jobs.pixar.plan import (
    CPU,
    CUDA,
    choose_rates,
    choose_size,
    describe_training,
    plan_training,
    plan_writing,
)
from quoth.settings.pixar import PixarBuildConfig


def steps_of(num_inputs: int, num_phrases: int, minutes: float, *, device: str = "cpu") -> int:
    return plan_training(
        num_inputs,
        num_phrases,
        PixarBuildConfig(minutes=minutes),
        device=device,
        rates=choose_rates(device, cores=2),
        spent=0.0,
    ).steps


@pytest.mark.parametrize("num_phrases", [1_000, 30_000])
@pytest.mark.parametrize("minutes", [5, 10, 60])
def test_writing_and_training_fit_into_the_time(num_phrases: int, minutes: float) -> None:
    config = PixarBuildConfig(minutes=minutes)
    writing = plan_writing(2_000, config, most_each=5, rates=CPU)
    training = plan_training(
        50_000, num_phrases, config, device="cpu", rates=CPU, spent=writing.seconds
    )
    assert writing.seconds + training.seconds < 60 * minutes
    assert training.seconds > 0.15 * 60 * minutes  # and the time is used


def test_a_step_costs_what_its_parts_cost() -> None:
    config = PixarBuildConfig(steps=10, batch_size=32)
    plan = plan_training(1000, 4_000, config, device="cpu", rates=CPU, spent=0.0)
    assert (plan.steps, plan.batch_size) == (10, 32)
    assert plan.seconds == pytest.approx(
        10 * (CPU.step + 32 * (CPU.query + 4 * CPU.row) + 4 * CPU.head), abs=0.05
    )


def test_more_time_and_fewer_phrases_mean_more_steps() -> None:
    assert steps_of(50_000, 10_000, 20) > steps_of(50_000, 10_000, 10)
    assert steps_of(50_000, 10_000, 10) > steps_of(50_000, 30_000, 10)
    assert steps_of(50_000, 10_000, 10, device="cuda") > steps_of(50_000, 10_000, 10)


def test_a_small_collection_is_not_trained_without_end() -> None:
    assert steps_of(128, 1_000, 600) == 60 * 128 / 64
    assert steps_of(50_000, 30_000, 0.01) == 20


def test_writing_is_rather_for_all_than_much_for_each() -> None:
    config = PixarBuildConfig(minutes=10)
    few, many, most = (
        plan_writing(count, config, most_each=5, rates=CPU) for count in (100, 2_000, 100_000)
    )
    assert (few.num_documents, few.each) == (100, 5)
    assert (many.num_documents, many.each) == (2_000, 1)
    assert most.each == 1 and 2_000 < most.num_documents < 100_000
    assert plan_writing(0, config, most_each=5, rates=CPU).num_documents == 0


def test_the_vocabulary_follows_the_identifiers_unless_it_is_set() -> None:
    config = PixarBuildConfig()
    assert choose_size(1_000_000, config, device="cuda") == 500_000
    assert choose_size(1_000_000, PixarBuildConfig(size=777), device="cuda") == 777


def test_rates_follow_the_cores() -> None:
    assert choose_rates("cpu", cores=4).query == CPU.query / 2
    assert choose_rates("cpu", cores=64) == choose_rates("cpu", cores=8)
    assert choose_rates("cuda", cores=2) == CUDA


def test_the_plan_is_told() -> None:
    plan = plan_training(500, 2_000, PixarBuildConfig(), device="cpu", rates=CPU, spent=0.0)
    told = describe_training(plan, num_phrases=2_000, num_inputs=500)
    assert f"{plan.steps:,} steps of 64" in told and "2,000 phrases" in told


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(
        ConfigError, match=r"minutes is 0.*size is 9.*cutter is 'axe'.*targets is 0"
    ):
        PixarBuildConfig(targets=0, size=9, cutter="axe", minutes=0)
