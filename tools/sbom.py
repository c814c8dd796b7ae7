"""Write what is installed as a CycloneDX bill of materials, from the packages' own metadata.

    python tools/sbom.py [--out sbom.json] [--root quoth]

Lists the root package and everything it depends on in this environment, extras included where
their packages are installed. The same environment gives the same bytes: no time, no random number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def main() -> None:
    """Write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default="quoth", help="the package whose dependencies count")
    parser.add_argument("--out", type=Path, help="a file; standard output without it")
    given = parser.parse_args()
    text = json.dumps(make_bill(installed(), root=given.root), indent=1, sort_keys=True) + "\n"
    if given.out is None:
        sys.stdout.write(text)
    else:
        given.out.write_text(text, encoding="utf-8")


def installed() -> dict[str, Distribution]:
    """Return every installed package by its normalised name; the first on the path counts."""
    found: dict[str, Distribution] = {}
    for each in distributions():
        found.setdefault(normalise(each.metadata["Name"]), each)
    return found


def normalise(name: str) -> str:
    """Write a package's name as indexes compare it.

    >>> normalise("PyStemmer"), normalise("lxml_html.clean")
    ('pystemmer', 'lxml-html-clean')
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def make_bill(packages: Mapping[str, Distribution], *, root: str) -> dict[str, Any]:
    """Describe the root and everything it needs that is installed."""
    if root not in packages:
        raise SystemExit(f"{root} is not installed here")
    edges = {name: sorted(set(_needs(packages[name], packages))) for name in packages}
    reached, waiting = {root}, [root]
    while waiting:
        new = [each for each in edges[waiting.pop()] if each not in reached]
        reached.update(new)
        waiting += new
    components = [describe(packages[name]) for name in sorted(reached - {root})]
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "version": 1,
        "metadata": {"component": {**describe(packages[root]), "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": _reference(packages[name]), "dependsOn": _references(edges[name], packages)}
            for name in sorted(reached)
        ],
    }


def describe(package: Distribution) -> dict[str, Any]:
    """Describe one package: name, version, licence, and its address in the index."""
    about = package.metadata
    licence = about.get("License-Expression") or _first_line(about.get("License") or "")
    described: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(package),
        "purl": _reference(package),
        "name": about["Name"],
        "version": package.version,
    }
    if licence:
        described["licenses"] = [{"license": {"name": licence}}]
    return described


def _reference(package: Distribution) -> str:
    return f"pkg:pypi/{normalise(package.metadata['Name'])}@{package.version}"


def _references(names: list[str], packages: Mapping[str, Distribution]) -> list[str]:
    return [_reference(packages[name]) for name in names]


def _needs(package: Distribution, packages: Mapping[str, Distribution]) -> Iterator[str]:
    """Name the installed packages that a package asks for, with any of its extras."""
    for line in package.requires or ():
        wanted = Requirement(line)
        extras = _EXTRA.findall(str(wanted.marker)) if wanted.marker else []
        applies = wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in (extras or [""])
        )
        if applies and normalise(wanted.name) in packages:
            yield normalise(wanted.name)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:80] if lines else ""


if __name__ == "__main__":
    main()
