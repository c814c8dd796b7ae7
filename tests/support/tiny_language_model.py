"""Tiny random causal models with a byte-level BPE, as dynamic language models: seeded."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM

TEXTS = (
    "The barn owl hunts at night. It finds mice by hearing, not by sight.",
    "A raven watches the barn owl at dusk, and the barn owl watches it.",
    "Swifts sleep on the wing; no owl does. The documents do not say.",
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train_tokenizer() -> Tokenizer:
    """Train a small byte-level BPE that can read and write any text."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=330,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def save_language_model(folder: Path, *, kind: str = "llama", num_heads: int = 4) -> Path:
    """Write a random model of two layers in the Hugging Face layout."""
    tokenizer = train_tokenizer()
    size = tokenizer.get_vocab_size()
    ends = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: torch.nn.Module
        if kind == "gpt2":
            model = GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=size,
                    n_embd=32,
                    n_layer=2,
                    n_head=4,
                    n_positions=512,
                    initializer_range=0.3,
                    **ends,
                )
            )
        else:
            model = LlamaForCausalLM(
                LlamaConfig(
                    vocab_size=size,
                    hidden_size=32,
                    intermediate_size=64,
                    num_hidden_layers=2,
                    num_attention_heads=num_heads,
                    num_key_value_heads=num_heads // 2,
                    max_position_embeddings=512,
                    tie_word_embeddings=True,
                    initializer_range=0.3,
                    **ends,
                )
            )
    model.save_pretrained(str(folder))  # type: ignore[operator]
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def make_dynamic_lm(
    folder: Path, config: DynamicLMConfig | None = None, *, kind: str = "llama"
) -> DynamicLM:
    """Start a dynamic language model from a random one, its phrases moved a little.

    Untrained phrases of one first subword score alike: ties would be broken at random.
    """
    base = save_language_model(folder, kind=kind)
    config = config or DynamicLMConfig(base=str(base), max_prompt_subwords=384)
    model = DynamicLM.start(base, config=config, device=torch.device("cpu"))
    last = model.network.encoder.projection[-1]
    chance = torch.Generator().manual_seed(5)
    with torch.no_grad():
        last.weight += 0.02 * torch.randn(last.weight.shape, generator=chance)  # type: ignore[operator]
    return model
