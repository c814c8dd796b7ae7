"""Tiny random query generators: ours, a BART and a T5; fast, seeded, no better than chance."""

from __future__ import annotations

from pathlib import Path

import torch
from tiny_encoder import WORDS, make_tokenizer, save_tiny_encoder
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch

CONFIG = QueryGeneratorConfig(num_layers=2, max_passage_subwords=32, max_query_subwords=12)
PASSAGES = [
    "the barn owl hunts at night in the field",
    "a raven watches one hen",
    "two birds sleep among many other words here",
    "swift on the wing at dusk",
]


def save_base(folder: Path) -> Path:
    """Write a tiny encoder whose tokenizer can also write."""
    save_tiny_encoder(folder)
    tokenizer = make_tokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def make_generator(folder: Path, config: QueryGeneratorConfig = CONFIG) -> QueryGenerator:
    """Make a generator whose decoder is not that of its encoder any more."""
    generator = QueryGenerator.start(str(save_base(folder)), config=config)
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in generator.network.named_parameters():
            if not name.startswith("encoder."):
                parameter += 0.1 * torch.randn(parameter.shape, generator=chance)
        assert isinstance(generator.network, QueryGeneratorNetwork)
        generator.network.head_norm.weight.mul_(4)  # so that queries differ
    return generator


def make_batch(rows: int, length: int, *, vocabulary: int, seed: int = 0) -> TextBatch:
    """Random subwords, the later rows shorter."""
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, vocabulary, (rows, length), generator=chance)
    lengths = torch.tensor([max(1, length - 2 * row) for row in range(rows)])
    mask = torch.arange(length)[None, :] < lengths[:, None]
    return TextBatch(ids.masked_fill(~mask, 0), mask)


def make_foreign(kind: str) -> torch.nn.Module:
    """Make a random BART or T5."""
    size = len(WORDS) + 4
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "t5":
            shape = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
            settings = T5Config(
                vocab_size=size,
                decoder_start_token_id=1,
                pad_token_id=1,
                eos_token_id=2,
                initializer_factor=2.0,
                **shape,
            )
            return T5ForConditionalGeneration(settings).eval()
        layers = {"encoder_layers": 2, "decoder_layers": 2}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        inner = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
        ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
        ids |= {"decoder_start_token_id": 2, "forced_eos_token_id": 2}
        bart = BartConfig(
            vocab_size=size,
            d_model=32,
            max_position_embeddings=64,
            init_std=0.5,
            **layers,
            **heads,
            **inner,
            **ids,
        )
        return BartForConditionalGeneration(bart).eval()


def save_foreign(folder: Path, kind: str) -> Path:
    """Write a random BART or T5 with a tokenizer of whole words."""
    make_foreign(kind).save_pretrained(str(folder))  # type: ignore[operator]
    special = (
        ["<s>", "<pad>", "</s>", "<unk>"] if kind == "bart" else ["<x>", "<pad>", "</s>", "<unk>"]
    )
    vocabulary = {word: at for at, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
