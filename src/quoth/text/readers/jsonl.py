"""JSON Lines, one document per line, and .json files: an array or a sequence of objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from quoth.records import Place, Problem
from quoth.text.readers.decoding import bad_bytes, decode_whole
from quoth.text.readers.keys import Flaw, Keys, read_record
from quoth.text.readers.lines import Line
from quoth.text.readers.outcomes import Outcome, Whole

_BLANKS = " \t\r\n"


def read_jsonl(lines: Iterable[Line | Problem], *, path: str, keys: Keys) -> Iterator[Outcome]:
    """Read one document from every line that is not blank."""
    for line in lines:
        if isinstance(line, Problem):
            yield line
        elif not line.is_blank:
            yield _read_line(line, place=Place(path, line.number), keys=keys)


def read_json(whole: Whole, *, keys: Keys) -> Iterator[Outcome]:
    """Read the objects of a .json file, each placed at the line it starts on.

    After the first syntax error nothing can be told apart any more: what came before is kept.
    """
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
        return
    number, counted = 1, 0
    for start, value in _values(text):
        if isinstance(value, json.JSONDecodeError):
            yield Problem(Place(whole.path, value.lineno), _syntax(value))
            return
        number, counted = number + text.count("\n", counted, start), start
        yield read_record(value, place=Place(whole.path, number), keys=keys)


def _read_line(line: Line, *, place: Place, keys: Keys) -> Outcome:
    try:
        record = _DECODER.decode(line.data.decode(line.encoding))
    except UnicodeError as error:
        return Problem(place, bad_bytes(line.encoding, error))
    except json.JSONDecodeError as error:
        return Problem(place, _syntax(error))
    except RecursionError:
        return Problem(place, _TOO_DEEP)
    return read_record(record, place=place, keys=keys)


def _values(text: str) -> Iterator[tuple[int, object]]:
    """Find the values of an array, or of a sequence, with where each starts; last, what went wrong.

    >>> list(_values('[{"a": 1}, 2]')), list(_values("1 2"))
    ([(1, {'a': 1}), (11, 2)], [(0, 1), (2, 2)])
    """
    position = _skip_blanks(text, 0)
    is_array = text.startswith("[", position)
    position = _skip_blanks(text, position + is_array)
    is_first = True
    while position < len(text) and not (is_array and is_first and text[position] == "]"):
        value, end = _decode_at(text, position)
        yield position, value
        if isinstance(value, json.JSONDecodeError):
            return
        position, is_first = _skip_blanks(text, end), False
        if is_array and text.startswith("]", position):
            break
        if is_array and not text.startswith(",", position):
            yield position, json.JSONDecodeError("Expecting ',' or ']'", text, position)
            return
        position = _skip_blanks(text, position + is_array)
    yield from _closing_error(text, position, is_array=is_array)


def _closing_error(text: str, position: int, *, is_array: bool) -> Iterator[tuple[int, object]]:
    """Check that an array is closed and that nothing follows it."""
    if is_array and not text.startswith("]", position):
        yield position, json.JSONDecodeError("Expecting ']'", text, position)
    after = _skip_blanks(text, position + is_array)
    if is_array and after < len(text):
        yield after, json.JSONDecodeError("Extra data", text, after)


def _decode_at(text: str, position: int) -> tuple[object, int]:
    """Decode the value that starts at a position; an error is a value too."""
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        return error, position
    except RecursionError:
        return json.JSONDecodeError(_TOO_DEEP, text, position), position


def _skip_blanks(text: str, position: int) -> int:
    """Find the next position that is not white space.

    >>> _skip_blanks("a  b", 1)
    3
    """
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _syntax(error: json.JSONDecodeError) -> str:
    return f"not valid JSON: {error.msg} at column {error.colno}"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | Flaw:
    """Build an object, unless a key stands twice.

    >>> _object([("a", 1), ("a", 2)])
    Flaw(message='key "a" appears twice in one object')
    """
    value_by_key = dict(pairs)
    if len(value_by_key) == len(pairs):
        return value_by_key
    names = [name for name, _ in pairs]
    twice = next(name for name in value_by_key if names.count(name) > 1)
    return Flaw(f'key "{twice}" appears twice in one object')


def _real(text: str) -> float | Flaw:
    value = float(text)
    return value if math.isfinite(value) else Flaw(f"{text[:20]} is out of range for a number")


def _whole(text: str) -> int | Flaw:
    try:
        return int(text)
    except ValueError:  # Python refuses to read thousands of digits
        return Flaw(f"a number of {len(text):,} digits is too large")


def _constant(name: str) -> Flaw:
    return Flaw(f"{name} is not a valid JSON number")


_TOO_DEEP = "nested too deeply"
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_real, parse_int=_whole, parse_constant=_constant
)
