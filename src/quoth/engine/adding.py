"""Documents on their way into the store: checked, each once, in batches that fit in memory."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quoth.collection.content import find_problem
from quoth.collection.preparing import (
    CutDocument,
    DocumentPortion,
    Prepared,
    join_prepared,
    prepare_portion,
)
from quoth.collection.seen import SeenDocids
from quoth.collection.store import Written
from quoth.compiled import is_compiled
from quoth.errors import CorpusError
from quoth.portions import count_workers, map_portions
from quoth.records import Document, Located, Problem
from quoth.search.searcher import Progress
from quoth.settings.config import Config
from quoth.text.passages import cut_document

if TYPE_CHECKING:
    from quoth.text.readers.reading import Report

MAX_BATCH_CHARACTERS = 4_000_000
"""So much text is held before it is stored."""


class DocumentSink(Protocol):
    """What documents are written to; `Store` is one."""

    def digests(self, docids: Sequence[str]) -> Mapping[str, bytes]:
        """Map docids to the digests of what is stored of them; others are left out."""
        ...

    def add(
        self, documents: Sequence[Document], *, cut: CutDocument, prepared: Prepared | None = None
    ) -> Written:
        """Add or update a batch."""
        ...


@dataclass(frozen=True, slots=True)
class AddReport:
    """What became of the documents that were read."""

    added: int
    updated: int
    unchanged: int
    skipped: int


def raise_problem(problem: Problem) -> None:
    """Stop at the first input that cannot be read."""
    raise CorpusError(str(problem))


def deduplicate(read: Iterable[Located], report: Report) -> Iterator[Document]:
    """Pass each docid once, and report what comes again or cannot be stored."""
    with contextlib.closing(SeenDocids()) as seen:
        for located in read:
            document = located.document
            if problem := find_problem(document):
                report(Problem(located.place, f"document {document.docid!r} {problem}"))
            elif not seen.is_new(document.docid):
                report(Problem(located.place, f"duplicate id {document.docid!r}"))
            else:
                yield document


def add_sources(
    sources: Sequence[str],
    store: DocumentSink,
    config: Config,
    *,
    report: Report | None,
    progress: Progress,
) -> AddReport:
    """Read sources and add or update their documents; each batch is durable before the next.

    What cannot be read goes to `report`; without one, the first problem stops the reading.
    """
    skipped = 0

    def tell(problem: Problem) -> None:
        nonlocal skipped
        skipped += 1
        (raise_problem if report is None else report)(problem)

    from quoth.text.readers.reading import read_documents  # of all formats: searches need none

    read = read_documents(sources, config=config.readers, report=tell)
    written = add_in_batches(deduplicate(read, tell), store, config, progress=progress)
    return AddReport(written.added, written.updated, written.unchanged, skipped)


def add_in_batches(
    documents: Iterable[Document], store: DocumentSink, config: Config, *, progress: Progress
) -> Written:
    """Add or update documents, batch by batch; each is durable before the next is written.

    Where there are many, others prepare batches ahead of the one that is written.
    """
    cut = functools.partial(cut_document, config=config.passages)
    waiting: deque[list[Document]] = deque()

    def draw() -> Iterator[DocumentPortion]:
        for batch in _batches(documents, config.collection.batch_documents):
            waiting.append(batch)
            yield DocumentPortion(tuple(batch), store.digests([each.docid for each in batch]))

    work = functools.partial(prepare_portion, config=config.passages)
    workers = count_workers(config.collection.workers)
    total = Written()
    in_threads = is_compiled() and not config.passages.overlap_words
    prepared = map_portions(work, draw(), workers=workers, in_threads=in_threads)
    with contextlib.closing(prepared) as portions:
        for portion in portions:
            batch = waiting.popleft()
            done = store.add(batch, cut=cut, prepared=join_prepared(batch, portion))
            total = Written(
                total.added + done.added,
                total.updated + done.updated,
                total.unchanged + done.unchanged,
            )
            progress("reading documents", total.added + total.updated + total.unchanged, 0)
    return total


def _batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Group documents by number and by length, so that a batch of long ones fits in memory too."""
    batch: list[Document] = []
    length = 0
    for document in documents:
        batch.append(document)
        length += sum(len(text) for texts in document.fields.values() for text in texts)
        if len(batch) >= size or length >= MAX_BATCH_CHARACTERS:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
