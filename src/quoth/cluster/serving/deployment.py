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

import functools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from quoth.cluster.connecting import load_ray, load_serve
from quoth.cluster.serving.config import ClusterConfig
from quoth.cluster.serving.direct import Address, DirectLine, Lost
from quoth.cluster.serving.hedging import Hedging
from quoth.cluster.serving.port import RemotePort, ShardLine, losses
from quoth.cluster.serving.replica import GroupReplica, OpenPort, ShardReplica
from quoth.errors import ClusterError
from quoth.search.group import GroupPort, arrange_groups

_UNDER_WAY = 16  # questions that wait inside one replica; more wait at the router
_HEALTH_SECONDS = 1.0
_HEALTH_PATIENCE_SECONDS = 10.0
_STOP_SECONDS = 5.0
_START_ATTEMPTS = 2
_KEY_BYTES = 32
_PATIENCE = 3
_LOGGING = {"log_level": "WARNING", "enable_access_log": False}


class ServedShards:
    """The shards of one collection on a cluster that this process has joined."""

    def __init__(
        self,
        name: str,
        openers: Sequence[OpenPort],
        *,
        config: ClusterConfig,
        shard_of: Callable[[str], int],
    ) -> None:
        """Start the replicas of all shards, in place of those that run under the same name.

        Of many shards, inner routers are started, too. `shard_of` says where a docid belongs.
        """
        self._name = name
        self._openers = openers
        self._config = config
        self._serve = load_serve()
        count = len(openers)
        self._groups = arrange_groups(count) if config.has_tree(count) else []
        _require_processors(count, len(self._groups), config)
        self._serve.start(proxy_location="Disabled", logging_config=_LOGGING)
        self._key = b"" if config.is_elastic else secrets.token_bytes(_KEY_BYTES)
        applications = [self._application(number) for number in range(count)]
        handles = self._deploy(dict(zip(applications, openers, strict=True)))
        if self._groups:
            handles = self._deploy(
                {
                    self._group(at): functools.partial(
                        open_group,
                        at,
                        {number: applications[number] for number in numbers},
                        config=config,
                        key=self._key,
                        shard_of=shard_of,
                    )
                    for at, numbers in enumerate(self._groups)
                }
            )
        if self._groups:  # which wait for their shards, twice
            config = replace(config, wait_seconds=_PATIENCE * config.wait_seconds)
        self._lines = [
            connect(number, handle, config=config, key=self._key)
            for number, handle in enumerate(handles)
        ]

    def ports(self) -> tuple[RemotePort, ...]:
        """Return a port per shard or group; any number of threads may have their own."""
        groups = self._groups or [()] * len(self._lines)
        pairs = zip(self._lines, groups, strict=True)
        return tuple(RemotePort(line, shards=group) for line, group in pairs)

    def close(self) -> None:
        """Stop all replicas."""
        for line in self._lines:
            line.close()
        for name in self._applications():
            self._serve.delete(name, _blocking=False)

    def _application(self, number: int) -> str:
        return f"quoth-{self._name}-{number:05d}"

    def _group(self, number: int) -> str:
        return f"quoth-{self._name}-group-{number:05d}"

    def _applications(self) -> list[str]:
        """Name everything that runs, who asks before who is asked."""
        groups = [self._group(at) for at in range(len(self._groups))]
        return [*groups, *(self._application(number) for number in range(len(self._openers)))]

    def _deploy(self, openers: Mapping[str, OpenPort]) -> list[Any]:
        """Start what opens a port, by the names of the applications."""
        targets = [
            self._serve.RunTarget(
                target=self._deployment(name).bind(open_port, key=self._key),
                name=name,
                route_prefix=None,
                logging_config=_LOGGING,
            )
            for name, open_port in openers.items()
        ]
        try:
            return list(self._serve.run_many(targets))
        except RuntimeError as error:
            raise ClusterError(f"the shards cannot be served: {self._trouble(error)}") from error

    def _deployment(self, application: str) -> Any:
        config = self._config
        is_group = "-group-" in application
        number = application.rpartition("-")[2]
        return self._serve.deployment(
            name=f"{'group' if is_group else 'shard'}-{number}",
            ray_actor_options={"num_cpus": config.cpus},
            max_ongoing_requests=_UNDER_WAY,
            health_check_period_s=_HEALTH_SECONDS,
            health_check_timeout_s=_HEALTH_PATIENCE_SECONDS,
            graceful_shutdown_timeout_s=_STOP_SECONDS,
            max_constructor_retry_count=_START_ATTEMPTS,
            **scaling_options(config),
            **placement_options(config, num_machines=_num_machines()),
        )(GroupReplica if is_group else ShardReplica)

    def _trouble(self, error: RuntimeError) -> str:
        """Say what the replicas themselves said, where one did."""
        found = self._serve.status().applications
        for name in self._applications():
            application = found.get(name)
            for deployment in application.deployments.values() if application else ():
                lines = [line for line in deployment.message.splitlines() if line.strip()]
                if lines:
                    return f"{_called(name)}: {lines[-1].strip()}"
        return str(error)


@contextmanager
def served_shards(
    name: str,
    openers: Sequence[OpenPort],
    *,
    config: ClusterConfig,
    shard_of: Callable[[str], int],
) -> Iterator[ServedShards]:
    """Serve the shards of a collection until the block ends."""
    served = ServedShards(name, openers, config=config, shard_of=shard_of)
    try:
        yield served
    finally:
        served.close()


def connect(number: int, handle: Any, *, config: ClusterConfig, key: bytes) -> ShardLine:
    """Connect to replicas: directly, unless Ray is to count what is asked."""
    direct = None
    if key:

        def find() -> Address:
            try:
                found: Address = handle.address.remote().result(timeout_s=config.wait_seconds)
            except (TimeoutError, *losses()) as error:
                raise Lost from error
            return found

        hedging = Hedging(config.hedge_share)
        direct = DirectLine(find, count=config.replicas, key=key, hedging=hedging)
        direct.look_for_replicas()
    return ShardLine(number, handle, wait_seconds=config.wait_seconds, direct=direct)


def open_group(
    number: int,
    applications: Mapping[int, str],
    *,
    config: ClusterConfig,
    key: bytes,
    shard_of: Callable[[str], int],
) -> GroupPort:
    """Open an inner router in its own process: connect it to the shards of its group."""
    handles = {
        shard: load_serve().get_app_handle(application)
        for shard, application in applications.items()
    }
    ports = [
        RemotePort(connect(shard, handle, config=config, key=key))
        for shard, handle in handles.items()
    ]
    return GroupPort(number, ports, shard_of=shard_of)


def _called(application: str) -> str:
    """Say in words what an application is.

    >>> _called("quoth-0f3a-00002"), _called("quoth-0f3a-group-00001")
    ('shard 2', 'inner router 1')
    """
    kind, number = ("inner router" if "-group-" in application else "shard"), application[-5:]
    return f"{kind} {int(number)}"


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


def _require_processors(shards: int, routers: int, config: ClusterConfig) -> None:
    """Refuse what would wait for processors for ever."""
    needed = (shards + routers) * config.replicas * config.cpus
    what = f"{shards} shards and {routers} inner routers" if routers else f"{shards} shards"
    there = float(load_ray().cluster_resources().get("CPU", 0.0))
    if needed > there:
        raise ClusterError(
            f"{what} with {config.replicas} replicas each reserve {needed:g} processors,"
            f" but the cluster has {there:g}; add machines, or lower --replicas or --cluster.cpus"
        )
