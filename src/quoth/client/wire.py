"""Between records and the JSON of the HTTP interface. Pure."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quoth.records import (
    Answer,
    Attention,
    Citation,
    Document,
    Hit,
    OutOfReach,
    Part,
    Passage,
    RankAndScore,
    SearchRequest,
    ShortAnswer,
    ShownHit,
    ShownHits,
    Snippet,
    Span,
    WordShare,
)

_MAX_CALL_DOCUMENTS = 1_000
_MAX_CALL_BYTES = 4_000_000


def write(content: Mapping[str, Any]) -> bytes:
    """Write a request's body."""
    return json.dumps(content, allow_nan=False).encode()


def write_batches(documents: Iterable[Document]) -> Iterator[bytes]:
    """Write documents as bodies that a server takes; a longer document goes alone."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        written = write(
            {
                "docid": document.docid,
                "fields": {name: list(texts) for name, texts in document.fields.items()},
                "metadata": dict(document.metadata),
            }
        )
        if batch and (len(batch) == _MAX_CALL_DOCUMENTS or size + len(written) > _MAX_CALL_BYTES):
            yield _join(batch)
            batch, size = [], 0
        batch.append(written)
        size += len(written)
    if batch:
        yield _join(batch)


def document_path(docid: str) -> str:
    """Say where a document stands.

    Not as a part of the path: what stands between client and server may take "..", "//" or "%2F"
    in one for something else.

    >>> document_path("notes/a b?.md")
    '/documents?docid=notes%2Fa%20b%3F.md'
    """
    return "/documents?docid=" + urllib.parse.quote(docid, safe="")


def read_document(record: Mapping[str, Any]) -> Document:
    """Read a document: fields and metadata may repeat."""
    fields = {name: tuple(texts) for name, texts in record["fields"].items()}
    return Document(record["docid"], fields, _read_metadata(record["metadata"]))


def search_body(request: SearchRequest) -> dict[str, Any]:
    """Write what is asked of /search."""
    rerank = {} if request.rerank is None else {"rerank": request.rerank}
    if request.distinct is not None:
        rerank["distinct"] = request.distinct
    return {
        "query": request.query,
        "k": request.k,
        "offset": request.offset,
        "searcher": request.searcher,
        "where": [request.where] if request.where.strip() else [],
        "explain": request.explain,
    } | rerank


def read_hits(record: Mapping[str, Any]) -> ShownHits:
    """Read hits with what is shown of them."""
    unreachable = tuple(OutOfReach(**each) for each in record["unreachable"])
    hits = tuple(map(_read_hit, record["hits"]))
    by, better = record.get("reranked_by", ""), record.get("did_you_mean", "")
    missing = record.get("incomplete", "")
    return ShownHits(hits, record["searcher"], unreachable, by, better, missing)


def _read_hit(record: Mapping[str, Any]) -> ShownHit:
    docid, passage, part = record["docid"], record["passage"], record["explanation"]
    hit = Hit(docid, record["score"], None if passage is None else read_passage(docid, passage))
    return ShownHit(
        record["rank"],
        hit,
        record["title"],
        _read_metadata(record["metadata"]),
        _read_snippet(record["snippet"]),
        {name: RankAndScore(**each) for name, each in record["found_by"].items()},
        None if part is None else read_part(part),
        also=tuple(record.get("also", ())),
    )


def _read_snippet(record: Mapping[str, Any] | None) -> Snippet | None:
    if record is None:
        return None
    highlights = tuple(Span(start, end) for start, end in record["highlights"])
    return Snippet(record["text"], Span(record["start"], record["end"]), highlights)


def _read_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in record.items()
    }


def read_passage(docid: str, record: Mapping[str, Any]) -> Passage:
    """Read a passage of a document."""
    span = Span(record["start"], record["end"])
    field, instance, place = record["field"], record["instance"], record.get("place", "")
    return Passage(docid, field, span, record["text"], instance, place)


def read_part(record: Mapping[str, Any]) -> Part:
    """Read an explanation.

    >>> read_part({"label": "sum", "value": 1.5, "parts": []})
    Part(label='sum', value=1.5, parts=())
    """
    parts = tuple(read_part(each) for each in record["parts"])
    return Part(record["label"], record["value"], parts)


def read_attention(record: Mapping[str, Any] | None) -> Attention | None:
    """Read which words were looked at, None where there are no vectors."""
    if record is None:
        return None
    query, document = (
        tuple(WordShare(each["word"], each["share"]) for each in record[side])
        for side in ("query", "document")
    )
    return Attention(query, document)


def read_answer(record: Mapping[str, Any]) -> Answer:
    """Read an answer; each citation is given the passage that holds its quotation."""
    passages = tuple(read_passage(each["docid"], each["passage"]) for each in record["passages"])
    citations = tuple(_read_citation(each, passages) for each in record["citations"])
    return Answer(
        record["text"],
        citations,
        passages,
        record["support"],
        abstained=record["abstained"],
        short=_read_short(record["short"]),
        disagrees=record["disagrees"],
    )


def _read_short(record: Mapping[str, Any] | None) -> ShortAnswer | None:
    if record is None:
        return None
    span = Span(record["answer_start"], record["answer_end"])
    return ShortAnswer(record["text"], span, record["probability"])


def _read_citation(record: Mapping[str, Any], passages: tuple[Passage, ...]) -> Citation:
    place = (record["docid"], record["field"], record["instance"])
    start, end = record["start"], record["end"]
    source = next(
        each
        for each in passages
        if (each.docid, each.field, each.instance) == place
        and each.span.start <= start
        and end <= each.span.end
    )
    quoted = Span(start - source.span.start, end - source.span.start)
    return Citation(Span(record["answer_start"], record["answer_end"]), source, quoted)


def _join(batch: list[bytes]) -> bytes:
    return b'{"documents": [' + b", ".join(batch) + b"]}"
