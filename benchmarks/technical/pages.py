"""Pages of documentation, and what their structure says: entries, and sections under headings.

An entry is a term and its description: an option and what it does, a setting, a function, a command
and the line that names it. A section is a heading and the text under it; where the heading is a
question, somebody really asked it. Both are places in the page's text, so that what is made of them
can be cut into passages as a collection's documents are.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.records import Span

_SKIPPED = ("script", "style", "nav", "footer", "svg", "head", "form", "noscript")
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre"),
        *("section", "table", "tr", "ul"),
    )
)
_ABOUT_PAGE = re.compile(r"\b(nav\w*|sidebar\w*|related|headerlink|footer|sphinxsidebar)\b")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOISE = re.compile(r"[¶\u200b]|\[(?:edit|source)\]")
_NUMBERING = re.compile(
    r"(?:(?:chapter|appendix|section)\s+)?(?:[A-Z0-9]+\.)*[A-Z0-9]{1,3}[.):]\s+|Q[.:]\s+"
    r"|\d+(?:\.\d+)*\s+",
    re.I,
)
_LEAST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A term, and where it and its description stand."""

    term: Span
    description: Span
    section: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and where the text under it stands; a question is asked as it is."""

    heading: str
    place: Span
    body: Span


@dataclass(frozen=True, slots=True)
class Page:
    """A page's text with its structure; `program` is what it is about."""

    program: str
    title: str
    text: str
    entries: tuple[Entry, ...]
    sections: tuple[Section, ...]


def clean_heading(text: str) -> str:
    """Take numbers and marks off a heading.

    >>> clean_heading("5.2. Default Values¶"), clean_heading("Q: Why does it stop?")
    ('Default Values', 'Why does it stop?')
    """
    flat = re.sub(r"\s*[~=-]{3,}$", "", " ".join(_NOISE.sub("", text).split()))
    return _NUMBERING.sub("", flat, count=1).strip() if _NUMBERING.match(flat) else flat


# --- pages of man ---------------------------------------------------------------------------------

_TOP = re.compile(r"^\S.*$")
_UNDER = re.compile(r"^ {2,5}(\S.*)$")
_BARE = ("NAME", "SYNOPSIS", "SEE ALSO", "AUTHOR", "AUTHORS", "COPYRIGHT", "HISTORY", "BUGS")
_SAME_LINE = re.compile(r"^( {4,16})(\S(?:\S| (?! )){0,23}(?<![.,:;?!])) {2,}(\S.*)$")
_MOST_TERM = 90


def read_man(path: Path) -> Page | None:
    """Read a page of `man` as it was written out as text."""
    text = path.read_text(encoding="utf-8")
    name = path.name.removesuffix(".txt").rpartition(".")[0]
    if len(text) < _LEAST_TEXT:
        return None
    lines = _lines(text)
    entries = tuple(_man_entries(text, lines))
    return Page(name, "", text, entries, tuple(_man_sections(text, lines)))


def _lines(text: str) -> list[Span]:
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        found.append(Span(at, at + len(line.rstrip())))
        at += len(line)
    return found


def _man_entries(text: str, lines: list[Span]) -> Iterator[Entry]:
    section = ""
    for number, span in enumerate(lines[1:-1], start=1):
        line = text[span.start : span.end]
        if not line.strip():
            continue
        if _TOP.match(line):
            section = line.strip()
        elif section == "NAME" and " - " in line.replace(" — ", " - "):
            yield _split_name(line, span, section)
        elif section not in _BARE:
            found = _entry_at(text, lines, number)
            if found:
                yield Entry(*found, section)


def _split_name(line: str, span: Span, section: str) -> Entry:
    first = len(line) - len(line.lstrip())
    dash = line.replace(" — ", " - ").index(" - ")
    term = Span(span.start + first, span.start + dash)
    return Entry(term, Span(span.start + dash + 3, span.end), section)


def _entry_at(text: str, lines: list[Span], number: int) -> tuple[Span, Span] | None:
    """Return a term and its description, on one line or on two, the second deeper."""
    span, below = lines[number], lines[number + 1]
    line, following = text[span.start : span.end], text[below.start : below.end]
    indent, deeper = (len(each) - len(each.lstrip()) for each in (line, following))
    if same := _SAME_LINE.match(line):
        first = span.start + same.start(2)
        return Span(first, first + len(same[2])), Span(span.start + same.start(3), span.end)
    if following.strip() and deeper > indent >= 4 and len(line.strip()) <= _MOST_TERM:
        return Span(span.start + indent, span.end), Span(below.start + deeper, below.end)
    return None


