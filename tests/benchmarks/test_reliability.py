"""A sample of what `make chaos` fuzzes: nothing from outside breaks anything."""

from __future__ import annotations

import random

from benchmarks.reliability import fuzz
from benchmarks.reliability.mutations import mutate, mutate_text

INPUTS = 10


def test_mutated_inputs_break_nothing() -> None:
    found = fuzz.fuzz_all(INPUTS, seed=5)
    assert {kind: each.broken for kind, each in found.items()} == {kind: [] for kind in found}
    assert all(each.inputs >= 1 for each in found.values())
    assert sum(each.refused for each in found.values()) > INPUTS, "the mutations do harm"


def test_what_breaks_is_counted() -> None:
    found = fuzz.Found()

    def fail() -> bool:
        raise KeyError("x")

    found.note(fail, "input")
    found.note(lambda: True, "another")
    assert (found.inputs, found.refused) == (2, 1)
    assert found.broken == ["input: KeyError: 'x'"]


def test_mutations_depend_on_the_seed_alone() -> None:
    data = b"some bytes 1234 of a real file" * 9
    made = [[mutate(data, random.Random(seed)) for seed in range(50)] for _time in range(2)]
    assert made[0] == made[1] and len(set(made[0])) > 40
    texts = [mutate_text("owl", random.Random(seed), parts=("+", "-")) for seed in range(50)]
    assert texts == [mutate_text("owl", random.Random(s), parts=("+", "-")) for s in range(50)]
