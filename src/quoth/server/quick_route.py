"""A route that crowds come to, served without what FastAPI does for every kind of route.

A body that is plainly right is checked by the same model, and handed to the endpoint. Whatever is
not, FastAPI gets as it came, and says what is wrong with it. Guards, limits and layers around the
routes, and what becomes of errors, are the same for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import Response
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from quoth.server.access.policy import GuardedRoute

_E = TypeVar("_E", bound=Callable[..., Any])


def takes(model: type[BaseModel]) -> Callable[[_E], _E]:
    """Declare that an endpoint takes a posted body of this model alone, and gives a response."""

    def declare(endpoint: _E) -> _E:
        endpoint.takes = model  # type: ignore[attr-defined]
        return endpoint

    return declare


class QuickRoute(GuardedRoute):
    """A guarded route that reads the body itself where its endpoint declares what it takes."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        self._takes: type[BaseModel] | None = getattr(endpoint, "takes", None)
        super().__init__(path, endpoint, **given)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed."""
        if self._takes is None or not _is_plain_post(scope):
            await super().serve(scope, receive, send)
            return
        messages = await _receive_body(receive)
        try:
            posted = self._takes.model_validate(_read_json(messages))
        except (ValueError, RecursionError):
            await super().serve(scope, _again(messages, receive), send)
            return
        response: Response = await self.endpoint(posted)
        await response(scope, receive, send)


def _is_plain_post(scope: Scope) -> bool:
    kind = Headers(scope=scope).get("content-type", "")
    return scope["method"] == "POST" and kind.lower() == "application/json"


async def _receive_body(receive: Receive) -> list[Message]:
    """Receive up to the end of the body, or until the client has left."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


def _read_json(messages: Sequence[Message]) -> object:
    """Read a whole body; raises ValueError where it is none."""
    if messages[-1]["type"] != "http.request":
        raise ValueError("the client has left")
    return json.loads(b"".join(each.get("body", b"") for each in messages))


def _again(messages: Sequence[Message], receive: Receive) -> Receive:
    """Return what receives the same messages once more, and then what comes."""
    remaining = iter(messages)

    async def received() -> Message:
        for message in remaining:
            return message
        return await receive()

    return received
