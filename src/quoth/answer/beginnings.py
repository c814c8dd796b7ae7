"""What speaks against a phrase as an answer's beginning: its sentence is far from the question.

The first phrase decides what is quoted, since what follows continues it. Its score is the language
model's alone, from a vector that knows nothing of the sentence around the phrase: a long phrase of
an unrelated sentence may well have the highest. That there is an answer is decided by the sentence
nearest to the question (`abstain.py`), and an answer quoted from elsewhere would not be what was
decided about. So a phrase pays for how much further than the nearest one its sentence is.

Pure: sentences and cosines in, numbers out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from quoth.answer.nearness import Numbers, Sentence
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary


def handicaps(
    vocabulary: DynamicVocabulary,
    sentences: Sequence[Sentence],
    cosines: Numbers,
    *,
    penalty: float,
) -> tuple[float, ...]:
    """Return per row what is taken off the score of a phrase that would begin an answer.

    `penalty` times the difference of two cosines (N,): of the nearest sentence on offer, which pays
    nothing, and of the phrase's own; where it stands in several, of the nearest of them.

    >>> import numpy as np
    >>> from quoth.answer.nearness import sentences_of
    >>> from quoth.records import Span
    >>> from quoth.vocabulary.dynamic import Source
    >>> phrases = [
    ...     Candidate(" Owls", (), (Source(0, Span(0, 4)),)),
    ...     Candidate(" sleep", (), (Source(0, Span(16, 21)), Source(1, Span(5, 10)))),
    ...     Candidate(" Hens", (), (Source(0, Span(11, 15)),)),
    ... ]
    >>> sentences = sentences_of(["Owls hunt. Hens sleep.", "They sleep."])
    >>> cosines = np.array([0.75, 0.25, 0.5])
    >>> handicaps(DynamicVocabulary.of(phrases), sentences, cosines, penalty=8.0)
    (0.0, 2.0, 4.0)
    """
    if not penalty or not vocabulary.candidates:
        return ()
    starts = [(each.passage, each.span.start) for each in sentences]
    own = [_nearest(each, starts, cosines) for each in vocabulary.candidates]
    best = max(own)
    return tuple(penalty * (best - each) for each in own)


def _nearest(candidate: Candidate, starts: Sequence[tuple[int, int]], cosines: Numbers) -> float:
    """Return the highest cosine of the sentences that a candidate stands in."""
    places = [(each.passage, each.span.start) for each in candidate.sources]
    return max(float(cosines[bisect_right(starts, place) - 1]) for place in places)
