"""Settings of serving a collection in shards from a Ray cluster.

Apart from the serving itself, so that `quoth --help` needs no Ray.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How the shards of a collection are served from a Ray cluster."""

    replicas: int = 1
    """Processes that serve each shard, the fewest of them where their number follows the load; with
    two or more, a lost machine leaves every document within reach."""

    max_replicas: int = 0
    """Most processes per shard; more are started while queries wait, and stopped when they are
    idle. 0: always as many as `replicas`."""

    target_queries: float = 2.0
    """Queries under way per process that Ray aims at when it starts and stops processes."""

    cpus: float = 0.5
    """Processors that each process reserves; Ray starts no more processes than there are
    processors for."""

    wait_seconds: float = 3.0
    """Longest wait for one process of a shard. Another is tried once; then the shard counts as out
    of reach, and answers are made without it until it is back."""

    def __post_init__(self) -> None:
        problems = []
        if self.replicas < 1:
            problems.append(f"replicas is {self.replicas}, expected at least 1")
        if self.max_replicas and self.max_replicas < self.replicas:
            problems.append(
                f"max_replicas is {self.max_replicas}, expected 0 or at least {self.replicas}"
            )
        if self.target_queries <= 0:
            problems.append(f"target_queries is {self.target_queries}, expected more than 0")
        if self.cpus < 0:
            problems.append(f"cpus is {self.cpus}, expected at least 0")
        if self.wait_seconds <= 0:
            problems.append(f"wait_seconds is {self.wait_seconds}, expected more than 0")
        if problems:
            raise ConfigError("; ".join(problems))
