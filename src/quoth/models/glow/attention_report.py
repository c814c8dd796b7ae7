"""Which words an encoder looked at (the case study of GLOW, Table 4).

The share of a word is the attention it receives in the last layer, averaged over heads and over
the tokens that pooling reads: all of them for the mean, the first for cls and pooler. These are the
looks that end in the vector. Shares are computed from the weighted logits, as the encoder does, and
those of all tokens add up to one; subwords are joined to words, and a word that occurs several
times counts once, with all its shares. The paper ranks words by inner products of last states
instead, which tell how words resemble each other more than what was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from quoth.models.glow.encoded import Encoder
from quoth.models.glow.inputs import Fields, SurfaceWords
from quoth.models.glow.weights import WordCounts
from quoth.records import Attention, WordShare

MOST_WORDS = 10


def report_attention(
    encoder: Encoder, query: str, documents: Sequence[Fields], *, counts: WordCounts | None
) -> tuple[Attention | None, ...]:
    """Return the most looked-at words of a query and of each document.

    None where the encoder is of a kind whose attention cannot be followed.
    """
    inputs = encoder.inputs
    (asked,) = inputs.queries([query], counts)
    looks = encoder.look(asked, is_query=True)
    if looks is None:
        return tuple(None for _document in documents)
    of_query = top_words(looks, inputs.query_words(query))
    return tuple(
        Attention(
            of_query,
            top_words(encoder.look(sequence, is_query=False) or (), inputs.document_words(fields)),
        )
        for fields, sequence in zip(documents, inputs.documents(documents, counts), strict=True)
    )


def top_words(
    shares: Sequence[float], surface: SurfaceWords, *, count: int = MOST_WORDS
) -> tuple[WordShare, ...]:
    """Add up the shares of each word's subwords, and list the words with most; no punctuation.

    >>> surface = SurfaceWords(("Owls", "hunt", ".", "owls"), (-1, 0, 0, 1, 2, 3, -1))
    >>> [(each.word, round(each.share, 6)) for each in
    ...  top_words([0.1, 0.1, 0.1, 0.15, 0.3, 0.05, 0.2], surface)]
    [('owls', 0.25), ('hunt', 0.15)]
    """
    total: dict[str, float] = {}
    for share, at in zip(shares, surface.word_of, strict=True):
        word = surface.words[at].casefold() if at >= 0 else ""
        if any(character.isalnum() for character in word):
            total[word] = total.get(word, 0.0) + share
    best = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return tuple(WordShare(word, share) for word, share in best[:count])
