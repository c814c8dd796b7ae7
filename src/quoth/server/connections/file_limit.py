"""How many connections the system's limit of open files leaves room for.

A connection takes one descriptor. The collection's files, the event loop and the log need some,
too, and a search that cannot open a file fails: those come first.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from quoth.errors import ConfigError
from quoth.settings.server import ServerConfig

_ENOUGH = 65_536
_FOR_THE_PROCESS = 24
_FOR_A_WORKER = 8
_FEWEST_CONNECTIONS = 8
_logger = logging.getLogger(__name__)


def fit_connections(config: ServerConfig) -> ServerConfig:
    """Raise this process's limit of open files, and lower `max_connections` to what it allows."""
    most = raise_limit()
    workers = config.workers + config.answer_workers
    allowed = count_connections(config.max_connections, open_files=most, workers=workers)
    return replace(config, max_connections=allowed)


def log_difference(wanted: ServerConfig, fitted: ServerConfig) -> None:
    """Say so where there may be fewer connections than were wanted."""
    if fitted.max_connections < wanted.max_connections:
        _logger.warning(
            "at most %d connections at a time instead of %d, because of the limit of open files;"
            " raise it with ulimit -n",
            fitted.max_connections,
            wanted.max_connections,
        )


def count_connections(wanted: int, *, open_files: int, workers: int) -> int:
    """Return how many connections there may be; a quarter of all open files is for the others.

    >>> count_connections(1000, open_files=4096, workers=4)
    1000
    >>> count_connections(1000, open_files=1024, workers=4)
    768
    >>> count_connections(1000, open_files=64, workers=4)
    8
    """
    needed = _FOR_THE_PROCESS + _FOR_A_WORKER * workers
    allowed = open_files - max(needed, open_files // 4)
    if allowed < _FEWEST_CONNECTIONS:
        raise ConfigError(
            f"this process may open {open_files} files, but {workers} workers need"
            f" {needed + _FEWEST_CONNECTIONS}; raise the limit with ulimit -n, or lower"
            " server.workers"
        )
    return min(wanted, allowed)


def raise_limit() -> int:
    """Raise the soft limit of open files as far as the system lets it, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _ENOUGH
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENOUGH
    highest = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    return max(soft, highest)
