"""Read labelled questions: JSON Lines, each with its answers and where they stand.

    {"question": "…", "answers": ["…"], "docid": "…"}
    {"question": "…", "answers": ["…"], "passage": "…"}

Answers are written as they stand in the passage. With a docid, the passage is the first of that
document that holds an answer. What is wrong is told with path:line, several lines at once.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quoth.training.retriever.pair_files import Malformed, read_labelled

_EXAMPLE = '{"question": "…", "answers": ["…"], "docid": "…"}'


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, its answers, and the passage or else the document that holds them."""

    question: str
    answers: tuple[str, ...]
    passage: str
    docid: str


def read_questions(path: Path, docids: Container[str]) -> list[LabelledQuestion]:
    """Read all questions of a file; their documents have to be among those of the collection."""
    return read_labelled(
        path,
        lambda text: _parse(text, docids),
        kind="questions",
        expected=f"lines such as {_EXAMPLE}",
    )


def _parse(text: str, docids: Container[str]) -> LabelledQuestion:
    """Read one object.

    >>> _parse('{"question": "Who?", "answers": ["an owl"], "docid": "a"}', {"a"})
    LabelledQuestion(question='Who?', answers=('an owl',), passage='', docid='a')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise Malformed(f"expected an object such as {_EXAMPLE}")
    if ("passage" in value) == ("docid" in value):
        raise Malformed(f"expected either passage or docid, as in {_EXAMPLE}")
    answers = value.get("answers")
    if not isinstance(answers, list) or not answers:
        raise Malformed(f"answers is no list of texts that stand in the passage: {_EXAMPLE}")
    question = LabelledQuestion(
        _text("question", value.get("question")),
        tuple(_text("answers", each) for each in answers),
        _text("passage", value["passage"]) if "passage" in value else "",
        _text("docid", value["docid"]) if "docid" in value else "",
    )
    if question.docid and question.docid not in docids:
        raise Malformed(
            f"there is no document {question.docid!r} in this collection; add it, or leave the"
            " question out"
        )
    return question


def _text(name: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value
    found = "missing" if value is None else "empty" if isinstance(value, str) else "not text"
    raise Malformed(f"{name} is {found}")
