"""Markdown and reStructuredText: the text as written, titled by its first heading.

Markdown front matter is read without a YAML library: lines `key: value` and lists of plain values
become metadata, what is nested deeper is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quoth.records import Problem, Scalar
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import Metadata, Outcome, Whole, file_document
from quoth.text.readers.scalars import parse_scalar

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_NO_SETEXT_TITLE = re.compile(r"\s*$| {4}|\t|\s*(?:[>|#]|[-*+] |[0-9]+[.)] |`{3}|~{3})")
_RST_LINE = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*")
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_NULLS = ("", "~", "null")


@dataclass(frozen=True, slots=True)
class _Parted:
    """A Markdown text without its front matter, and what stood there."""

    metadata: Metadata
    text: str


def read_markdown(whole: Whole) -> Iterator[Outcome]:
    """Read a Markdown file as one document."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
        return
    parted = _part_front_matter(text)
    title = str(parted.metadata.get("title", "")) or find_markdown_title(parted.text)
    rest = {name: value for name, value in parted.metadata.items() if name != "title"}
    yield file_document(whole, format="md", text=parted.text, title=title, metadata=rest)


def read_rst(whole: Whole) -> Iterator[Outcome]:
    """Read a reStructuredText file as one document."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
    else:
        yield file_document(whole, format="rst", text=text, title=find_rst_title(text))


def find_markdown_title(text: str) -> str:
    r"""Find the first heading, underlined or with #, outside fenced code.

    >>> find_markdown_title("```\n# no\n```\n## Yes ##"), find_markdown_title("Yes\n===")
    ('Yes', 'Yes')
    """
    previous, before, fence = "", "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        elif (heading := _ATX.fullmatch(line)) and heading[1]:
            return heading[1]
        elif _SETEXT.fullmatch(line) and not before.strip() and _is_setext_title(previous):
            return previous.strip()
        before, previous = previous, line
    return ""


def find_rst_title(text: str) -> str:
    r"""Find the first line that is underlined with punctuation at least as long as itself.

    >>> find_rst_title("=====\nTitle\n=====\n"), find_rst_title("Title\n--\n")
    ('Title', '')
    """
    previous, before = "", ""
    for line in text.splitlines():
        title = previous.strip()
        is_overlined = bool(_RST_LINE.fullmatch(before)) and before.strip() == line.strip()
        is_bare = not before.strip() and not previous.startswith((" ", "\t"))
        is_long = len(line.strip()) >= len(title) > 0
        is_underlined = bool(_RST_LINE.fullmatch(line)) and not _RST_LINE.fullmatch(previous)
        if is_long and is_underlined and (is_overlined or is_bare):
            return title
        before, previous = previous, line
    return ""


def _is_setext_title(line: str) -> bool:
    return not _NO_SETEXT_TITLE.match(line) and not _FENCE.match(line)


def _part_front_matter(text: str) -> _Parted:
    r"""Part front matter from the text below it; without one key: value in it, it is text.

    >>> _part_front_matter("---\nyear: 1843\ntags: [a, b]\n---\nBody")
    _Parted(metadata={'year': 1843, 'tags': ('a', 'b')}, text='Body')
    """
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return _Parted({}, text)
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            metadata = _parse_front_matter([line.rstrip() for line in lines[1:number]])
            return (
                _Parted(metadata, "".join(lines[number + 1 :])) if metadata else _Parted({}, text)
            )
    return _Parted({}, text)


def _parse_front_matter(lines: Sequence[str]) -> Metadata:
    """Read the lines between the two marks; null values are dropped, the first of two keys wins."""
    metadata: dict[str, Scalar | tuple[Scalar, ...]] = {}
    for number, line in enumerate(lines):
        pair = _PAIR.fullmatch(line)
        if pair is None or pair[1] in metadata:
            continue
        value = _parse_value((pair[2] or "").strip()) if pair[2] else _items_below(lines, number)
        if value not in _NULLS and value != ():
            metadata[pair[1]] = value
    return metadata


def _items_below(lines: Sequence[str], number: int) -> tuple[Scalar, ...]:
    """Read the list that stands below a key, one `- item` per line."""
    items: list[Scalar] = []
    for line in lines[number + 1 :]:
        item = _ITEM.fullmatch(line)
        if item is None:
            break
        items.append(_parse_plain(item[1]))
    return tuple(items)


def _parse_value(text: str) -> Scalar | tuple[Scalar, ...]:
    """Read a plain value or a list of plain values in brackets.

    >>> _parse_value('"1843"'), _parse_value("[1, two]"), _parse_value("a: b")
    ('1843', (1, 'two'), 'a: b')
    """
    if text.startswith("[") and text.endswith("]") and not re.search(r"[\[\]{}\"']", text[1:-1]):
        return tuple(_parse_plain(item) for item in text[1:-1].split(",") if item.strip())
    return _parse_plain(text)


def _parse_plain(text: str) -> Scalar:
    """Read a value: quoted it is a string, bare it may be a number or a truth value."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return parse_scalar(text)
