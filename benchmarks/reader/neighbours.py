"""Passages like the right one, as a hybrid finds them: BM25 over subwords, and vectors.

Both run on the machine that trains, which needs no index for them: BM25's weights are a sparse
matrix of passages and subwords, the vectors those of the encoder that the reader starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.reader.pack import spread
from benchmarks.reader.rerank import FOUND, Candidates, fuse
from quoth.models.reader.inputs import ReaderInputs
from quoth.training.reading.set import UNANSWERED, Ragged, ReadingSet

NEAR, KEPT = 32, 32
TOO_NEAR = 0.98
"""Passages with more than this share of the right one's cosine may be right as well."""
RANK_CONSTANT = 10
BLOCK = 512
EVEN = {"weights": {"lexical": 0.5, "dense": 0.5}, "ranges": {}}
_K1, _B = 1.2, 0.75


class SubwordHybrid:
    """Searches the passages of a set for its questions."""

    def __init__(
        self, reading: ReadingSet, encoder: nn.Module, inputs: ReaderInputs, device: torch.device
    ) -> None:
        self._set = reading
        self._inputs = inputs
        self._device = device
        size = int(encoder.config.vocab_size)  # type: ignore[union-attr,arg-type]
        self._weights = bm25_weights(reading.texts, size).to(device)
        self._size = size
        self._texts = torch.cat(list(vectors(reading.texts, encoder, inputs, device)))
        self._questions = torch.cat(list(vectors(reading.questions, encoder, inputs, device)))

    def add_neighbours(self, processes: int = 1) -> ReadingSet:
        """Order neighbours by reciprocal ranks in both lists; those that may be right stay out."""
        blocks = range(0, len(self._set), BLOCK)
        lists = [self._near(np.arange(at, min(at + BLOCK, len(self._set)))) for at in blocks]
        lexical, dense = (np.concatenate(each) for each in zip(*lists, strict=True))
        holds = AnswerSearch(self._set)

        def merge(at: int) -> NDArray[np.int32]:
            merged = merge_ranks(lexical[at].tolist(), dense[at].tolist())
            fitting = [row for row in merged if not holds(at, row)][:KEPT]
            return np.array(fitting + [-1] * (KEPT - len(fitting)), dtype=np.int32)

        found = np.stack(spread(merge, len(self._set), processes)).astype(np.int64)
        return replace(self._set, neighbours=found)

    def held_out_candidates(self, most: int) -> list[Candidates]:
        """Find candidates for held-out examples by an even mix, source by source."""
        reading = self._set
        rows = np.flatnonzero(reading.held_out & (reading.kinds != UNANSWERED))
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
        sources = reading.source_ids[rows]
        return [
            self._candidates(reading.sources[source], rows[sources == source])
            for source in np.unique(sources).tolist()
        ]

    def _scores(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:  # both (B, D)
        """Score all passages for some questions: by BM25, and by cosine."""
        own = [self._set.questions[row].astype(np.int64) for row in rows.tolist()]
        columns = np.repeat(np.arange(len(own)), [len(each) for each in own])
        places = torch.from_numpy(np.stack([np.concatenate(own), columns])).to(self._device)
        asked = torch.zeros(self._size, len(own), device=self._device)
        asked[places[0], places[1]] = 1.0
        lexical = (self._weights @ asked).T
        return lexical, self._questions[torch.from_numpy(rows).to(self._device)] @ self._texts.T

    def _near(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the best passages but the right one by either score, −1 where there are fewer."""
        lexical, cosines = self._scores(rows)
        own = torch.from_numpy(self._set.passage_rows[rows]).to(self._device)[:, None]
        barred = cosines > TOO_NEAR * cosines.gather(1, own)
        barred.scatter_(1, own, torch.ones_like(own, dtype=torch.bool))
        found = []
        for scores in (lexical, cosines):
            best = scores.masked_fill(barred, -1.0).topk(min(NEAR, scores.shape[1]), dim=1)
            rows_found = torch.where(best.values > 0.0, best.indices, -1)
            found.append(rows_found.to(torch.int32).cpu().numpy())
        return found[0], found[1]

    def _candidates(self, source: str, rows: NDArray[np.int64]) -> Candidates:
        found = [
            best
            for at in range(0, len(rows), BLOCK)
            for best in [[_best(each) for each in self._scores(rows[at : at + BLOCK])]]
        ]
        lexical, dense = ([hits for block in found for hits in block[side]] for side in (0, 1))
        candidates = Candidates.empty(f"{source}:", [1.0] * len(rows))
        nothing = np.zeros(0, dtype=np.int64)
        for at, hits in enumerate(fuse(EVEN, lexical, dense)):
            question = self._set.questions[int(rows[at])].astype(np.int64)
            for rank, hit in enumerate(hits):
                row = int(hit.docid)
                candidates.fused[at, rank] = hit.score
                candidates.grades[at, rank] = row == self._set.passage_rows[rows[at]]
                text = self._set.texts[row].astype(np.int64)
                candidates.sequences.append(self._inputs.join(question, nothing, text))
        return candidates


def _best(scores: Tensor) -> list[list[tuple[str, float]]]:
    values, rows = (each.cpu().tolist() for each in scores.topk(min(FOUND, scores.shape[1]), dim=1))
    return [
        [(str(row), value) for row, value in zip(*own, strict=True)]
        for own in zip(rows, values, strict=True)
    ]


def bm25_weights(texts: Ragged, size: int) -> Tensor:  # (D, V), sparse
    """Weigh each subword of each passage as BM25 does."""
    lengths = np.diff(texts.offsets)
    passages = np.repeat(np.arange(len(lengths)), lengths)
    keys, counts = np.unique(passages * size + texts.values.astype(np.int64), return_counts=True)
    rows, subwords = keys // size, keys % size
    frequency = np.bincount(subwords, minlength=size)
    rarity = np.log1p((len(lengths) - frequency + 0.5) / (frequency + 0.5))
    norm = _K1 * (1 - _B + _B * lengths / lengths.mean())
    values = rarity[subwords] * counts / (counts + norm[rows])
    places = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(lengths)))])
    return torch.sparse_csr_tensor(
        torch.from_numpy(places),
        torch.from_numpy(subwords),
        torch.from_numpy(values.astype(np.float32)),
        size=(len(lengths), size),
    )


def merge_ranks(*lists: Sequence[int]) -> list[int]:
    """Order rows by the sum of their reciprocal ranks; −1 is no row.

    >>> merge_ranks([4, 7], [7, 5, -1])
    [7, 4, 5]
    """
    shares: dict[int, float] = {}
    for rows in lists:
        for rank, row in enumerate(rows):
            if row >= 0:
                shares[row] = shares.get(row, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(shares, key=lambda row: -shares[row])


class AnswerSearch:
    """Tells whether a passage holds one of an example's answers, by subwords."""

    def __init__(self, reading: ReadingSet) -> None:
        self._reading = reading
        self._place = -1
        self._answers: set[bytes] = set()

    def __call__(self, example: int, row: int) -> bool:
        """Look for the answers of an example in a passage."""
        reading = self._reading
        if example != self._place:
            own = reading.texts[int(reading.passage_rows[example])]
            spans = reading.answers[example].reshape(-1, 2).tolist()
            self._place = example
            self._answers = {own[first : last + 1].tobytes() for first, last in spans}
        if not self._answers:
            return False
        text = reading.texts[row].tobytes()
        return any(answer in text for answer in self._answers)


@torch.inference_mode()
def vectors(
    table: Ragged, encoder: nn.Module, inputs: ReaderInputs, device: torch.device
) -> Iterator[Tensor]:
    """Yield unit vectors of rows, in blocks."""
    nothing = np.zeros(0, dtype=np.int64)
    for at in range(0, len(table.offsets) - 1, 512):
        rows = range(at, min(at + 512, len(table.offsets) - 1))
        own = [inputs.join(nothing, nothing, table[row].astype(np.int64)) for row in rows]
        sequences = [np.delete(each.subword_ids, 1) for each in own]  # [CLS] text [SEP]
        longest = max(map(len, sequences))
        ids = np.stack([np.pad(each, (0, longest - len(each))) for each in sequences])
        ids = torch.from_numpy(ids).to(device)
        mask = (
            torch.arange(longest, device=device)
            < torch.tensor([len(each) for each in sequences], device=device)[:, None]
        )
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        total = states.float().masked_fill(~mask[..., None], 0.0).sum(1)
        yield nn.functional.normalize(total, dim=-1)
