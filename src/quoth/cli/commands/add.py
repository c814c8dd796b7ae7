"""`quoth add` and `quoth remove`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    RayAddress,
    joining,
    open_engine,
    read_layers,
)
from quoth.cli.options import with_settings
from quoth.records import Problem
from quoth.text import display

if TYPE_CHECKING:
    from quoth.shards.opening import OpenedEngine


@with_settings(
    *("readers", "passages", "analyser", "lexical", "dense", "generative", "collection"),
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
            help="Files, folders, globs, BEIR folders, python:NAME (docstrings), or - (stdin).",
        ),
    ],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad input.", metavar="")
    ] = False,
    no_encode: Annotated[
        bool,
        typer.Option(
            "--no-encode",
            help="Leave vectors to quoth encode, even where they take less than a minute.",
            metavar="",
        ),
    ] = False,
    ray: RayAddress = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Add documents, or update those whose content changed.

    The first vectors come by themselves where they take less than a minute; afterwards add and
    remove keep them in step.
    """
    problems = _Problems(limit=None if as_json else 20)
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
                _encode_if_quick(engine)
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


def _encode_if_quick(engine: OpenedEngine) -> None:
    from quoth.engine.quick_encoding import encode_if_quick

    seconds = encode_if_quick(engine)
    if seconds is not None:
        show.note(
            f'run "quoth encode {engine.folder}" for vectors, so that searching goes by meaning,'
            f" too (about {display.duration(seconds)})"
        )


@with_settings("lexical", "dense", "generative", "collection")
def remove(
    collection: Collection,
    docids: Annotated[list[str], typer.Argument(metavar="DOCID", help="Documents to remove.")],
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


class _Problems:
    """Shows the first problems as they come and keeps count of the rest."""

    def __init__(self, limit: int | None) -> None:
        self.lines: list[str] = []
        self._limit = limit
        self._count = 0

    def __call__(self, problem: Problem) -> None:
        self._count += 1
        if self._limit is None:
            self.lines.append(str(problem))
        elif self._count <= self._limit:
            show.note(f"skipped {problem}")

    def tell_rest(self) -> None:
        """Say how many problems were not shown."""
        if self._limit is not None and self._count > self._limit:
            show.note(f"… and {self._count - self._limit:,} more (--json lists them all)")
