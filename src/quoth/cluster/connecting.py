"""Join a Ray cluster, or start one on this machine; say clearly why not where that fails.

The command must run on a machine of the cluster. Every machine needs the same versions of Python,
Ray and Quoth, and sees collections, models and sources under the same paths (shared storage), since
what travels between them are paths and documents, not files.

Ray is told by its environment alone to send no usage statistics, so that is set here, for as long
as the cluster is joined.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, TextIO

import quoth
from quoth.errors import ClusterError, ConfigError, MissingExtra

LOCAL, AUTO = "local", "auto"
"""Addresses beside HOST:PORT: a cluster of this machine's own, and the one this machine is in."""

_logger = logging.getLogger(__name__)
_SECONDS = 5.0  # for an answer
_FRAME_HEADER, _SETTINGS = 9, b"\x04"  # of HTTP/2, which Ray speaks: a server's first frame
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextlib.contextmanager
def joined(address: str) -> Iterator[None]:
    """Be part of a cluster: HOST:PORT, `auto` (this machine's), or `local` (one is started).

    A process that joined one already stays in it. Ray's messages go to the log files of its
    session alone.
    """
    require_address(address)
    ray = load_ray()
    if ray.is_initialized():
        yield
        return
    if address not in (LOCAL, AUTO):
        _require_answer(address)
    with _environment(), _quiet():
        _connect(ray, address)
        try:
            _require_same_versions(ray)
            yield
        finally:
            with contextlib.redirect_stdout(io.StringIO()):  # what Ray still wanted to tell
                ray.shutdown()


def require_address(address: str) -> None:
    """Refuse what cannot be an address, before anything is touched."""
    host, _colon, port = address.rpartition(":")
    is_known = address in (LOCAL, AUTO)
    if not is_known and (not host or "/" in address or not port.isdigit() or int(port) > 65535):
        raise ConfigError(
            f"--ray is {address!r}, expected HOST:PORT of the cluster's head, auto for the cluster"
            " that this machine belongs to, or local to start one here"
        )


def load_ray() -> ModuleType:
    """Import Ray, or say what to install."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(f'a cluster needs {error.name}; run pip install "quoth[cluster]"') from (
            error
        )
    module: ModuleType = ray
    return module


def load_serve() -> ModuleType:
    """Import Ray Serve, whose modules warn of what they use themselves, or say what to install."""
    load_ray()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray.serve
            import ray.serve.exceptions
    except ImportError as error:
        raise MissingExtra(
            f'serving from a cluster needs {error.name}; run pip install "quoth[cluster]"'
        ) from error
    module: ModuleType = ray.serve
    return module


def own_address() -> str:
    """Return the address of this machine in the cluster that the process belongs to."""
    return str(load_ray().util.get_node_ip_address())


def _connect(ray: ModuleType, address: str) -> None:
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        settings["include_dashboard"] = False
    try:
        ray.init(address=address, **settings)
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        ray.shutdown()
        raise ClusterError(_explain(address, " ".join(str(error).split()))) from error


def _explain(address: str, reason: str) -> str:
    """Say why a cluster cannot be joined, from what Ray said."""
    if "Version mismatch" in reason:
        return (
            f"the cluster at {address} runs other versions than this machine ({reason[:300]});"
            " install the same Python and Ray on all machines"
        )
    if address == AUTO:
        return (
            "this machine belongs to no Ray cluster; start one with ray start --head, or name the"
            f" address of one ({reason[:200]})"
        )
    return f"the Ray cluster at {address} cannot be joined: {reason[:300]}"


def _require_answer(address: str) -> None:
    """Try the address first: Ray itself would try for minutes."""
    host, _colon, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS) as link:
            link.sendall(_GREETING)
            answer = link.recv(_FRAME_HEADER, socket.MSG_WAITALL)
        reason = "" if answer[3:4] == _SETTINGS else "something else answers there"
    except ConnectionRefusedError:
        reason = "it refused the connection"
    except OSError as error:
        reason = str(error)
    if reason:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({reason}); start one with ray start --head"
            f" --port={port}, or name another address"
        )


def _versions() -> dict[str, str]:
    """Tell what this machine runs; asked of every node."""
    import ray

    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "Ray": str(ray.__version__),
        "Quoth": quoth.__version__,
    }


def _require_same_versions(ray: ModuleType) -> None:
    """Ask every node what it runs, and refuse a cluster that would compute differently."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    own = _versions()
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    ask = ray.remote(num_cpus=0, max_retries=0)(_versions)
    asked = {
        ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(identity, soft=False)
        ).remote(): name
        for identity, name in nodes.items()
    }
    problems = []
    for answer, name in asked.items():
        try:
            problems += _differences(name, ray.get(answer), own)
        except (ray.exceptions.RayError, ImportError) as error:
            problems.append(f"{name} cannot run Quoth ({_last_line(error)})")
    if problems:
        raise ClusterError(
            "the machines of the cluster differ: "
            + "; ".join(sorted(set(problems)))
            + "; install the same versions of Python, ray and quoth on all of them"
        )


def _differences(name: str, found: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Say in which versions a node differs.

    >>> _differences("n1", {"Ray": "2.60", "Quoth": "0.1"}, {"Ray": "2.60", "Quoth": "0.2"})
    ['n1 has Quoth 0.1, this machine 0.2']
    """
    return [
        f"{name} has {what} {version}, this machine {own[what]}"
        for what, version in found.items()
        if version != own[what]
    ]


def _last_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1][:200] if str(error).strip() else type(error).__name__


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set what Ray reads from the environment, and put back what was there."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Ray says of itself, warnings included, out of what commands print."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(_WithoutRay(sys.stdout)):
        warnings.filterwarnings("ignore", module=r"ray(\.|$)")
        yield


class _WithoutRay(io.TextIOBase):
    """Standard output, but what Ray's threads print (a machine was lost) goes to our log."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Write, or log."""
        if not threading.current_thread().name.startswith("ray_"):
            return self._inner.write(text)
        if text.strip():
            _logger.info("%s", text.strip())
        return len(text)

    def flush(self) -> None:
        """Flush what was written."""
        self._inner.flush()

    def isatty(self) -> bool:
        """Whether a terminal is behind it."""
        return self._inner.isatty()

    def fileno(self) -> int:
        """The file behind it."""
        return self._inner.fileno()


def hush(name: str) -> None:
    """Have one of Ray's loggers write to its file alone."""
    for handler in logging.getLogger(name).handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.CRITICAL + 1)
