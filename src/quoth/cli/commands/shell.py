"""`quoth completion` and `quoth man`: at home in a shell."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells that can complete a command line of ours."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
) -> None:
    """Print the script that makes a shell complete commands, options and file names.

    For bash, add eval "$(quoth completion bash)" to ~/.bashrc. For zsh, add eval "$(quoth
    completion zsh)" to ~/.zshrc, after compinit. For fish, run quoth completion fish >
    ~/.config/fish/completions/quoth.fish once.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(
        prog_name="quoth", complete_var="_QUOTH_COMPLETE", shell=shell.value
    )
    sys.stdout.write(f"{script}\n")


def man() -> None:
    """Print the manual page in roff format.

    Read it with quoth man | man -l -; the wheel installs it as share/man/man1/quoth.1.
    """
    from quoth.cli.main import make_app
    from quoth.cli.man import man_page

    sys.stdout.write(man_page(make_app()))
