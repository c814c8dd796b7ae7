"""The Model Context Protocol: a collection as tools for assistants, on the official Python SDK.

`quoth serve COLLECTION --mcp` speaks it over standard input and output; a server that listens at an
address speaks it over HTTP as well, at `/mcp`. Nothing of the SDK is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from quoth.errors import MissingExtra

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.routing import BaseRoute

    from quoth.server.mcp.tools import OnEngine
    from quoth.shards.opening import OpenedEngine

PATH = "/mcp"
"""Where a server that listens at an address speaks it."""

METHODS = ("POST",)
"""How it is spoken there; the protocol has 405 for servers without streams of their own.

GET would open one that holds a connection until the client leaves. Nothing would ever be sent on
it, since requests share no state."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BothEngines:
    """What searches and reads documents, and what answers questions; neither awaits the other."""

    reading: OnEngine
    answering: OnEngine


def create_mcp(reading: OnEngine, answering: OnEngine) -> MCPServer:
    """Make a server with the tools search, ask and fetch_passage; it serves nothing yet.

    `ask` works by `answering`, the other two by `reading`.
    """
    try:
        from quoth.server.mcp.tools import make_server
    except ImportError as error:
        raise MissingExtra(
            f"the Model Context Protocol needs {error.name or error}, which is not installed; "
            'run: pip install "quoth[server]"'
        ) from error
    return make_server(reading, answering)


def run_stdio(engine: OpenedEngine) -> None:
    """Serve over standard input and output until the input ends; what is printed goes elsewhere."""
    with beside(engine) as engines:
        create_mcp(engines.reading, engines.answering).run("stdio")


def make_routes(server: MCPServer, *, hosts: Sequence[str] | None) -> list[BaseRoute]:
    """Return the routes by which a web application speaks it at `PATH`.

    Requests to other host names than these are refused, so that no foreign page reaches it under a
    name of its own; None is for applications that ask for keys. The application must be inside
    `server.session_manager.run()` while it serves. Each request stands for itself: no session is
    kept, so none is lost when the server starts again.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    names = [f"[{host}]" if ":" in host else host for host in hosts or ()]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=hosts is not None,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins)],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        transport_security=security,
    )
    return list(app.routes)


@contextlib.contextmanager
def beside(engine: OpenedEngine) -> Iterator[BothEngines]:
    """Open two engines beside one, which share models: each does one piece of work at a time."""
    from quoth.server.monitoring.timings import StageTimes
    from quoth.server.workers.models import share_engine

    make = share_engine(engine, StageTimes())
    with make() as reader, make() as answerer:
        yield BothEngines(_one_at_a_time(reader), _one_at_a_time(answerer))


def _one_at_a_time(worker: OpenedEngine) -> OnEngine:
    """Return what does work in another thread, one piece after another."""
    import anyio

    limiter = anyio.CapacityLimiter(1)

    async def on_engine(work: Callable[[OpenedEngine], _T], /) -> _T:
        return await anyio.to_thread.run_sync(functools.partial(work, worker), limiter=limiter)

    return on_engine
