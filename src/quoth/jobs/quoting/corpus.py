"""What a collection gives to learn from: documents split in two, and their neighbours by BM25.

Documents are held out before anything is made of them. What is trained on never holds a passage of
theirs: not as a text, not among the passages of a prompt, and not as the same words in another
document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from quoth.engine.base import EngineBase
from quoth.errors import CollectionError
from quoth.jobs.learn.queries import hold_out_documents, spread
from quoth.records import TITLES, Document, Passage
from quoth.search.searcher import Progress
from quoth.settings.dynamic_lm import DynamicTrainingConfig
from quoth.text.passages import cut_document

_HEADING_WORDS = 6


@dataclass(frozen=True, slots=True)
class Source:
    """A document that samples are made of."""

    docid: str
    heading: str
    """Its title, or its first words."""
    passages: tuple[Passage, ...]


class Corpus:
    """The documents to train on, those to judge by, and where passages near a text are found."""

    def __init__(
        self, engine: EngineBase, config: DynamicTrainingConfig, progress: Progress
    ) -> None:
        docids = engine.docids()
        if len(docids) < 2:
            raise CollectionError(
                f"{engine.folder} holds {len(docids)} documents; training needs some to learn from"
                " and others to judge by, so add more"
            )
        self.docids = frozenset(docids)
        self.held = frozenset(hold_out_documents(docids, share=config.held_out, seed=config.seed))
        self._engine = engine
        self._cutting = engine.config.passages
        self._share = config.held_out
        sides = [
            [docid for docid in docids if (docid in self.held) == is_held]
            for is_held in (False, True)
        ]
        chosen = [[side[at] for at in spread(len(side), config.documents)] for side in sides]
        total = sum(map(len, chosen))
        digest = hashlib.sha256()
        read: list[list[Source]] = [[], []]
        for number, own in enumerate(chosen):
            for docid in own:
                progress("reading documents", len(read[0]) + len(read[1]), total)
                source = self._read(engine.document(docid))
                digest.update(repr((docid, source)).encode("utf-8", "backslashreplace"))
                read[number].append(source)
        self.digest = digest.hexdigest()
        self.judged = tuple(read[1])
        self._held_texts = {each.text for each in all_passages(self.judged)}
        self.training = tuple(self._without_held(source) for source in read[0])
        self._known_texts = {each.text for each in all_passages(self.training)}

    def passages_of(self, docid: str) -> tuple[Passage, ...]:
        """Cut a document into its passages."""
        return self._read(self._engine.document(docid)).passages

    def is_held_out(self, docid: str, text: str) -> bool:
        """Whether a labelled passage is one to judge by: as its document, or else by its text."""
        if docid or text in self._held_texts or text in self._known_texts:
            return docid in self.held if docid else text in self._held_texts
        number = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(number) < self._share * 2**64

    def neighbours(
        self, text: str, *, k: int, without: str = "", with_held_out: bool
    ) -> tuple[Passage, ...]:
        """Find the passages nearest to a text by BM25, one per document.

        `without` is a document that is left out; held-out ones are, unless they may be read.
        """
        hits = self._engine.search(text, k=2 * k + 1, searcher="lexical", syntax=False)
        found = (hit.passage for hit in hits if hit.passage is not None and hit.docid != without)
        kept = [each for each in found if with_held_out or not self._is_held(each)]
        return tuple(kept[:k])

    def _read(self, document: Document) -> Source:
        titles = [text for name in TITLES for text in document.fields.get(name, ())]
        whole = " ".join(text for texts in document.fields.values() for text in texts)
        heading = " ".join((titles or [whole])[0].split()[: None if titles else _HEADING_WORDS])
        passages = cut_document(document, self._cutting)
        return Source(document.docid, heading or document.docid, passages)

    def _without_held(self, source: Source) -> Source:
        kept = tuple(each for each in source.passages if each.text not in self._held_texts)
        return Source(source.docid, source.heading, kept)

    def _is_held(self, passage: Passage) -> bool:
        return passage.docid in self.held or passage.text in self._held_texts


def all_passages(sources: Sequence[Source]) -> list[Passage]:
    """List the passages of documents, in order."""
    return [passage for source in sources for passage in source.passages]
