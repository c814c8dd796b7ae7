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
from typing import Any

import torch
from torch import Tensor

from quoth.models.glow.encoded import Encoder
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.inputs import Fields, SubwordSequence, SurfaceWords
from quoth.models.glow.network import WEIGHTABLE
from quoth.models.glow.weights import WordCounts
from quoth.records import Attention, WordShare

MOST_WORDS = 10


def report_attention(
    encoder: Encoder, query: str, documents: Sequence[Fields], *, counts: WordCounts | None
) -> tuple[Attention | None, ...]:
    """Return the most looked-at words of a query and of each document.

    None where the encoder is of a kind whose attention cannot be followed.
    """
    followed: GlowEncoder = encoder.by_torch
    network: Any = followed.network
    if network.query_encoder.config.model_type not in WEIGHTABLE:
        return tuple(None for _document in documents)
    inputs = followed.inputs
    (asked,) = inputs.queries([query], counts)
    of_query = _look(followed, network.query_encoder, asked, inputs.query_words(query))
    return tuple(
        Attention(
            of_query,
            _look(followed, network.document_encoder, sequence, inputs.document_words(fields)),
        )
        for fields, sequence in zip(documents, inputs.documents(documents, counts), strict=True)
    )


def pooled_shares(layer: Tensor, mask: Tensor, *, how: str) -> Tensor:
    """Return the share of each token (B, T) in the looks of one layer (B, H, T, T) that are pooled.

    >>> layer = torch.tensor([[[[0.8, 0.2], [0.4, 0.6]]]])
    >>> mask = torch.ones(1, 2, dtype=torch.bool)
    >>> pooled_shares(layer, mask, how="cls"), pooled_shares(layer, mask, how="mean")
    (tensor([[0.8000, 0.2000]]), tensor([[0.6000, 0.4000]]))
    """
    heads = layer.mean(1)  # (B, T, T)
    if how != "mean":
        return heads[:, 0]
    looks = heads.masked_fill(~mask[..., None], 0.0)
    return looks.sum(1) / mask.sum(1, keepdim=True)


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


@torch.inference_mode()
def _look(
    encoder: GlowEncoder, tower: Any, sequence: SubwordSequence, surface: SurfaceWords
) -> tuple[WordShare, ...]:
    layers: list[Tensor] = []
    batch = encoder.inputs.pad([sequence])
    encoder.network.states(tower, batch, record=layers)
    (shares,) = pooled_shares(layers[-1], batch.mask, how=encoder.config.pooling)
    return top_words(shares.tolist(), surface)
