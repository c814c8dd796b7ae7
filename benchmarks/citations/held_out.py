"""Questions that abstention is fitted to: of training passages that were held out, with labels.

    python -m benchmarks.citations.calibrate --pack                       # needs the data

Questions are those of squad-train-slice and medquad whose passages `benchmarks.generation.pack`
holds out, so that the model (or the reader) knows none of them, put to passages that answer them
and to several kinds that do not (`unanswerable.py`); and held-out questions of all sources that the
reader learnt from, put to what BM25 finds among all their passages (*found*), or among all but
their own (*absent*), where none of these holds an answer; and questions about documentation of
programs that the reader learnt nothing of, put to passages of their page with the one that answers
(*documented*) or without (*undocumented*). No test set is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.citations.pack import Question
from benchmarks.citations.unanswerable import NUM_PASSAGES, Asked, Scene, holds, make_cases
from quoth.answer.nearness import coverage, telling_words
from quoth.answer.reading import standing_of
from quoth.answer.reading_answerer import TitledPassage
from quoth.records import Passage, Span

NAME = "held-out"
ANSWERABLE = ("own", "found", "documented")
SEARCHED = ("found", "absent", "documented", "undocumented")
RANKED = ("found", "absent")
"""Kinds of questions whose passages are in the order in which search found them."""

NUM_SCENES = 500
MAX_ASKED = 3
MAX_SEARCHED = 70
"""Questions of a source that passages are searched for."""

MAX_DOCUMENTED, BESIDE = 500, 40
"""Questions about documentation, and passages beside theirs that they may be put to."""


def questions_of(data: Path) -> list[Question]:
    """Make all questions; the set of each is its kind."""
    return [*make_questions(data / "ir"), *search_questions(data), *documented_questions(data)]


def make_questions(folder: Path) -> Iterator[Question]:
    """Put the questions of both collections to passages; a question's set is its kind."""
    squad = list(scenes(folder / "squad-train-slice", is_medical=False))
    medical = list(scenes(folder / "medquad", is_medical=True))
    for at, scene in enumerate(squad[:NUM_SCENES] + medical[: NUM_SCENES // 4]):
        source = "squad" if scene.is_swappable else "medquad"
        for number, case in enumerate(make_cases(scene, seed=at)):
            blank = ("",) * NUM_PASSAGES
            yield Question(
                *(case.kind, f"{source}.{at}.{number}", case.question, blank, case.passages),
                short_answers=(case.answers,),
                is_answerable=case.is_answerable,
            )


def search_questions(data: Path, *, most: int = MAX_SEARCHED) -> Iterator[Question]:
    """Put held-out questions of every source to what BM25 finds, every other without its own."""
    from benchmarks.generation import pack
    from benchmarks.reader.pack import Example, is_held_out
    from benchmarks.reader.pack import questions as read_questions

    made = ("technical", "written")
    examples = [each for each in read_questions(data) if not each.source.startswith(made)]
    passages = list(dict.fromkeys(each.passage for each in examples))
    kept: dict[str, list[Example]] = {}
    for at in np.random.default_rng(2).permutation(len(examples)).tolist():
        own = kept.setdefault(examples[at].source, [])
        if len(own) < most and is_held_out(examples[at].passage.text, ""):
            own.append(examples[at])
    asked = [each for own in kept.values() for each in own]
    analyser = pack.Analyser(pack.AnalyserConfig())
    terms = [analyser.terms(f"{each.title} {each.text}") for each in passages]
    queries = [analyser.terms(each.question) for each in asked]
    found = pack.search_rows(terms, queries, k=NUM_PASSAGES + 1).tolist()
    for at, (example, rows) in enumerate(zip(asked, found, strict=True)):
        near = [passages[row] for row in rows if at % 2 == 0 or passages[row] != example.passage]
        near = near[:NUM_PASSAGES]
        texts = tuple(each.text for each in near)
        is_found = example.passage in near
        if is_found or not holds(texts, example.answers):
            yield Question(
                *("found" if is_found else "absent", f"{example.source}.{at}.0"),
                *(as_typed(example.question, at), tuple(each.title for each in near), texts),
                short_answers=(example.answers * is_found,),
                is_answerable=is_found,
            )


def documented_questions(data: Path) -> Iterator[Question]:
    """Put held-out questions about documentation to passages of their page, or one beside it.

    Every other one does without its own: what is left holds most of the question's words.
    """
    from benchmarks.reader.pack import technical_questions
    from benchmarks.technical.make import HELD_SOURCE

    asked = [each for each in technical_questions(data) if each.source == HELD_SOURCE]
    passages = list(dict.fromkeys(each.passage for each in asked))
    place_by_passage = {each: at for at, each in enumerate(passages)}
    answered = [each for each in asked if each.answers]
    chosen = np.random.default_rng(3).permutation(len(answered))[:MAX_DOCUMENTED].tolist()
    for number, example in enumerate(answered[at] for at in chosen):
        place = place_by_passage[example.passage]
        beside = [
            each
            for each in passages[max(0, place - BESIDE) : place + BESIDE + 1]
            if each != example.passage and not holds([each.text], example.answers)
        ]
        telling = telling_words(example.question)
        beside.sort(key=lambda each: -coverage(telling, each.text))
        has_own = number % 2 == 0
        shown = [example.passage] * has_own + beside
        near = [shown[at] for at in np.random.default_rng(number).permutation(NUM_PASSAGES)]
        yield Question(
            *("documented" if has_own else "undocumented", f"technical.{number}.0"),
            *(as_typed(example.question, number // 2), tuple(each.title for each in near)),
            tuple(each.text for each in near),
            short_answers=(example.answers * has_own,),
            is_answerable=has_own,
        )


def as_typed(question: str, number: int) -> str:
    """Write every other question as it is typed into a search engine.

    >>> as_typed("Who built Ravenna?", 1), as_typed("Who built Ravenna?", 2)
    ('who built ravenna', 'Who built Ravenna?')
    """
    return question.lower().rstrip("? ") if number % 2 else question


def scenes(folder: Path, *, is_medical: bool) -> Iterator[Scene]:
    """Return the passages that were held out, with their questions and neighbours."""
    from benchmarks.generation import pack

    analyser = pack.Analyser(pack.AnalyserConfig())
    rows = {row["_id"]: row for row in pack.read_lines(folder / "corpus.jsonl.gz")}
    pieces = [
        piece
        for piece in pack.read_pieces(folder)
        if rows[piece.docid].get("source") not in pack.COPYRIGHTED
    ]
    asked = _asked_by_docid(folder)
    docids = list(dict.fromkeys(piece.docid for piece in pieces))
    place_by_docid = {docid: at for at, docid in enumerate(docids)}
    chosen = np.random.default_rng(1).permutation(len(pieces)).tolist()
    chosen = [at for at in chosen if pack.is_held_out(pieces[at].text)]
    own = {at: _answered(pieces[at].text, asked.get(pieces[at].docid, ())) for at in chosen}
    if is_medical:  # a document's beginning says what was asked
        first = {piece.docid: at for at, piece in reversed(list(enumerate(pieces)))}
        chosen = [at for at in chosen if first[pieces[at].docid] == at]
    chosen = [at for at in chosen if own[at]][: 2 * NUM_SCENES]
    terms = [analyser.terms(f"{each.title} {each.text}") for each in pieces]
    queries = [analyser.terms(own[at][0].text) for at in chosen]
    found = pack.search_rows(terms, queries, k=20).tolist()
    for at, near in zip(chosen, found, strict=True):
        piece, others = pieces[at], [pieces[row] for row in near]
        if is_medical:  # another document on the same disease may answer as well
            others = [each for each in others if each.title != piece.title]
        place = place_by_docid[piece.docid]
        related = [
            each
            for docid in docids[max(0, place - 6) : place + 7]
            if docid != piece.docid and (not is_medical or rows[docid]["title"] == piece.title)
            for each in asked.get(docid, ())
        ]
        words = set(terms[at])
        related.sort(key=lambda each: -len(words & set(analyser.terms(each.text))))
        yield Scene(
            piece.text,
            tuple(each.text for each in others if each.docid != piece.docid),
            own[at],
            tuple(related),
            other_kind="aspect" if is_medical else "article",
            is_swappable=not is_medical,
        )


def _asked_by_docid(folder: Path) -> dict[str, list[Asked]]:
    from benchmarks.generation import pack

    queries = {row["_id"]: row for row in pack.read_lines(folder / "queries.jsonl.gz")}
    found: dict[str, list[Asked]] = {}
    for qid, docid in pack.read_pairs(folder):
        row = queries[qid]
        found.setdefault(docid, []).append(Asked(row["text"], tuple(row.get("answers", ()))))
    return found


def _answered(passage: str, asked: Sequence[Asked]) -> tuple[Asked, ...]:
    """Keep the questions whose answer stands in a passage, or whose answer is all of it."""
    found = [each for each in asked if not each.answers or any(a in passage for a in each.answers)]
    return tuple(found[:MAX_ASKED])


def scene_of(question: Question) -> int:
    """Return the number of the passage that a question was made for."""
    return int(question.qid.split(".")[1])


def standings_of(question: Question) -> list[float]:
    """Say where search ranked each passage; 0 for what was put together."""
    is_ranked = question.set in RANKED
    ranks = range(1, len(question.passages) + 1)
    return [standing_of(rank) if is_ranked else 0.0 for rank in ranks]


def read_of(question: Question) -> list[TitledPassage]:
    """Return the passages as a reading answerer takes them."""
    own = (passages_of(question), question.titles, standings_of(question))
    return list(map(TitledPassage, *own))


def passages_of(question: Question) -> list[Passage]:
    """Return the passages as an answerer takes them."""
    return [
        Passage(str(at), "text", Span(0, len(text)), text)
        for at, text in enumerate(question.passages)
    ]
