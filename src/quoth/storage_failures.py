"""Tell a disk that fails from a collection that is damaged.

A read that fails says nothing about what stands in the file: a cable, a network share or a lack of
memory may be the reason, and trying again may work. So nothing is thrown away because of it. SQLite
and Rust's libraries put the reason into a text.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from quoth.errors import StorageFailed

_FAILED = frozenset(
    getattr(errno, name)
    for name in ("EIO", "ENOMEM", "ENXIO", "ENODEV", "ESTALE", "ETIMEDOUT", "EREMOTEIO")
    if hasattr(errno, name)
)
_SAID = re.compile(
    r"\bos error (?:5|12)\b|\bcode: (?:5|12),|Input/output error|Cannot allocate memory"
)


def says_storage_failed(error: BaseException) -> bool:
    """Whether an error is the system's own failure to read or write.

    >>> says_storage_failed(OSError(errno.EIO, "Input/output error"))
    True
    >>> says_storage_failed(ValueError("Os { code: 5, kind: Other, message: ... }"))
    True
    >>> says_storage_failed(ValueError("checksum differs"))
    False
    """
    if isinstance(error, OSError) and error.errno in _FAILED:
        return True
    return bool(_SAID.search(str(error)))


def storage_failed(path: Path, error: BaseException) -> StorageFailed:
    """Make the error that says so of a file or folder."""
    return StorageFailed(
        f"{path} could not be read or written: the system reports a failure ({error});"
        " everything acknowledged before is kept, so look after the disk and try again"
    )
