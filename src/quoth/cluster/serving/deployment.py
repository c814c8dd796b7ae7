"""Serve the shards of a collection from a Ray cluster: one deployment per shard, with replicas.

Each shard is a Serve application of its own, so that one that fails leaves the others alone. Ray
Serve starts replicas, spreads them over the machines, starts others for those that are lost, and
adds some while queries wait. Requests over HTTP stay the business of `quoth serve`: no proxy of
Serve is started, so no further port is opened.

What is written to the collection is taken up replica by replica: each looks, before it answers,
whether the shards have exchanged new statistics. New settings, or a new version of Quoth, are taken
up by serving the collection again: Serve stops old replicas when new ones are there.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quoth.cluster.connecting import load_ray, load_serve
from quoth.cluster.serving.config import ClusterConfig
from quoth.cluster.serving.direct import Address, DirectLine, Lost
from quoth.cluster.serving.hedging import Hedging
from quoth.cluster.serving.port import RemotePort, ShardLine, losses
from quoth.cluster.serving.replica import OpenPort, ShardReplica
from quoth.errors import ClusterError

_UNDER_WAY = 16  # questions that wait inside one replica; more wait at the router
_HEALTH_SECONDS = 1.0
_HEALTH_PATIENCE_SECONDS = 10.0
_STOP_SECONDS = 5.0
_START_ATTEMPTS = 2
_KEY_BYTES = 32
_LOGGING = {"log_level": "WARNING", "enable_access_log": False}


class ServedShards:
    """The shards of one collection on a cluster that this process has joined."""

    def __init__(self, name: str, openers: Sequence[OpenPort], *, config: ClusterConfig) -> None:
        """Start the replicas of all shards, in place of those that run under the same name."""
        self._name = name
        self._openers = openers
        self._config = config
        self._serve = load_serve()
        _require_processors(len(openers), config)
        self._serve.start(proxy_location="Disabled", logging_config=_LOGGING)
        self._key = b"" if config.is_elastic else secrets.token_bytes(_KEY_BYTES)
        handles = self._deploy()
        self._lines = [self._line(number, handle) for number, handle in enumerate(handles)]

    def ports(self) -> tuple[RemotePort, ...]:
        """Return a port per shard; any number of threads may have their own."""
        return tuple(RemotePort(line) for line in self._lines)

    def close(self) -> None:
        """Stop all replicas."""
        for line in self._lines:
            line.close()
        for number in range(len(self._openers)):
            self._serve.delete(self._application(number), _blocking=False)

    def _line(self, number: int, handle: Any) -> ShardLine:
        """Connect to the replicas of a shard: directly, unless Ray is to count what is asked."""
        config, direct = self._config, None
        if self._key:

            def find() -> Address:
                try:
                    found: Address = handle.address.remote().result(timeout_s=config.wait_seconds)
                except (TimeoutError, *losses()) as error:
                    raise Lost from error
                return found

            hedging = Hedging(config.hedge_share)
            direct = DirectLine(find, count=config.replicas, key=self._key, hedging=hedging)
            direct.look_for_replicas()
        return ShardLine(number, handle, wait_seconds=config.wait_seconds, direct=direct)

    def _application(self, number: int) -> str:
        return f"quoth-{self._name}-{number:05d}"

    def _deploy(self) -> list[Any]:
        targets = [
            self._serve.RunTarget(
                target=self._deployment(number).bind(open_port, key=self._key),
                name=self._application(number),
                route_prefix=None,
                logging_config=_LOGGING,
            )
            for number, open_port in enumerate(self._openers)
        ]
        try:
            return list(self._serve.run_many(targets))
        except RuntimeError as error:
            raise ClusterError(f"the shards cannot be served: {self._trouble(error)}") from error

    def _deployment(self, number: int) -> Any:
        config = self._config
        return self._serve.deployment(
            name=f"shard-{number:05d}",
            ray_actor_options={"num_cpus": config.cpus},
            max_ongoing_requests=_UNDER_WAY,
            health_check_period_s=_HEALTH_SECONDS,
            health_check_timeout_s=_HEALTH_PATIENCE_SECONDS,
            graceful_shutdown_timeout_s=_STOP_SECONDS,
            max_constructor_retry_count=_START_ATTEMPTS,
            **scaling_options(config),
            **placement_options(config, num_machines=_num_machines()),
        )(ShardReplica)

    def _trouble(self, error: RuntimeError) -> str:
        """Say what the replicas themselves said, where one did."""
        found = self._serve.status().applications
        for number in range(len(self._openers)):
            application = found.get(self._application(number))
            for deployment in application.deployments.values() if application else ():
                lines = [line for line in deployment.message.splitlines() if line.strip()]
                if lines:
                    return f"shard {number}: {lines[-1].strip()}"
        return str(error)


@contextmanager
def served_shards(
    name: str, openers: Sequence[OpenPort], *, config: ClusterConfig
) -> Iterator[ServedShards]:
    """Serve the shards of a collection until the block ends."""
    served = ServedShards(name, openers, config=config)
    try:
        yield served
    finally:
        served.close()


def scaling_options(config: ClusterConfig) -> dict[str, Any]:
    """Say how many replicas a deployment has.

    >>> scaling_options(ClusterConfig(replicas=2))
    {'num_replicas': 2}
    """
    if not config.is_elastic:
        return {"num_replicas": config.replicas}
    return {
        "autoscaling_config": {
            "min_replicas": config.replicas,
            "max_replicas": config.max_replicas,
            "target_ongoing_requests": config.target_queries,
        }
    }


def placement_options(config: ClusterConfig, *, num_machines: int) -> dict[str, Any]:
    """Say where replicas go, so that neither a lost machine nor a new version leaves a gap.

    Several replicas are kept apart; a single one is replaced before it is stopped.

    >>> placement_options(ClusterConfig(replicas=3), num_machines=2)
    {'max_replicas_per_node': 2}
    >>> placement_options(ClusterConfig(), num_machines=2)
    {'max_surge_percent': 100}
    """
    most = max(config.replicas, config.max_replicas)
    if most == 1:
        return {"max_surge_percent": 100}
    return {"max_replicas_per_node": math.ceil(most / max(1, num_machines))}


def _num_machines() -> int:
    """Count the machines of the cluster that run anything."""
    return sum(
        1 for node in load_ray().nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0
    )


def _require_processors(count: int, config: ClusterConfig) -> None:
    """Refuse what would wait for processors for ever."""
    needed = count * config.replicas * config.cpus
    there = float(load_ray().cluster_resources().get("CPU", 0.0))
    if needed > there:
        raise ClusterError(
            f"{count} shards with {config.replicas} replicas each reserve {needed:g} processors,"
            f" but the cluster has {there:g}; add machines, or lower --replicas or --cluster.cpus"
        )
