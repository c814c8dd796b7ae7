"""What a search shows for each hit, gathered in one place for the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from quoth.records import Attention, Document, Hit, Part, Snippet
from quoth.shards.opening import OpenedEngine


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit with everything a reader may want to see of it."""

    hit: Hit
    document: Document
    snippet: Snippet | None
    explanation: Part | None
    attention: Attention | None = None


def look_up(
    engine: OpenedEngine,
    query: str,
    *,
    k: int,
    where: str,
    searcher: str,
    explain: bool,
    rerank: bool = False,
) -> list[Shown]:
    """Search, and fetch what is shown of each hit."""
    hits = engine.search(query, k=k, where=where, searcher=searcher, rerank=rerank)
    parts: list[Part | None] = [None] * len(hits)
    attentions: list[Attention | None] = [None] * len(hits)
    if explain:
        docids = [hit.docid for hit in hits]
        found = engine.explain(query, docids, k=k, where=where, searcher=searcher, rerank=rerank)
        parts = list(found)
        attentions = list(engine.attention(query, docids, searcher=searcher))
    return [
        Shown(
            hit,
            engine.document(hit.docid),
            engine.snippet(query, hit.passage) if hit.passage else None,
            part,
            look,
        )
        for hit, part, look in zip(hits, parts, attentions, strict=True)
    ]


def as_record(shown: Shown) -> dict[str, Any]:
    """Return a hit as plain values for JSON."""
    record: dict[str, Any] = {
        "docid": shown.hit.docid,
        "score": shown.hit.score,
        "passage": asdict(shown.hit.passage) if shown.hit.passage else None,
        "snippet": asdict(shown.snippet) if shown.snippet else None,
        "metadata": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in shown.document.metadata.items()
        },
    }
    if shown.explanation is not None:
        record["explanation"] = asdict(shown.explanation)
    if shown.attention is not None:
        record["attention"] = asdict(shown.attention)
    return record
