"""What the tools of the Model Context Protocol return; their JSON schema is made from these.

Those that tools return have no slots: the SDK takes a slot for a default value.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.answer.cite import document_span, number_sources, sentence_span, with_markers
from quoth.errors import CollectionError
from quoth.records import Answer, Citation, Document
from quoth.server.records import title_of
from quoth.server.workers.worker import Served

_BODY = "text"


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """The best passage of a document that was found; `start` and `end` count characters."""

    docid: str
    title: str
    score: float
    field: str
    instance: int
    start: int
    end: int
    text: str
    metadata: dict[str, str | int | float | bool | list[str | int | float | bool]]


@dataclass(frozen=True)
class Found:
    """Hits, best first, and the searcher that found them."""

    searcher: str
    hits: list[FoundPassage]


@dataclass(frozen=True, slots=True)
class Quotation:
    """A stretch of an answer (`answer_start` to `answer_end`) and where it is quoted from."""

    number: int
    answer_start: int
    answer_end: int
    docid: str
    field: str
    instance: int
    start: int
    end: int
    quoted: str
    sentence: str


@dataclass(frozen=True)
class Answered:
    """An answer whose every quotation is cited; `marked` has the numbers of sources in it."""

    text: str
    marked: str
    abstained: bool
    support: float
    notice: str
    citations: list[Quotation]
    docids: list[str]


@dataclass(frozen=True)
class Fetched:
    """A stretch of a document; `length` is that of the whole field, `instances` those of each."""

    docid: str
    field: str
    instance: int
    start: int
    end: int
    length: int
    text: str
    instances: dict[str, int]


def found_passage(served: Served) -> FoundPassage:
    """Show a hit by its passage."""
    hit, document, passage = served.hit, served.document, served.hit.passage
    assert passage is not None  # `Engine.search` gives every hit its best one
    return FoundPassage(
        hit.docid,
        title_of(document),
        hit.score,
        passage.field,
        passage.instance,
        passage.span.start,
        passage.span.end,
        passage.text,
        {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in document.metadata.items()
        },
    )


def answered(answer: Answer, notice: str) -> Answered:
    """Show an answer with its citations."""
    numbers = number_sources(answer)
    return Answered(
        answer.text,
        with_markers(answer),
        answer.abstained,
        answer.support,
        notice,
        [_quotation(each, numbers[each.passage]) for each in answer.citations],
        list(dict.fromkeys(passage.docid for passage in answer.passages)),
    )


def fetched(document: Document, *, field: str, instance: int, start: int, length: int) -> Fetched:
    """Cut a stretch out of a document; without a field, out of its text or what comes first."""
    name = field or (_BODY if _BODY in document.fields else next(iter(document.fields)))
    texts = document.fields.get(name, ())
    if not texts:
        raise CollectionError(
            f"document {document.docid!r} has no field {name!r}, only {', '.join(document.fields)}"
        )
    if instance >= len(texts):
        raise CollectionError(
            f"field {name!r} of document {document.docid!r} has {len(texts)} instances, counted"
            f" from 0; there is no {instance}"
        )
    text = texts[instance]
    begin, end = min(start, len(text)), min(start + length, len(text))
    counts = {each: len(found) for each, found in document.fields.items()}
    return Fetched(document.docid, name, instance, begin, end, len(text), text[begin:end], counts)


def _quotation(citation: Citation, number: int) -> Quotation:
    passage, place, sentence = citation.passage, document_span(citation), sentence_span(citation)
    return Quotation(
        number,
        citation.answer_span.start,
        citation.answer_span.end,
        passage.docid,
        passage.field,
        passage.instance,
        place.start,
        place.end,
        passage.text[citation.passage_span.start : citation.passage_span.end],
        passage.text[sentence.start : sentence.end],
    )
