"""Searches that are served straight, since most of what a server is asked is one of them.

What a framework does for a request of any kind takes a good part of the time of one whose kind is
known: to route it, to look for what it depends on, to describe its response. A search whose guard
has let it in, and whose body is as it should be, needs none of that. Anything else about it is left
to the application, which gets it as if nobody had looked: it says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quoth.errors import QuothError
from quoth.server.access.passed_heads import header_by_name
from quoth.server.access.policy import GuardedRoute
from quoth.server.errors import RequestError

MAX_BYTES = 65_536
"""Longest body that is read here; one of a search is far shorter."""

_JSON = b"application/json"
_DIGITS = len(str(MAX_BYTES))


def serve_directly(
    app: FastAPI, path: str, *, model: type[BaseModel], answer: Callable[[Any], Awaitable[bytes]]
) -> None:
    """Have the innermost layer of an application serve the route of a path by itself.

    The route takes what the model describes and gives JSON; its guard has to be asked early.
    """
    (route,) = (each for each in app.routes if isinstance(each, GuardedRoute) and each.path == path)
    tell = app.exception_handlers[QuothError]
    app.add_middleware(_Direct, route=route, model=model, answer=answer, tell=tell)


class _Direct:
    """The layer of one route."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        route: GuardedRoute,
        model: type[BaseModel],
        answer: Callable[[Any], Awaitable[bytes]],
        tell: Callable[..., Any],
    ) -> None:
        self._app = app
        self._route = route
        self._model = model
        self._answer = answer
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of this route; pass on all others."""
        if not self._route.has_passed(scope) or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        messages = await _read(receive)
        posted = _parse(self._model, messages)
        if posted is None:
            await self._app(scope, _again(messages, receive), send)
            return
        try:
            body = await self._answer(posted)
        except (QuothError, RequestError) as error:
            response = await self._tell(Request(scope), error)
            await response(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _is_plain(scope: Scope) -> bool:
    """Say whether the body of a request is JSON, and of a length that is said and not large.

    >>> _is_plain({"headers": [(b"content-type", _JSON), (b"content-length", b"27")]})
    True
    >>> _is_plain({"headers": [(b"content-type", _JSON), (b"content-length", b"270000")]})
    False
    """
    headers = header_by_name(scope)
    length = headers.get(b"content-length", b"")
    return (
        headers.get(b"content-type") == _JSON
        and length.isdigit()
        and len(length) <= _DIGITS
        and int(length) <= MAX_BYTES
    )


async def _read(receive: Receive) -> list[Message]:
    """Read a body, or what comes of it before the client leaves."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


def _parse(model: type[BaseModel], messages: list[Message]) -> BaseModel | None:
    """Return what was posted; None where it is not as it should be, or the client has left."""
    if messages[-1]["type"] != "http.request":
        return None
    try:
        return model.model_validate(json.loads(b"".join(each["body"] for each in messages)))
    except (ValueError, RecursionError):  # that of a model is a ValueError as well
        return None


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Return what receives these messages once more, and then what is still to come."""
    left = iter(messages)

    async def receive_again() -> Message:
        message = next(left, None)
        return await receive() if message is None else message

    return receive_again
