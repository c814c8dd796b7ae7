"""What all groups of commands have in common, the command line itself among them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from quoth.cli.conversion import spare_conversion


class PlainGroup(TyperGroup):
    """A group of commands whose --help is shown as the switch it is."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, shown without a type."""
        return without_value(super().get_help_option(ctx))


def with_hyphens(name: str) -> str:
    """Let an option be written as in a TOML file, too.

    >>> with_hyphens("passages.max_words")
    'passages.max-words'
    """
    return name.replace("_", "-")


def without_value(option: Any) -> Any:
    """Let an option be shown without a type, as it takes no value."""
    if option is not None:
        option.metavar = ""
        spare_conversion(option)
    return option
