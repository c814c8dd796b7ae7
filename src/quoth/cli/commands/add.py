"""`quoth add` and `quoth remove`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    NoEncode,
    RayAddress,
    joining,
    open_engine,
    read_layers,
)
from quoth.cli.commands.sync import run_sync
from quoth.cli.options import with_settings
from quoth.cli.problems import Problems
from quoth.cli.vectors import encode_if_quick
from quoth.errors import ConfigError
from quoth.text import display

if TYPE_CHECKING:
    from quoth.engine.adding import AddReport


@with_settings(
    *("readers", "sync", "passages", "analyser", "lexical", "dense", "generative", "collection"),
    shown=[
        "analyser.language",
        "passages.max_words",
        "readers.id_key",
        "readers.metadata_keys",
        "readers.encoding",
    ],
)
def add(
    collection: Collection,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, folders, globs, BEIR folders, python:NAME (the docstrings of a module),"
            " or - (stdin).",
        ),
    ],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad input.", metavar="")
    ] = False,
    no_encode: NoEncode = False,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync",
            help="Keep the collection in sync with these folders, like quoth sync.",
            metavar="",
        ),
    ] = False,
    ray: RayAddress = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Add documents, or update those whose content changed.

    Vectors are computed as well if that takes less than a minute; once a collection has vectors,
    add and remove keep them up to date.
    """
    if sync:
        if strict or ray:
            raise ConfigError("--sync cannot be combined with --strict or --ray; leave one out")
        with open_engine(collection, config, settings) as engine:
            run_sync(engine, sources, encode=not no_encode, as_json=as_json)
        return
    problems = Problems(limit=None if as_json else 20)
    tell = None if strict else problems
    if ray:
        from quoth.shards.ray_add import add_with_cluster

        layers = read_layers(config, settings)
        with show.progress_bar() as progress, joining(ray):
            report = add_with_cluster(
                collection, sources, settings=layers, report=tell, progress=progress
            )
    else:
        with open_engine(collection, config, settings) as engine:
            report = engine.add(sources, report=tell)
            if not no_encode:
                encode_if_quick(engine)
    _print_report(collection, report, problems, as_json=as_json)


def _print_report(
    collection: Path, report: AddReport, problems: Problems, *, as_json: bool
) -> None:
    counts = {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "skipped": report.skipped,
    }
    if as_json:
        show.print_json({**counts, "problems": problems.lines})
    else:
        problems.tell_rest()
        rows = [[name, f"{count:,}"] for name, count in counts.items()]
        show.out().print(show.table(str(collection), ["documents", "count"], rows))
    if report.skipped:
        raise typer.Exit(1)


@with_settings("lexical", "dense", "generative", "collection")
def remove(
    collection: Collection,
    docids: Annotated[
        list[str], typer.Argument(metavar="DOCID", help="Docids of the documents to remove.")
    ],
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Remove documents by their docid."""
    with open_engine(collection, config, settings) as engine:
        missing = engine.remove(docids)
    removed = len(set(docids)) - len(set(missing))
    if as_json:
        show.print_json({"removed": removed, "missing": list(missing)})
    else:
        show.out().print(
            f"removed {removed:,} of {display.count(len(set(docids)), 'document')}", markup=False
        )
        for docid in missing:
            show.note(f"not in the collection: {docid}")
    if missing:
        raise typer.Exit(1)
