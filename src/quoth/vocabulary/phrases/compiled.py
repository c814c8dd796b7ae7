"""Compile a function to machine code at its first call, once per machine.

The code is kept beside the module, and the interpreter's lock is released while it runs, so that
threads run such functions side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Have a function on numbers and arrays compiled by numba."""
    return cast(Function, njit(cache=True, nogil=True)(function))
