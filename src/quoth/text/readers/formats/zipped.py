"""Zip packages of XML, as offices write them: opened within limits, parsed without surprises."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from quoth.records import Place, Problem
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, Whole, describe, too_large

_MOST_MEMBERS = 20_000


class Package:
    """An opened zip package."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = frozenset(archive.namelist())

    def read(self, name: str) -> bytes:
        """Return the bytes of a member."""
        return self._archive.read(name)

    def parse(self, name: str) -> Any:
        """Return the root of an XML member; nothing outside the file is ever looked at."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
        root = etree.fromstring(self.read(name), parser)
        if root is None:
            raise ValueError(f"{name} holds no XML")
        return root

    def relations(self, name: str) -> dict[str, str]:
        """Map the ids of a part's relations to the members they lead to (Office Open XML)."""
        folder, own = posixpath.split(name)
        path = posixpath.join(folder, "_rels", f"{own}.rels")
        if path not in self.names:
            return {}
        return {
            each.get("Id", ""): posixpath.normpath(posixpath.join(folder, each.get("Target", "")))
            if not each.get("Target", "").startswith("/")
            else each.get("Target", "").lstrip("/")
            for each in self.parse(path)
            if each.get("TargetMode") != "External"
        }


def read_package(
    whole: Whole, what: str, read: Callable[[Whole, Package], Outcome]
) -> Iterator[Outcome]:
    """Open a package and read it; what is wrong with it, or too large, is a problem."""
    from lxml import etree

    try:
        with zipfile.ZipFile(io.BytesIO(whole.data)) as archive:
            members = archive.infolist()
            size = sum(each.file_size for each in members)
            if size > whole.max_bytes:
                message = too_large(f"{size:,} bytes unpacked", whole.max_bytes)
                yield Problem(Place(whole.path), message)
                return
            if len(members) > _MOST_MEMBERS:
                message = f"{len(members):,} files inside, more than the {_MOST_MEMBERS:,} allowed"
                yield Problem(Place(whole.path), message)
                return
            yield read(whole, Package(archive))
    except (etree.LxmlError, zipfile.BadZipFile, *PARSER_FAILURES) as error:
        yield Problem(Place(whole.path), f"not a readable {what}: {describe(error)}")


def local_name(element: Any) -> str:
    """Return an element's name without its namespace; empty for comments.

    >>> from lxml import etree
    >>> local_name(etree.fromstring('<a:p xmlns:a="urn:x"/>'))
    'p'
    """
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str:
    """Return an attribute by its name without namespace; empty where there is none."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""
