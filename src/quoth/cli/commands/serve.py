"""`quoth serve`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import ConfigFile, open_engine, read_layers
from quoth.cli.commands.keys import print_secret
from quoth.cli.options import with_settings
from quoth.errors import ConfigError

if TYPE_CHECKING:
    from quoth.settings.server import ServerConfig
    from quoth.shards.opening import OpenedEngine

_KEY_VARIABLE = "QUOTH_KEY"
_SECTIONS = (
    "server",
    "sync",
    "cluster",
    "lexical",
    "dense",
    "generative",
    "fusion",
    "rerank",
    "duplicates",
    "answer",
    "candidates",
)

Served = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="COLLECTION",
        help="One or more collections to serve: the first at /, each at /c/NAME/.",
        show_default=False,
    ),
]
KeysFile = Annotated[
    Path | None,
    typer.Option(
        help="A key file; every request then needs one of its keys. Required to listen on any"
        " address other than loopback.",
        metavar="FILE",
    ),
]
NewKey = Annotated[
    str,
    typer.Option(
        help="Create a key with the scope observe, read or write, add it to --keys, print it"
        " and exit; quoth keys new also takes a name, an expiry and a rate limit.",
        metavar="SCOPE",
        show_default=False,
        hidden=True,
    ),
]
AllowWrites = Annotated[
    bool,
    typer.Option("--allow-writes", help="Allow clients to add and remove documents.", metavar=""),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Also keep the collection in sync with its folders, like quoth watch.",
        metavar="",
    ),
]
Mcp = Annotated[
    bool,
    typer.Option(
        "--mcp",
        help="Speak the Model Context Protocol on standard input and output instead of HTTP.",
        metavar="",
    ),
]
RayAddress = Annotated[
    str,
    typer.Option(
        "--ray",
        help="Serve a sharded collection from a Ray cluster: HOST:PORT of its head node, auto"
        " for the cluster this machine belongs to, or local to start one here.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        help="With --ray: processes per shard, the same as --cluster.replicas.",
        metavar="N",
        show_default=False,
        hidden=True,
    ),
]
StatsOf = Annotated[
    str,
    typer.Option(
        help="Print latency statistics of a running server, such as http://127.0.0.1:8080, and"
        f" exit; the environment variable {_KEY_VARIABLE} holds the key, if it needs one.",
        metavar="URL",
        show_default=False,
    ),
]


@with_settings(
    *_SECTIONS,
    "decoding",
    "collection",
    shown=["answer.model"],
    short={
        "server.host": "--host",
        "server.port": "--port",
        "server.query_log": "--log-queries",
    },
)
def serve(
    collections: Served = None,
    *,
    keys: KeysFile = None,
    new_key: NewKey = "",
    allow_writes: AllowWrites = False,
    watch: Watch = False,
    mcp: Mcp = False,
    ray: RayAddress = "",
    replicas: Replicas = None,
    stats: StatsOf = "",
    config: ConfigFile = None,
    settings: Mapping[str, str],
) -> None:
    """Serve collections over HTTP: an API for programs and a web page for people.

    By default, it listens on this computer only, at http://127.0.0.1:8080, and is read-only.
    """
    if stats:
        _print_stats(stats)
        return
    if new_key:
        _print_key(new_key, keys)
        return
    if not collections:
        raise ConfigError("no collection given; run quoth serve COLLECTION")
    if len(collections) > 1 and (mcp or ray):
        raise ConfigError(f"{'--mcp' if mcp else '--ray'} serves one collection at a time")
    given = dict(settings)
    if replicas is not None:
        given["cluster.replicas"] = str(replicas)
    if ray and allow_writes:
        raise ConfigError(
            "--allow-writes cannot be combined with --ray; write with quoth add, and the replicas"
            " follow"
        )
    if watch and (ray or mcp):
        raise ConfigError(
            "--watch cannot be combined with --ray or --mcp; run quoth watch in another terminal,"
            " and the server follows"
        )
    if replicas is not None and not ray:
        raise ConfigError("--replicas needs --ray ADDRESS, the cluster to start them on")
    with ExitStack() as stack:
        engines = [stack.enter_context(_open(each, config, given, ray=ray)) for each in collections]
        if mcp:
            from quoth.server.mcp.server import run_stdio

            run_stdio(engines[0])
        else:
            server = _server_config(config, given)
            _listen(engines, server, keys, allow_writes=allow_writes, watch=watch)


@contextmanager
def _open(
    collection: Path, config: Path | None, given: Mapping[str, str], *, ray: str
) -> Iterator[OpenedEngine]:
    """Open a collection here, or through replicas on a cluster."""
    if not ray:
        with open_engine(collection, config, given) as engine:
            yield engine
        return
    from quoth.shards.ray_serve import open_from_cluster

    with open_from_cluster(collection, ray, settings=read_layers(config, given)) as served:
        yield served


def _server_config(path: Path | None, given: Mapping[str, str]) -> ServerConfig:
    from quoth.settings.config import build_config

    return build_config(*read_layers(path, given)).server


def _listen(
    engines: Sequence[OpenedEngine],
    config: ServerConfig,
    keys: Path | None,
    *,
    allow_writes: bool,
    watch: bool,
) -> None:
    from quoth.server.run import require_safe, run_server

    known = require_safe(config, keys)
    for engine in engines if not allow_writes else ():
        engine.status()  # complain at once where there is no collection
    run_server(engines, config, keys=known, allow_writes=allow_writes, watch=watch)


def _print_key(scope: str, path: Path | None) -> None:
    from quoth.server.access.keys import add_numbered_key, read_scope

    if path is None:
        raise ConfigError("--new-key needs --keys FILE, the file to add the key to")
    made = add_numbered_key(path, read_scope(scope, option="--new-key"))
    print_secret(f"key {made.name!r} to {scope}", made.secret, path)


def _print_stats(url: str) -> None:
    from quoth.server.run import fetch_stats, stats_lines

    found = fetch_stats(url, key=os.environ.get(_KEY_VARIABLE, ""))
    rows = [
        [
            name,
            f"{stage['count']:,}",
            *(f"{stage[each] * 1000:.1f}" for each in ("p50", "p95", "p99")),
        ]
        for name, stage in found["stages"].items()
    ]
    columns = ["stage", "count", "p50 ms", "p95 ms", "p99 ms"]
    show.out().print(show.table(url, columns, rows))
    for line in stats_lines(found):
        show.out().print(line, markup=False)
