"""Web pages: the main content without menus and boilerplate, or else all that is visible.

trafilatura finds the main content. It gets a parsed tree rather than bytes, so that the encoding is
decided here (byte order mark, then the page's own `charset`, then the configured one) and a byte
that does not decode is a problem at its line instead of a silent guess.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from quoth.records import Place, Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, Whole, describe, file_document

_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?\b(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.I
)
_CHARSET_WITHIN = 4096  # bytes; browsers look at the first 1024
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_HIDDEN = ("script", "style", "noscript", "template", "head", "svg")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figcaption"),
    *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav"),
    *("ol", "option", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
)
_PARTED = frozenset((*_HEADINGS, "blockquote", "dl", "hr", "ol", "p", "pre", "table", "ul"))
_LINE_END, _PARAGRAPH_END = "\N{LINE SEPARATOR}", "\N{PARAGRAPH SEPARATOR}"
_EMPTY_LINES = re.compile(r"\n{3,}")


def read_html(whole: Whole) -> Iterator[Outcome]:
    """Read a web page as one document."""
    from lxml import etree

    page = _decode(whole)
    if isinstance(page, Problem):
        yield page
        return
    try:
        outcome: Outcome = _parse_page(whole, _NOT_XML.sub(" ", page).encode("utf-8"))
    except (etree.LxmlError, *PARSER_FAILURES) as error:
        outcome = Problem(Place(whole.path), f"no text found in the HTML: {describe(error)}")
    yield outcome


def find_charset(data: bytes) -> str | None:
    """Find the encoding a page claims for itself, if Python knows it.

    Latin-1 and ASCII mean Windows-1252 on the web, and a claim of UTF-16 that could be read as
    ASCII must be UTF-8, as browsers have it.

    >>> find_charset(b'<meta charset="ISO-8859-1">'), find_charset(b"<p>")
    ('cp1252', None)
    """
    claim = _CHARSET.search(data[:_CHARSET_WITHIN])
    if claim is None:
        return None
    try:
        name = codecs.lookup(claim[1].decode("ascii")).name
        "".encode(name)
    except (LookupError, UnicodeError):
        return None
    if name in ("iso8859-1", "ascii"):
        return "cp1252"
    return "utf-8" if name.startswith(("utf-16", "utf-32")) else name


def _decode(whole: Whole) -> str | Problem:
    """Decode a page by its own claim; Windows-1252 has five holes, which Latin-1 fills."""
    charset = find_charset(whole.data)
    page = decode_whole(replace(whole, encoding=charset or whole.encoding))
    if isinstance(page, Problem) and charset == "cp1252":
        return decode_whole(replace(whole, encoding="latin-1"))
    return page


def _parse_page(whole: Whole, page: bytes) -> Outcome:
    title = _find_title(_parse_tree(page))
    text = _main_text(_mark_headings(_parse_tree(page)))
    text = text or _visible_text(_mark_headings(_parse_tree(page)))
    return file_document(whole, format="html", text=text, title=title)


def _main_text(tree: Any) -> str:
    """Extract the main content, nothing where there is none or trafilatura stumbles.

    Where in doubt, text is kept: by default, trafilatura drops the headings and lists of a page
    with few paragraphs, and a line too many does less harm than a missing one.
    """
    import trafilatura
    from lxml import etree

    try:
        text = trafilatura.extract(
            tree, include_comments=False, include_tables=True, favor_recall=True
        )
    except (etree.LxmlError, *PARSER_FAILURES):
        return ""
    return text if text and text.strip() else ""


def _parse_tree(page: bytes) -> Any:
    """Parse UTF-8 bytes, whatever encoding the page claims; an empty page raises ParserError."""
    from lxml import html

    return html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"))


def _mark_headings(tree: Any) -> Any:
    """Write headings as `# Heading` lines, as all readers do; what holds blocks is none."""
    for element in tree.iter(*_HEADINGS):
        words = " ".join(element.text_content().split())
        if words and next(element.iterdescendants(*_BLOCKS), None) is None:
            tail = element.tail
            element.clear(keep_tail=False)
            element.text, element.tail = f"{'#' * int(element.tag[1])} {words}", tail
    return tree


def _find_title(tree: Any) -> str:
    """Take the text of <title>, or else of the first <h1>."""
    for path in ("//title", "//h1"):
        for element in tree.xpath(path):
            title = " ".join(element.text_content().split())
            if title:
                return title
    return ""


def read_visible(page: str) -> str:
    """Write out all that a browser would show of a page, as that of a message; nothing of none."""
    from lxml import etree

    try:
        tree = _parse_tree(_NOT_XML.sub(" ", page).encode("utf-8"))
    except etree.LxmlError:
        return ""
    return _visible_text(_mark_headings(tree))


def _visible_text(tree: Any) -> str:
    """Write out everything that a browser would show, one block per line.

    What a browser parts by more than a line end stands between empty lines.
    """
    for element in list(tree.iter(*_HIDDEN)):
        element.drop_tree()
    for element in tree.iter(*_BLOCKS):
        end = f"\n{_PARAGRAPH_END}\n" if element.tag in _PARTED else "\n"
        if element.tag == "br":
            element.tail = _LINE_END + (element.tail or "")
        else:
            element.text, element.tail = end + (element.text or ""), end + (element.tail or "")
    pieces = tree.text_content().split("\n")
    lines = (" ".join(line.split()) for piece in pieces for line in _shown_lines(piece))
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


def _shown_lines(piece: str) -> list[str]:
    r"""Cut what is written between two ends of blocks into the lines that a browser would show.

    The last line end shows nothing where something stands before it in its block.

    >>> _shown_lines("owls\u2028hens\u2028"), _shown_lines("\u2028"), _shown_lines(" ")
    (['owls', 'hens'], [''], [])
    """
    if not piece.strip(" \t\r"):
        return []
    return piece.rstrip(" \t\r").removesuffix(_LINE_END).split(_LINE_END)
