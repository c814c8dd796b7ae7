"""Which passages of the documents found are read for a question.

A hit shows one passage; what answers may stand in another one of the same document. The passages of
each document that hold most of the question are read, the one that was shown before all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quoth.answer.nearness import coverage, telling_words
from quoth.answer.reading_answerer import TitledPassage
from quoth.records import Document, Hit, Passage


def passages_to_read(
    question: str,
    hits: Sequence[Hit],
    documents: Mapping[str, tuple[Document, Sequence[Passage]]],
    *,
    per_document: int,
) -> list[TitledPassage]:
    """List the passages of hits, document by document; `documents` by docid, with passages."""
    telling = telling_words(question)
    found: list[TitledPassage] = []
    for hit in hits:
        if hit.passage is None or hit.docid not in documents:
            continue
        document, passages = documents[hit.docid]
        title = document.title
        others = [
            each for each in passages if each != hit.passage and each.text.strip() != title.strip()
        ]
        ranked = sorted(others, key=lambda each: -coverage(telling, each.text))
        chosen = [hit.passage, *ranked[: per_document - 1]]
        found += [TitledPassage(each, title) for each in chosen]
    return list(dict.fromkeys(found))
