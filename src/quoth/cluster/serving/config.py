"""Settings of serving a collection in shards from a Ray cluster.

Apart from the serving itself, so that `quoth --help` needs no Ray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, NonNegative, Positive, Share


@dataclass(frozen=True, slots=True)
class ClusterConfig(CheckedConfig, title="cluster"):
    """How the shards of a collection are served from a Ray cluster."""

    replicas: AtLeastOne = 1
    """Processes that serve each shard, or the minimum where max_replicas lets the number follow the
    load; with two or more, losing a machine loses no documents from search."""

    max_replicas: AtLeastZero = 0
    """Maximum processes per shard; more are started while queries wait and stopped when idle. 0
    means always `replicas`."""

    target_queries: Positive = 2.0
    """Concurrent queries per process that Ray aims for when it starts and stops processes."""

    cpus: NonNegative = 0.5
    """CPU cores that each process reserves; Ray starts no more processes than there are cores
    for."""

    wait_seconds: Positive = 3.0
    """Time limit for one process of a shard, in seconds.

    Another process is tried once; then the shard counts as unreachable, and hits come from the
    others until it is back."""

    hedge_share: Share = 0.05
    """Share of questions that may go to a second process of a shard as well, once the first is
    slower than 95 % of recent answers; the first answer counts. Needs two replicas; 0 turns it
    off."""

    tree_from: AtLeastZero = 33
    """With so many shards or more, they are asked through inner routers, about as many as each then
    has shards; 0 means never. Where max_replicas is set, they never are."""

    @property
    def is_elastic(self) -> bool:
        """Whether the number of processes follows the load, which Ray has to count then."""
        return self.max_replicas > self.replicas

    def has_tree(self, num_shards: int) -> bool:
        """Whether so many shards are asked through inner routers.

        >>> [ClusterConfig().has_tree(count) for count in (32, 33)]
        [False, True]
        """
        is_large = 0 < self.tree_from <= num_shards and num_shards > 1
        return is_large and not self.is_elastic

    def conflicts(self) -> Iterator[str]:
        """Say where the most processes are fewer than the fewest."""
        if 0 < self.max_replicas < self.replicas:
            yield f"max_replicas is {self.max_replicas}, expected 0 or at least {self.replicas}"
