"""Whether the compiled part of Quoth is there: quoth.native, made of the sources in native/.

It is built while Quoth is installed, where there is a compiler. Without it everything works, only
slower, so whoever uses it asks here first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

INTERFACE = 3
"""Calls and files that these modules expect; another build is not used."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_logger = logging.getLogger(__name__)


@functools.cache
def is_compiled() -> bool:
    """Whether the compiled part can be used."""
    try:
        from quoth.native import INTERFACE as BUILT
    except ImportError:
        return False
    if BUILT == INTERFACE:
        return True
    _logger.warning(
        "the compiled part of Quoth belongs to another version and is not used; install again"
    )
    return False


def quick(record: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return what makes records of a frozen class with slots from all their values, in order.

    They are those that calling the class gives, several times as fast where the compiled part is
    there. So the class must do nothing else when a record is made.
    """
    if not is_compiled():
        return record
    from quoth.native import maker

    return maker(record)
