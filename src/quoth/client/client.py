"""A served collection: methods of `Engine` over HTTP, with nothing but the standard library.

with quoth.Client("http://127.0.0.1:8080") as client:
    for hit in client.search("owls that hunt at dusk"):
        print(hit.docid, hit.passage.text)

Answers are the records that `Engine` gives, and errors are those that `Engine` raises where the
server names one; anything else is a `ServerError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from quoth.client.connection import Connection, ServerError, named_error
from quoth.client.wire import (
    document_path,
    read_answer,
    read_attention,
    read_document,
    read_hits,
    read_part,
    search_body,
    write,
    write_batches,
)
from quoth.collection.store import Written
from quoth.errors import ConfigError
from quoth.records import Answer, Attention, Document, Hit, Part, SearchRequest, ShownHits


@dataclass(frozen=True, slots=True)
class AnswerToken:
    """Some characters of an answer in the making, and the number of the passage they quote."""

    text: str
    passage: int | None = None


class ServedAnswer:
    """An answer in the making: iterate over its tokens, then take the whole."""

    def __init__(self, question: str, events: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self.question = question
        self.notice = ""
        self._events = events
        self._answer: Answer | None = None

    def __iter__(self) -> Iterator[AnswerToken]:
        for name, record in self._events:
            if name == "token":
                yield AnswerToken(record["text"], record["passage"])
            elif name == "answer":
                self.notice = record["notice"] or ""
                self._answer = read_answer(record)
            elif name == "error":
                raise named_error(record, status=200)

    def answer(self) -> Answer:
        """Return the answer; what was not iterated over is waited for."""
        for _token in self:
            pass
        if self._answer is None:
            raise ServerError("the server stopped in the middle of its answer; ask again")
        return self._answer


class Client:
    """A connection to `quoth serve`, for one thread at a time."""

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 60.0, retries: int = 3
    ) -> None:
        """`timeout` is in seconds; a busy server is tried again as often as `retries` says."""
        self._connection = Connection(url, key=key, timeout=timeout, retries=retries)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # Writing ---------------------------------------------------------------------------------

    def add_documents(self, documents: Iterable[Document]) -> Written:
        """Add or update documents; each call's worth is durable before the next is sent."""
        total = Written()
        for body in write_batches(documents):
            done = self._connection.fetch("POST", "/documents", body)
            total = Written(
                total.added + done["added"],
                total.updated + done["updated"],
                total.unchanged + done["unchanged"],
            )
        return total

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        return tuple(docid for docid in docids if not self._connection.delete(document_path(docid)))

    # Searching -------------------------------------------------------------------------------

    def search(
        self,
        text: str,
        *,
        k: int = 10,
        offset: int = 0,
        where: str = "",
        searcher: str = "auto",
    ) -> tuple[Hit, ...]:
        """Find the k best documents for a query after the first `offset`, with their passages."""
        request = SearchRequest(text, k=k, offset=offset, where=where, searcher=searcher)
        return tuple(each.hit for each in self.find(request).hits)

    def find(self, request: SearchRequest) -> ShownHits:
        """Find the hits that a request asks for, with everything that is shown of them."""
        if not request.syntax:
            raise ConfigError("a served collection takes queries with syntax")
        found = read_hits(self._post("/search", search_body(request)))
        if not (request.attention and found.hits):
            return found
        docids = [each.hit.docid for each in found.hits]
        looks = self.attention(request.query, docids, searcher=found.searcher)
        pairs = zip(found.hits, looks, strict=True)
        return replace(found, hits=tuple(replace(each, attention=look) for each, look in pairs))

    def explain(
        self, text: str, docids: Sequence[str], *, searcher: str = "auto"
    ) -> tuple[Part, ...]:
        """Say what each hit's score is made of; the parts add up to it."""
        found = self._explanations(text, docids, searcher)
        return tuple(read_part(each["part"]) for each in found)

    def attention(
        self, text: str, docids: Sequence[str], *, searcher: str = "dense"
    ) -> tuple[Attention | None, ...]:
        """Say which words of query and document the encoder looked at; None without vectors."""
        found = self._explanations(text, docids, searcher)
        return tuple(read_attention(each["attention"]) for each in found)

    def document(self, docid: str) -> Document:
        """Fetch a document."""
        return read_document(self._connection.fetch("GET", document_path(docid)))

    # Answering -------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        *,
        k: int = 5,
        searcher: str = "auto",
        threshold: float | None = None,
        phrases: bool = True,
    ) -> ServedAnswer:
        """Answer from the k best documents, token by token: iterate, then take `answer()`."""
        asked = _question(question, k=k, searcher=searcher, threshold=threshold, phrases=phrases)
        response = self._connection.open("POST", "/answer", write({**asked, "stream": True}))
        return ServedAnswer(question, self._connection.events(response))

    def answer(
        self,
        question: str,
        *,
        k: int = 5,
        searcher: str = "auto",
        threshold: float | None = None,
        phrases: bool = True,
    ) -> Answer:
        """Answer in the documents' own words, with a citation for every quotation."""
        asked = _question(question, k=k, searcher=searcher, threshold=threshold, phrases=phrases)
        return read_answer(self._post("/answer", asked))

    # Looking after ---------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Describe the collection: sizes, fields, settings, and how current each index is."""
        return self._connection.fetch("GET", "/status")

    def stats(self) -> dict[str, Any]:
        """Say how the server fares: times per stage, its queue, its memory, its errors."""
        return self._connection.fetch("GET", "/stats")

    def limits(self) -> dict[str, Any]:
        """Say what the server takes at most."""
        return self._connection.fetch("GET", "/limits")

    def report(self) -> dict[str, Any]:
        """Return the report of what was learned from the collection."""
        return self._connection.fetch("GET", "/report")

    def _post(self, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        return self._connection.fetch("POST", path, write(asked))

    def _explanations(self, text: str, docids: Sequence[str], searcher: str) -> list[Any]:
        asked = {"query": text, "docids": list(docids), "searcher": searcher}
        found: list[Any] = self._post("/explain", asked)["explanations"]
        return found


def _question(
    question: str, *, k: int, searcher: str, threshold: float | None, phrases: bool
) -> dict[str, Any]:
    asked = {"question": question, "k": k, "searcher": searcher, "phrases": phrases}
    return asked if threshold is None else {**asked, "threshold": threshold}
