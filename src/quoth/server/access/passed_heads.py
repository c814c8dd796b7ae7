"""Heads of requests that need not be judged again.

A crowd sends the same few headers over and over. Where the server has no keys, whether a head may
pass depends on its method and path, on Host and Content-Type, and on a large Content-Length:
`AccessPolicy` and `GuardedRoute.check_head` read nothing else. So one that passed once always does.
With keys nothing is remembered, since they change, expire, and may be used too often.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Scope

_Key = tuple[str, str, bytes, bytes]

_MOST = 256
_LONGEST = 256
_DIGITS_OF_SMALL = 6


class PassedHeads:
    """The heads that passed, as far as they can be told by a few short values."""

    def __init__(self) -> None:
        self._keys: set[_Key] = set()

    def has(self, key: _Key | None) -> bool:
        """Whether such a head has passed."""
        return key in self._keys

    def add(self, key: _Key | None) -> None:
        """Remember a head that passed; whoever sends many different ones fills no memory."""
        if key is None:
            return
        if len(self._keys) >= _MOST:
            self._keys.clear()
        self._keys.add(key)


def header_by_name(scope: Scope) -> dict[bytes, bytes]:
    """Return the first header of each name, which is the one that counts.

    >>> header_by_name({"headers": [(b"host", b"a"), (b"host", b"b")]})
    {b'host': b'a'}
    """
    return dict(reversed(scope["headers"]))


def key_of_head(scope: Scope, headers: Mapping[bytes, bytes]) -> _Key | None:
    """Return what decides whether a head may pass; None where it has to be judged by itself.

    >>> scope = {"method": "POST", "path": "/search"}
    >>> key_of_head(scope, {b"host": b"a", b"content-length": b"12", b"accept": b"*/*"})
    ('POST', '/search', b'a', b'')
    >>> key_of_head(scope, {b"host": b"a", b"content-length": b"99999999"}) is None
    True
    """
    length = headers.get(b"content-length", b"0")
    if len(length) > _DIGITS_OF_SMALL or not length.isdigit():
        return None
    host, kind = headers.get(b"host", b""), headers.get(b"content-type", b"")
    if len(host) + len(kind) > _LONGEST:
        return None
    return scope["method"], scope["path"], host, kind
