"""A question that one key answers, put only to a person at a terminal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from quoth.cli import show
from quoth.text.display import make_safe

_YES = ("\r", "\n", "y", "Y")
_LONGEST_KEY = 32  # bytes; an arrow or a function key sends several at once


def is_interactive() -> bool:
    """Whether somebody can see a question and answer it: nothing is piped or redirected."""
    return all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr))


def agrees(question: str) -> bool:
    """Ask, and read one key: Enter and y are yes, any other is no.

    What was typed before the question was meant for the shell, so it is left to it, and the answer
    is no.
    """
    console = show.err()
    with _key_by_key():
        is_typed_ahead = _is_waiting()
        console.print(Text(f"{make_safe(question)} [Enter/y] "), end="", soft_wrap=True)
        is_yes = not is_typed_ahead and _read_key() in _YES
    console.print("yes" if is_yes else "no")
    return is_yes


if sys.platform == "win32":

    @contextmanager
    def _key_by_key() -> Iterator[None]:
        yield

    def _is_waiting() -> bool:
        return False

    def _read_key() -> str:
        return typer.getchar()

else:
    import termios
    import tty

    @contextmanager
    def _key_by_key() -> Iterator[None]:
        """Let keys come one by one, unseen; those that were pressed already are not lost."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _is_waiting() -> bool:
        return bool(select.select([sys.stdin], [], [], 0)[0])

    def _read_key() -> str:
        return os.read(sys.stdin.fileno(), _LONGEST_KEY).decode(errors="replace")
