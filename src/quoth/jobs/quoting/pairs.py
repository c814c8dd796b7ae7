"""Read labelled questions: JSON Lines, each with its answers and where they stand.

    {"question": "…", "answers": ["…"], "docid": "…"}
    {"question": "…", "answers": ["…"], "passage": "…"}

Answers are written as they stand in the passage. With a docid, the passage is the first of that
document that holds an answer. What is wrong is told with path:line, several lines at once.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from quoth.training.retriever.pair_files import (
    Malformed,
    parse_object,
    read_labelled,
    require_text,
)

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
    value = parse_object(text, example=_EXAMPLE)
    if ("passage" in value) == ("docid" in value):
        raise Malformed(f"expected either passage or docid, as in {_EXAMPLE}")
    answers = value.get("answers")
    if not isinstance(answers, list) or not answers:
        raise Malformed(f"answers is no list of texts that stand in the passage: {_EXAMPLE}")
    question = LabelledQuestion(
        require_text("question", value.get("question")),
        tuple(require_text("answers", each) for each in answers),
        require_text("passage", value["passage"]) if "passage" in value else "",
        require_text("docid", value["docid"]) if "docid" in value else "",
    )
    if question.docid and question.docid not in docids:
        raise Malformed(
            f"there is no document {question.docid!r} in this collection; add it, or leave the"
            " question out"
        )
    return question
