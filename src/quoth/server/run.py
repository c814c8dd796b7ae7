"""Running a server from the command line: what is checked first, and asking one for its times."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quoth.errors import ConfigError, MissingExtra
from quoth.server.access.keys import Keys
from quoth.server.connections.file_limit import fit_connections, log_difference
from quoth.server.monitoring.logs import logging_to
from quoth.server.signals import termination_unwinds
from quoth.settings.server import ServerConfig
from quoth.shards.opening import OpenedEngine

if TYPE_CHECKING:
    from fastapi import FastAPI

    from quoth.server.collections import Collections
    from quoth.server.connections.process import Server
    from quoth.server.workers.processes import SearchProcesses

_logger = logging.getLogger(__name__)
_BACKLOG = 2_048
_SWITCH_SECONDS = 0.0005  # so that busy workers let the loop that answers everybody have its turn
_STATS_SECONDS = 10.0
_MAX_STATS_BYTES = 1_000_000


def require_safe(config: ServerConfig, path: Path | None) -> Keys | None:
    """Read the keys; refuse to listen to others than this computer without any."""
    if path is not None:
        return Keys.read(path)
    if not config.is_loopback:
        raise ConfigError(
            f"server.host is {config.host}, which others can reach, so keys are needed; make one"
            ' with "quoth keys new NAME --keys FILE" and give --keys FILE'
        )
    return None


def run_server(
    engines: Sequence[OpenedEngine],
    config: ServerConfig,
    *,
    keys: Keys | None,
    allow_writes: bool,
    watch: bool = False,
) -> None:
    """Serve one collection or several until interrupted; what was begun is finished first."""
    try:
        from quoth.server.collections import Collections, name_collections
        from quoth.server.routes import create_app

        has_mcp = importlib.util.find_spec("mcp") is not None
        fitted = fit_connections(config)
        apps = [
            create_app(
                engine,
                fitted,
                keys=keys,
                allow_writes=allow_writes,
                mcp=has_mcp,
                watch=watch,
                processes=_processes(engine, fitted),
            )
            for engine in engines
        ]
        names = name_collections(each.folder for each in engines)
        server = make_server(apps[0] if len(apps) == 1 else Collections(apps, names), fitted)
    except ImportError as error:
        raise MissingExtra(
            f'serving needs {error.name}; run pip install "quoth[server]"'
        ) from error
    with (
        termination_unwinds(),
        _listen(config) as listening,
        logging_to(sys.stderr, config.log_format, capture_descriptor=True),
    ):
        served = ", ".join(str(each.folder) for each in engines)
        _logger.info("serving %s at %s", served, address_of(listening))
        log_difference(config, fitted)
        sys.setswitchinterval(_SWITCH_SECONDS)
        server.ends_process = True
        for app in apps:
            app.state.has_process = True
        server.run(sockets=[listening])


def _processes(engine: OpenedEngine, config: ServerConfig) -> SearchProcesses | None:
    """Make what searches in other processes; shards on other machines are asked from this one."""
    if not config.processes or not engine.is_local:
        return None
    from quoth.server.workers.processes import SearchProcesses

    return SearchProcesses(engine.folder, engine.given_settings, concurrent=config.workers)


def make_server(app: FastAPI | Collections, config: ServerConfig) -> Server:
    """Make what speaks HTTP for an application, at sockets that `run` is given."""
    import uvicorn
    from fastapi import FastAPI

    from quoth.server.connections.process import Server
    from quoth.server.connections.proxy import behind_proxy

    apps: Sequence[FastAPI] = [app] if isinstance(app, FastAPI) else app.apps
    for each in apps if config.path_prefix else ():
        each.servers = [{"url": config.path_prefix}]
    settings = uvicorn.Config(
        behind_proxy(app, config),
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # `behind_proxy` sees to them
        ws="none",
        timeout_keep_alive=config.keep_alive_seconds,
        timeout_graceful_shutdown=math.ceil(config.shutdown_seconds) + 1,
    )
    server = Server(settings, config)
    if isinstance(app, FastAPI) and not (config.path_prefix or config.proxies):
        # Only here is a path what it looks like to the connection.
        server.connections.early = getattr(app.state, "early", None)
    for each in apps:
        each.state.count_connections = lambda: len(server.connections)
    return server


def address_of(listening: socket.socket) -> str:
    """Return the URL of a server that listens here."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def fetch_stats(url: str, *, key: str = "") -> dict[str, Any]:
    """Ask a running server for its times."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url} is no address of a server, expected http://127.0.0.1:8080")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url.rstrip("/") + "/stats", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_STATS_SECONDS) as response:
            found: dict[str, Any] = json.loads(response.read(_MAX_STATS_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise ConfigError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{url} does not answer ({error}); is a server running?") from error
    return found


def stats_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Write what belongs to no stage.

    >>> queue = {"length": 0, "capacity": 64}
    >>> found = {"queue": queue, "memory_bytes": 3e6, "uptime_seconds": 5, "requests": 2}
    >>> list(stats_lines({**found, "errors": 0}))
    ['queue: 0 of 64', 'memory: 3 MB', 'up: 5 s, 2 requests, 0 errors']
    """
    yield f"queue: {found['queue']['length']:,} of {found['queue']['capacity']:,}"
    yield f"memory: {found['memory_bytes'] / 1e6:,.0f} MB"
    up, requests, errors = (found[each] for each in ("uptime_seconds", "requests", "errors"))
    yield f"up: {up:,.0f} s, {requests:,} requests, {errors:,} errors"


def _listen(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listening = socket.create_server(
            (config.host, config.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        raise ConfigError(
            f"{config.host}, port {config.port}, cannot be listened at ({error.strerror});"
            " choose another with --port, or 0 for any"
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    return listening
