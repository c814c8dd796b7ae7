"""Measure citations: ALCE's recall and precision, and whether quotations are exact.

Gao et al. 2023. An answer is cut into statements (sentences), each with the passages cited in it.
Recall of a statement is 1 if its cited passages, joined, entail it. A citation is precise if its
statement has recall 1, and unless the passage alone does not entail the statement while the others
do without it. Per answer: recall is averaged over statements, precision over citations; an answer
without citations has both 0. ALCE counts a citation of a passage that is not there against its
statement, and so is done here.

Entailment is judged by a function that the caller passes and states. `OverlapJudge` is the one that
needs no model: it asks for words. It is strict with paraphrases, and fooled by negations, by words
in another order and by quotations that make no sense together: all words of a quoted stretch are in
its passage by construction. Report it beside a judge of meaning and the correctness of answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from quoth.errors import ConfigError
from quoth.records import Answer, Span

Judge = Callable[[str, str], bool]
"""Whether a premise (the cited passages, joined) entails a statement."""

_WORD = re.compile(r"[^\W_]+(?:['’.,][^\W_]+)*")
_MARKER = re.compile(r"\s*\[(\d{1,3})\]")
_SENTENCE_END = re.compile(r"[.!?]['\"’”)]*(?:\s*\[\d{1,3}\])*(?=\s+['\"“(\[]?[A-Z0-9])|\n+")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Jr|Sr|No|vs|etc|e\.g|i\.e)\.$")
_CLOSED_CLASS = (
    "a about after all also an and are as at be because been before being both but by can could did"
    " do does during each either else few for from had has have he her here hers him his how i if"
    " in into is it its itself like many may me might more most much must my neither no nor not of"
    " off on once one only or other our out over own same shall she should since so some such than"
    " that the their them then there these they this those through to too under until up upon us"
    " very was we were what when where whether which while who whom whose why will with within"
    " without would yet you your"
)
_FUNCTION_WORDS = frozenset(_CLOSED_CLASS.split())


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer without its markers, and the passages cited in it, from 0."""

    text: str
    cited: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitationScores:
    """How well an answer's citations support it."""

    recall: float
    precision: float
    num_statements: int
    num_citations: int


def score_citations(
    statements: Sequence[Statement], passages: Sequence[str], *, judge: Judge
) -> CitationScores:
    """Score one answer; no statement at all means 0 for both."""
    supported, precise, total = 0, 0, 0
    for statement in statements:
        total += len(statement.cited)
        if is_supported(statement, passages, judge=judge):
            supported += 1
            precise += sum(
                not _is_superfluous(statement, each, passages, judge) for each in statement.cited
            )
    return CitationScores(
        recall=supported / len(statements) if statements else 0.0,
        precision=precise / total if total else 0.0,
        num_statements=len(statements),
        num_citations=total,
    )


def is_supported(statement: Statement, passages: Sequence[str], *, judge: Judge) -> bool:
    """Whether there are citations, all of passages that exist, which together entail it."""
    cited = statement.cited
    if not cited or any(not 0 <= each < len(passages) for each in cited):
        return False
    return judge(_join(passages[each] for each in cited), statement.text)


def _is_superfluous(
    statement: Statement, cited: int, passages: Sequence[str], judge: Judge
) -> bool:
    """Whether a passage does not support a supported statement alone, while the others do."""
    others = [each for each in statement.cited if each != cited]
    if not others or judge(passages[cited], statement.text):
        return False
    return judge(_join(passages[each] for each in others), statement.text)


def _join(passages: Iterable[str]) -> str:
    return "\n".join(passages)


def marked_statements(text: str) -> tuple[Statement, ...]:
    """Cut a text with markers [1], [2], … into statements that cite the passages marked in them.

    >>> marked_statements("Rivers are long [2][1]. Seas are wide.")
    (Statement(text='Rivers are long.', cited=(1, 0)), Statement(text='Seas are wide.', cited=()))
    """
    statements = []
    for span in cut_sentences(text):
        sentence = text[span.start : span.end]
        cited = dict.fromkeys(int(found) - 1 for found in _MARKER.findall(sentence))
        statements.append(Statement(without_markers(sentence), tuple(cited)))
    return tuple(each for each in statements if each.text)


