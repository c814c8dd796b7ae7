"""Compare what is installed with advisories in a local file, without a network.

    python tools/audit.py ADVISORIES [--lock requirements.lock]

ADVISORIES is a folder of JSON files in the format of the Open Source Vulnerabilities project, as
its database of PyPI is offered for download (all.zip, unpacked). Names every package in the lock
whose version an advisory lists, and exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")


def main() -> None:
    """Print what is affected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("advisories", type=Path)
    parser.add_argument("--lock", type=Path, default=Path("requirements.lock"))
    given = parser.parse_args()
    pinned = read_lock(given.lock.read_text(encoding="utf-8"))
    files = sorted(given.advisories.rglob("*.json"))
    if not files:
        raise SystemExit(f"{given.advisories} holds no advisories (*.json)")
    found = [line for path in files for line in affected(json.loads(path.read_text()), pinned)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.stdout.write(f"{len(pinned):,} packages, {len(files):,} advisories, {len(found):,} found\n")
    sys.exit(bool(found))


def read_lock(text: str) -> dict[str, str]:
    """Read the versions of a lock by normalised name.

    >>> read_lock("# head\\nTyper_x==1.0 --hash=sha256:ab\\n")
    {'typer-x': '1.0'}
    """
    matches = (_PINNED.match(line) for line in text.splitlines())
    return {_normalise(match[1]): match[2] for match in matches if match}


def affected(advisory: Mapping[str, Any], pinned: Mapping[str, str]) -> Iterator[str]:
    """Say which pinned packages an advisory is about."""
    if "withdrawn" in advisory:
        return
    for each in advisory.get("affected", ()):
        package = each.get("package", {})
        name = _normalise(package.get("name", ""))
        if package.get("ecosystem") == "PyPI" and name in pinned and _holds(each, pinned[name]):
            yield f"{name} {pinned[name]}: {advisory['id']} {advisory.get('summary', '')}".rstrip()


def _holds(affected: Mapping[str, Any], version: str) -> bool:
    """Whether a version is listed, or in one of the ranges.

    >>> _holds({"ranges": [{"events": [{"introduced": "0"}, {"fixed": "2.0"}]}]}, "1.9")
    True
    >>> _holds({"ranges": [{"events": [{"introduced": "0"}, {"fixed": "2.0"}]}]}, "2.0")
    False
    """
    if version in affected.get("versions", ()):
        return True
    return any(_in_range(each, Version(version)) for each in affected.get("ranges", ()))


def _in_range(given: Mapping[str, Any], version: Version) -> bool:
    if given.get("type", "ECOSYSTEM") == "GIT":
        return False
    inside = False
    for event in given.get("events", ()):
        try:
            if "introduced" in event and version >= Version(event["introduced"]):
                inside = True
            if "fixed" in event and version >= Version(event["fixed"]):
                inside = False
            if "last_affected" in event and version > Version(event["last_affected"]):
                inside = False
        except InvalidVersion:
            continue
    return inside


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
