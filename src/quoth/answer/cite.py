"""From tokens to an answer whose every quotation can be checked by slicing its source.

Pieces are what tokens write: a phrase with the places it may come from, or a stretch of subwords
with none. Each phrase is given one of the places where its words stand: so that as few citations as
possible are needed, phrases that follow each other in one passage as they do in the answer becoming
one quotation, with what stands between them; then so that neighbours come from the same passage;
then the best-ranked passage; then the place nearest to the one before. What no citation covers is
unquoted.

By construction `citation.passage.text[passage_span] == answer.text[answer_span]`: a source that
does not hold the very characters of its stretch is never cited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from quoth.answer.word_bounds import is_end, is_start
from quoth.records import Answer, Citation, Passage, Span
from quoth.text.blocks import split_sentences
from quoth.vocabulary.dynamic import DynamicVocabulary, Source

_LITERAL_MARKER = re.compile(r"(\\*)(\[\d+\])")
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # bytes that are no whole character yet
_MOST_PLACES = 64  # that are looked at for one phrase
MAX_GAP = 80
"""Characters between two phrases that may be part of their joint quotation, if the source has them
too: white space, punctuation, and words too short to be phrases."""


@dataclass(frozen=True, slots=True)
class Token:
    """One step of a text: a subword, or a phrase by its row with all its subwords."""

    subword_ids: tuple[int, ...]
    row: int | None
    log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some characters of a text in the making, and where they may be quoted from."""

    text: str
    sources: tuple[Source, ...] = ()


class Writer:
    """Turns tokens into pieces as they come; characters of several subwords are waited for."""

    def __init__(self, decode: Callable[[Sequence[int]], str], *, has_begun: bool = False) -> None:
        """`decode` writes subwords as text; one that has begun may begin with white space."""
        self._decode = decode
        self._run: list[int] = []  # subwords since the last phrase
        self._shown = 0  # characters of theirs that were given
        self._has_begun = has_begun

    def write(self, token: Token, vocabulary: DynamicVocabulary) -> list[Piece]:
        """Return what a token adds; the text as a whole begins without white space."""
        if token.row is None:
            self._run += token.subword_ids
            return self._begin(self._rest_of_run(is_over=False))
        before = self.close()
        candidate = vocabulary.candidates[token.row]
        return [*before, *self._begin([Piece(candidate.text, candidate.sources)])]

    def close(self) -> list[Piece]:
        """Return what is still waited for."""
        pieces = self._begin(self._rest_of_run(is_over=True))
        self._run, self._shown = [], 0
        return pieces

    def _rest_of_run(self, *, is_over: bool) -> list[Piece]:
        text = self._decode(self._run) if self._run else ""
        if not is_over:
            text = text.rstrip(_UNFINISHED)
        rest, self._shown = text[self._shown :], max(self._shown, len(text))
        return [Piece(rest)] if rest else []

    def _begin(self, pieces: list[Piece]) -> list[Piece]:
        """Leave out white space that the text would begin with."""
        kept = []
        for piece in pieces:
            text = piece.text if self._has_begun else piece.text.lstrip()
            if text:
                self._has_begun = True
                kept.append(replace(piece, text=text))
        return kept


def cite(pieces: Sequence[Piece], passages: Sequence[Passage], *, max_gap: int = MAX_GAP) -> Answer:
    """Join pieces to an answer and give each quotation its source.

    >>> passage = Passage("owl", "text", Span(10, 31), "A barn owl, at night.")
    >>> pieces = [Piece("It is"), Piece(" barn owl", (Source(0, Span(2, 10)),)), Piece(","),
    ...           Piece(" at night", (Source(0, Span(12, 20)),))]
    >>> answer = cite(pieces, [passage])
    >>> answer.text, [(each.answer_span, each.passage_span) for each in answer.citations]
    ('It is barn owl, at night', [(Span(start=6, end=24), Span(start=2, end=20))])
    """
    text = "".join(piece.text for piece in pieces).rstrip()
    stretches = list(_stretches(pieces, text, passages))
    joins = _Joins(text, passages, max_gap)
    chosen = _choose_sources(stretches, joins)
    quoted = [(span, source) for (span, _all), source in zip(stretches, chosen, strict=True)]
    return Answer(text, tuple(_join(quoted, joins)), passages=tuple(passages))


def unquoted(answer: Answer) -> tuple[Span, ...]:
    """List the stretches of an answer that no citation covers, white space alone left out.

    >>> passage = Passage("owl", "text", Span(0, 8), "barn owl")
    >>> unquoted(Answer("A barn owl", (Citation(Span(2, 10), passage, Span(0, 8)),)))
    (Span(start=0, end=2),)
    """
    spans, at = [], 0
    ends = Span(len(answer.text), len(answer.text))
    for quoted in [*sorted(each.answer_span for each in answer.citations), ends]:
        if answer.text[at : quoted.start].strip():
            spans.append(Span(at, quoted.start))
        at = max(at, quoted.end)
    return tuple(spans)


def number_sources(answer: Answer) -> dict[Passage, int]:
    """Number the cited passages from 1 in the order of their first use."""
    numbers: dict[Passage, int] = {}
    for citation in answer.citations:
        numbers.setdefault(citation.passage, len(numbers) + 1)
    return numbers


def document_span(citation: Citation) -> Span:
    """Say where a quotation stands in its document's field."""
    shift = citation.passage.span.start
    return Span(citation.passage_span.start + shift, citation.passage_span.end + shift)


