"""Behind a proxy: whose word is taken for who asks and under which name, and a prefix of paths.

The prefix is cut off before the application sees a path, so that routes, keys and the log know one
form of each path. A proxy that cuts it off itself is served as well.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from quoth.settings.server import ServerConfig


def behind_proxy(app: Any, config: ServerConfig) -> Any:
    """Return the application as proxies may call it; as it is where there are none."""
    if config.path_prefix:
        app = _Prefixed(app, config.path_prefix)
    if config.proxies:
        trusting = ProxyHeadersMiddleware(app, trusted_hosts=list(config.proxies))
        app = _Named(trusting, config.proxies)
    return app


class _Named:
    """Takes the host name from X-Forwarded-Host where a trusted proxy sends it."""

    def __init__(self, app: Any, proxies: Sequence[str]) -> None:
        self._app = app
        self._networks = [ipaddress.ip_network(each) for each in proxies]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._trusts(scope.get("client")):
            given = [value for name, value in scope["headers"] if name == b"x-forwarded-host"]
            host = given[-1].rsplit(b",", 1)[-1].strip() if given else b""
            if host:
                others = [each for each in scope["headers"] if each[0] != b"host"]
                scope = {**scope, "headers": [(b"host", host), *others]}
        await self._app(scope, receive, send)

    def _trusts(self, client: tuple[str, int] | None) -> bool:
        if not client:
            return False
        address = ipaddress.ip_address(client[0])
        return any(address in network for network in self._networks)


class _Prefixed:
    """Cuts a prefix off paths; no response of ours points to a path of its own."""

    def __init__(self, app: Any, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not _is_under(scope["path"], self._prefix):
            await self._app(scope, receive, send)
        elif scope["path"] == self._prefix:
            await _redirect(send, self._prefix + "/", scope["query_string"])
        else:
            raw = scope["raw_path"].removeprefix(self._prefix.encode())
            path = scope["path"].removeprefix(self._prefix)
            inner = {**scope, "path": path, "raw_path": raw}
            await self._app(inner, receive, send)


def _is_under(path: str, prefix: str) -> bool:
    """Say whether a path is the prefix, or goes on from it.

    >>> [_is_under(path, "/notes") for path in ("/notes", "/notes/", "/notes/a", "/notesa", "/")]
    [True, True, True, False, False]
    """
    return path == prefix or path.startswith(prefix + "/")


async def _redirect(send: Any, path: str, query: bytes) -> None:
    location = path.encode() + (b"?" + query if query else b"")
    headers = [(b"location", location), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
