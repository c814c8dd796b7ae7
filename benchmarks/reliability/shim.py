"""Compile `failing_calls.c`, and arm it from inside a process that has it preloaded."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

KINDS = ("open", "read", "write", "sync", "rename", "truncate", "remove", "make", "map")
"""Kinds of system calls, in the order of the enumeration in `failing_calls.c`."""

MODES = ("once", "ever", "short")
"""Fail once; from then on always, as a full disk does; or do half first and fail from then on."""

WAYS: tuple[tuple[str, str, str], ...] = (
    ("open", "EMFILE", "ever"),
    ("open", "EIO", "once"),
    ("read", "EIO", "once"),
    ("read", "EIO", "short"),
    ("write", "ENOSPC", "ever"),
    ("write", "EIO", "once"),
    ("write", "ENOSPC", "short"),
    ("sync", "EIO", "once"),
    ("sync", "ENOSPC", "ever"),
    ("rename", "EIO", "once"),
    ("rename", "ENOSPC", "ever"),
    ("truncate", "ENOSPC", "ever"),
    ("remove", "EIO", "once"),
    ("make", "ENOSPC", "ever"),
    ("map", "ENOMEM", "once"),
)
"""Kind, error and mode of every fault that is tried."""

_SOURCE = Path(__file__).with_name("failing_calls.c")


@dataclass(frozen=True, slots=True)
class Fault:
    """Which call fails, and how."""

    kind: str
    at: int
    error: str
    mode: str


def find_compiler() -> str | None:
    """Name the C compiler that is there, None for none."""
    return shutil.which("cc") or shutil.which("gcc")


def compile_shim(folder: Path) -> Path:
    """Compile the library into a folder."""
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("a C compiler (cc or gcc) is needed")
    library = folder / "failing_calls.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


class Shim:
    """The preloaded library of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        try:
            self._library.failing_calls_arm.argtypes = [
                *(ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int)
            ]
            self._library.failing_calls_count.restype = ctypes.c_long
            self._library.failing_calls_struck.restype = ctypes.c_long
        except AttributeError as error:
            raise SystemExit("run this with failing_calls.so preloaded") from error

    def watch(self, folder: Path) -> None:
        """Count calls for the files below a folder, and let none fail."""
        self._library.failing_calls_arm(os.fsencode(folder), -1, 0, 0, 0)

    def arm(self, folder: Path, fault: Fault) -> None:
        """Let a call for a file below a folder fail from now on."""
        self._library.failing_calls_arm(
            os.fsencode(folder),
            KINDS.index(fault.kind),
            fault.at,
            getattr(errno, fault.error),
            MODES.index(fault.mode),
        )

    def disarm(self) -> None:
        """Let no call fail any more."""
        self._library.failing_calls_disarm()

    def counts(self) -> dict[str, int]:
        """Return the calls of each kind since it was armed."""
        return {kind: int(self._library.failing_calls_count(at)) for at, kind in enumerate(KINDS)}

    def struck(self) -> int:
        """Return how many calls failed since it was armed."""
        return int(self._library.failing_calls_struck())
