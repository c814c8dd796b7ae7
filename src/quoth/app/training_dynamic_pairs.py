"""Read labelled questions: JSON Lines, each with its answers and where they stand.

    {"question": "…", "answers": ["…"], "docid": "…"}
    {"question": "…", "answers": ["…"], "passage": "…"}

Answers are written as they stand in the passage. With a docid, the passage is the first of that
document that holds an answer. What is wrong is told with path:line, several lines at once.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.errors import CorpusError
from quoth.records import Place, Problem
from quoth.text.readers.lines import file_chunks, read_lines
from quoth.training.pair_files import MAX_LINE_BYTES, MAX_PROBLEMS

_EXAMPLE = '{"question": "…", "answers": ["…"], "docid": "…"}'


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, its answers, and the passage or else the document that holds them."""

    question: str
    answers: tuple[str, ...]
    passage: str
    docid: str


class _Malformed(Exception):
    """A line cannot be used: says why, the reader adds where."""


def read_questions(path: Path, docids: Container[str]) -> list[LabelledQuestion]:
    """Read all questions of a file; their documents have to be among those of the collection."""
    if not path.is_file():
        raise CorpusError(f"{path} is no file; expected lines such as {_EXAMPLE}")
    found: list[LabelledQuestion] = []
    problems: list[Problem] = []
    for place, text in _lines(path, problems):
        try:
            found.append(_parse(text, docids))
        except _Malformed as error:
            problems.append(Problem(place, str(error)))
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        more = "\n(reading stopped here)" if len(problems) >= MAX_PROBLEMS else ""
        raise CorpusError("\n".join(map(str, problems)) + more)
    if not found:
        raise CorpusError(f"{path} holds no questions; expected lines such as {_EXAMPLE}")
    return found


def _lines(path: Path, problems: list[Problem]) -> Iterator[tuple[Place, str]]:
    """Yield the lines that hold something, as text."""
    chunks = file_chunks(str(path))
    for line in read_lines(chunks, path=str(path), encoding="utf-8", max_line_bytes=MAX_LINE_BYTES):
        if isinstance(line, Problem):
            problems.append(line)
        elif not line.is_blank:
            place = Place(str(path), line.number)
            try:
                text = line.data.decode(line.encoding)
            except UnicodeDecodeError as error:
                problems.append(Problem(place, f"not {line.encoding} text ({error.reason})"))
                continue
            yield place, text


def _parse(text: str, docids: Container[str]) -> LabelledQuestion:
    """Read one object.

    >>> _parse('{"question": "Who?", "answers": ["an owl"], "docid": "a"}', {"a"})
    LabelledQuestion(question='Who?', answers=('an owl',), passage='', docid='a')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _Malformed(f"expected an object such as {_EXAMPLE}")
    if ("passage" in value) == ("docid" in value):
        raise _Malformed(f"expected either passage or docid, as in {_EXAMPLE}")
    answers = value.get("answers")
    if not isinstance(answers, list) or not answers:
        raise _Malformed(f"answers is no list of texts that stand in the passage: {_EXAMPLE}")
    question = LabelledQuestion(
        _text("question", value.get("question")),
        tuple(_text("answers", each) for each in answers),
        _text("passage", value["passage"]) if "passage" in value else "",
        _text("docid", value["docid"]) if "docid" in value else "",
    )
    if question.docid and question.docid not in docids:
        raise _Malformed(
            f"there is no document {question.docid!r} in this collection; add it, or leave the"
            " question out"
        )
    return question


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value
    found = "missing" if value is None else "empty" if isinstance(value, str) else "not text"
    raise _Malformed(f"{name} is {found}")
