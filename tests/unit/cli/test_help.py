"""Help: few options in --help, all of them in --help-all, every setting in `quoth settings`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
import typer
from typer.testing import CliRunner

from quoth.cli.main import make_app, make_outline
from quoth.settings.config import sections, setting_names
from quoth.settings.describe import describe_section
from quoth.training.recipes.glow_config import SHARED

MOST_SHOWN = 14
RUNNER = CliRunner(env={"COLUMNS": "300", "TERMINAL_WIDTH": "300", "NO_COLOR": "1"})


def _commands(group: typer.Typer, *before: str) -> Iterator[tuple[str, ...]]:
    for each in group.registered_commands:
        assert each.callback is not None
        yield (*before, each.name or each.callback.__name__)
    for other in group.registered_groups:
        assert other.typer_instance is not None
        yield from _commands(other.typer_instance, *before, str(other.typer_instance.info.name))


app = make_app()
COMMANDS = list(_commands(app))


@cache
def _page(*arguments: str) -> str:
    result = RUNNER.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def _options(page: str) -> set[str]:
    return set(re.findall(r"^│ (?:\*\s+)?\s*(--?[a-z][\w.-]*)", page, re.M))


def test_commands_are_found() -> None:
    assert ("ask",) in COMMANDS and ("train", "glow") in COMMANDS and len(COMMANDS) > 20


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_what_people_need(command: tuple[str, ...]) -> None:
    shown = _options(_page(*command, "--help"))
    assert {"--help", "--help-all"} <= shown and len(shown) <= MOST_SHOWN
    assert shown <= _options(_page(*command, "--help-all"))


def test_every_setting_stands_in_some_help() -> None:
    pages = "".join(_page(*command, "--help-all") for command in COMMANDS)
    pages = " ".join(pages.replace("│", " ").split())  # long helps take several lines
    taken_from_the_recipe = {("encoder", key) for key in SHARED}
    for section in sections():
        for each in describe_section(section):
            if (section, each.name) not in taken_from_the_recipe:
                assert f"--{section}.{each.name.replace('_', '-')} " in pages
                assert f"{' '.join(each.help.split())} Default: {each.default_text}." in pages


def test_hidden_options_are_taken() -> None:
    result = RUNNER.invoke(app, ["serve", "--replicas", "2", "none.quoth"])
    assert "--replicas needs --ray" in str(result.exception)
    result = RUNNER.invoke(app, ["ask", "none.quoth", "Who?", "--dense.storage", "fp8"])
    assert "storage is 'fp8', expected one of fp32, fp16, int8" in str(result.exception)


def test_set_does_what_an_option_does() -> None:
    for given in (["--set", "dense.storage=fp8"], ["--set", "dense.hnsw-neighbours=1"]):
        result = RUNNER.invoke(app, ["search", "none.quoth", "owl", *given])
        assert "dense: " in str(result.exception) and "expected" in str(result.exception)
    result = RUNNER.invoke(app, ["ask", "none.quoth", "Who?", "--set", "threshold=3"])
    assert "answer: threshold is 3.0, expected 0 to 1" in str(result.exception)


def test_settings_are_listed() -> None:
    page = _page("settings", "dense")
    for each in describe_section("dense"):
        assert f" {each.name} " in page and f" {each.allowed} " in page
    assert "exact_limit" in page and "prompt_subwords" not in page
    everything = json.loads(_page("settings", "--json"))
    assert len(everything) > 200 and len({each["setting"] for each in everything}) == len(
        everything
    )
    assert {"setting", "default", "allowed", "meaning", "help"} == everything[0].keys()
    own = json.loads(_page("settings", "dense", "--json"))
    assert [each["setting"] for each in own] == [f"dense.{name}" for name in _names("dense")]


def _names(section: str) -> tuple[str, ...]:
    return setting_names(sections()[section])


def test_a_section_that_is_not_there_is_named() -> None:
    result = RUNNER.invoke(app, ["settings", "dens"])
    assert "there is no section dens; choose one of collection" in str(result.exception)


def test_a_command_that_is_named_comes_alone() -> None:
    """Importing the others would take longer than most of them work."""
    (alone,) = make_app("search").registered_commands
    assert alone.callback is not None and alone.callback.__name__ == "search"
    assert (
        len(make_app("train").registered_groups) == 1 and not make_app("train").registered_commands
    )
    assert len(make_app("owl").registered_commands) == len(app.registered_commands) > 10
    result = RUNNER.invoke(make_app("train"), ["train", "--help"])
    assert result.exit_code == 0 and "dynamic-lm" in result.output


def test_the_outline_says_what_the_commands_say() -> None:
    plain = {"COLUMNS": "100"}
    expected, found = (RUNNER.invoke(each, ["--help"], env=plain) for each in (app, make_outline()))
    assert (found.exit_code, found.output) == (0, expected.output)
    unknown = [RUNNER.invoke(each, ["serch"]) for each in (app, make_outline())]
    assert {(each.exit_code, each.output) for each in unknown} == {(2, unknown[0].output)}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["search", "--version"]])
def test_nothing_is_imported_that_is_not_used(words: list[str]) -> None:
    """Commands, settings and pydantic each take longer to import than such a call should."""
    code = (
        "import sys; from quoth.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*(name for name in ('pydantic', 'quoth.engine.engine') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""
