"""A tiny random language model with its tokenizer, and texts for it to learn by heart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.selfsupervision.phrase_sampling import SubwordKinds, as_subwords
from quoth.training.quoting.set import DynamicSet, Quotation, make_quotations, make_table

PASSAGES = (
    "The barn owl hunts at night. It was named in 1769, and sleeps by day in old barns.",
    "A raven watches one hen among many. Ravens sleep at night in tall old trees.",
    "Two swifts sleep on the wing at dusk. They eat small flies, which they catch in the air.",
    "Hens eat grain and small worms. A hen sleeps at night on a perch in the barn.",
)
TEXTS = (*PASSAGES, *(" ".join(reversed(PASSAGES[at:])) for at in range(4)))
CONFIG = DynamicLMConfig(
    base="tiny", lora_dropout=0.0, encoder_dropout=0.0, max_prompt_subwords=300, template="chat"
)


def make_tokenizer() -> Tokenizer:
    """Train a byte-level tokenizer that splits digits from the space before them."""
    made = Tokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=380,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def make_inputs(config: DynamicLMConfig = CONFIG) -> DynamicLMInputs:
    return DynamicLMInputs(make_tokenizer(), config, max_positions=512)


def make_model(
    folder: Path, *, config: DynamicLMConfig = CONFIG, family: str = "llama"
) -> DynamicLM:
    """Make a random model, 32 wide, of 2 layers, and start a dynamic one from it."""
    tokenizer = make_tokenizer()
    size = tokenizer.get_vocab_size()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = _llama(size) if family == "llama" else _gpt2(size)
    model.save_pretrained(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    return DynamicLM.start(folder, config=config, device=torch.device("cpu"))


def make_set(
    inputs: DynamicLMInputs, *, num_texts: int = 8, quotations: tuple[Quotation, ...] = ()
) -> DynamicSet:
    """Tokenise the texts; each is supported by all others."""
    kinds = kinds_of(inputs)
    texts = TEXTS[:num_texts]
    rows = np.array(
        [[other for other in range(num_texts) if other != at] for at in range(num_texts)]
    )
    return DynamicSet(
        make_table([as_subwords(text, inputs.tokenise(text)) for text in texts]),
        rows.reshape(num_texts, -1),
        make_quotations(quotations),
        kinds.is_punctuation,
        kinds.opens_word,
        about={"source": "birds"},
    )


def kinds_of(inputs: DynamicLMInputs) -> SubwordKinds:
    size = inputs.tokenizer.get_vocab_size()
    return SubwordKinds.of([inputs.tokenizer.decode([at]) for at in range(size)])


def _llama(size: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.2,
        )
    )


def _gpt2(size: int) -> GPT2LMHeadModel:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size,
            bos_token_id=0,
            eos_token_id=0,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=512,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            initializer_range=0.2,
        )
    )
