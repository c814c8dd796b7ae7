"""`quoth status` and `quoth verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import AsJson, Collection, ConfigFile, open_engine
from quoth.cli.options import with_settings


@with_settings("dense", "generative", "collection")
def status(
    collection: Collection,
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Describe a collection: sizes, fields, settings, and whether each index is up to date."""
    with open_engine(collection, config, settings) as engine:
        found = engine.status()
    if as_json:
        show.print_json(found)
    else:
        show.out().print("\n".join(show.key_values(found)), markup=False)


@with_settings("passages", "analyser", "lexical", "dense", "generative", "collection")
def verify(
    collection: Collection,
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild indexes that are damaged, or that differ from the documents or the"
            " settings.",
            metavar="",
        ),
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Verify every checksum, and check every index against the documents.

    An index that lags behind because a writer was killed is not damaged: verify says by how many
    changes, and the next search or write brings it up to date.
    """
    with open_engine(collection, config, settings) as engine:
        damage = engine.verify(repair=repair)
    if as_json:
        show.print_json(
            {
                "clean": damage.is_clean,
                "store": list(damage.store),
                "indexes": list(damage.indexes),
                "models": list(damage.models),
                "repaired": damage.repaired,
                "behind": dict(damage.behind),
            }
        )
    else:
        for line in damage.lines():
            show.note(line)
        show.out().print(damage.verdict(), markup=False)
    if not damage.is_clean:
        raise typer.Exit(1)
