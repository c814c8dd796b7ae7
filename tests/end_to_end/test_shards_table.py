"""The table of docs/scale.md says which commands work on shards: it is as they are."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import asdict

from benchmarks.reliability import shards

from quoth.cli.main import _MODULES

KNOWN = {row["command"]: row for row in json.loads(shards.RESULTS.read_text())["commands"]}
NOT_OF_A_COLLECTION = {
    *("evaluate", "compare", "settings", "demo", "keys", "completion", "man", "doctor"),
    *("serve", "watch"),
}
"""Commands that take none, and two that never end."""


def _try_quick(answers: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    answers.put([asdict(each) for each in shards.try_commands(shards.QUICK)])


def test_quick_commands_do_what_the_table_says() -> None:
    context = multiprocessing.get_context("spawn")  # which forks again, without threads of tests
    answers = context.Queue()
    process = context.Process(target=_try_quick, args=(answers,))
    process.start()
    tried = answers.get(timeout=600)
    process.join()
    assert tried == [KNOWN[row["command"]] for row in tried]


def test_every_command_of_a_collection_is_in_the_table() -> None:
    told = {name.split()[0] for name in KNOWN}
    assert told == set(_MODULES) - NOT_OF_A_COLLECTION


def test_what_is_refused_says_what_to_do() -> None:
    refused = [row for row in KNOWN.values() if not row["works"]]
    assert refused and all("quoth merge" in row["says"] for row in refused)
