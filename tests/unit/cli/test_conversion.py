"""Values of options are what typer makes of them, whoever converts them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from quoth.cli.conversion import spare_conversion

GIVEN: list[Any] = []


def take(
    folder: Annotated[Path, typer.Argument()],
    texts: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    k: Annotated[int, typer.Option("-k", min=1)] = 10,
    share: Annotated[float, typer.Option(max=1.0)] = 0.5,
    name: Annotated[str, typer.Option()] = "auto",
    file: Annotated[Path | None, typer.Option()] = None,
    there: Annotated[Path | None, typer.Option(exists=True)] = None,
    rerank: Annotated[bool | None, typer.Option("--rerank/--no-rerank")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    loud: Annotated[str | None, typer.Option(callback=lambda value: value and value.upper())] = "a",
) -> None:
    """Take all kinds of values."""
    GIVEN.append((folder, texts, k, share, name, file, there, rerank, set_, loud))


def run(words: Sequence[str], *, spares: bool) -> tuple[int, str, list[Any]]:
    app = typer.Typer()
    app.command()(take)
    command = typer.main.get_command(app)
    for each in command.params if spares else ():
        spare_conversion(each)
        spare_conversion(each)  # once is enough, twice does no harm
    GIVEN.clear()
    runner = CliRunner()
    done = runner.invoke(app, words) if not spares else _invoke(runner, command, words)
    return done.exit_code, done.output, list(GIVEN)


def _invoke(runner: CliRunner, command: Any, words: Sequence[str]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", lambda _app: command)
        return runner.invoke(typer.Typer(), words)


@pytest.mark.parametrize(
    "words",
    [
        ["notes"],
        ["notes", "an", "owl"],
        ["notes", "-k", "3", "--share", "0.25", "--name", "", "--file", "a b"],
        ["notes", "-k", "0"],
        ["notes", "-k", "owl"],
        ["notes", "--share", "7"],
        ["notes", "--there", "/nowhere"],
        ["/", "--there", "/", "--rerank", "--set", "a=1", "--set", "b=2"],
        ["notes", "--no-rerank", "--loud", "owl"],
        [],
    ],
)
def test_values(words: list[str]) -> None:
    assert run(words, spares=True) == run(words, spares=False)
