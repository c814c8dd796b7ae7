"""The log of queries: the words, for the owner alone, and never in the way of a search."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from quoth.jobs.learn.query_log import read_log
from quoth.server.monitoring.query_log import QueryLog


def test_queries_are_added_as_learning_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    for text in ("owls at night", "  ", "zwei\nZeilen „so“"):
        QueryLog(str(path)).note(text)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"query": "owls at night"},
        {"query": "zwei\nZeilen „so“"},
    ]
    assert read_log(path) == ["owls at night", "zwei\nZeilen „so“"]
    assert path.stat().st_mode & 0o077 == 0, "nobody else reads it"


def test_without_a_file_nothing_is_kept_and_a_bad_one_is_only_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    QueryLog("").note("owls")
    assert list(tmp_path.iterdir()) == []
    with caplog.at_level(logging.WARNING):
        QueryLog(str(tmp_path / "no" / "asked")).note("owls")
    assert "was not added" in caplog.text
