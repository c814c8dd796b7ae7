"""Documents on their way into the store: all that is stored of one and follows from it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import NamedTuple

from quoth.collection.content import (
    document_texts,
    find_problem,
    hash_content,
    write_content,
    write_usual,
)
from quoth.collection.filters import filter_entries
from quoth.compiled import is_compiled
from quoth.errors import CorpusError
from quoth.records import Document, Passage, Scalar
from quoth.text.passages import PassageConfig, PassagePlace, place_passages
from quoth.text.signatures import SIGNATURE_FORM, make_signature

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
    documents, stored = portion.documents, portion.digests
    written = [_write(each) for each in documents]
    is_new = [
        digest != stored.get(each.docid)
        for each, (_content, digest) in zip(documents, written, strict=True)
    ]
    derived = iter(_derive_all(list(compress(documents, is_new)), config))
    return tuple(
        PreparedDocument(content, digest, next(derived) if new else None)
        for (content, digest), new in zip(written, is_new, strict=True)
    )


def prepare_document(
    document: Document, *, place: PlacePassages, stored: bytes | None
) -> PreparedDocument:
    """Prepare a document, of which a version may be stored already; refuses what cannot be."""
    content, digest = _write(document)
    is_stored = digest == stored
    return PreparedDocument(content, digest, None if is_stored else _derive(document, place))


def _write(document: Document) -> tuple[str, bytes]:
    """Write a document down and hash it; refuses what cannot be stored."""
    content = write_usual(document)
    if content is None:
        if problem := find_problem(document):
            raise CorpusError(f"document {document.docid!r} {problem}")
        content = write_content(document)
    return content, hash_content(document.docid, content)


def places_of(passages: Iterable[Passage]) -> tuple[PassagePlace, ...]:
    """Say where passages stand."""
    return tuple((each.field, each.instance, each.span.start, each.span.end) for each in passages)


def _derive(document: Document, place: PlacePassages) -> Derived:
    return Derived(
        tuple(filter_entries(document)),
        place(document),
        make_signature(document_texts(document)),
    )


def _derive_all(documents: Sequence[Document], config: PassageConfig) -> Iterator[Derived]:
    """Do this for many documents at once, in compiled code where there is any."""
    if not is_compiled():
        return (_derive(each, partial(place_passages, config=config)) for each in documents)
    from quoth.native import derive

    fields = [dict(each.fields) for each in documents]
    max_words = 0 if config.overlap_words else config.max_words  # it repeats no words
    found = derive(fields, config.fields, max_words, SIGNATURE_FORM)
    return (
        Derived(
            tuple(filter_entries(each)),
            place_passages(each, config) if places is None else places,
            make_signature(document_texts(each)) if signature is None else signature,
        )
        for each, (places, signature) in zip(documents, found, strict=True)
    )


def join_prepared(
    documents: Sequence[Document], prepared: Sequence[PreparedDocument]
) -> dict[int, PreparedDocument]:
    """Find prepared documents by the documents that they were made from."""
    return {id(each): own for each, own in zip(documents, prepared, strict=True)}
