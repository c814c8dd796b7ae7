"""What a user might do instead of learning with Quoth: TSDAE, and training in the style of GPL.

Both get the same passages, the same steps and, where they need queries, the same pseudo-queries.
TSDAE (Wang et al. 2021) rebuilds a passage, most of whose words were deleted, from its one vector.
GPL (Wang et al. 2022) lets a cross-encoder judge margins between a pseudo-query's passage and hard
negatives; there is none without labels, so the query generator's likelihoods take its place.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from quoth.models.glow.network import GlowNetwork
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.loop_config import LoopConfig
from quoth.training.retriever.learning import Learned, LearningModule, LearningRun, learn
from quoth.training.retriever.negatives import chance_from, draw_negatives
from quoth.training.retriever.passage_set import PassageSet, as_text
from quoth.training.retriever.retriever import Retriever, prepare_network

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class RivalSettings:
    """What both share."""

    steps: int = 400
    batch_size: int = 32
    learning_rate: float = 2e-5
    deleted: float = 0.6  # TSDAE's share of words
    margin_scale: float = 20.0  # GPL's student margin is of cosines
    tempering: float = 0.25  # of log-likelihoods, as in RUMBArt
    seed: int = 0

    def loop(self) -> LoopConfig:
        """Return the loop's part."""
        return LoopConfig(
            steps=self.steps,
            learning_rate=self.learning_rate,
            report_every=50,
            validate_every=50,
            patience=3,
            checkpoint_every=0,
        )


class MarginModule(LearningModule):
    """A retriever whose margins follow those of a frozen query generator."""

    def __init__(
        self,
        retriever: Retriever,
        writer: QueryGeneratorNetwork,
        passages: PassageSet,
        settings: RivalSettings,
    ) -> None:
        super().__init__(retriever, index=None)
        self._writer = [writer.eval()]  # in a list: not a part of what is trained
        self._passages = passages
        self._settings = settings

    def forward(self, rows: Rows, *, generator: torch.Generator) -> Tensor:
        """Return the squared difference of margins."""
        own = self._passages.positive_rows[rows]
        chance = chance_from(generator)
        other = draw_negatives(self._passages, rows, kind="bm25", count=1, chance=chance)[:, 0]
        queries = self.retriever.encode_queries(self._passages.query_batch(rows))
        margins, likely = [], []
        targets = self._passages.query_targets(rows)
        for side in (own, other):
            batch = self._passages.passage_batch(side)
            vectors = self.retriever.encode_passages(batch)
            margins.append((queries * vectors).sum(-1).float())
            with torch.no_grad():
                states = self._writer[0].encode(as_text(batch))
                log_probs = self._writer[0].log_probs(targets, states, batch.mask)
                likely.append(log_probs.float().sum(-1))
        student = self._settings.margin_scale * (margins[0] - margins[1])
        return mse_loss(student, self._settings.tempering * (likely[0] - likely[1]))


class DenoisingModule(LearningModule):
    """A retriever whose passage vectors let a decoder rebuild the passage."""

    def __init__(
        self, retriever: Retriever, decoder: nn.Module, passages: PassageSet, share: float
    ) -> None:
        super().__init__(retriever, index=None)
        self.decoder = decoder
        self._passages = passages
        self._share = share

    def forward(self, rows: Rows, *, generator: torch.Generator) -> Tensor:
        """Return the loss per subword of passages drawn with the queries' rows."""
        count = self._passages.num_passages
        drawn = torch.randint(count, (len(rows),), generator=generator, device=generator.device)
        batch = self._passages.passage_batch(drawn.cpu().numpy())
        kept = torch.rand(batch.mask.shape, generator=generator, device=generator.device)
        keep = (kept >= self._share) & batch.mask
        keep[:, 0] = True  # the first symbol stays, or a passage might be empty
        noisy = _squeeze(batch, keep)
        vectors = self.retriever.encode_passages(noisy)
        inputs = batch.subword_ids[:, :-1]
        decoder: Any = self.decoder
        logits = decoder(
            input_ids=inputs,
            attention_mask=batch.mask[:, :-1].long(),
            encoder_hidden_states=vectors[:, None, :],
        ).logits
        wanted = batch.subword_ids[:, 1:].masked_fill(~batch.mask[:, 1:], -100)
        return cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=-100)


def _squeeze(batch: Any, keep: Tensor) -> Any:
    """Move the kept subwords of each row to its front."""
    order = (~keep).int().argsort(dim=1, stable=True)[:, : int(keep.sum(1).max())]
    taken = [each.gather(1, order) for each in batch]
    mask = keep.gather(1, order)
    return type(batch)(taken[0], mask, taken[2], taken[3])


def train_gpl(
    network: GlowNetwork,
    writer: QueryGeneratorNetwork,
    passages: PassageSet,
    settings: RivalSettings,
    run: LearningRun,
) -> Learned:
    """Train by margins of the query generator."""
    torch.manual_seed(settings.seed)
    own = prepare_network(network, projection=0, dropout=0.1, device=run.device)
    retriever = Retriever(own, similarity="cosine")
    module = MarginModule(retriever, writer, passages, settings)
    return _learn(module, passages, settings, run)


def train_tsdae(
    network: GlowNetwork,
    folder: Path,
    passages: PassageSet,
    settings: RivalSettings,
    run: LearningRun,
) -> Learned:
    """Train by rebuilding passages, with a decoder that starts from the encoder."""
    torch.manual_seed(settings.seed)
    own = prepare_network(network, projection=0, dropout=0.1, device=run.device)
    retriever = Retriever(own, similarity="cosine")
    decoder = start_decoder(own, folder).to(run.device)
    module = DenoisingModule(retriever, decoder, passages, settings.deleted)
    return _learn(module, passages, settings, run)


def _learn(
    module: LearningModule, passages: PassageSet, settings: RivalSettings, run: LearningRun
) -> Learned:
    size, seed = settings.batch_size, settings.seed
    return learn(module, passages, settings.loop(), run, batch_size=size, seed=seed)


def start_decoder(network: GlowNetwork, folder: Path) -> nn.Module:
    """Make a decoder with the encoder's weights and new cross-attention."""
    from transformers import BertConfig, BertLMHeadModel

    config = BertConfig.from_pretrained(str(folder))
    config.is_decoder = True
    config.add_cross_attention = True
    config.use_cache = False
    decoder: Any = BertLMHeadModel(config)
    encoder: Any = network.query_encoder
    weights = copy.deepcopy(encoder.state_dict())
    decoder.bert.load_state_dict(weights, strict=False)
    return nn.Module.train(decoder)
