"""Tiny random causal models with a small byte-level tokenizer, for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from quoth.models.dynamic_lm.dynamic_lm import DynamicLM

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
TEXTS = (
    "The barn owl hunts at night; the barn owl sleeps by day.",
    "A raven hunts at day and sleeps at night, as the barn hens do.",
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@pytest.fixture(autouse=True)
def _on_one_thread(one_thread: None) -> None:
    """Tiny products gain nothing from threads, and the order of sums stays the same."""


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    made = Tokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def make_model(family: str, *, size: int, positions: int = 256) -> nn.Module:
    """Make a random model, 32 wide, of 2 layers."""
    if family == "llama":
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size,
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=positions,
                tie_word_embeddings=True,
                initializer_range=0.3,
            )
        )
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=positions,
            initializer_range=0.3,
        )
    )


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> dict[str, Path]:
    folders = {}
    for family in ("llama", "gpt2"):
        folder = tmp_path_factory.mktemp("dynamic-lm") / family
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model = make_model(family, size=tokenizer.get_vocab_size() + 5)
        model.save_pretrained(str(folder))  # type: ignore[operator]
        tokenizer.save(str(folder / "tokenizer.json"))
        folders[family] = folder
    return folders


@pytest.fixture(scope="session")
def disturb():  # type: ignore[no-untyped-def]
    """Change everything that is trained, as if it had been."""

    def change(model: DynamicLM, *, seed: int = 5) -> DynamicLM:
        chance = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.network.parameters():
                if parameter.requires_grad:
                    parameter += 0.05 * torch.randn(parameter.shape, generator=chance)
        return model

    return change
