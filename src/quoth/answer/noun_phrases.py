"""Noun phrases of a text, found without a parser: closed-class words, capitals and suffixes.

A chunk is a run of words between words that cannot stand inside a noun phrase: verbs of the closed
class (auxiliaries), pronouns, conjunctions, adverbs by suffix, and punctuation. It may begin with a
determiner, and "of" may join two chunks. What is left and ends in a noun-like word is offered, with
and without its determiner, and each run of capitals inside it (a name) by itself.

English only; a text without these words gives its runs between punctuation marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from quoth.records import Span
from quoth.text.closed_classes import BARRIERS, DETERMINERS, STOP_WORDS

_WORD = re.compile(r"[^\W_]+(?:['’.\-][^\W_]+)*")
_VERB_LIKE = re.compile(r"[a-z]+(?:ly|ized|ised)\Z")


def noun_phrases(text: str) -> tuple[Span, ...]:
    """Find noun phrases and names, in order and without repeats; some lie inside others.

    >>> text = "The barn owl of the Old Town hunts quietly at night."
    >>> found = [text[span.start : span.end] for span in noun_phrases(text)]
    >>> found  # doctest: +NORMALIZE_WHITESPACE
    ['The barn owl', 'The barn owl of the Old Town hunts', 'barn owl',
     'barn owl of the Old Town hunts', 'the Old Town hunts', 'Old Town', 'Old Town hunts', 'night']
    """
    found: set[Span] = set()
    for run in _runs(text, list(_WORD.finditer(text))):
        found.update(_chunks_of_run(run))
    return tuple(sorted(found))


def _runs(text: str, words: Sequence[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Cut the words at barriers and at punctuation."""
    run: list[re.Match[str]] = []
    for word in words:
        if run and (text[run[-1].end() : word.start()].strip() or _begins_anew(run, word)):
            yield run
            run = []
        if word[0].lower() in BARRIERS or _VERB_LIKE.match(word[0]):
            yield run
            run = []
        else:
            run.append(word)
    yield run


def _begins_anew(run: Sequence[re.Match[str]], word: re.Match[str]) -> bool:
    """Whether a determiner begins another noun phrase here."""
    return word[0].lower() in DETERMINERS and run[-1][0].lower() not in (*DETERMINERS, "of")


def _chunks_of_run(run: list[re.Match[str]]) -> Iterator[Span]:
    """Return the chunks of one run: its parts around "of", each pair joined by it, and names."""
    parts = [part for part in _split_at_of(run) if _has_content(part)]
    for part in parts:
        yield from _with_and_without_determiner(part, part[-1].end())
        yield from _names(part)
    for first, second in pairwise(parts):
        yield from _with_and_without_determiner(first, second[-1].end())


def _split_at_of(run: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    parts: list[list[re.Match[str]]] = [[]]
    for word in run:
        if word[0].lower() == "of":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _has_content(part: Sequence[re.Match[str]]) -> bool:
    return any(word[0].lower() not in STOP_WORDS for word in part)


def _with_and_without_determiner(part: Sequence[re.Match[str]], end: int) -> Iterator[Span]:
    yield Span(part[0].start(), end)
    bare = next(word for word in part if word[0].lower() not in DETERMINERS)
    yield Span(bare.start(), end)


def _names(part: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Return runs of at least two capitalised or numeric words."""
    run: list[re.Match[str]] = []
    for word in [*part, None]:
        if word is not None and (word[0][0].isupper() or word[0][0].isdigit()):
            if word[0].lower() not in DETERMINERS:
                run.append(word)
            continue
        if len(run) > 1:
            yield Span(run[0].start(), run[-1].end())
        run = []
