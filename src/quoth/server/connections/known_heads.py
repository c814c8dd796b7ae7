"""What heads of requests say, so that the same one need not be parsed again.

In a crowd most requests differ in their bodies alone, and most are refused, which takes less time
than parsing them does. Kept is what a parser made of a head; whether a request is refused is asked
anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_END = b"\r\n\r\n"
_MOST = 512
_LONGEST = 1_024
_TOLD_APART = frozenset((b"authorization", b"cookie", b"transfer-encoding", b"x-request-id"))
"""Headers whose heads are not kept: they hold secrets, are new each time, or hide the length."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownHead:
    """A head that was parsed: what an application is told of it, and how long its body is.

    Equal to none but itself, so that what is known of it beside this is found in no time.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    num_bytes: int
    """The length of the head together with the body."""


class KnownHeads:
    """The heads that came of late, by their bytes; as many short ones as fill no memory."""

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def find(self, data: bytes) -> KnownHead | None:
        """Return the head of a request that is whole, and nothing but one request."""
        head = self._heads.get(data[: data.find(_END) + len(_END)])
        return head if head is not None and head.num_bytes == len(data) else None

    def add(
        self, data: bytes, *, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        r"""Keep what was parsed of data that held one whole request, and nothing else.

        >>> known, head = KnownHeads(), b"POST /a HTTP/1.1\r\ncontent-length: 2\r\n\r\n"
        >>> known.add(head + b"no", method="POST", path="/a", headers=[(b"content-length", b"2")])
        >>> [known.find(head + body) is None for body in (b"ok", b"o", b"okay")]
        [False, True, True]
        """
        end = data.find(_END) + len(_END)
        named = dict(headers)
        length = named.get(b"content-length", b"0")
        if end > _LONGEST or not _TOLD_APART.isdisjoint(named) or not length.isdigit():
            return
        if end + int(length) == len(data):  # or the head ends elsewhere
            if len(self._heads) >= _MOST:
                self._heads.clear()
            self._heads[data[:end]] = KnownHead(method, path, tuple(headers), len(data))
