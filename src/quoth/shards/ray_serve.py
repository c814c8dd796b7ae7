"""Serve a collection in shards from a Ray cluster: what `quoth serve --ray` opens.

The server itself stays in the process of the command, and asks the replicas of the shards through
Ray: it keeps its keys, limits and routes, and losing any machine but its own leaves it standing.
Its own machine lost, the replicas live on; the same command anywhere in the cluster takes their
place without a gap.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from quoth.cluster.connecting import joined, require_address
from quoth.collection.shards import open_shards
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.config import Values, build_config
from quoth.shards.engine import ShardedEngine
from quoth.shards.port import LocalPort

_NAME_CHARS = 12


@contextmanager
def open_from_cluster(
    folder: Path,
    address: str,
    *,
    settings: Sequence[Values] = (),
    progress: Progress = ignore_progress,
) -> Iterator[ShardedEngine]:
    """Start replicas of all shards on a cluster, and open the collection through them.

    What is wrong with the collection or the address is said before anything is started. The
    replicas are stopped when the block ends.
    """
    config = build_config(*settings).cluster
    require_address(address)
    shards = open_shards(folder.resolve())
    ShardedEngine.open(folder, settings=settings).close()  # finishes an exchange left undone
    with joined(address):
        from quoth.cluster.connecting import load_serve
        from quoth.cluster.serving.deployment import served_shards

        load_serve()
        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # importing it has set its own
        openers = [functools.partial(open_port, path, settings) for path in shards.shards]
        with (
            served_shards(
                shards.identity[:_NAME_CHARS], openers, config=config, shard_of=shards.shard_of
            ) as served,
            ShardedEngine.open(
                folder, settings=settings, progress=progress, ports=served.ports()
            ) as engine,
        ):
            yield engine


def open_port(folder: Path, settings: Sequence[Values]) -> LocalPort:
    """Open one shard, in the process that serves it; a search shows that it can be."""
    port = LocalPort.open(folder, settings=settings)
    port.status()
    return port
