"""Books (epub): their chapters in reading order, headings as `# Heading` lines."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from quoth.records import Scalar
from quoth.text.readers.formats.zipped import Package, attribute, local_name, read_package
from quoth.text.readers.outcomes import Outcome, Whole, file_document

_CONTAINER = "META-INF/container.xml"
_HIDDEN = {"script", "style", "head", "svg", "nav", "template"}
_BLOCKS = {
    "p",
    "div",
    "li",
    "tr",
    "blockquote",
    "section",
    "article",
    "td",
    "th",
    "dt",
    "dd",
    "pre",
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


def read_epub(whole: Whole) -> Iterator[Outcome]:
    """Read a book as one document."""
    return read_package(whole, "book (epub)", _read)


def _read(whole: Whole, package: Package) -> Outcome:
    container = package.parse(_CONTAINER)
    root = next(attribute(each, "full-path") for each in container.iter() if _is(each, "rootfile"))
    opf, folder = package.parse(root), posixpath.dirname(root)
    if "META-INF/encryption.xml" in package.names and "META-INF/rights.xml" in package.names:
        raise ValueError("protected by DRM")
    paths = {
        attribute(each, "id"): posixpath.normpath(
            posixpath.join(folder, unquote(attribute(each, "href")))
        )
        for each in opf.iter()
        if _is(each, "item")
    }
    order = [paths.get(attribute(each, "idref"), "") for each in opf.iter() if _is(each, "itemref")]
    chapters = ["\n\n".join(_blocks(package, name)) for name in order if name in package.names]
    text = "\n\n".join(chapter for chapter in chapters if chapter)
    told = {local_name(each): each.text or "" for each in reversed(list(opf.iter()))}
    metadata: dict[str, Scalar | tuple[Scalar, ...]] = {
        key: told[name].strip()
        for key, name in (("author", "creator"), ("lang", "language"))
        if told.get(name, "").strip()
    }
    title = told.get("title", "")
    return file_document(whole, format="epub", text=text, title=title, metadata=metadata)


def _blocks(package: Package, name: str) -> list[str]:
    """Write a chapter block by block."""
    root = package.parse(name)
    blocks: list[list[str]] = [[]]
    _gather(root, blocks)
    lines = (" ".join("".join(block).split()) for block in blocks)
    return [line for line in lines if line.strip("# ")]


def _gather(element: Any, blocks: list[list[str]]) -> None:
    name = local_name(element)
    if name in _HIDDEN or not name:
        return
    is_block = name in _BLOCKS or name in _HEADINGS
    if is_block:
        blocks.append(["#" * _HEADINGS[name] + " "] if name in _HEADINGS else [])
    blocks[-1].append(element.text or "")
    for child in element:
        _gather(child, blocks)
        blocks[-1].append(child.tail or "")
    if is_block:
        blocks.append([])
    elif name == "br":
        blocks[-1].append(" ")


def _is(element: Any, name: str) -> bool:
    return local_name(element) == name
