"""Word files: paragraphs and tables in document order, headings as `# Heading` lines.

python-docx opens the package; the text is taken from the XML itself, because python-docx passes
over tracked insertions, content controls and text boxes, and no text may be lost in silence.
Deleted text, headers, footers, notes and comments are not part of the document's text.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quoth.records import Place, Problem
from quoth.text.readers.outcomes import (
    PARSER_FAILURES,
    Outcome,
    Whole,
    describe,
    file_document,
    too_large,
)

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_PARAGRAPH, _TABLE, _ROW, _CELL = (_WORD + name for name in ("p", "tbl", "tr", "tc"))
_UNREAD = {_FALLBACK, *(_WORD + name for name in ("pPr", "rPr", "del", "moveFrom", "sectPr"))}
_CHARACTER_BY_TAG = {
    _WORD + "tab": "\t",
    _WORD + "br": "\n",
    _WORD + "cr": "\n",
    _WORD + "noBreakHyphen": "-",
}
_HEADING = re.compile(r"heading ([1-9])", re.I)


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph or a table as text; `level` is 0 for body text, 1 and up for headings."""

    text: str
    level: int = 0


def read_docx(whole: Whole) -> Iterator[Outcome]:
    """Read a Word file as one document."""
    from docx.opc.exceptions import OpcError
    from lxml import etree

    try:
        outcome = _parse_package(whole)
    except (etree.LxmlError, zipfile.BadZipFile, OpcError, *PARSER_FAILURES) as error:
        outcome = Problem(Place(whole.path), f"not a readable Word file: {describe(error)}")
    yield outcome


def _parse_package(whole: Whole) -> Outcome:
    """Open the package, unless unpacking it would take more than any file may."""
    import docx

    size = _unpacked_size(whole.data)
    if size > whole.max_bytes:
        message = too_large(f"{size:,} bytes unpacked", whole.max_bytes)
        return Problem(Place(whole.path), message)
    opened = docx.Document(io.BytesIO(whole.data))
    style_by_id = _style_names(opened.styles.element)
    blocks = [block for block in _blocks(opened.element.body, style_by_id) if block.text]
    title = opened.core_properties.title or _first_heading(blocks)
    text = "\n\n".join(map(_write_block, blocks))
    return file_document(whole, format="docx", text=text, title=title)


def _unpacked_size(data: bytes) -> int:
    """Sum the sizes that a zip file declares for its members; it cannot unpack to more."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return sum(member.file_size for member in package.infolist())


def _write_block(block: _Block) -> str:
    """Write a heading on one line of its own with its marks, anything else as it is.

    >>> _write_block(_Block("Aims", level=2)), _write_block(_Block("Text"))
    ('## Aims', 'Text')
    """
    if not block.level:
        return block.text
    return f"{'#' * min(block.level, 6)} {' '.join(block.text.split())}"


def _first_heading(blocks: list[_Block]) -> str:
    return next((" ".join(block.text.split()) for block in blocks if block.level), "")


def _style_names(styles: Any) -> dict[str, str]:
    """Map style ids, which are translated, to style names, which are not."""
    name_by_id = {}
    for style in styles.iter(_WORD + "style"):
        name = style.find(_WORD + "name")
        if name is not None:
            name_by_id[style.get(_WORD + "styleId", "")] = name.get(_WORD + "val", "")
    return name_by_id


def _blocks(parent: Any, style_by_id: Mapping[str, str]) -> Iterator[_Block]:
    """Find paragraphs and tables in document order, also inside content controls."""
    for child in parent:
        if child.tag == _PARAGRAPH:
            yield _Block(_inline_text(child).strip(), _heading_level(child, style_by_id))
        elif child.tag == _TABLE:
            yield _Block("\n".join(_table_rows(child)))
        elif child.tag not in _UNREAD:
            yield from _blocks(child, style_by_id)


def _heading_level(paragraph: Any, style_by_id: Mapping[str, str]) -> int:
    style = paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    name = style_by_id.get(style.get(_WORD + "val", ""), "") if style is not None else ""
    if name.lower() == "title":
        return 1
    heading = _HEADING.fullmatch(name)
    return int(heading[1]) if heading else 0


def _table_rows(table: Any) -> Iterator[str]:
    """Write each row that is not blank as its cells between bars."""
    for row in _descend(table, _ROW):
        cells = [" ".join(_inline_text(cell).split()) for cell in _descend(row, _CELL)]
        if any(cells):
            yield " | ".join(cells)


def _descend(parent: Any, tag: str) -> Iterator[Any]:
    """Find the nearest elements of a kind, also inside content controls."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag not in _UNREAD:
            yield from _descend(child, tag)


def _inline_text(element: Any) -> str:
    return "".join(_characters(element))


def _characters(element: Any) -> Iterator[str]:
    """Write out what an element shows; paragraphs inside it (cells, text boxes) end their line."""
    for child in element:
        if child.tag == _WORD + "t":
            yield child.text or ""
        elif child.tag in _CHARACTER_BY_TAG:
            yield _CHARACTER_BY_TAG[child.tag]
        elif child.tag not in _UNREAD:
            yield from _characters(child)
            if child.tag == _PARAGRAPH:
                yield "\n"
