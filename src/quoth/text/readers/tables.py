"""Tables as text, parted by commas, tabs or semicolons: a row of names, then a document per row.

Rows may hold quoted newlines; a problem names the physical line on which its row starts. Malformed
quoting is a problem rather than a guess (`strict`), and reading resumes on the next line. Tables
that people keep rarely have a column for docids: without one, a row's docid is path:line, and its
title, unless a column holds it, the first cell that is no number.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from quoth.errors import CorpusError
from quoth.records import TITLES, Place, Problem, Scalar
from quoth.text.readers.config import LINE_ID
from quoth.text.readers.decoding import bad_bytes
from quoth.text.readers.keys import USUAL_ID_KEYS, Keys, find_id_key, read_record
from quoth.text.readers.lines import Line
from quoth.text.readers.outcomes import Outcome
from quoth.text.readers.scalars import parse_scalar

_ALWAYS_TEXT = ("title", "text")


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of a row and the line it starts on."""

    number: int
    cells: list[str]


class _Feed:
    """Lines for `csv.reader`, noting where the current row starts and what spoils it.

    A spoilt line is still fed, as far as it can be, so that the quoting around it stays in step.
    """

    def __init__(self, lines: Iterator[Line | Problem], *, path: str, max_row_bytes: int) -> None:
        self.path = path
        self._lines = lines
        self._max_row_bytes = max_row_bytes
        self.start_row()

    def start_row(self) -> None:
        """Forget the row before."""
        self.first, self.last, self._size = 0, 0, 0
        self.problem: Problem | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if isinstance(line, Problem):
            self._note(line.place.line or 1, line)
            return ""
        self._size += len(line.data) + 1
        if self._size > self._max_row_bytes + 1:
            self._note(line.number, None)
            raise csv.Error(f"row longer than readers.max_line_bytes ({self._max_row_bytes:,})")
        return self._decode(line)

    def _decode(self, line: Line) -> str:
        try:
            text = line.data.decode(line.encoding)
        except UnicodeError as error:
            place = Place(self.path, line.number)
            self._note(line.number, Problem(place, bad_bytes(line.encoding, error)))
            return line.data.decode(line.encoding, errors="replace") + "\n"
        self._note(line.number, None)
        return text + "\n"

    def _note(self, number: int, problem: Problem | None) -> None:
        self.first, self.last = self.first or number, number
        self.problem = self.problem or problem


def read_table(
    lines: Iterable[Line | Problem], *, path: str, delimiter: str, keys: Keys, max_line_bytes: int
) -> Iterator[Outcome]:
    """Read one document from every row below the header."""
    remaining = iter(lines)
    opening = list(_take_header(remaining))
    feed = _Feed(chain(opening, remaining), path=path, max_row_bytes=max_line_bytes)
    delimiter = _find_delimiter(opening, usual=delimiter)
    rows = _read_rows(feed, delimiter=delimiter, max_cell=max_line_bytes)
    header = next(rows, None)
    if isinstance(header, Problem):
        yield header
    names = _column_names(header.cells) if isinstance(header, _Row) else []
    asked, keys = keys, _name_rows(names, keys=keys)
    flaw = _find_header_flaw(names, keys=keys)
    if flaw:
        yield Problem(Place(path), flaw)
        return
    lacks_title = keys != asked and not {*TITLES} & {*names}
    for row in rows:
        if isinstance(row, Problem):
            yield row
        else:
            yield _read_row(row, names, path=path, keys=keys, lacks_title=lacks_title)


def _take_header(lines: Iterator[Line | Problem]) -> Iterator[Line | Problem]:
    """Take lines up to the first that is not blank."""
    for line in lines:
        yield line
        if isinstance(line, Line) and not line.is_blank:
            return


