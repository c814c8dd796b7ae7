"""A few labelled pairs of a collection: what is trained on, and what is kept back to judge by.

A passage is given as text or fields, or as {"docid": "…"} for a document of the collection. Text
that is a passage or the body of a document here counts as that; other text is trained on as it
is, but nobody can be judged by finding it. Queries are split, all pairs of one staying together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quoth.errors import CorpusError
from quoth.jobs.learn.judging import Asked
from quoth.jobs.learn.queries import PassageLookup, Unit
from quoth.models.glow.inputs import Fields
from quoth.records import Query
from quoth.selfsupervision.pseudo_pairs import PseudoQuery, is_held_out, words_of
from quoth.training.retriever.held_out import hold_out_queries
from quoth.training.retriever.pair_files import LabelledPair, read_pairs

HELD_OUT = 0.2
_VALIDATED = 0.1
_DOCID = "docid"


@dataclass(frozen=True, slots=True)
class LabelledQueries:
    """Labelled queries to train on, and others to judge by."""

    training: tuple[PseudoQuery, ...]
    judged: tuple[Asked, ...]


def read_labelled(
    path: Path, units: Sequence[Unit], lookup: PassageLookup, *, seed: int
) -> LabelledQueries:
    """Read pairs and find their passages in the collection."""
    pairs = read_pairs(path, body="text")
    rows_by_text = _rows_by_text(units)
    rows = [_find(pair, rows_by_text, lookup, path) for pair in pairs]
    held = hold_out_queries([pair.query for pair in pairs], share=HELD_OUT, seed=seed)
    answers: dict[str, set[int]] = {}
    for pair, row in zip(pairs, rows, strict=True):
        if row is not None:
            answers.setdefault(pair.query, set()).add(row)
    training = tuple(
        _as_query(pair, row, answers.get(pair.query, set()), seed=seed)
        for pair, row in zip(pairs, rows, strict=True)
        if pair.query not in held
    )
    judged = tuple(
        Asked(Query(f"labelled:{at}", text), frozenset(units[row].docid for row in answers[text]))
        for at, text in enumerate(sorted(held))
        if text in answers
    )
    if len(training) < 2:
        raise CorpusError(f"{path} leaves {len(training)} pairs to train on; give 4 or more")
    return LabelledQueries(training, judged)


def _as_query(pair: LabelledPair, row: int | None, answers: set[int], *, seed: int) -> PseudoQuery:
    text = pair.query
    kept = is_held_out(text, share=_VALIDATED, seed=seed)
    if row is None:
        return PseudoQuery(text, "log", positive_text=_joined(pair.passage), is_held_out=kept)
    others = tuple(sorted(answers - {row}))  # answers, too, so no negatives
    return PseudoQuery(text, "log", row, (row,), others, is_held_out=kept)


def _find(
    pair: LabelledPair,
    rows_by_text: Mapping[tuple[str, ...], int],
    lookup: PassageLookup,
    path: Path,
) -> int | None:
    if pair.passage.keys() == {_DOCID}:
        docid = pair.passage[_DOCID][0]
        row = lookup.best_unit(pair.query, docid)
        if row is None:
            raise CorpusError(
                f"{path} answers {pair.query!r} with the document {docid!r}, which is not in this"
                " collection; add it, or leave the pair out"
            )
        return row
    body = " ".join(pair.passage.get("text", ()))
    for text in (body, _joined(pair.passage)):
        if (row := rows_by_text.get(tuple(words_of(text)))) is not None:
            return row
    return None


def _rows_by_text(units: Sequence[Unit]) -> dict[tuple[str, ...], int]:
    """Map the words of each unit, with and without its title, to its row; the first of equals."""
    found: dict[tuple[str, ...], int] = {}
    for row, unit in enumerate(units):
        for text in (unit.source.text, unit.source.whole):
            if words := tuple(words_of(text)):
                found.setdefault(words, row)
    return found


def _joined(fields: Fields) -> str:
    return " ".join(text for texts in fields.values() for text in texts)
