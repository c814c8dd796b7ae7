"""Who may do what: every route declares the access it needs, and is authorised as it runs.

A request is authorised by the route that is about to run, not by what its path looks like, so
nothing that a path can be made to look like opens a route. A route that declares nothing cannot be
made: `GuardedRoute` and `require_declared` refuse it before the server starts.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from quoth.server.access.keys import Key, Keys, allows
from quoth.server.access.rates import RateLimiter
from quoth.server.errors import (
    KeyExpired,
    KeyRequired,
    KeyUnknown,
    NotAllowed,
    RateLimited,
    TooLarge,
    UnsupportedMediaType,
)
from quoth.settings.server import MAX_BODY_BYTES

Access = Literal["open", "observe", "read", "write"]
"""What a route needs: nothing, or a key whose scope allows as much."""

TOO_LARGE = f"the body is longer than {MAX_BODY_BYTES:,} bytes; send less at a time"

_POLICY = "quoth.policy"
_GUARDED = "quoth.guarded"
_BODIES = ("POST", "PUT", "PATCH")
_E = TypeVar("_E", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Hosts to answer to (None: any), keys (None: none needed), and whether writes are allowed."""

    hosts: frozenset[str] | None
    keys: Keys | None
    writes: bool
    requests_per_minute: int = 0
    """How often a key without a limit of its own may be used; 0: as often as it likes."""

    _limiter: RateLimiter = field(default_factory=RateLimiter)

    def check_host(self, headers: Headers) -> None:
        """Refuse a request that was sent to a name which is not ours."""
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.hosts is not None and name.strip("[]").lower() not in self.hosts:
            raise NotAllowed(
                f"this server does not answer to the host name {name[:100]!r};"
                " use 127.0.0.1, or start it with --server.hosts"
            )

    def authorise(self, access: Access, headers: Headers) -> str:
        """Refuse a request that the route may not serve; return the name of the key it carries."""
        if access == "open":
            return ""
        key = None if self.keys is None else self._find_key(self.keys, headers)
        if key is not None and not allows(key.scope, access):
            raise NotAllowed(f"this key may {key.scope}, but not {access}")
        if access == "write" and not self.writes:
            raise NotAllowed("this server takes no documents; start it with --allow-writes")
        if key is not None:
            self._limit(key)
        return "" if key is None else key.name

    def _find_key(self, keys: Keys, headers: Headers) -> Key:
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise KeyRequired('a key is needed: send the header "Authorization: Bearer KEY"')
        key = keys.find(secret.strip())
        if key is None:
            raise KeyUnknown("this server does not know the key; ask whoever runs it for one")
        if key.is_expired(datetime.datetime.now(datetime.UTC)):
            raise KeyExpired(f"the key expired on {key.expires}; ask whoever runs the server")
        return key

    def _limit(self, key: Key) -> None:
        most = key.per_minute or self.requests_per_minute
        wait = self._limiter.admit(key.name, most, time.monotonic()) if most else 0.0
        if wait > 0.0:
            raise RateLimited(
                f"the key {key.name!r} allows {most:,} requests a minute; wait {wait:.1f} seconds",
                retry_seconds=wait,
            )


Admits = Callable[[int], None]
"""Complains where a request would be refused now, given how many were let in just before it."""


def _admit(_ahead: int) -> None:
    """Admit everybody."""


# Declaring ---------------------------------------------------------------------------------------


def declares(access: Access, *, admits: Admits = _admit) -> Callable[[_E], _E]:
    """Declare what the route of an endpoint needs.

    `admits` complains where a request would be refused anyway, however it reads.
    """

    def declare(endpoint: _E) -> _E:
        endpoint.access = access  # type: ignore[attr-defined]
        endpoint.admits = admits  # type: ignore[attr-defined]
        return endpoint

    return declare


