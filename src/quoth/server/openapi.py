"""The description of the interface at /openapi.json: who may call what, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from quoth.server.access.policy import GuardedRoute

STATUSES = (400, 401, 403, 404, 408, 413, 415, 422, 429, 431, 500, 503)
"""Every status of an error; a route has those that it can answer with."""

_ALWAYS = {400, 403, 408, 431, 500, 503}
"""What any request may get: a bad path or head, a wrong host name, a failure, no room."""

_SCHEME = "HTTPBearer"
_SECURITY = {
    _SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A key; needed where the server was started with --keys.",
    }
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Describe all routes; those that are open say so, and each lists what it may answer."""
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        servers=app.servers or None,
    )
    description["components"]["securitySchemes"] = _SECURITY
    for route in _routes_of(app.routes):
        for method in route.methods or ():
            operation = description["paths"][route.path_format][method.lower()]
            operation["security"] = [] if route.access == "open" else [{_SCHEME: []}]
            operation["responses"] = _keep_possible(operation, route)
    return description


def _routes_of(routes: Sequence[BaseRoute]) -> list[GuardedRoute]:
    return [each for each in routes if isinstance(each, GuardedRoute) and each.include_in_schema]


def _keep_possible(operation: Mapping[str, Any], route: GuardedRoute) -> dict[str, Any]:
    """Keep the responses that a route can give."""
    possible = set(_ALWAYS)
    if route.access != "open":
        possible |= {401, 404, 413, 429}
    if "requestBody" in operation:
        possible |= {413, 415, 422}
    if "parameters" in operation:
        possible |= {404, 422}
    return {
        status: response
        for status, response in operation["responses"].items()
        if status.startswith("2") or int(status) in possible
    }
