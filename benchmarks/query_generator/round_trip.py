"""Whether a search finds the passage that a query was written for, by words and by vectors.

Both searches are small ones of their own, so that comparing query generators needs no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from quoth.models.batching import batches_by_length
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_encoder, load_tokenizer
from quoth.text.words import Analyser, AnalyserConfig

K1, B = 1.2, 0.75
DEPTH = 20
_BLOCK, _SUBWORDS = 256, 256
_ANALYSER = Analyser(AnalyserConfig())

Ranks = NDArray[np.int64]
"""The rank of each query's own passage, from 1; 0 where it was not found at all."""


class WordSearch:
    """BM25 over some passages."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._row_by_term: dict[str, int] = {}
        counts = self._count(texts, grows=True)
        lengths = np.asarray(counts.sum(1)).ravel()
        frequencies = np.asarray((counts > 0).sum(0)).ravel()
        rarity = np.log(1 + (len(texts) - frequencies + 0.5) / (frequencies + 0.5))
        norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1e-9))
        spread = np.repeat(norms, np.diff(counts.indptr))
        weights = rarity[counts.indices] * counts.data * (K1 + 1) / (counts.data + spread)
        self._weights = csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)

    def ranks(self, queries: Sequence[str], own: Sequence[int]) -> Ranks:
        """Rank each query's own passage among all."""
        found = self._count(queries, grows=False) @ self._weights.T
        return np.concatenate(
            [
                _ranks(found[at : at + _BLOCK].toarray(), np.array(own[at : at + _BLOCK]))
                for at in range(0, len(queries), _BLOCK)
            ]
        )

    def _count(self, texts: Sequence[str], *, grows: bool) -> Any:
        """Count the terms of texts; new ones are known from then on, or left out."""
        rows, columns = [], []
        for row, text in enumerate(texts):
            for term in _ANALYSER.terms(text):
                if grows:
                    self._row_by_term.setdefault(term, len(self._row_by_term))
                if term in self._row_by_term:
                    rows.append(row)
                    columns.append(self._row_by_term[term])
        shape = (len(texts), max(1, len(self._row_by_term)))
        return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


class VectorSearch:
    """Cosines of the embedded encoder's vectors over some passages."""

    def __init__(self, texts: Sequence[str], device: torch.device) -> None:
        folder = find_folder(DEFAULT_NAME)
        self._encoder: Any = load_encoder(folder).to(device).eval()
        self._tokenizer = load_tokenizer(folder)
        self._device = device
        self._vectors = self._encode(texts)

    def ranks(self, queries: Sequence[str], own: Sequence[int]) -> Ranks:
        """Rank each query's own passage among all."""
        vectors = self._encode(queries)
        found = []
        for at in range(0, len(queries), _BLOCK):
            scores = (vectors[at : at + _BLOCK] @ self._vectors.T + 2.0).cpu().numpy()
            found.append(_ranks(scores, np.array(own[at : at + _BLOCK])))
        return np.concatenate(found)

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str]) -> Tensor:  # (N, D)
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = [each.ids[: _SUBWORDS - 1] + each.ids[-1:] for each in encodings]
        vectors = torch.empty(len(texts), self._encoder.config.hidden_size, device=self._device)
        budget = 65_536 if self._device.type == "cuda" else 8_192
        for rows in batches_by_length([len(each) for each in ids], budget=budget):
            longest = max(len(ids[row]) for row in rows)
            padded = torch.tensor([ids[row] + [0] * (longest - len(ids[row])) for row in rows])
            mask = (torch.arange(longest) < torch.tensor([[len(ids[row])] for row in rows])).long()
            padded, mask = padded.to(self._device), mask.to(self._device)
            states = self._encoder(input_ids=padded, attention_mask=mask).last_hidden_state
            summed = (states * mask[..., None]).sum(1)
            vectors[rows] = torch.nn.functional.normalize(summed, dim=1)
        return vectors


def shares(ranks: Ranks) -> dict[str, float]:
    """Say how many queries find their passage first, and among the first few.

    >>> shares(np.array([1, 0, 7, 40]))
    {'first': 0.25, 'first_20': 0.5}
    """
    first = float((ranks == 1).mean())
    near = float(((ranks >= 1) & (ranks <= DEPTH)).mean())
    return {"first": round(first, 4), f"first_{DEPTH}": round(near, 4)}


def new_terms(query: str, passage: str) -> tuple[int, int]:
    """Count the terms of a query that its passage does not have, and all of them.

    >>> new_terms("owls hunting mice", "The owl hunts.")
    (1, 3)
    """
    known = set(_ANALYSER.terms(passage))
    terms = list(_ANALYSER.terms(query))
    return sum(term not in known for term in terms), len(terms)


def _ranks(scores: NDArray[Any], own: NDArray[np.int64]) -> Ranks:
    """Rank a column of each row; what scores nothing is not found."""
    mine = scores[np.arange(len(own)), own]
    return np.where(mine > 0, 1 + (scores > mine[:, None]).sum(1), 0)
