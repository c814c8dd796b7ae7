"""`quoth settings`."""

from __future__ import annotations

from typing import Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import AsJson
from quoth.errors import ConfigError

SectionName = Annotated[
    str,
    typer.Argument(metavar="SECTION", help="Only this section, such as dense.", show_default=False),
]


def settings(section: SectionName = "", *, as_json: AsJson = False) -> None:
    """List every setting with its default, allowed values and meaning.

    Set one with --set section.field=value on a command, or in a TOML file given by --config.
    """
    from quoth.settings.config import sections
    from quoth.settings.describe import describe_section

    if section and section not in sections():
        raise ConfigError(f"there is no section {section}; choose one of {', '.join(sections())}")
    found = {name: describe_section(name) for name in ([section] if section else sections())}
    if as_json:
        show.print_json([each.to_record() for own in found.values() for each in own])
        return
    for name, own in found.items():
        rows = [[each.name, each.default_text, each.allowed, each.meaning] for each in own]
        columns = [name, "default", "allowed", "meaning"]
        show.out().print(show.table("", columns, rows, justify="left"))
