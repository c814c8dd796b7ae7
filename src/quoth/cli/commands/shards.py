"""`quoth shard` and `quoth merge`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import AsJson, Collection, ConfigFile, read_layers
from quoth.cli.options import with_settings
from quoth.errors import ConfigError

if TYPE_CHECKING:
    from quoth.collection.shards import ShardSet
    from quoth.search.searcher import Progress
    from quoth.settings.config import Values


@with_settings("collection")
def shard(
    collection: Collection,
    *,
    shards: Annotated[
        int | None,
        typer.Option(help="Number of shards.", metavar="N", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the shards.", metavar="FOLDER", show_default=False),
    ] = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            help="Create COLLECTION as a set of empty shards to add documents to.",
            metavar="",
        ),
    ] = False,
    exchange: Annotated[
        bool,
        typer.Option(
            "--exchange",
            help="COLLECTION is sharded already: exchange statistics between its shards, after you"
            " wrote to them one by one.",
            metavar="",
        ),
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Split a collection into shards that are searched as one, with the same ranking."""
    target = collection if new else out
    if exchange and (new or shards is not None or out is not None):
        raise ConfigError("--exchange takes an existing sharded collection and no other option")
    if not exchange and (shards is None or target is None or (new and out is not None)):
        raise ConfigError(
            f'give the number of shards and a folder: "quoth shard {collection} --shards 4 --out'
            f' FOLDER", or "quoth shard --new {collection} --shards 4" for empty ones'
        )
    layers = read_layers(config, settings)
    with show.progress_bar() as progress:
        if shards is None or target is None:
            made = _exchange(collection, layers, progress)
        elif new:
            made = _make(target, shards, layers)
        else:
            from quoth.shards.split_and_merge import split_collection

            made = split_collection(
                collection, target, count=shards, settings=layers, progress=progress
            )
    _tell({"folder": str(made.folder), "shards": made.count, "set": made.identity}, as_json=as_json)


@with_settings("collection")
def merge(
    collection: Annotated[Path, typer.Argument(metavar="FOLDER", help="A sharded collection.")],
    *,
    out: Annotated[Path, typer.Option(help="The collection to create.", metavar="COLLECTION")],
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Merge shards into one collection with the same documents and ranking."""
    from quoth.shards.split_and_merge import merge_shards

    layers = read_layers(config, settings)
    with show.progress_bar() as progress:
        merge_shards(collection, out, settings=layers, progress=progress)
    _tell({"collection": str(out)}, as_json=as_json)


def _exchange(folder: Path, layers: list[Values], progress: Progress) -> ShardSet:
    from quoth.shards.engine import ShardedEngine

    with ShardedEngine.open(folder, settings=layers, progress=progress) as engine:
        engine.exchange()
        return engine.shards


def _make(folder: Path, count: int, layers: list[Values]) -> ShardSet:
    from quoth.collection.shards import create_shards
    from quoth.shards.engine import ShardedEngine

    create_shards(folder, count=count)
    with ShardedEngine.open(folder, settings=layers) as engine:
        return engine.shards


def _tell(done: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        show.print_json(dict(done))
    else:
        show.out().print("\n".join(show.key_values(dict(done))), markup=False)
