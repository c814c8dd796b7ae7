"""A tiny random BERT in the Hugging Face layout: fast, seeded, and no better than chance."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS: tuple[str, ...] = tuple(
    """
    owl barn night raven hen swift hunt sleep field new again the a at in is of one two
    three on wing dusk watches among many other words here x bird birds letter mouse
    """.split()  # noqa: SIM905
)


def make_tokenizer(words: Sequence[str] = WORDS) -> Tokenizer:
    """Know some words whole, any other ASCII word by its letters; the rest is [UNK]."""
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = [*SPECIAL, *string.punctuation, *letters, *(f"##{each}" for each in letters)]
    vocabulary = {each: at for at, each in enumerate(dict.fromkeys([*pieces, *words]))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(each, vocabulary[each]) for each in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def save_tiny_encoder(
    folder: Path, *, words: Sequence[str] = WORDS, seed: int = 0, positions: int = 128
) -> Path:
    """Write the encoder: 32 wide, 2 layers, 4 heads."""
    tokenizer = make_tokenizer(words)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(
            BertConfig(
                vocab_size=tokenizer.get_vocab_size(),
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=64,
                max_position_embeddings=positions,
                initializer_range=0.5,  # so that texts differ
            )
        )
    folder.mkdir(parents=True)
    model.save_pretrained(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizerFast", "model_max_length": positions})
    )
    return folder
