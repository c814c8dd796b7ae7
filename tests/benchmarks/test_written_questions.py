"""Questions that a language model writes for the reader: what is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from benchmarks.reader import pack
from benchmarks.reader.write_questions import (
    TEXTS,
    WRITTEN,
    Written,
    overlap,
    parse,
    write_lines,
)

PASSAGE = "The lighthouse of Lindau was built in 1856 by the engineer Carl Ruland."


def test_only_whole_questions_whose_answer_stands_there_are_kept() -> None:
    written = (
        " 1856\nQuestion: When was the lighthouse built?"
        "\nAnswer: 1857\nQuestion: When was it lit?"  # stands nowhere
        "\nAnswer: Carl Ruland\nQuestion: Which engineer was Carl Ruland?"  # tells its answer
        "\nAnswer: Lindau\nQuestion: Where?"  # too short to be one
        "\nAnswer: Carl Ruland\nQuestion: Who built the lighthouse of Lindau?"
        "\nAnswer: Lindau\nQuestion: Where does the lighthouse st"  # cut off
    )
    assert list(parse(7, written, PASSAGE)) == [
        Written(7, "When was the lighthouse built?", "1856"),
        Written(7, "Who built the lighthouse of Lindau?", "Carl Ruland"),
    ]


def test_a_question_is_kept_once() -> None:
    written = " 1856\nQuestion: When was it built?\nAnswer: 1856\nQuestion: When was it built?"
    assert len(list(parse(0, written + "\nAnswer:", PASSAGE))) == 1


@pytest.mark.parametrize(
    ("found", "expected"), [((2, 4), 1.0), ((3, 3), 0.5), ((5, 9), 0.0), ((0, 2), 1 / 3)]
)
def test_stretches_overlap_by_their_f1(found: tuple[int, int], expected: float) -> None:
    assert overlap((2, 4), found) == pytest.approx(expected)


def test_written_questions_are_packed_with_their_passage(tmp_path: Path) -> None:
    folder = tmp_path / pack.WRITTEN
    folder.mkdir(parents=True)
    write_lines(folder / TEXTS, [{"title": "", "text": "Other."}, {"title": "T", "text": PASSAGE}])
    write_lines(folder / WRITTEN, [{"text": 1, "question": "When?", "answer": "1856"}])
    (example,) = pack.written_questions(tmp_path)
    assert (example.source, example.question, example.answers) == ("written", "When?", ("1856",))
    assert example.passage == pack.Text("T", PASSAGE)
