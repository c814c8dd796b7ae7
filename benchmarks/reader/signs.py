"""What a reader says of held-out questions, sentence by sentence, to fit weights to.

`benchmarks.reader.train_gpu --signs` writes it on the machine that trains; here the weights of the
signs (`quoth.answer.reading.SIGNS`) are fitted, so that the softmax over all sentences of a
question's passages gives the one that answers the highest probability:

    python -m benchmarks.reader.signs OUT/NAME.npz --model FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from quoth.answer.reading import SIGNS, save_weights
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork, ReaderScores
from quoth.models.reader.spans import MAX_SUBWORDS
from quoth.training.reading.groups import GroupConfig, GroupMaker, RowBatch
from quoth.training.reading.losses import sentence_means
from quoth.training.reading.set import ANSWERED, ReadingSet

PLAIN = GroupConfig(
    without_share=0.0, cut_share=0.0, crop_share=0.0, untitled_share=1.0, num_parts=1
)
RIDGE = 1e-3


def main() -> None:
    """Fit weights to signs, and keep them with a reader."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("signs", type=Path)
    parser.add_argument("--model", type=Path, help="folder of the reader")
    given = parser.parse_args()
    with np.load(given.signs) as arrays:
        groups, signs, gold = arrays["groups"], arrays["signs"].astype(float), arrays["gold"]
    half = groups % 2 == 0
    fitted = fit_weights(groups[half], signs[half], gold[half])
    named = {
        "fitted to the other half": fitted,
        **dict(zip(SIGNS, np.eye(len(SIGNS)), strict=True)),
    }
    for name, weights in named.items():
        share = accuracy(groups[~half], signs[~half], gold[~half], weights)
        print(f"{name:26} {np.round(weights, 3).tolist()} right {share:.4f}")
    if given.model:
        save_weights(given.model, tuple(fit_weights(groups, signs, gold).tolist()))


def fit_weights(
    groups: NDArray[np.int64],
    signs: NDArray[np.float64],
    gold: NDArray[np.bool_],
    shares: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:  # (F,)
    """Fit weights by maximum likelihood: the softmax over a group gives its right rows the most.

    `shares` says how much each group counts, in the order of their numbers; all alike without.
    """
    numbers = torch.from_numpy(np.unique(groups, return_inverse=True)[1])
    count, values = int(numbers.max()) + 1, torch.from_numpy(signs)
    right = torch.from_numpy(gold)
    counted = torch.full((count,), 1 / count) if shares is None else torch.from_numpy(shares)
    weights = torch.zeros(values.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        scores = values @ weights
        highest = torch.full((count,), -1e9, dtype=torch.float64).scatter_reduce(
            0, numbers, scores.detach(), "amax"
        )
        shifted = (scores - highest[numbers]).exp()
        total = torch.zeros(count, dtype=torch.float64).scatter_add(0, numbers, shifted)
        part = torch.zeros(count, dtype=torch.float64).scatter_add(0, numbers, shifted * right)
        lost = total.log() - part.clamp_min(1e-30).log()
        found = (counted * lost).sum() + RIDGE * weights.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach().numpy()


def accuracy(
    groups: NDArray[np.int64],
    signs: NDArray[np.float64],
    gold: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> float:
    """Return the share of groups whose best row is right."""
    scores = signs @ weights
    best: dict[int, int] = {}
    for row, group in enumerate(groups.tolist()):
        if group not in best or scores[row] > scores[best[group]]:
            best[group] = row
    return float(np.mean([gold[row] for row in best.values()]))


@torch.inference_mode()
def gather_signs(
    network: ReaderNetwork,
    reading: ReadingSet,
    inputs: ReaderInputs,
    rows: NDArray[np.int64],
    *,
    device: torch.device,
    mark_id: int,
) -> dict[str, NDArray[np.generic]]:
    """Read answered questions, each put to its passage and four neighbours."""
    maker = GroupMaker(reading, inputs, PLAIN, mark_id=mark_id)
    chosen = rows[reading.kinds[rows] == ANSWERED]
    parts = []
    for start in range(0, len(chosen), 32):
        own = chosen[start : start + 32]
        batch = maker.make(own, np.random.default_rng(start)).to(device)
        rows_of = batch.parts[0]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = network(rows_of.sequences)
        found = sign_rows(scores, rows_of)  # (R, S, F + 1)
        groups = (start + batch.groups.cpu().numpy())[:, None].repeat(found.shape[1], axis=1)
        exists = np.isfinite(found[..., 0])
        parts.append(np.column_stack([groups[exists], found[exists]]))
    joined = np.concatenate(parts)
    return {
        "groups": joined[:, 0].astype(np.int64),
        "signs": joined[:, 1:-1].astype(np.float32),
        "gold": joined[:, -1] > 0.5,
    }


def sign_rows(scores: ReaderScores, rows: RowBatch) -> NDArray[np.float64]:  # (R, S, F + 1)
    """Return the signs of each sentence, and whether an answer begins in it."""
    ends = scores.ends.masked_fill(~rows.text_mask, -torch.inf)
    length = ends.shape[1]
    band = torch.ones(length, length, device=ends.device).triu().tril(MAX_SUBWORDS - 1).bool()
    after = ends[:, None, :].masked_fill(~band, -torch.inf).logsumexp(2)
    starts = (scores.starts + after).masked_fill(~rows.text_mask, -torch.inf)  # (R, T)
    means, holding = sentence_means(scores.evidence, rows)
    number = torch.arange(rows.num_sentences, device=ends.device)
    own = (rows.sentences[:, None, :] == number[:, None]) & rows.text_mask[:, None, :]
    spans = starts[:, None, :].masked_fill(~own, -torch.inf).logsumexp(2)  # (R, S)
    silence = (scores.starts[:, 0] + scores.ends[:, 0])[:, None].expand_as(spans)
    relevance = scores.relevance[:, None].expand_as(spans)
    found = torch.stack([spans, means, relevance, silence, holding.float()], dim=2)
    return found.double().cpu().numpy()


if __name__ == "__main__":
    main()
