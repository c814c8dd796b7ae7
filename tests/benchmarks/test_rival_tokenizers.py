"""Subword rivals: they cut and join like a phrase vocabulary does."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.phrases.rival_tokenizers import (
    IdentifierVocabulary,
    open_wordpiece,
    train_bpe,
    train_unigram,
)

from quoth.errors import ConfigError
from quoth.vocabulary.phrases.text import normalise

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXTS = ["The star wars film", "star wars saga 2", "what's the best film?", "été  déjà vu"] * 6


def train(name: str, size: int) -> IdentifierVocabulary:
    return train_bpe(TEXTS, size=size) if name == "bpe" else train_unigram(TEXTS, size=size)


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_texts_come_back(name: str) -> None:
    vocabulary = train(name, 300)
    texts = [*TEXTS[:4], "", "an unseen 漢字 text"]
    sequences = vocabulary.segment(texts)
    assert len(sequences) == len(texts)
    assert len(vocabulary) <= 300
    assert sequences.ids.max() < len(vocabulary)
    for at, text in enumerate(texts):
        ids = sequences.ids[sequences.offsets[at] : sequences.offsets[at + 1]]
        assert vocabulary.join(ids) == normalise(text)
        assert all(vocabulary.text_of(int(each)) for each in ids)
    with pytest.raises(IndexError):
        vocabulary.text_of(len(vocabulary))


def test_more_merges_make_shorter_sequences() -> None:
    few, many = (len(train("bpe", size).segment(TEXTS).ids) for size in (265, 320))
    assert few > many


def test_wordpiece_of_an_encoder(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = {"[UNK]": 0, "star": 1, "wars": 2, "##s": 3}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=5)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = open_wordpiece(tmp_path / "tokenizer.json")
    sequences = vocabulary.segment(["Stars  wars star", "wars"])
    assert list(sequences.ids) == [1, 3, 2, 1, 2]
    assert list(sequences.offsets) == [0, 4, 5]
    assert vocabulary.join([1, 3, 2]) == "stars wars"
    with pytest.raises(ConfigError, match="missing"):
        open_wordpiece(tmp_path / "none.json")
