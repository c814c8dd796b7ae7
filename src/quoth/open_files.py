"""Tell a process that ran out of open files from a collection that is damaged.

The system lets a process, and all processes together, have so many files open and no more. What
then fails looks like damage: SQLite only says that it cannot open a file, and Rust's libraries put
the reason into a text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

from quoth.errors import OutOfFiles

_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE))
_SAID = re.compile(r"\bos error (?:23|24)\b|Too many open files")
_NEEDED = 8  # a database, its log, its index and its journal, and some for whoever comes between


def says_out_of_files(error: BaseException) -> bool:
    """Whether an error is about too many open files.

    >>> says_out_of_files(OSError(errno.EMFILE, "Too many open files"))
    True
    >>> says_out_of_files(ValueError("cannot open: Os { code: 24, message: Too many open files }"))
    True
    """
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return True
    return bool(_SAID.search(str(error)))


def can_open_files() -> bool:
    """Whether this process can open a few more files."""
    with contextlib.ExitStack() as opened:
        try:
            for _number in range(_NEEDED):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return error.errno not in _EXHAUSTED
    return True


def out_of_files(path: Path) -> OutOfFiles:
    """Make the error that says so of a file or folder."""
    return OutOfFiles(
        f"{path} could not be opened: too many files are open; nothing is damaged, so raise the"
        " limit (ulimit -n), or close other programs and collections, and try again"
    )
