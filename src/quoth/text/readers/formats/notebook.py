"""Notebooks (ipynb): cells in order, code fenced, without what the code printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from quoth.records import Place, Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.markup import find_markdown_title
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, Whole, describe, file_document


def read_notebook(whole: Whole) -> Iterator[Outcome]:
    """Read a notebook as one document."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
        return
    try:
        content = json.loads(text)
        sheets = content.get("worksheets")  # format 3 has its cells in sheets
        cells = content["cells"] if sheets is None else [c for s in sheets for c in s["cells"]]
        language = str(content.get("metadata", {}).get("kernelspec", {}).get("language", ""))
        parts = [_cell_text(each, language) for each in cells]
    except PARSER_FAILURES as error:
        yield Problem(Place(whole.path), f"not a readable notebook: {describe(error)}")
        return
    body = "\n\n".join(part for part in parts if part)
    title = find_markdown_title(body)
    yield file_document(whole, format="ipynb", text=body, title=title)


def _cell_text(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = ("".join(source) if isinstance(source, list) else str(source)).strip()
    if text and cell.get("cell_type") == "code":
        return f"```{language}\n{text}\n```"
    return text
