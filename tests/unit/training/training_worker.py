"""A small training run that tests start in processes of their own: interrupted, or in pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

from quoth.models.attention import register_attention
from quoth.training.batching import Batches
from quoth.training.loop import train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.glow import GlowPairs, GlowRecipe, build_network
from quoth.training.retriever.training_set import TrainingSet
from quoth.training.sequences import SequenceTable


def make_base() -> torch.nn.Module:
    """Two layers, 32 wide, seeded."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        return BertModel._from_config(config, attn_implementation=register_attention())


def make_pairs(count: int) -> TrainingSet:
    """Pairs of random subwords and weights."""
    chance = np.random.default_rng(0)
    return TrainingSet(
        make_table(chance, count, 4, 7),
        make_table(chance, count, 8, 14),
        np.arange(count),
        np.arange(count),
        np.zeros(count, dtype=np.uint8),
    )


def make_table(chance: np.random.Generator, count: int, low: int, high: int) -> SequenceTable:
    """Sequences of random lengths."""
    offsets = np.concatenate(([0], np.cumsum(chance.integers(low, high, count))))
    size = int(offsets[-1])
    return SequenceTable.from_arrays(
        chance.integers(5, 100, size).astype(np.uint16),
        offsets,
        field_ids=np.zeros(size, dtype=np.uint8),
        weights=chance.uniform(0.3, 4.0, size).astype(np.float16),
    )


def run(
    recipe: GlowRecipe, loop: LoopConfig, *, folder: Path | None = None, until: int | None = None
) -> GlowPairs:
    """Train on sixteen pairs and give what was trained."""
    torch.manual_seed(recipe.seed)
    pairs = GlowPairs(build_network(make_base(), recipe), recipe)
    generator = torch.Generator().manual_seed(recipe.seed)
    data = make_pairs(16)
    train(
        pairs,
        Batches(data.document_rows, data.query_rows, batch_size=recipe.batch_size, seed=0),
        lambda model, rows, strength: model(
            data.batch(rows), strength=strength, generator=generator
        ),
        loop,
        generator=generator,
        checkpoint=folder,
        until=until,
    )
    return pairs


def resume_settings() -> tuple[GlowRecipe, LoopConfig]:
    """Dropout, drawn negatives and a ramp: everything that has a state."""
    recipe = GlowRecipe(
        loss="bce", weighting="row", num_layers=0, batch_size=4, temperature=5.0, dropout=0.1
    )
    loop = LoopConfig(steps=6, learning_rate=1e-2, ramp_steps=4, report_every=2)
    return recipe, loop


def pair_settings(*, gather: bool, accumulate: int) -> tuple[GlowRecipe, LoopConfig]:
    """Nothing drawn by chance, so that two processes can be compared with one."""
    recipe = GlowRecipe(
        weighting="row", num_layers=0, batch_size=4, dropout=0.0, gather=gather, query_similarity=2
    )
    return recipe, LoopConfig(steps=3, learning_rate=1e-2, accumulate=accumulate)


def save(pairs: GlowPairs, path: Path) -> None:
    """Write the parameters."""
    save_file({name: each.detach() for name, each in pairs.named_parameters()}, path)


def resume(folder: Path) -> None:
    """Go on from the checkpoints of a folder, and write what was trained."""
    torch.set_num_threads(1)
    recipe, loop = resume_settings()
    save(run(recipe, loop, folder=folder / "checkpoints"), folder / "resumed.safetensors")


def run_pair(folder: Path, rank: int) -> None:
    """Train as one of two processes, and write what was trained."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    for gather in (False, True):
        recipe, loop = pair_settings(gather=gather, accumulate=1)
        save(run(recipe, loop), folder / f"{rank}-{gather}.safetensors")
    torch.distributed.destroy_process_group()
