"""What this machine's processor is quick at, told without loading torch."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import sys
from pathlib import Path

_INT8 = {"avx512_vnni", "avx_vnni", "asimddp"}  # without, x86 adds in 16 bits, which overflow
_BF16 = {"amx_tile", "avx512_bf16"}
_APPLE = frozenset({"asimddp"})  # what all of Apple's own processors can do; macOS has no list


@functools.cache
def processor_flags() -> frozenset[str]:
    """List what the processor says that it can do; nothing where the system does not tell.

    The names are those of Linux, which tells of `flags` on x86 and of `Features` on ARM.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        is_apple = sys.platform == "darwin" and platform.machine() == "arm64"
        return _APPLE if is_apple else frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def has_fast_int8() -> bool:
    """Whether this processor multiplies int8 matrices in hardware."""
    return not _INT8.isdisjoint(processor_flags())


def has_fast_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware."""
    return not _BF16.isdisjoint(processor_flags())


@functools.cache
def has_onnx() -> bool:
    """Whether ONNX Runtime is installed, told without loading it."""
    return importlib.util.find_spec("onnxruntime") is not None


def num_threads() -> int:
    """Return the number of threads to work with: OMP_NUM_THREADS, else as many as processors."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(asked) if asked.isdecimal() and int(asked) else usable or 1
