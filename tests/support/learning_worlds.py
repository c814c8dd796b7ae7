"""A small world of documents of made-up words, with models small enough to learn in a test.

Every document has a subject of its own, named in its title and its sentences in changing words, so
that what is found by one sentence is told by the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tiny_encoder import make_tokenizer, save_tiny_encoder
from tokenizers import decoders
from transformers import BertModel

from quoth.engine.engine import Engine
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.records import Document

NUM_DOCUMENTS = 50
_NUM_COMMON = 6
_WORDS = tuple(
    a + b
    for a in ("ka", "mo", "ti", "ru", "se", "lo", "vi", "na", "pe", "du")
    for b in ("rel", "bor", "nix", "gat", "fum", "dol", "zet", "pik", "sur", "lam")
)


COMMON = frozenset(_WORDS[:_NUM_COMMON])
"""Words that stand in every document and tell nothing."""


def make_documents(count: int = NUM_DOCUMENTS, *, seed: int = 0) -> list[Document]:
    """Make documents of four sentences: words of the document's own among many common ones."""
    chance = random.Random(seed)
    documents = []
    for number in range(count):
        own = chance.sample(_WORDS[_NUM_COMMON:], 6)
        sentences = []
        for _ in range(4):
            words = [*chance.sample(own, 3), *chance.choices(_WORDS[:_NUM_COMMON], k=6)]
            chance.shuffle(words)
            sentences.append(" ".join(words).capitalize() + ".")
        fields = {"title": (" ".join(chance.sample(own, 3)),), "text": (" ".join(sentences),)}
        documents.append(Document(f"d{number:03}", fields))
    return documents


def save_models(folder: Path) -> tuple[Path, Path]:
    """Write a tiny encoder, and a query generator made from it that is no better than chance."""
    encoder = save_tiny_encoder(folder / "encoder", words=_WORDS)
    _read_mostly_words(encoder)
    tokenizer = make_tokenizer(_WORDS)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(encoder / "tokenizer.json"))
    config = QueryGeneratorConfig(num_layers=2, max_passage_subwords=64, max_query_subwords=10)
    generator = QueryGenerator.start(str(encoder), config=config)
    assert isinstance(generator.network, QueryGeneratorNetwork)
    with torch.no_grad():
        generator.network.head_norm.weight.mul_(4)  # so that queries differ
    generator.save(folder / "generator", dtype="fp32")
    return encoder, folder / "generator"


def _read_mostly_words(encoder: Path) -> None:
    """Let vectors be little more than bags of words, so that seconds suffice to better them."""
    model = BertModel.from_pretrained(str(encoder))
    with torch.no_grad():
        for parameter in model.encoder.layer.parameters():
            if parameter.ndim == 2:
                parameter.mul_(0.1)
        model.embeddings.position_embeddings.weight.mul_(0.1)
        model.embeddings.token_type_embeddings.weight.mul_(0.1)
    model.save_pretrained(str(encoder))


def make_collection(folder: Path, documents: list[Document]) -> Path:
    """Add the documents to a new collection."""
    with Engine.open(folder) as engine:
        engine.add_documents(documents)
    return folder


def copy_words(
    _generator: QueryGenerator, passages: Sequence[str], *, per_passage: int, seed: int, **_: Any
) -> list[list[str]]:
    """Write queries that a tiny network cannot: telling words of the passage."""

    def one(text: str, at: int) -> str:
        words = [word for word in text.lower().replace(".", "").split() if word not in COMMON]
        return " ".join(random.Random(f"{seed} {at} {text}").sample(sorted(set(words)), 3))

    return [[one(text, at) for at in range(per_passage)] for text in passages]
