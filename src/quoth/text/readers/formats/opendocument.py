"""OpenDocument files (odt, odp, ods): headings as `# Heading` lines, slides apart by form feeds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from quoth.text.readers.formats.zipped import Package, attribute, local_name, read_package
from quoth.text.readers.outcomes import PAGE_BREAK, Outcome, Whole, file_document

_UNREAD = {"tracked-changes", "annotation", "sequence-decls", "forms", "note-citation"}
_MOST_REPEATS = 100


def read_odt(whole: Whole) -> Iterator[Outcome]:
    """Read a text document."""
    return read_package(whole, "OpenDocument text", partial(_read, format="odt"))


def read_odp(whole: Whole) -> Iterator[Outcome]:
    """Read a presentation."""
    return read_package(whole, "OpenDocument presentation", partial(_read, format="odp"))


def read_ods(whole: Whole) -> Iterator[Outcome]:
    """Read a spreadsheet."""
    return read_package(whole, "OpenDocument spreadsheet", partial(_read, format="ods"))


def _read(whole: Whole, package: Package, *, format: str) -> Outcome:
    root = package.parse("content.xml")
    body = next(each for each in root.iter() if local_name(each) == "body")
    pages = [each for each in body.iter() if local_name(each) == "page"]
    metadata = {"slides": len(pages)} if pages else {}
    text = PAGE_BREAK.join("\n\n".join(_blocks(each)) for each in pages or [body])
    title = _title(package) or _first_heading(text)
    return file_document(whole, format=format, text=text, title=title, metadata=metadata)


def _blocks(parent: Any) -> Iterator[str]:
    """Write paragraphs, headings and tables in their order."""
    for child in parent:
        name = local_name(child)
        if name in _UNREAD or not name:
            continue
        if name in ("p", "h"):
            text = _inline(child).strip()
            if text and name == "h":
                level = attribute(child, "outline-level")
                marks = "#" * min(6, int(level) if level.isdigit() else 1)
                yield f"{marks} {' '.join(text.split())}"
            elif text:
                yield text
        elif name == "table":
            if sheet := "\n".join(_rows(child)):
                title = attribute(child, "name")
                yield f"# {title}\n\n{sheet}" if local_name(parent) == "spreadsheet" else sheet
        else:
            yield from _blocks(child)


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter():
        if local_name(row) == "table-row":
            cells = [text for cell in row for text in _cells(cell)]
            while cells and not cells[-1]:
                cells.pop()
            if any(cells):
                yield " | ".join(cells)


def _cells(cell: Any) -> list[str]:
    if local_name(cell) not in ("table-cell", "covered-table-cell"):
        return []
    text = " ".join(" ".join(_blocks(cell)).split())
    repeats = attribute(cell, "number-columns-repeated")
    return [text] * min(_MOST_REPEATS, int(repeats) if repeats.isdigit() else 1)


def _inline(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        name = local_name(child)
        if name == "s":
            spaces = attribute(child, "c")
            parts.append(" " * min(_MOST_REPEATS, int(spaces) if spaces.isdigit() else 1))
        elif name in ("tab", "line-break"):
            parts.append("\t" if name == "tab" else "\n")
        elif name and name not in _UNREAD:
            parts.append(_inline(child))
            if name == "p":
                parts.append("\n")
        parts.append(child.tail or "")
    return "".join(parts)


def _title(package: Package) -> str:
    if "meta.xml" not in package.names:
        return ""
    root = package.parse("meta.xml")
    return next((each.text or "" for each in root.iter() if local_name(each) == "title"), "")


def _first_heading(text: str) -> str:
    line = next((each for each in text.splitlines() if each.startswith("#")), "")
    return line.lstrip("# ")