def _man_sections(text: str, lines: list[Span]) -> Iterator[Section]:
    """Yield subsections: their headings are set in less far than the text is."""
    places = [
        (at, match)
        for at, span in enumerate(lines)
        if (match := _UNDER.match(text[span.start : span.end]))
        or _TOP.match(text[span.start : span.end])
    ]
    ends = [lines[at].start for at, _match in places[1:]] + [len(text)]
    for (at, match), end in zip(places, ends[: len(places)], strict=True):
        if isinstance(match, re.Match) and len(match[1]) <= _MOST_TERM:
            yield Section(clean_heading(match[1]), lines[at], Span(lines[at].end, end))


# --- pages of HTML --------------------------------------------------------------------------------


def read_page(path: Path, program: str) -> Page | None:
    """Read a page of HTML: its text block by block, with what lists and headings hold."""
    from lxml import etree, html

    try:
        tree = html.document_fromstring(
            path.read_bytes(), parser=html.HTMLParser(encoding="utf-8", remove_comments=True)
        )
    except (etree.LxmlError, ValueError):
        return None
    titles = [" ".join(each.text_content().split()) for each in tree.iter("title")]
    for element in list(tree.iter(*_SKIPPED)):
        element.drop_tree()
    for element in list(tree.iter("div", "a")):
        kind = f"{element.get('class')} {element.get('role')} {element.get('id')}"
        if _ABOUT_PAGE.search(kind) and element.getparent() is not None:
            element.drop_tree()
    writer = _Writer()
    body = tree.find("body")
    writer.write(tree if body is None else body)
    text = writer.text()
    if len(text) < _LEAST_TEXT:
        return None
    title = titles[0] if titles else ""
    return Page(program, title, text, tuple(writer.entries), tuple(writer.sections(text)))


class _Writer:
    """Writes a tree as text, a block a line, and notes where terms and headings stand."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.entries: list[Entry] = []
        self._term: Span | None = None
        self._headings: list[Span] = []

    def write(self, element: Any) -> None:
        """Write an element with all in it."""
        tag = element.tag if isinstance(element.tag, str) else ""
        is_block = tag in _BLOCKS
        if is_block:
            self._break()
        begin = self._length
        if tag == "li":
            self._add("- ")
        self._add_text(element.text, keeps=tag == "pre")
        for child in element:
            self.write(child)
            self._add_text(child.tail, keeps=tag == "pre")
        span = Span(begin, self._length)
        if tag in _HEADINGS:
            self._headings.append(span)
        elif tag == "dt":
            self._term = span
        elif tag == "dd" and self._term is not None:
            self.entries.append(Entry(self._term, span))
            self._term = None
        if is_block:
            self._break()
            if tag in ("p", "pre", "ul", "dl", "table") and tag != "":
                self._add("")

    def text(self) -> str:
        """Return what was written."""
        return "".join(self._parts)

    def sections(self, text: str) -> Iterator[Section]:
        """Yield headings with what stands under them."""
        ends = [each.start for each in self._headings[1:]] + [len(text)]
        for own, end in zip(self._headings, ends[: len(self._headings)], strict=True):
            heading = clean_heading(text[own.start : own.end])
            if heading:
                yield Section(heading, own, Span(own.end, end))

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _add_text(self, text: str | None, *, keeps: bool) -> None:
        if not text:
            return
        flat = text if keeps else re.sub(r"\s+", " ", text)
        flat = _NOISE.sub("", flat)
        if self._ends_line() and not keeps:
            flat = flat.lstrip()
        self._add(flat)

    def _break(self) -> None:
        if not self._ends_line():
            self._add("\n")

    def _ends_line(self) -> bool:
        for part in reversed(self._parts):
            if part:
                return part.endswith("\n")
        return True


# --- lists of frequent questions as text ----------------------------------------------------------

_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")
_RULE = re.compile(r"^[^\S\n]*[~=*_-]{3,}[^\S\n]*$", re.MULTILINE)
_MOST_QUESTION = 30


def read_questions(path: Path, program: str) -> Page | None:
    """Read a text file of questions, each followed by its answer."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8", errors="replace")
    unruled = _RULE.sub(lambda match: " " * len(match[0]), text)
    parts = [Span(*match.span()) for match in _PARAGRAPH.finditer(unruled)]
    asked = [each for each in parts if _is_question(text[each.start : each.end])]
    ends = [each.start for each in asked[1:]] + [len(text)]
    sections = tuple(
        Section(clean_heading(text[own.start : own.end]), own, Span(own.end, end))
        for own, end in zip(asked, ends[: len(asked)], strict=True)
    )
    return Page(program, "", text, (), sections) if sections else None


def _is_question(text: str) -> bool:
    flat = clean_heading(text)
    return flat.endswith("?") and 3 <= len(flat.split()) <= _MOST_QUESTION
