"""The questions of a newcomer, each with the documents that answer it and what an answer must hold.

    python -m benchmarks.manuals.questions      # checks them against the collection

They were written before any answer was seen, from what a newcomer would ask; documents and patterns
by looking into the manuals. Every other one is for development, whose failures may be looked at,
and the others only measure. A question without documents has no answer in the manuals.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.manuals.fetch import CACHE

PATH = Path(__file__).parent / "questions.jsonl"
COLLECTION = "manuals.quoth"


@dataclass(frozen=True)
class ManualQuestion:
    """A question, where its answer stands, and a pattern that a right answer matches."""

    qid: str
    split: str
    question: str
    documents: tuple[str, ...]
    answer: str

    @property
    def is_answerable(self) -> bool:
        """Whether the manuals answer it."""
        return bool(self.documents)

    def is_held_by(self, text: str) -> bool:
        """Whether a text holds what a right answer must; line breaks count as spaces."""
        return re.search(self.answer, " ".join(text.split())) is not None


def open_manual_questions(path: Path = PATH) -> list[ManualQuestion]:
    """Read the questions."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [ManualQuestion(**{**row, "documents": tuple(row["documents"])}) for row in rows]


def name_of(docid: str) -> str:
    """Return a document's path within the corpus.

    >>> name_of("benchmarks/.cache/manuals/corpus/git/git-add.html")
    'git/git-add.html'
    """
    return docid.rpartition("corpus/")[2]


def main() -> None:
    """Check that marked documents exist and hold their answers."""
    from quoth.engine.engine import Engine

    wrong = 0
    with Engine.open(CACHE / COLLECTION) as engine:
        texts = {
            name_of(docid): " ".join(
                part for own in engine.document(docid).fields.values() for part in own
            )
            for docid in engine.docids()
        }
    for each in open_manual_questions():
        absent = [docid for docid in each.documents if docid not in texts]
        empty = [d for d in each.documents if d in texts and not each.is_held_by(texts[d])]
        others = [d for d in texts if d not in each.documents and each.is_held_by(texts[d])]
        if absent or empty:
            wrong += 1
            print(f"{each.qid} {each.question}: absent {absent}, without the answer {empty}")
        if each.is_answerable and "-v" in sys.argv:
            print(f"{each.qid} {each.question}: {len(others)} others: {' '.join(others[:12])}")
    print(f"{wrong} questions with documents that do not hold their answer")


if __name__ == "__main__":
    main()
