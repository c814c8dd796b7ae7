"""Ask for the optional dependencies of this room only where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quoth.errors import MissingExtra


@contextmanager
def eval_extra(purpose: str) -> Iterator[None]:
    """Turn a failed import in the `with` block into an error that says what to install.

    >>> with eval_extra("counting sheep"):
    ...     import no_such_package_of_sheep
    Traceback (most recent call last):
        ...
    quoth.errors.MissingExtra: counting sheep needs no_such_package_of_sheep, which is not \
installed; run: pip install "quoth[eval]"
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {error.name or error}, which is not installed; "
            'run: pip install "quoth[eval]"'
        ) from error
