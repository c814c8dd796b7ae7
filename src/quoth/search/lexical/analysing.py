"""Analyse a document once, for all that need its terms: index, statistics and what hits show."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from quoth.collection.portions import PlacedText, StoredPortion
from quoth.compiled import is_compiled
from quoth.index.lexical.passage_terms import PlacedPassage, write_record
from quoth.portions import map_portions
from quoth.records import Document
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.term_counts import BatchCounts, FieldTerms, JoinedTerms, join_terms

if TYPE_CHECKING:
    from quoth.native import Analysis

_MOST_CHUNKS = 200_000
"""Words, and what else stands between spaces, whose terms are remembered; some 15 MB."""


class AnalysedDocument(NamedTuple):
    """A document's terms, field by field, and the record of those in its passages."""

    fields: FieldTerms
    record: bytes


@dataclass(frozen=True, slots=True)
class AnalysedPortion:
    """Some documents as index, statistics and records take them; small enough to be sent."""

    rows: tuple[int, ...]
    texts: tuple[JoinedTerms, ...]
    records: tuple[bytes, ...]
    counts: BatchCounts

    def numbered_records(self) -> Iterator[tuple[int, bytes]]:
        """Yield rows and their records."""
        return zip(self.rows, self.records, strict=True)


def analyse_portions(
    portions: Iterable[StoredPortion], *, config: AnalyserConfig, workers: int
) -> Generator[AnalysedPortion, None, None]:
    """Analyse stored documents, portion by portion, where so many others may take part."""
    work = functools.partial(analyse_portion, config=config)
    in_threads = is_analysed_at_once(config)
    return map_portions(work, portions, workers=workers, in_threads=in_threads)


def analyse_portion(portion: StoredPortion, *, config: AnalyserConfig) -> AnalysedPortion:
    """Analyse stored documents and their passages; depends on nothing else."""
    if is_analysed_at_once(config):
        analysed = _analyse_at_once(portion, config)
        if analysed is not None:
            return analysed
    return analyse_slowly(portion, config=config)


def is_analysed_at_once(config: AnalyserConfig) -> bool:
    """Whether compiled code analyses portions, most of the time without Python's lock."""
    return is_compiled() and not config.compounds


def _analyse_at_once(portion: StoredPortion, config: AnalyserConfig) -> AnalysedPortion | None:
    """Do it in compiled code; None where something is not as the store writes it."""
    contents = portion.read_fields()
    if contents is None:
        return None
    rows, fields, places = contents
    with _borrowed(config) as analysis:
        read = analysis.read(fields, places)
    if read is None:
        return None
    texts, records, counted = read
    return AnalysedPortion(
        tuple(rows), texts, records, BatchCounts.of(counted, num_documents=len(rows))
    )


@contextlib.contextmanager
def _borrowed(config: AnalyserConfig) -> Iterator[Analysis]:
    """Lend what remembers the chunks that it has met; each thread gets another."""
    from quoth.native import Analysis

    idle = _idle(config)
    try:
        lent = idle.pop()
    except IndexError:
        analyser = Analyser(config)
        lent = Analysis(analyser.word_terms, analyser.chunk_terms, _MOST_CHUNKS)
    try:
        yield lent
    finally:
        idle.append(lent)


@functools.cache
def _idle(config: AnalyserConfig) -> list[Analysis]:
    return []


def analyse_slowly(portion: StoredPortion, *, config: AnalyserConfig) -> AnalysedPortion:
    """Do the same without compiled code; raises where a document cannot be read."""
    analyser, counts = Analyser(config), BatchCounts()
    rows, texts, records = [], [], []
    for row, document, passages in portion.read():
        analysed = analyse_passages(document, passages, analyser)
        counts.count(analysed.fields)
        rows.append(row)
        texts.append(join_terms(analysed.fields))
        records.append(analysed.record)
    return AnalysedPortion(tuple(rows), tuple(texts), tuple(records), counts)


def analyse(document: Document, analyser: Analyser) -> FieldTerms:
    """Turn a document into terms, field by field."""
    return {
        name: [analyser.terms(instance) for instance in instances]
        for name, instances in document.fields.items()
    }


def analyse_passages(
    document: Document, passages: Sequence[PlacedText], analyser: Analyser
) -> AnalysedDocument:
    """Turn a document and its passages into terms."""
    if len(passages) == 1 and len(document.fields) == 1:
        (only,), ((name, instances),) = passages, document.fields.items()
        if len(instances) == 1:  # as most documents are: the same as below
            all_terms = analyser.terms(instances[0])
            place = PlacedPassage(0, 0, only.start, only.end)
            return AnalysedDocument({name: [all_terms]}, write_record((place,), (all_terms,)))
    by_place: dict[tuple[str, int], list[PlacedText]] = {}
    for passage in passages:
        by_place.setdefault((passage.field, passage.instance), []).append(passage)
    fields: dict[str, list[list[str]]] = {}
    placed: list[PlacedPassage] = []
    found: list[list[str]] = []
    for number, (name, instances) in enumerate(document.fields.items()):
        fields[name] = []
        for at, text in enumerate(instances):
            own = by_place.get((name, at), ())
            terms = [analyser.terms(each.text) for each in own]
            placed += [PlacedPassage(number, at, each.start, each.end) for each in own]
            found += terms
            fields[name].append(_join(text, own, terms, analyser))
    return AnalysedDocument(fields, write_record(placed, found))


def _join(
    text: str, passages: Sequence[PlacedText], terms: Sequence[list[str]], analyser: Analyser
) -> list[str]:
    """Return the terms of a text: those of its passages, unless they cut words or repeat some."""
    if not passages or not analyser.is_spaced(text) or not all(_gaps(passages)):
        return analyser.terms(text)
    return terms[0] if len(terms) == 1 else [term for own in terms for term in own]


def _gaps(passages: Sequence[PlacedText]) -> Iterator[bool]:
    """Tell of neighbouring passages whether there is something between them: white space."""
    return (before.end < after.start for before, after in pairwise(passages))
