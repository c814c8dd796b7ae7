"""Analyse a document once, for all that need its terms: index, statistics and what hits show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from quoth.collection.portions import PlacedText, StoredPortion
from quoth.index.lexical.passage_terms import PlacedPassage, write_record
from quoth.records import Document
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.term_counts import BatchCounts, FieldTerms, JoinedTerms, join_terms


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


def analyse_portion(portion: StoredPortion, *, config: AnalyserConfig) -> AnalysedPortion:
    """Analyse stored documents and their passages; depends on nothing else."""
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
