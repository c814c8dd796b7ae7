"""Presentations and workbooks (pptx, xlsx): slides apart by form feeds, rows between bars.

A form feed parts slides as it parts the pages of a text, so the number of a slide follows from the
text itself. A workbook's sheets begin with their names as headings; formulas show their last value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any

from quoth.text.readers.formats.zipped import Package, attribute, local_name, read_package
from quoth.text.readers.outcomes import PAGE_BREAK, Outcome, Whole, file_document

_DATE = re.compile(r"[ymdh]", re.IGNORECASE)
_LITERAL = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE_FORMATS = {str(each) for each in (*range(14, 23), *range(45, 48))}
_DAY_ZERO = datetime(1899, 12, 30)
_CORE = "docProps/core.xml"


def read_pptx(whole: Whole) -> Iterator[Outcome]:
    """Read a presentation as one document, with the notes of each slide below it."""
    return read_package(whole, "presentation", _read_slides)


def read_xlsx(whole: Whole) -> Iterator[Outcome]:
    """Read a workbook as one document, sheet after sheet."""
    return read_package(whole, "workbook", _read_sheets)


def _read_slides(whole: Whole, package: Package) -> Outcome:
    root, leads = "ppt/presentation.xml", package.relations("ppt/presentation.xml")
    order = [leads.get(_relation(each), "") for each in _named(package.parse(root), "sldId")]
    slides = [_slide_text(package, name) for name in order if name in package.names]
    title = _core_title(package) or next((text.partition("\n")[0] for text in slides if text), "")
    metadata = {"slides": len(slides)}
    text = PAGE_BREAK.join(slides)
    return file_document(whole, format="pptx", text=text, title=title, metadata=metadata)


def _slide_text(package: Package, name: str) -> str:
    parts = [_paragraphs(package.parse(name))]
    for other in package.relations(name).values():
        if other.startswith("ppt/notesSlides/") and other in package.names:
            notes = _paragraphs(package.parse(other))
            parts.append(notes)
    return "\n\n".join(part for part in parts if part)


def _paragraphs(root: Any) -> str:
    lines = []
    for paragraph in _named(root, "p"):
        inner = (
            (each.text or "") if local_name(each) == "t" else "\n"
            for each in paragraph.iter()
            if local_name(each) in ("t", "br")
        )
        if line := "".join(inner).strip():
            lines.append(line)
    return "\n".join(lines)


def _read_sheets(whole: Whole, package: Package) -> Outcome:
    root, leads = "xl/workbook.xml", package.relations("xl/workbook.xml")
    shared, dates = _shared_strings(package), _date_styles(package)
    parts = []
    for sheet in _named(package.parse(root), "sheet"):
        name = leads.get(_relation(sheet), "")
        if name in package.names:
            rows = list(_rows(package.parse(name), shared, dates))
            if rows:
                parts.append("\n".join((f"# {attribute(sheet, 'name')}\n", *rows)))
    text, title = "\n\n".join(parts), _core_title(package)
    metadata = {"sheets": len(parts)}
    return file_document(whole, format="xlsx", text=text, title=title, metadata=metadata)


def _shared_strings(package: Package) -> list[str]:
    name = "xl/sharedStrings.xml"
    if name not in package.names:
        return []
    return [_cell_text(each) for each in package.parse(name) if local_name(each) == "si"]


def _date_styles(package: Package) -> set[str]:
    """List the numbers of the styles that show a cell's number as a date."""
    name = "xl/styles.xml"
    if name not in package.names:
        return set()
    root = package.parse(name)
    codes = {each.get("numFmtId"): each.get("formatCode", "") for each in _named(root, "numFmt")}
    formats = {key for key, code in codes.items() if _DATE.search(_LITERAL.sub("", code))}
    styles = next(iter(_named(root, "cellXfs")), ())
    return {
        str(at) for at, each in enumerate(styles) if each.get("numFmtId") in formats | _DATE_FORMATS
    }


def _rows(sheet: Any, shared: list[str], dates: set[str]) -> Iterator[str]:
    """Write each row that is not blank as its cells between bars."""
    for row in _named(sheet, "row"):
        cells = [_value(cell, shared, dates) for cell in row if local_name(cell) == "c"]
        if any(cells):
            yield " | ".join(cells)


def _value(cell: Any, shared: list[str], dates: set[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return " ".join(_cell_text(cell).split())
    found = next((each.text or "" for each in cell if local_name(each) == "v"), "")
    if kind == "s" and found.isdigit() and int(found) < len(shared):
        found = shared[int(found)]
    elif kind == "b":
        found = "true" if found == "1" else "false"
    elif kind == "n" and found and cell.get("s") in dates:
        found = _write_date(found)
    return " ".join(found.split())


def _write_date(serial: str) -> str:
    """Write the days since the end of 1899 as a date, with the time where there is one.

    >>> _write_date("44317"), _write_date("44317.5"), _write_date("many")
    ('2021-05-01', '2021-05-01 12:00:00', 'many')
    """
    try:
        moment = _DAY_ZERO + timedelta(days=round(float(serial) * 86_400) / 86_400)
    except (ValueError, OverflowError):
        return serial
    return str(moment.date()) if moment.time() == time() else str(moment)


def _cell_text(element: Any) -> str:
    """Join the runs of a text, without what is written above them in small (phonetic hints)."""
    return "".join(
        each.text or ""
        for each in _named(element, "t")
        if all(local_name(above) != "rPh" for above in each.iterancestors())
    )


def _core_title(package: Package) -> str:
    if _CORE not in package.names:
        return ""
    return next((each.text or "" for each in _named(package.parse(_CORE), "title")), "")


def _named(root: Any, name: str) -> list[Any]:
    return [each for each in root.iter() if local_name(each) == name]


def _relation(element: Any) -> str:
    """Return the id of a relation, which has a namespace where a plain id stands beside it."""
    keys = [key for key in element.attrib if key.endswith("}id")]
    return str(element.get(keys[0], "")) if keys else ""
