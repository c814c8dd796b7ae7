"""Write requirements.lock: every package of the test environment, pinned, with its hash.

    python -m pip install --dry-run --ignore-installed --report report.json \\
        torch==2.13.0 hatchling editables ".[dev]"
    python tools/lock.py report.json requirements.lock

`make LOCKED=1 demo` and `make LOCKED=1 test` then install with --require-hashes. The hashes are
those of the files that pip chose on this platform. torch and what comes with it for a GPU are left
out: they are another file for each kind of machine, so that only torch's version is pinned.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_HEAD = """\
# Made by tools/lock.py; see there how. Python {python}, {platform}.
"""
_PER_MACHINE = re.compile(r"torch|triton|cuda-.*|nvidia-.*")


def main() -> None:
    """Turn pip's report into a file of requirements."""
    report, out = (Path(each) for each in sys.argv[1:3])
    out.write_text(write_lock(json.loads(report.read_text())), encoding="utf-8")


def write_lock(report: dict[str, Any]) -> str:
    """Write one requirement per package that comes from an index, in the order of names.

    >>> about = {"metadata": {"name": "typer", "version": "1.0"}, "is_direct": False}
    >>> file = {"download_info": {"archive_info": {"hashes": {"sha256": "ab"}}}}
    >>> at = {"python_full_version": "3.11.1", "platform_system": "Linux", "platform_machine": "x"}
    >>> print(write_lock({"environment": at, "install": [about | file]}), end="")
    # Made by tools/lock.py; see there how. Python 3.11.1, Linux x.
    typer==1.0 --hash=sha256:ab
    """
    at = report["environment"]
    platform = f"{at['platform_system']} {at['platform_machine']}"
    lines = sorted(
        _line(each)
        for each in report["install"]
        if "archive_info" in each["download_info"]
        and not _PER_MACHINE.fullmatch(each["metadata"]["name"])
    )
    return _HEAD.format(python=at["python_full_version"], platform=platform) + "".join(lines)


def _line(package: dict[str, Any]) -> str:
    about, hashes = package["metadata"], package["download_info"]["archive_info"]["hashes"]
    return f"{about['name'].lower()}=={about['version']} --hash=sha256:{hashes['sha256']}\n"


if __name__ == "__main__":
    main()
