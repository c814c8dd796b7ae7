"""Several collections of one server: each at /c/NAME/, and the first at / as well.

Every collection is an application of its own, with its own workers, statistics and page; what is
here only leads requests to it. `/health/ready` answers for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PREFIX = "/c/"
_KNOWN = "quoth.collections"
_READY = "/health/ready"


@dataclass(frozen=True, slots=True)
class CollectionAddress:
    """A collection of the server, and its address relative to the page that asks."""

    name: str
    address: str
    current: bool


def name_collections(folders: Iterable[Path]) -> list[str]:
    """Name collections by their folders; a name that comes again gets a number.

    >>> name_collections([Path("a/notes.quoth"), Path("b/notes.quoth"), Path("mail.shards")])
    ['notes', 'notes-2', 'mail']
    """
    names: list[str] = []
    for folder in folders:
        stem = folder.resolve().name.removesuffix(".quoth").removesuffix(".shards") or "collection"
        name, number = stem, 1
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        names.append(name)
    return names


def addresses_from(scope: Scope) -> list[CollectionAddress]:
    """List the collections of the server that a request came to; none where it has but one."""
    names, current, is_inner = scope.get(_KNOWN, ((), "", False))
    return [
        CollectionAddress(each, f"{'../' if is_inner else 'c/'}{quote(each)}/", each == current)
        for each in names
    ]


class Collections:
    """The application that serves several collections."""

    def __init__(self, apps: Sequence[FastAPI], names: Sequence[str]) -> None:
        self.apps = tuple(apps)
        self._names = tuple(names)
        self._app_by_name: dict[str, ASGIApp] = dict(zip(names, apps, strict=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lead a request to its collection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] == "http" and scope["path"] == _READY:
            await self._answer_ready(scope, receive, send)
            return
        name, is_inner = self._name_of(scope.get("path", "")), True
        if name is None:
            name, is_inner = self._names[0], False
        await self._app_by_name[name](self._led(scope, name, is_inner=is_inner), receive, send)

    def _name_of(self, path: str) -> str | None:
        name, slash, _rest = path.removeprefix(_PREFIX).partition("/")
        is_known = path.startswith(_PREFIX) and slash and name in self._app_by_name
        return name if is_known else None

    def _led(self, scope: Scope, name: str, *, is_inner: bool) -> Scope:
        led = {**scope, _KNOWN: (self._names, name, is_inner)}
        if is_inner:
            led["path"] = scope["path"].removeprefix(f"{_PREFIX}{name}")
            raw = scope.get("raw_path", b"")
            begins = f"{_PREFIX}{quote(name)}".encode()
            if raw.startswith(begins):
                led["raw_path"] = raw.removeprefix(begins)
        return led

    async def _answer_ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the first collection that is not ready, else as the last."""
        for app in self.apps:
            messages: list[Message] = []

            async def keep(message: Message, kept: list[Message] = messages) -> None:
                kept.append(message)

            await app({**scope, "state": {}}, receive, keep)
            if messages[0]["status"] != 200:
                break
        for message in messages:
            await send(message)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start every collection's workers, and end them all."""
        await receive()
        async with AsyncExitStack() as stack:
            for app in self.apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
