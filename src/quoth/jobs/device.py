"""Where training happens: a GPU if there is one, unless told otherwise."""

from __future__ import annotations

import torch

from quoth.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """Find the device that is meant; auto takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise ConfigError(f"device is {name!r}, expected auto, cpu, cuda or cuda:N")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise ConfigError(
            f"device is {name!r}, but torch finds {found or 'no'} such device here; use --device"
            " auto"
        )
    return torch.device(name)