def _find_delimiter(opening: Sequence[Line | Problem], *, usual: str) -> str:
    r"""Tell what parts the columns: semicolons or tabs where the header has no comma.

    Spreadsheets write semicolons where a comma is the decimal mark.

    >>> headers = (b"name;town", b"name,a;b", b"name\ttown", b"name")
    >>> [_find_delimiter([Line(1, each, "utf-8")], usual=",") for each in headers]
    [';', ',', '\t', ',']
    """
    header = opening[-1] if opening else None
    if not isinstance(header, Line):
        return usual
    text = header.data.decode(header.encoding, errors="replace")
    return next((each for each in (usual, ";", "\t") if each in text), usual)


def _read_rows(feed: _Feed, *, delimiter: str, max_cell: int) -> Iterator[_Row | Problem]:
    """Cut lines into rows; blank lines are passed over."""
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.start_row()
        try:
            cells = _next_row(reader, max_cell=max_cell)
        except csv.Error as error:
            yield feed.problem or Problem(Place(feed.path, feed.first), _malformed(feed, error))
            continue
        if cells is None:
            return
        if feed.problem is not None:
            yield feed.problem
        elif cells:
            yield _Row(feed.first, cells)


def _next_row(reader: Iterator[list[str]], *, max_cell: int) -> list[str] | None:
    """Read the next row, None after the last.

    The limit on a cell is global to `csv`: it is set for one row only and put back.
    """
    before = csv.field_size_limit(max_cell + 1)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(before)


def _malformed(feed: _Feed, error: csv.Error) -> str:
    """Say what is wrong with a row, and how far it reached if over more than one line."""
    reach = f"; lines {feed.first} to {feed.last} were skipped" if feed.last > feed.first else ""
    return f"malformed row: {error}{reach}"


def _column_names(cells: Sequence[str]) -> list[str]:
    """Name the columns; one without a name is called after its position.

    >>> _column_names(["", " id ", "text"])
    ['column_1', 'id', 'text']
    """
    return [cell.strip() or f"column_{number}" for number, cell in enumerate(cells, start=1)]


def _name_rows(names: Sequence[str], *, keys: Keys) -> Keys:
    """Let path:line name the rows where no column does and none was asked for.

    >>> _name_rows(["dish", "minutes"], keys=Keys("", frozenset())).id_key
    '#line'
    >>> _name_rows(["dish", "id"], keys=Keys("", frozenset())).id_key
    ''
    """
    is_named = bool(keys.id_key) or any(name in USUAL_ID_KEYS for name in names)
    return keys if is_named else replace(keys, id_key=LINE_ID)


def _find_header_flaw(names: Sequence[str], *, keys: Keys) -> str:
    """Say why rows cannot be read under this header, or nothing where they can.

    >>> _find_header_flaw(["id", "a", "a"], keys=Keys("", frozenset()))
    'file skipped: column "a" appears twice in the header'
    """
    if not names:
        return "file skipped: no header row with column names"
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        return f'file skipped: column "{name}" appears twice in the header'
    try:
        find_id_key(names, keys=keys)
    except CorpusError as error:
        return f"file skipped: no docid column in the header: {error}"
    return ""


def _read_row(
    row: _Row, names: Sequence[str], *, path: str, keys: Keys, lacks_title: bool
) -> Outcome:
    """Make a document of a row; cells that are numbers become metadata, empty cells nothing."""
    place = Place(path, row.number)
    if len(row.cells) != len(names):
        return Problem(place, f"row with {len(row.cells)} columns, but the header has {len(names)}")
    always_text = {*_ALWAYS_TEXT, find_id_key(names, keys=keys)}
    record = {
        name: cell if name in always_text or not cell else parse_scalar(cell)
        for name, cell in zip(names, row.cells, strict=True)
    }
    if lacks_title:
        record = _title_by_first_text(record)
    return read_record(record, place=place, keys=keys)


def _title_by_first_text(record: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Call the first text of a row its title; a row of numbers has none.

    >>> _title_by_first_text({"year": 2024, "town": "Porto", "note": "rain"})
    {'year': 2024, 'title': 'Porto', 'note': 'rain'}
    """
    texts = (name for name, cell in record.items() if isinstance(cell, str) and cell)
    first = next((name for name in texts if name != "text"), None)
    return {"title" if name == first else name: cell for name, cell in record.items()}
