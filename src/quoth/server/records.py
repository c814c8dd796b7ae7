"""Records as plain values, in the shapes of `schemas.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from quoth.answer.cite import Piece, document_span, number_sources, sentence_span
from quoth.records import (
    Answer,
    Attention,
    Citation,
    Document,
    Part,
    Passage,
    Snippet,
)
from quoth.server.schemas import DocumentBody
from quoth.server.workers.worker import Served
from quoth.shards.found import OutOfReach

_TITLES = ("title", "name")


def served_record(served: Served) -> dict[str, Any]:
    """Return a hit."""
    hit, part = served.hit, served.explanation
    return {
        "rank": served.rank,
        "docid": hit.docid,
        "score": hit.score,
        "title": title_of(served.document),
        "passage": None if hit.passage is None else passage_record(hit.passage),
        "snippet": None if served.snippet is None else snippet_record(served.snippet),
        "metadata": _metadata(served.document),
        "found_by": {
            name: {"rank": rank, "score": score} for name, (rank, score) in served.found_by.items()
        },
        "explanation": None if part is None else part_record(part),
    }


def partial_record(unreachable: Sequence[OutOfReach]) -> dict[str, Any]:
    """Say which shards a result had to do without; nothing where it is whole."""
    return {"unreachable": [asdict(each) for each in unreachable]} if unreachable else {}


def passage_record(passage: Passage) -> dict[str, Any]:
    """Return a passage without its docid."""
    return {
        "field": passage.field,
        "instance": passage.instance,
        "start": passage.span.start,
        "end": passage.span.end,
        "text": passage.text,
    }


def snippet_record(snippet: Snippet) -> dict[str, Any]:
    """Return a snippet."""
    return {
        "text": snippet.text,
        "start": snippet.span.start,
        "end": snippet.span.end,
        "highlights": [(span.start, span.end) for span in snippet.highlights],
    }


def part_record(part: Part) -> dict[str, Any]:
    """Return an explanation."""
    return {
        "label": part.label,
        "value": part.value,
        "parts": [part_record(each) for each in part.parts],
    }


def explanation_record(docid: str, part: Part, attention: Attention | None) -> dict[str, Any]:
    """Return the explanation of one document."""
    looked = None if attention is None else asdict(attention)
    return {"docid": docid, "part": part_record(part), "attention": looked}


def document_record(document: Document) -> dict[str, Any]:
    """Return a document."""
    fields = {name: list(texts) for name, texts in document.fields.items()}
    return {"docid": document.docid, "fields": fields, "metadata": _metadata(document)}


def document_of(body: DocumentBody) -> Document:
    """Take a document from a request."""
    return Document(
        body.docid,
        {
            name: (texts,) if isinstance(texts, str) else tuple(texts)
            for name, texts in body.fields.items()
        },
        {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in body.metadata.items()
        },
    )


def answer_record(
    question: str,
    answer: Answer,
    hits: Sequence[Served],
    snippets: Sequence[Snippet | None],
    *,
    notice: str,
) -> dict[str, Any]:
    """Return an answer; its passages look like hits, cut to what was read of them."""
    numbers = number_sources(answer)
    served_by_docid = {each.hit.docid: each for each in hits}
    return {
        "question": question,
        "text": answer.text,
        "abstained": answer.abstained,
        "support": answer.support,
        "notice": notice,
        "citations": [_citation(each, numbers[each.passage]) for each in answer.citations],
        "passages": [
            {
                **served_record(served_by_docid[passage.docid]),
                "rank": rank,
                "passage": passage_record(passage),
                "snippet": None if snippet is None else snippet_record(snippet),
            }
            for rank, (passage, snippet) in enumerate(
                zip(answer.passages, snippets, strict=True), start=1
            )
        ],
    }


def token_record(piece: Piece) -> dict[str, Any]:
    """Return a piece of an answer, with the number of a passage it may come from, from 0."""
    return {"text": piece.text, "passage": piece.sources[0].passage if piece.sources else None}


def title_of(document: Document) -> str:
    """Return a document's title, empty where it has none."""
    return next((document.fields[name][0] for name in _TITLES if document.fields.get(name)), "")


def _citation(citation: Citation, number: int) -> dict[str, Any]:
    passage, sentence = citation.passage, sentence_span(citation)
    quoted, place = citation.passage_span, document_span(citation)
    return {
        "number": number,
        "start": citation.answer_span.start,
        "end": citation.answer_span.end,
        "docid": passage.docid,
        "field": passage.field,
        "instance": passage.instance,
        "document_start": place.start,
        "document_end": place.end,
        "quoted": passage.text[quoted.start : quoted.end],
        "sentence": passage.text[sentence.start : sentence.end],
        "sentence_start": passage.span.start + sentence.start,
    }


def _metadata(document: Document) -> Mapping[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in document.metadata.items()
    }
