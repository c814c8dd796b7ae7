"""PDF files: the text of all pages as one field, pages parted by a blank line."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quoth.records import Place, Problem
from quoth.text.readers.outcomes import (
    PAGE_BREAK,
    PARSER_FAILURES,
    Outcome,
    Whole,
    describe,
    file_document,
)

if TYPE_CHECKING:
    from pypdf import PdfReader

_HARMLESS = ("Ignoring wrong pointing object",)
"""What many programs' files are told, and nothing is lost."""

_MOST_CHARACTERS = 200


def read_pdf(whole: Whole) -> Iterator[Outcome]:
    """Read a PDF as one document; a broken page is a problem, the others are kept."""
    with _listening() as heard:
        yield from _read(whole, heard)


def _read(whole: Whole, heard: Sequence[str]) -> Iterator[Outcome]:
    opened = _open(whole)
    if isinstance(opened, Problem):
        told = "; ".join((opened.message, *dict.fromkeys(heard)))
        yield Problem(opened.place, told)
        return
    if serious := [each for each in heard if not each.startswith(_HARMLESS)]:
        message = f"damaged PDF, text may be missing: {'; '.join(dict.fromkeys(serious))}"
        yield Problem(Place(whole.path), message)
    num_pages = len(opened.pages)
    texts: list[str] = []
    for number in range(1, num_pages + 1):
        text = _page_text(opened, number=number, path=whole.path)
        if isinstance(text, Problem):
            yield text
        texts.append("" if isinstance(text, Problem) else text.strip("\f"))
    if any(text.strip() for text in texts):
        metadata = {"pages": num_pages}
        title = _find_title(opened)
        text = PAGE_BREAK.join(texts)
        yield file_document(whole, format="pdf", text=text, title=title, metadata=metadata)
    else:
        message = f"no text on any of {num_pages} pages; if it is a scan, run OCR over it first"
        yield Problem(Place(whole.path), message)


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Gather what pypdf complains of, which would reach the terminal without the file's name."""
    heard: list[str] = []
    ear = _Ear(heard)
    logger = logging.getLogger("pypdf")
    logger.addHandler(ear)
    was, logger.propagate = logger.propagate, False
    try:
        yield heard
    finally:
        logger.propagate = was
        logger.removeHandler(ear)


class _Ear(logging.Handler):
    """Writes down what is logged."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(" ".join(record.getMessage().split())[:_MOST_CHARACTERS])


def _open(whole: Whole) -> PdfReader | Problem:
    """Open a PDF, unlocking it if its password is empty."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    place = Place(whole.path)
    try:
        reader = PdfReader(io.BytesIO(whole.data))
        if reader.is_encrypted and not reader.decrypt(""):
            return Problem(place, "encrypted PDF; save it without a password first")
        len(reader.pages)
    except DependencyError as error:
        return Problem(place, f"encrypted PDF that cannot be decrypted: {describe(error)}")
    except (PyPdfError, *PARSER_FAILURES) as error:
        return Problem(place, f"not a readable PDF: {describe(error)}")
    return reader


def _page_text(reader: PdfReader, *, number: int, path: str) -> str | Problem:
    """Extract the text of one page, counted from 1."""
    from pypdf.errors import DependencyError, PyPdfError

    try:
        return _mend_surrogates(reader.pages[number - 1].extract_text())
    except (PyPdfError, DependencyError, *PARSER_FAILURES) as error:
        message = f"page {number} cannot be read and was skipped: {describe(error)}"
        return Problem(Place(path), message)


def _find_title(reader: PdfReader) -> str:
    """Take the title from the file's own description; a broken description has none."""
    from pypdf.errors import DependencyError, PyPdfError

    try:
        title = reader.metadata.title if reader.metadata else None
    except (PyPdfError, DependencyError, *PARSER_FAILURES):
        return ""
    return _mend_surrogates(title) if isinstance(title, str) else ""


def _mend_surrogates(text: str) -> str:
    """Join halves of characters that fonts map one by one; a half left alone becomes U+FFFD.

    >>> _mend_surrogates("\\ud83d\\ude00"), _mend_surrogates("a\\ud83d")
    ('😀', 'a�')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
