"""A tiny model for generative search: a random encoder, whose vectors of phrases are the head."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.centroids import build_centroids
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.full import build_full
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.search.generative.files import GenerativeModel
from quoth.vocabulary.phrases.config import NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.text import join_strings
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, build_vocabulary

PHRASES = (*(f" {word}" for word in WORDS if len(word) > 1), " barn owl", " at night", " owl owl")
CONFIG = PixarConfig(num_slots=4, slot_layers=1, max_query_subwords=24)


def make_vocabulary(phrases: tuple[str, ...] = PHRASES) -> PhraseVocabulary:
    """Number phrases, each the rarer the later it comes."""
    uses = np.concatenate([np.zeros(NUM_BYTES), np.arange(len(phrases), 0, -1)]).astype(np.int64)
    strings = join_strings([each.encode() for each in phrases])
    return build_vocabulary(strings, config=PhraseConfig(), uses=uses)


def make_model(
    folder: Path,
    *,
    depth: int = 1000,
    list_length: int | None = None,
    seed: int = 0,
    word_vectors: bool = False,
    row_lengths: bool = False,
) -> GenerativeModel:
    """Make a model whose slots differ, as if it had been trained; it knows all its phrases.

    It scores all of them, or with a `list_length` those on the lists of a few centroids. With
    `row_lengths`, phrases that it never saw have valid rows, as in a pretrained one.
    """
    vocabulary = make_vocabulary()
    encoder = folder / f"encoder-{seed}"
    if not encoder.exists():
        save_tiny_encoder(encoder, positions=32, seed=seed)
    pixar = Pixar.start(
        str(encoder),
        num_phrases=len(vocabulary),
        config=replace(
            CONFIG, word_vectors=word_vectors, row_lengths=row_lengths, unit_rows=not row_lengths
        ),
        phrase_texts=[vocabulary.text_of(each) for each in range(len(vocabulary))],
        counts=np.concatenate([vocabulary.uses, [9, 9]]),
    )
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        weight = pixar.network.output.weight
        weight += 0.3 * torch.randn(weight.shape, generator=chance)
        if (words := pixar.network.words) is not None:
            words.weight += 0.1 * torch.randn(words.weight.shape, generator=chance)
    shortlist = _full(pixar, depth) if list_length is None else _centroids(pixar, list_length)
    return GenerativeModel(pixar, vocabulary, shortlist)


def _full(pixar: Pixar, depth: int) -> Shortlist:
    head, bias = torch.from_numpy(pixar.head.rows), torch.from_numpy(pixar.head.bias)
    config = ShortlistConfig(method="full", storage="float32", depth=depth)
    return build_full(head, bias, config=config)


def _centroids(pixar: Pixar, list_length: int) -> Shortlist:
    head, bias = torch.from_numpy(pixar.head.rows), torch.from_numpy(pixar.head.bias)
    centroids = torch.from_numpy(pixar.encode_queries(list(WORDS[-4:])).pooled)
    config = ShortlistConfig(
        storage="float32", num_centroids=4, num_lists=1, list_length=list_length
    )
    return build_centroids(head, bias, centroids=centroids, config=config)


@cache
def tiny_model(folder: Path) -> GenerativeModel:
    """Make the model once for each folder that encoders are kept in."""
    return make_model(folder)
