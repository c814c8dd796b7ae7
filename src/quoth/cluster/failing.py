"""What fails on the cluster, told as what it is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from quoth.cluster.connecting import load_ray
from quoth.errors import ClusterError, QuothError

_NAMED = re.compile(r"[\w.]*(Error|Exception|Exit)\b.*")


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise our own errors as they were raised on a machine of the cluster; others are named."""
    ray = load_ray()
    try:
        yield
    except ray.exceptions.RayError as error:
        cause = deepest(error)
        if isinstance(cause, QuothError):
            raise cause from None
        raise ClusterError(
            f"what ran on the cluster failed: {root_line(error)}; Ray's log files say more"
        ) from error


def deepest(error: BaseException) -> BaseException:
    """Find the error that others are wrapped around."""
    while True:
        inner = getattr(error, "cause", None) or error.__cause__
        if not isinstance(inner, BaseException):
            return error
        error = inner


def root_line(error: BaseException) -> str:
    """Return the line of a message that says what happened: in a traceback, the first error named.

    >>> root_line(RuntimeError("Traceback\\n  File x\\nKeyError: 'owl'\\nLaterError: failed"))
    "KeyError: 'owl'"
    """
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.match(line)]
    return (named or lines or [type(error).__name__])[0][:300]