def without_markers(text: str) -> str:
    """Drop markers [1], [2], … and the space before them.

    >>> without_markers("long [2][1], and wide [3].")
    'long, and wide.'
    """
    return _MARKER.sub("", text).strip()


def cited_statements(answer: Answer, places: Sequence[int]) -> tuple[Statement, ...]:
    """Cut an answer into statements; a sentence cites what a citation in it links to.

    `places` says, for each citation of the answer, which of the passages it cites, from 0. The text
    holds no markers.
    """
    statements = []
    for span in cut_sentences(answer.text):
        cited = dict.fromkeys(
            place
            for citation, place in zip(answer.citations, places, strict=True)
            if citation.answer_span.start < span.end and span.start < citation.answer_span.end
        )
        statements.append(Statement(answer.text[span.start : span.end], tuple(cited)))
    return tuple(statements)


def cut_sentences(text: str) -> tuple[Span, ...]:
    """Cut a text into sentences, without the white space around them; a marker stays in front.

    >>> text = "He left St. Ives in 1902. [1] She stayed!"
    >>> [text[span.start : span.end] for span in cut_sentences(text)]
    ['He left St. Ives in 1902. [1]', 'She stayed!']
    """
    ends = [
        found.end()
        for found in _SENTENCE_END.finditer(text)
        if not _ABBREVIATION.search(text[max(0, found.start() - 8) : found.start() + 1])
    ]
    spans = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:end]
        kept = piece.strip()
        if kept:
            first = start + piece.index(kept[0])
            spans.append(Span(first, first + len(kept)))
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class OverlapJudge:
    """Judges entailment by words: a share of the content words, and every number and name.

    A content word is none of the closed list of function words; words count once, in lower case. A
    number is a word that holds a digit; a name is a word that begins with a capital and does not
    begin the statement. A statement without content words is entailed by nothing.
    """

    threshold: float = 0.8
    """Share of a statement's content words that must occur in the premise."""

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold <= 1.0:
            raise ConfigError(f"threshold is {self.threshold}; expected a share, such as 0.8")

    def __call__(self, premise: str, statement: str) -> bool:
        """Judge one pair.

        >>> judge = OverlapJudge()
        >>> judge("The Nile is 6,650 km long.", "The river Nile has a length of 6,650 km")
        False
        >>> judge("The river Nile is 6,650 km long.", "The Nile river is 6,650 km long")
        True
        """
        held = {word.lower() for word in _WORD.findall(premise)}
        words = _WORD.findall(statement)
        content = {word.lower() for word in words} - _FUNCTION_WORDS
        if not content or any(word.lower() not in held for word in _pinned(words)):
            return False
        return fmean(word in held for word in content) >= self.threshold


def _pinned(words: Sequence[str]) -> Iterable[str]:
    """Yield the numbers and names among a statement's words: what a paraphrase must keep.

    >>> list(_pinned(["Since", "1902", "the", "Nile"]))
    ['1902', 'Nile']
    """
    for at, word in enumerate(words):
        is_number = any(letter.isdigit() for letter in word)
        is_name = at > 0 and word[0].isupper() and word.lower() not in _FUNCTION_WORDS
        if is_number or is_name:
            yield word


def quotation_exactness(answers: Iterable[Answer]) -> float:
    """Return the share of citations that slice equal texts out of answer and passage.

    1 where nothing is cited: no quotation is wrong.
    """
    exact = [
        answer.text[own.start : own.end] == citation.passage.text[theirs.start : theirs.end]
        for answer in answers
        for citation in answer.citations
        for own, theirs in [(citation.answer_span, citation.passage_span)]
    ]
    return fmean(exact) if exact else 1.0
