"""Which texts name a document, and how they become sequences of phrases with owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quoth.collection.store import Store
from quoth.index.trie.trie import Sequences, Trie, spread
from quoth.records import Document
from quoth.search.generative.config import IDENTIFIERS, GenerativeConfig
from quoth.text.blocks import count_words
from quoth.text.clauses import cut_clauses
from quoth.vocabulary.identifiers import (
    Integers,
    OwnedSequences,
    PhraseIds,
    cut_identifiers,
    gather_identifiers,
    sort_phrases,
)
from quoth.vocabulary.phrases.added import AddedWords
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary

BODY, TITLES = "text", ("title", "name")
"""The field whose sentences name a document, and those that hold its title."""

_PASSAGE = 180  # words, as passages are cut by default
_TITLE_WORDS = 12  # of a title before a sentence
_AT_ONCE = 65_536  # identifiers whose rows are added up together

Float32 = NDArray[np.float32]

TakeRows = Callable[[PhraseIds], Float32]
"""Returns the rows (M, D) of phrases."""

Identify = Callable[[Sequence[Document]], list[list[str]]]
"""Writes identifiers for documents that have none kept."""


def name_documents(
    documents: Mapping[int, Document],
    store: Store,
    *,
    config: GenerativeConfig,
    identify: Identify | None,
) -> Iterator[tuple[int, str]]:
    """Return the texts that name documents, by row: as many as allowed, first sources first.

    Sentences come after all sources. Where they bear the title, it is no name of its own: documents
    that share it would tie for every query that is like it.
    """
    kept: dict[int, Sequence[str]] = {}
    if IDENTIFIERS in config.sources:
        kept = {row: store.identifiers(each.docid) for row, each in documents.items()}
        bare = [row for row, texts in kept.items() if not texts]
        if identify is not None and bare:
            kept.update(zip(bare, identify([documents[row] for row in bare]), strict=True))
    for row, document in documents.items():
        sentences = name_sentences(document, config)
        borne = TITLES if sentences and config.titled else ()
        texts = [
            " ".join(text.split())
            for source in config.sources
            if source not in borne
            for text in (kept[row] if source == IDENTIFIERS else document.fields.get(source, ()))
        ]
        texts += sentences
        distinct = [text for text in dict.fromkeys(texts) if text]
        yield from ((row, text) for text in distinct[: config.per_document])


def name_sentences(document: Document, config: GenerativeConfig) -> list[str]:
    """Cut the text of a document into sentences and clauses that name it, evenly spread over it.

    >>> texts = {"title": ("Owls",), "text": ("They see at night. They hear mice well.",)}
    >>> name_sentences(Document("d", texts), GenerativeConfig())
    ['Owls They see at night.', 'Owls They hear mice well.']
    """
    title = _find_title(document) if config.titled else ""
    found = []
    for text in document.fields.get(BODY, ()) if config.sentences else ():
        most = config.sentences * max(1, -(-count_words(text) // _PASSAGE))
        pieces = cut_clauses(text, most_words=config.clause_words)
        if len(pieces) > most:
            pieces = [pieces[at * len(pieces) // most] for at in range(most)]
        found += [f"{title} {piece}" if title else piece for piece in pieces]
    return found


def _find_title(document: Document) -> str:
    for name in TITLES:
        for text in document.fields.get(name, ()):
            if words := text.split():
                return " ".join(words[:_TITLE_WORDS])
    return ""


def cut_names(
    names: Iterator[tuple[int, str]],
    vocabulary: PhraseVocabulary,
    *,
    config: GenerativeConfig,
    added: AddedWords | None = None,
) -> OwnedSequences:
    """Cut texts into phrases, none longer than allowed, in the order that the trie is to have.

    Words that the vocabulary lacks join `added`, if that is given.
    """

    def segment(texts: list[str]) -> tuple[PhraseIds, Integers]:
        found = vocabulary.segment(texts, added)
        return found.ids, found.offsets

    cut = cut_identifiers(gather_identifiers(names), segment)
    lengths = np.minimum(np.diff(cut.offsets), config.max_phrases)
    places, offsets = spread(cut.offsets[:-1], lengths)
    ids = np.ascontiguousarray(cut.ids[places], dtype=np.int32)
    if config.order == "sorted_trie":
        ids = sort_phrases(ids, offsets)
    return OwnedSequences(ids, offsets, cut.owners)


def join_sequences(parts: Sequence[OwnedSequences]) -> OwnedSequences:
    """Put sequences of several batches of documents one after the other.

    >>> one = OwnedSequences(np.array([7, 8], np.int32), np.array([0, 2]), np.array([5]))
    >>> join_sequences([one, one]).offsets.tolist()
    [0, 2, 4]
    """
    ids = np.concatenate([np.empty(0, np.int32), *(each.ids for each in parts)])
    lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(each.offsets) for each in parts)])
    owners = np.concatenate([np.empty(0, np.int64), *(each.owners for each in parts)])
    return OwnedSequences(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), owners)


def measure_norms(
    trie: Trie, take: TakeRows, *, weights: Float32, known: tuple[Trie, Float32] | None
) -> Float32:  # (N,)
    """Return the length of each identifier's weighted sum of rows; known ones are copied."""
    norms = np.empty(len(trie), dtype=np.float32)
    for start in range(0, len(trie), _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, len(trie)))
        if known is not None:
            found = known[0].find(trie.sequences(rows))
            norms[rows[found >= 0]] = known[1][found[found >= 0]]
            rows = rows[found < 0]
        if len(rows):
            norms[rows] = _add_up(trie.sequences(rows), take, weights)
    return norms


def _add_up(sequences: Sequences, take: TakeRows, weights: Float32) -> Float32:
    """Return the lengths of weighted sums; each row that occurs is read and widened once."""
    distinct, places = np.unique(sequences.ids, return_inverse=True)
    weighed = take(distinct) * weights[distinct, None]  # (phrases, D)
    lengths: Float32 = _measure_sums(weighed, places, sequences.offsets).astype(np.float32)
    # opposite rows may cancel out: such a sum points nowhere, and is compared with nothing
    return np.maximum(lengths, np.float32(1e-6))


@njit(cache=True, nogil=True)
def _measure_sums(rows: Float32, places: Integers, offsets: Integers) -> NDArray[np.float64]:
    """Return the length of the sum of each stretch of rows.

    >>> rows = np.array([[3.0, 0.0], [0.0, 4.0]], dtype=np.float32)
    >>> _measure_sums(rows, np.array([0, 0, 1]), np.array([0, 1, 3]))
    array([3., 5.])
    """
    lengths = np.empty(len(offsets) - 1)
    total = np.empty(rows.shape[1])
    for at in range(len(lengths)):
        total[:] = 0.0
        for place in places[offsets[at] : offsets[at + 1]]:
            total += rows[place]
        lengths[at] = np.sqrt((total * total).sum())
    return lengths