def with_markers(answer: Answer) -> str:
    r"""Write an answer with the number of its source after each quotation.

    What looks like a marker but was written by a document or the model gets a backslash before it,
    and backslashes that stand before any of the two are doubled, so nobody takes one for the other.

    >>> passage = Passage("note", "text", Span(0, 9), "see [1] x")
    >>> with_markers(Answer("see [1] x", (Citation(Span(0, 9), passage, Span(0, 9)),)))
    'see \\[1] x[1]'
    """
    numbers, written, at = number_sources(answer), "", 0
    for citation in answer.citations:
        written += _escape(answer.text[at : citation.answer_span.end])
        at = citation.answer_span.end
        slashes = len(written) - len(written.rstrip("\\"))
        written += "\\" * slashes + f"[{numbers[citation.passage]}]"
    return written + _escape(answer.text[at:])


def _escape(text: str) -> str:
    return _LITERAL_MARKER.sub(lambda found: f"{found[1]}{found[1]}\\{found[2]}", text)


# --- choosing sources ----------------------------------------------------------------------------

_Stretch = tuple[Span, tuple[Source, ...]]


@dataclass(frozen=True, slots=True)
class _Joins:
    """Whether two quotations are one."""

    text: str
    passages: Sequence[Passage]
    max_gap: int

    def are_one(self, first: tuple[Span, Source], second: tuple[Span, Source]) -> bool:
        """Whether the source goes on between them as the answer does."""
        (before, one), (after, two) = first, second
        between = self.text[before.end : after.start]
        return (
            one.passage == two.passage
            and len(between) <= self.max_gap
            and one.span.end + len(between) == two.span.start
            and self.passages[one.passage].text[one.span.end : two.span.start] == between
        )


def _stretches(
    pieces: Sequence[Piece], text: str, passages: Sequence[Passage]
) -> Iterator[_Stretch]:
    """Return the span of each phrase, its leading space left out, with the sources that hold it."""
    at = 0
    for piece in pieces:
        start = at + len(piece.text) - len(piece.text.lstrip())
        at += len(piece.text)
        span = Span(start, min(at, len(text)))
        if span.start >= span.end:
            continue
        places = _places(text[span.start : span.end], piece.sources, passages)
        if places:
            yield span, places


def _places(
    words: str, offered: Sequence[Source], passages: Sequence[Passage]
) -> tuple[Source, ...]:
    """List where the words of a phrase stand: as offered, and as whole words anywhere else.

    Phrases are not looked for in sentences far from the question, which may hold the whole of what
    was put together from several places.
    """
    if not offered:
        return ()
    found = {
        source
        for source in offered
        if passages[source.passage].text[source.span.start : source.span.end] == words
    }
    for number, passage in enumerate(passages):
        at = passage.text.find(words)
        while at >= 0 and len(found) < _MOST_PLACES:
            end = at + len(words)
            if is_start(passage.text, at) and is_end(passage.text, end):
                found.add(Source(number, Span(at, end)))
            at = passage.text.find(words, at + 1)
    ordered = sorted(found, key=lambda source: (source.passage, source.span))
    return tuple(ordered[:_MOST_PLACES])


_Cost = tuple[int, ...]


def _choose_sources(stretches: Sequence[_Stretch], joins: _Joins) -> list[Source]:
    """Choose sources: fewest citations and changes of passage, best ranks, nearest, first places.

    The cheapest path through all choices, found from left to right.
    """
    costs: list[_Cost] = [(0, 0, 0, 0, 0)]
    came: list[list[int]] = []  # for each stretch and source, the best source before
    for at, (_span, sources) in enumerate(stretches):
        options = [
            min(
                (_add(cost, _step_cost(stretches, at, before, source, joins=joins)), before)
                for before, cost in enumerate(costs)
            )
            for source in sources
        ]
        costs = [cost for cost, _before in options]
        came.append([before for _cost, before in options])
    chosen: list[Source] = []
    place = min(range(len(costs)), key=costs.__getitem__)
    for (_span, sources), before_each in zip(reversed(stretches), reversed(came), strict=True):
        chosen.append(sources[place])
        place = before_each[place]
    return chosen[::-1]


def _step_cost(
    stretches: Sequence[_Stretch], at: int, before: int, source: Source, *, joins: _Joins
) -> _Cost:
    """Say what a source costs after the source `before` of the stretch before."""
    rank, start = source.passage, source.span.start
    if at == 0:
        return 1, 0, rank, 0, start
    span, previous = stretches[at - 1][0], stretches[at - 1][1][before]
    if joins.are_one((span, previous), (stretches[at][0], source)):
        return 0, 0, rank, 0, start
    if previous.passage != rank:
        return 1, 1, rank, 0, start
    return 1, 0, rank, abs(start - previous.span.end), start


def _add(first: _Cost, second: _Cost) -> _Cost:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _join(quoted: Sequence[tuple[Span, Source]], joins: _Joins) -> Iterator[Citation]:
    """Make one citation of quotations that go on in their source."""
    groups: list[list[tuple[Span, Source]]] = []
    for each in quoted:
        if groups and joins.are_one(groups[-1][-1], each):
            groups[-1].append(each)
        else:
            groups.append([each])
    for group in groups:
        (first_span, first), (last_span, last) = group[0], group[-1]
        yield Citation(
            Span(first_span.start, last_span.end),
            joins.passages[first.passage],
            Span(first.span.start, last.span.end),
        )


def sentence_span(citation: Citation) -> Span:
    """Find the sentence or sentences of the passage that a quotation stands in."""
    quoted = citation.passage_span
    touched = [
        each
        for each in split_sentences(citation.passage.text)
        if each.start < quoted.end and quoted.start < each.end
    ]
    return Span(min(touched[0].start, quoted.start), max(touched[-1].end, quoted.end))
