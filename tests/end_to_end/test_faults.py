"""System calls that fail in every command: a clear error, and nothing acknowledged is lost.

A sample of what `make chaos` injects. What is looked at after each fault is written down in
benchmarks/reliability/injecting.py.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from benchmarks.reliability import faults
from benchmarks.reliability.operations import OPERATIONS
from benchmarks.reliability.shim import find_compiler

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded on Linux alone"),
    pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler"),
]
MOST = 1
"""Faults per command; which ones they are varies a little, as commands make more or fewer calls."""

WITH_MODELS = ("encode", "repair vectors", "install")
"""Each begins with vectors, which take seconds; `make chaos` tries the others."""


def _assert_survived(cases: list[dict[str, Any]], *, operations: int) -> None:
    wrong = [case for case in cases if case["problems"]]
    assert wrong == []
    assert len(cases) == operations * MOST
    assert 3 in {case["code"] for case in cases}, "faults are noticed"


def test_faults_in_commands_by_words() -> None:
    cases = faults.run_injections(faults.LEXICAL, most=MOST, seed=7)
    _assert_survived(cases, operations=len(faults.LEXICAL))


def test_faults_in_commands_with_models() -> None:
    assert set(WITH_MODELS) <= set(faults.NEURAL)
    cases = faults.run_injections(WITH_MODELS, most=MOST, seed=7)
    _assert_survived(cases, operations=len(WITH_MODELS))


def test_a_summary_counts_what_was_refused_and_what_is_wrong() -> None:
    fault = {"kind": "write", "at": 3, "error": "EIO", "mode": "once"}
    cases = [
        {"operation": "add", "fault": fault, "code": 3, "problems": ["traceback"]},
        {"operation": "add", "fault": fault, "code": 0, "problems": []},
    ]
    found = faults.summarise(cases, most=0)
    assert (found["faults"], found["wrong"]) == (2, 1)
    assert found["operations"][0] == {
        "operation": "add",
        "faults": 2,
        "succeeded": 1,
        "refused": 1,
        "wrong": 1,
    }
    assert [row["kind"] for row in found["ways"]] == ["write"]


def test_on_shards_a_batch_may_have_reached_some_of_them() -> None:
    """Nothing acknowledged is lost then, and adding again brings the rest."""
    before = frozenset({("old", "text")})
    whole, parted = (OPERATIONS[name].states(before) for name in ("add", "add to shards"))
    assert [len(state) for state in whole] == [1, 5, 9, 11]
    assert set(whole) < set(parted) and parted[-1] == whole[-1]
    assert OPERATIONS["remove"].states(frozenset({("d1", ""), ("d8", ""), ("d9", "")}))[-1] == set()
