"""Take values of options as they are where they need no conversion.

typer converts each value by an adapter that pydantic builds, whether or not anything was given.
That takes longer than most commands work, and nearly all options are texts that nobody gave.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_UNCHECKED = {
    **dict.fromkeys(("exists", "writable", "resolve_path", "allow_dash"), False),
    **dict.fromkeys(("file_okay", "dir_okay"), True),
    **dict.fromkeys(("path_type", "parser"), None),
}
"""What is declared of a path of which only reading is checked, and only where it exists."""

_MISSING = object()


def spare_conversion(option: Any) -> None:
    """Let an option or argument convert its value only where that changes something."""
    convert = option.process_value
    descriptor = getattr(option, "type_descriptor", None)
    if descriptor is None or "process_value" in vars(option):  # of an older typer, or done before
        return

    def process(context: Any, value: Any) -> Any:
        found = _as_given(option, descriptor, value)
        if found is _MISSING:
            return convert(context, value)
        return found if option.callback is None else option.callback(context, option, found)

    option.process_value = process


def _as_given(option: Any, descriptor: Any, value: Any) -> Any:
    """Return what a value is converted to, `_MISSING` where that is left to typer."""
    kind, takes_many = (
        descriptor.annotation,
        option.nargs != 1 or getattr(option, "multiple", False),
    )
    if value is None and not option.required:
        return () if takes_many else None
    if takes_many:
        return _MISSING
    if type(value) is kind and kind in (str, int, float):
        return value
    if kind is Path and type(value) is str and _is_plain_path(descriptor.parameter_info, value):
        return Path(value)
    return _MISSING


def _is_plain_path(declared: Any, path: str) -> bool:
    if any(getattr(declared, name, _MISSING) != value for name, value in _UNCHECKED.items()):
        return False
    return not os.path.exists(path) or os.access(path, os.R_OK)
