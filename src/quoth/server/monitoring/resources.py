"""What the system says of this process: memory and open descriptors."""

from __future__ import annotations

import errno
import math
import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_DESCRIPTORS = Path("/proc/self/fd")


def memory_bytes() -> int:
    """Return resident memory; its peak where the system does not tell the present."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:  # no such file here, or no descriptor is left to open it
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def open_descriptors() -> int | None:
    """Return how many files and connections are open; None where the system does not tell."""
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1  # listing them takes one
    except OSError as error:
        limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return limit if error.errno == errno.EMFILE else None


def max_descriptors() -> float | None:
    """Return how many may be open; None where the system does not tell how many are."""
    if not _DESCRIPTORS.exists():
        return None
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit
