"""What the adapters share: opening a collection, and one search as texts with their sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quoth.client.client import Client
from quoth.engine.protocol import SearchEngine
from quoth.records import SearchRequest, ShownHit
from quoth.shards.opening import open_engine

_SIGNS = re.compile(r'"|(?<!\S)[+-](?=\S)|(?<=\S):(?=\S)')


@dataclass(frozen=True, slots=True)
class RetrievedText:
    """A passage that was found: its text, its score, and where it is from.

    The metadata are the document's own; over them stand `docid`, `title`, `score`, and the passage
    as `field`, `instance`, `start` and `end`, by which the text can be cited to the character.
    """

    docid: str
    text: str
    score: float
    metadata: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """A key of the passage, the same in every search."""
        place = self.metadata
        return f"{self.docid}#{place['field']}:{place['instance']}:{place['start']}-{place['end']}"


def open_place(place: str, *, key: str | None = None) -> SearchEngine:
    """Open a collection: a folder, or the address of one that is served."""
    if place.startswith(("http://", "https://")):
        return Client(place, key=key)
    return open_engine(place)


def retrieve(
    engine: SearchEngine,
    query: str,
    *,
    k: int,
    where: str = "",
    searcher: str = "auto",
    distinct: bool | None = None,
) -> list[RetrievedText]:
    """Find the best passages for a query, taken as plain words.

    Near-identical documents come once where `distinct`; None is as the collection is set.
    """
    request = SearchRequest(
        as_words(query), k=k, where=where, searcher=searcher, snippet_chars=0, distinct=distinct
    )
    return [_text_of(each) for each in engine.find(request).hits]


def as_words(query: str) -> str:
    """Take the signs out of a query that would mean something: a served collection heeds them.

    >>> as_words('+owl -barn "night bird" title:dusk state-of-the-art')
    ' owl  barn  night bird  title dusk state-of-the-art'
    """
    return _SIGNS.sub(" ", query)


def _text_of(shown: ShownHit) -> RetrievedText:
    hit, passage = shown.hit, shown.hit.passage
    own = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in shown.metadata.items()
    }
    place = {
        "field": passage.field if passage else "",
        "instance": passage.instance if passage else 0,
        "start": passage.span.start if passage else 0,
        "end": passage.span.end if passage else 0,
    }
    known = {"docid": hit.docid, "title": shown.title, "score": hit.score}
    text = passage.text if passage else ""
    return RetrievedText(hit.docid, text, hit.score, {**own, **known, **place})
