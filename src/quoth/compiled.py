"""Whether the compiled part of Quoth is there: quoth.native, made of the sources in native/.

It is built while Quoth is installed, where there is a compiler. Without it everything works, only
slower, so whoever uses it asks here first.
"""

from __future__ import annotations

import functools
import logging

INTERFACE = 3
"""Calls and files that these modules expect; another build is not used."""

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
