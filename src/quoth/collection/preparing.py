"""Documents on their way into the store: all that is stored of one and follows from it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quoth.collection.content import document_texts, find_problem, hash_content, write_content
from quoth.collection.filters import filter_entries
from quoth.errors import CorpusError
from quoth.records import Document, Passage, Scalar
from quoth.text.passages import PassageConfig, PassagePlace, place_passages
from quoth.text.signatures import make_signature

CutDocument = Callable[[Document], tuple[Passage, ...]]
PlacePassages = Callable[[Document], tuple[PassagePlace, ...]]


class Derived(NamedTuple):
    """What is stored of a document besides its content; a tuple, as many are sent."""

    filters: tuple[tuple[str, int, Scalar], ...]
    places: tuple[PassagePlace, ...]
    signature: bytes


class PreparedDocument(NamedTuple):
    """A document as it is stored; what follows from it only where it is new or was changed."""

    content: str
    digest: bytes
    derived: Derived | None


Prepared = Mapping[int, PreparedDocument]
"""Prepared documents by the `id` of the document that they were made from."""


@dataclass(frozen=True, slots=True)
class DocumentPortion:
    """Documents to be prepared, and the digests of those that are stored already, by docid."""

    documents: tuple[Document, ...]
    digests: Mapping[str, bytes]


def prepare_portion(
    portion: DocumentPortion, *, config: PassageConfig
) -> tuple[PreparedDocument, ...]:
    """Prepare documents; depends on nothing else."""

    def place(document: Document) -> tuple[PassagePlace, ...]:
        return place_passages(document, config)

    return tuple(
        prepare_document(each, place=place, stored=portion.digests.get(each.docid))
        for each in portion.documents
    )


def prepare_document(
    document: Document, *, place: PlacePassages, stored: bytes | None
) -> PreparedDocument:
    """Prepare a document, of which a version may be stored already; refuses what cannot be."""
    if problem := find_problem(document):
        raise CorpusError(f"document {document.docid!r} {problem}")
    content = write_content(document)
    digest = hash_content(document.docid, content)
    is_stored = digest == stored
    return PreparedDocument(content, digest, None if is_stored else _derive(document, place))


def places_of(passages: Iterable[Passage]) -> tuple[PassagePlace, ...]:
    """Say where passages stand."""
    return tuple((each.field, each.instance, each.span.start, each.span.end) for each in passages)


def _derive(document: Document, place: PlacePassages) -> Derived:
    return Derived(
        tuple(filter_entries(document)),
        place(document),
        make_signature(document_texts(document)),
    )


def join_prepared(
    documents: Sequence[Document], prepared: Sequence[PreparedDocument]
) -> dict[int, PreparedDocument]:
    """Find prepared documents by the documents that they were made from."""
    return {id(each): own for each, own in zip(documents, prepared, strict=True)}
