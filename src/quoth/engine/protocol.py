"""What every engine offers, wherever its collection is: here in one piece, in shards, or served.

`Engine`, `ShardedEngine` and `Client` are such engines; tests/contract/test_engine_contract.py
tests them alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

from quoth.collection.store import Written
from quoth.records import Answer, Attention, Document, Hit, Part, SearchRequest, ShownHits


class HasText(Protocol):
    """Some characters of an answer."""

    @property
    def text(self) -> str:
        """The characters."""
        ...


class WrittenAnswer(Protocol):
    """An answer while it is written: iterate over its pieces, then take the whole."""

    notice: str

    def __iter__(self) -> Iterator[HasText]: ...

    def answer(self) -> Answer:
        """Return the whole, waiting for what was not iterated over."""
        ...


class SearchEngine(Protocol):
    """A collection that can be searched, asked and written to."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exception: object) -> None: ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...

    def find(self, request: SearchRequest) -> ShownHits:
        """Find the hits that a request asks for, with everything that is shown of them."""
        ...

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
        ...

    def explain(
        self, text: str, docids: Sequence[str], *, searcher: str = "auto"
    ) -> tuple[Part, ...]:
        """Say what each hit's score is made of; the parts add up to it."""
        ...

    def attention(
        self, text: str, docids: Sequence[str], *, searcher: str = "dense"
    ) -> tuple[Attention | None, ...]:
        """Say which words of query and document the encoder looked at; None without vectors."""
        ...

    def document(self, docid: str) -> Document:
        """Fetch a document; `NotFound` where there is none."""
        ...

    def add_documents(self, documents: Iterable[Document]) -> Written:
        """Add or update documents; they are durable and can be found when this returns."""
        ...

    def remove(self, docids: Sequence[str]) -> tuple[str, ...]:
        """Remove documents; returns the docids that were not there."""
        ...

    def ask(
        self,
        question: str,
        *,
        k: int = 5,
        searcher: str = "auto",
        threshold: float | None = None,
        phrases: bool = True,
    ) -> WrittenAnswer:
        """Answer from the k best documents, piece by piece."""
        ...

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
        ...

    def status(self) -> dict[str, Any]:
        """Describe the collection."""
        ...
