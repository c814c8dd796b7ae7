"""Settings of serving a collection in shards from a Ray cluster.

Apart from the serving itself, so that `quoth --help` needs no Ray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig, NonNegative, Positive


@dataclass(frozen=True, slots=True)
class ClusterConfig(CheckedConfig, title="cluster"):
    """How the shards of a collection are served from a Ray cluster."""

    replicas: AtLeastOne = 1
    """Processes that serve each shard, the fewest of them where their number follows the load; with
    two or more, a lost machine leaves every document within reach."""

    max_replicas: AtLeastZero = 0
    """Most processes per shard; more are started while queries wait, and stopped when they are
    idle. 0: always as many as `replicas`."""

    target_queries: Positive = 2.0
    """Queries under way per process that Ray aims at when it starts and stops processes."""

    cpus: NonNegative = 0.5
    """Processors that each process reserves; Ray starts no more processes than there are
    processors for."""

    wait_seconds: Positive = 3.0
    """Longest wait for one process of a shard. Another is tried once; then the shard counts as out
    of reach, and answers are made without it until it is back."""

    def conflicts(self) -> Iterator[str]:
        """Say where the most processes are fewer than the fewest."""
        if 0 < self.max_replicas < self.replicas:
            yield f"max_replicas is {self.max_replicas}, expected 0 or at least {self.replicas}"