class GuardedRoute(APIRoute):
    """A route that authorises each request before it reads anything of its body."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        access: Access | None = getattr(endpoint, "access", None)
        if access is None:
            raise TypeError(f"the route {path} declares no access; put @declares(…) above it")
        self.access: Access = access
        self.admits: Admits = getattr(endpoint, "admits", _admit)
        super().__init__(path, endpoint, **given)

    @property
    def expects_crowds(self) -> bool:
        """Whether requests may be refused however they read."""
        return self.admits is not _admit

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed."""
        if scope.pop(_GUARDED, None) is not self:
            self.guard(scope)
        await super().handle(scope, receive, send)

    def has_passed(self, scope: Scope) -> bool:
        """Whether this route was asked already, and let the request in."""
        return scope.get(_GUARDED) is self

    def guard(self, scope: Scope, *, ahead: int = 0) -> None:
        """Refuse a request that is not allowed, or that there is no room for, body unread.

        `ahead` is how many have been let in that are not yet where they want to go.
        """
        self.check_head(scope)
        self.check_room(scope, ahead=ahead)

    def check_head(self, scope: Scope) -> None:
        """Refuse a request that is not allowed, whatever its body says and however many ask.

        Without keys that depends on nothing but the method and a few headers, see `passed_heads`.
        """
        _authorise(self.access, scope)
        if self.takes_body(scope["method"]):
            _require_json(Headers(scope=scope))

    def check_room(self, scope: Scope, *, ahead: int = 0) -> None:
        """Refuse a request that there is no room for, before anything is parsed."""
        if self.takes_body(scope["method"]):
            self.admits(ahead)

    def takes_body(self, method: str) -> bool:
        """Whether a request by this method has a body that is read."""
        return method in _BODIES and method in (self.methods or ())


class EarlyGuards:
    """Guards of routes that crowds come to, asked before a request is passed on to be routed.

    A route that was asked already serves the request without asking again. Any other route asks its
    own guard, so nothing depends on whether the one that was found here is the one that runs.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, GuardedRoute) and route.expects_crowds
            for method in route.methods or ()
        }

    def find(self, scope: Scope) -> GuardedRoute | None:
        """Return the route of a request where crowds are expected there."""
        return self._routes.get((scope["method"], scope["path"]))

    def check(self, scope: Scope, *, ahead: int = 0) -> None:
        """Refuse a request that its route would refuse; whoever was asked already may pass."""
        route = self.find(scope)
        if route is not None and scope.get(_GUARDED) is not route:
            scope["route"] = route  # which a refusal is counted for
            route.check_head(scope)
            self.check_room(scope, route, ahead=ahead)

    def check_room(self, scope: Scope, route: GuardedRoute, *, ahead: int = 0) -> None:
        """Refuse a request to a route that was found for it, where only room can be wanting.

        Its head has passed, or one that is judged alike.
        """
        scope["route"] = route
        route.check_room(scope, ahead=ahead)
        scope[_GUARDED] = route


class GuardedForeignRoute(BaseRoute):
    """A route that another library made, behind a declaration of ours."""

    def __init__(self, route: BaseRoute, access: Access, *, methods: Collection[str]) -> None:
        """Let requests by these methods pass, whatever else the route would take."""
        self.access: Access = access
        self.path = str(getattr(route, "path", "other"))
        self._route = route
        self.methods = methods

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match what the route matches."""
        return self._route.matches(scope)

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        """Name no address: nothing links here by name."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed."""
        _authorise(self.access, scope)
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(self.methods)})
        await self._route.handle(scope, receive, send)


def require_declared(routes: Iterable[BaseRoute]) -> None:
    """Refuse routes that authorise nobody."""
    for route in routes:
        if not isinstance(route, GuardedRoute | GuardedForeignRoute):
            name = getattr(route, "path", route)
            raise TypeError(f"the route {name} is not guarded; it must declare what it needs")


def put_policy(scope: Scope, policy: AccessPolicy) -> None:
    """Hand the policy to whichever route will run."""
    scope[_POLICY] = policy


def may_write(scope: Scope) -> bool:
    """Whether a request of this client would be allowed to write."""
    policy: AccessPolicy = scope[_POLICY]
    if not policy.writes or policy.keys is None:
        return policy.writes
    _scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
    key = policy.keys.find(secret.strip())
    return key is not None and allows(key.scope, "write")


def _authorise(access: Access, scope: Scope) -> None:
    """Refuse a request that is not allowed; nothing of its body has been read."""
    headers = Headers(scope=scope)
    policy: AccessPolicy = scope[_POLICY]
    scope["state"]["key"] = policy.authorise(access, headers)
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > MAX_BODY_BYTES:
        raise TooLarge(TOO_LARGE)


def _require_json(headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        found = f"{kind[:100]!r}" if kind else "no content type"
        raise UnsupportedMediaType(f"found {found}, expected Content-Type: application/json")
