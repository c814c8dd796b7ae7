"""Phrases of the passages that the language model may quote.

Every stretch of whole words inside one sentence that has as many subwords as allowed, or every noun
phrase among them. A stretch is literal: a line break or markup inside it stays as it is. Written
with a space before it, as a language model reads words inside a text; scripts that write no spaces
are cut between characters and get none.

Where there are too many, those of the sentences nearest to the question are kept, and these come
first in any case, so that a vocabulary which grows while decoding starts with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from quoth.answer.config import CandidateConfig
from quoth.answer.nearness import Sentence, rank_sentences, sentences_of
from quoth.answer.noun_phrases import noun_phrases
from quoth.answer.word_bounds import UNSPACED, is_end, is_start
from quoth.models.dynamic_lm.inputs import TokenisedText
from quoth.records import Span
from quoth.text.closed_classes import STOP_WORDS
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary, Source

Tokenise = Callable[[Sequence[str]], list[TokenisedText]]
"""Texts to subwords with the characters that each covers."""

Rank = Callable[[Sequence[Sentence]], list[int]]
"""Orders sentences by how soon their phrases are offered."""

_CHARS_PER_SUBWORD = 24  # of a row; a stretch with longer ones is rare and left out


def find_candidates(
    question: str,
    passages: Sequence[str],
    *,
    tokenise: Tokenise,
    config: CandidateConfig,
    rank: Rank | None = None,
) -> list[Candidate]:
    """List the phrases of passages, those nearest to the question first; equal ones may repeat.

    At most `max_candidates` different strings are among them. `rank` orders the sentences, None by
    the words of the question.
    """
    sentences = sentences_of(passages)
    texts = [each.text for each in sentences]
    ordered = rank(sentences) if rank else rank_sentences(question, texts)
    found: list[Candidate] = []
    known: set[str] = set()
    for at in ordered:
        if len(known) >= config.max_candidates:
            break
        for candidate in _phrases_of(sentences[at], tokenise, config):
            if candidate.text in known or len(known) < config.max_candidates:
                known.add(candidate.text)
                found.append(candidate)
    return found


def make_vocabulary(
    question: str,
    passages: Sequence[str],
    *,
    tokenise: Tokenise,
    config: CandidateConfig,
    per_passage: bool = False,
    rank: Rank | None = None,
) -> DynamicVocabulary:
    """Offer the phrases of passages; with `per_passage`, equal ones of two passages are two."""
    candidates = find_candidates(question, passages, tokenise=tokenise, config=config, rank=rank)
    return DynamicVocabulary.of(candidates, per_passage=per_passage)


def _phrases_of(
    sentence: Sentence, tokenise: Tokenise, config: CandidateConfig
) -> Iterator[Candidate]:
    """Return the phrases of a sentence, by start and length."""
    text = sentence.text
    wanted = set(noun_phrases(text)) if config.source == "chunks" else None
    starts = [at for at in range(len(text)) if is_start(text, at)]
    if wanted is not None:
        chunk_starts = {span.start for span in wanted}
        starts = [at for at in starts if at in chunk_starts]
    rows = [_row_text(text, start, config.max_subwords) for start in starts]
    for start, row, tokenised in zip(starts, rows, tokenise(rows), strict=True):
        lead = len(row) - len(row.lstrip())
        for length, end_in_row in _prefixes(tokenised, config):
            end = start + end_in_row - lead
            if end <= start or not is_end(text, end):
                continue
            words = text[start:end]
            if wanted is not None and Span(start, end) not in wanted:
                continue
            if not _is_worth_offering(words, length):
                continue
            shift = sentence.span.start
            source = Source(sentence.passage, Span(start + shift, end + shift))
            yield Candidate(row[:end_in_row], tuple(tokenised.subword_ids[:length]), (source,))


def _row_text(text: str, start: int, max_subwords: int) -> str:
    """Write what follows a start, with its space, as far as a phrase may reach."""
    end = min(len(text), start + max_subwords * _CHARS_PER_SUBWORD)
    while end < len(text) and end > start and not text[end].isspace():
        end -= 1  # not within a word, which would have other subwords
    space = "" if UNSPACED.match(text[start]) else " "
    return space + text[start : end if end > start else start]


def _prefixes(tokenised: TokenisedText, config: CandidateConfig) -> Iterator[tuple[int, int]]:
    """Return the lengths of prefixes in subwords and characters that end with a whole character."""
    longest = min(config.max_subwords, len(tokenised.ends))
    for length in range(config.min_subwords, longest + 1):
        end = tokenised.ends[length - 1]
        if length == len(tokenised.ends) or tokenised.starts[length] >= end:
            yield length, end


def _is_worth_offering(words: str, num_subwords: int) -> bool:
    """Whether a stretch says something: no marks alone, and no stop word alone."""
    if words != words.strip() or not any(map(str.isalnum, words)):
        return False
    return num_subwords > 1 or words.lower() not in STOP_WORDS
