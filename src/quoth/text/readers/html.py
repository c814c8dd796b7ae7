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


def _visible_text(tree: Any) -> str:
    """Write out everything that a browser would show, one block per line."""
    for element in list(tree.iter(*_HIDDEN)):
        element.drop_tree()
    for element in tree.iter(*_BLOCKS):
        element.text = "\n" + (element.text or "")
        element.tail = "\n" + (element.tail or "")
    lines = (" ".join(line.split()) for line in tree.text_content().splitlines())
    return "\n".join(line for line in lines if line)
