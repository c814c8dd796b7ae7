"""Say where in its file a passage stands: page, slide, line, or the heading above it.

All of it follows from the text: form feeds part pages and slides, newlines lines, and readers write
headings as `# Heading` lines.
"""

from __future__ import annotations

import re

from quoth.records import Document, Passage, Span

_SLIDES = ("pptx", "odp")
_PAGES = ("pdf",)
_LINES = ("txt", "rst", "code", "python")
_HEADINGS = ("md", "docx", "odt", "epub", "html", "ipynb", "xlsx", "ods", "tex")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t\r#]*$")
_FENCE = "```"
_MOST_LOOKS = 50
_MOST_CHARACTERS = 80


def can_have_place(document: Document) -> bool:
    """Whether there may be a place to name: only then is the format known."""
    return "format" in document.metadata


def find_place(document: Document, passage: Passage, *, within: Span | None = None) -> str:
    """Name the place of a passage as a citation does; empty where nothing is known of it.

    `within` is the part of the passage that counts, None for all of it.

    >>> pages = Document("a.pdf", {"text": ("One.\\n\\n\\fTwo.",)}, {"format": "pdf"})
    >>> find_place(pages, Passage("a.pdf", "text", Span(7, 11), "Two."))
    'p. 2'
    """
    format = document.metadata.get("format")
    instances = document.fields.get(passage.field, ())
    if passage.field != "text" or passage.instance >= len(instances):
        return ""
    text, span = instances[passage.instance], within or passage.span
    start = span.start
    if format in _SLIDES:
        return _pages(text, span, "slide", "slides")
    if format in _PAGES or (format == "txt" and "\f" in text):
        return _pages(text, span, "p.", "pp.")
    if format in _LINES:
        before = document.metadata.get("line", 1)
        line = text.count("\n", 0, start) + (before if isinstance(before, int) else 1)
        return f"line {line}" if line > 1 else ""
    heading = _heading_above(text, start) if format in _HEADINGS else ""
    return f"§ {heading}" if heading else ""


def _pages(text: str, span: Span, one: str, many: str) -> str:
    """Count the page breaks before a span, and in it."""
    first = 1 + text.count("\f", 0, span.start)
    last = first + text.count("\f", span.start, span.end)
    return f"{one} {first}" if first == last else f"{many} {first}–{last}"


def _heading_above(text: str, start: int) -> str:
    """Find the last heading that begins at or before a place, outside fenced code."""
    end = start + 1
    for _look in range(_MOST_LOOKS):
        at = text.rfind("\n#", 0, end) + 1
        if at == 0 and not text.startswith("#"):
            return ""
        found = _HEADING.match(text, at, max(at, _line_end(text, at)))
        if found and text.count(_FENCE, 0, at) % 2 == 0:
            return found[1][:_MOST_CHARACTERS]
        if at == 0:
            return ""
        end = at
    return ""


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
