"""BM25 over packed counts, for machines without an index: the product's formula, as matrices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.vocabulary.weighting import K1, B

TITLE_WEIGHT = 0.3
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class Bm25:
    """Scores all documents for queries: a whole view and a title view, as the product weighs."""

    def __init__(
        self, arrays: Mapping[str, Any], *, keep: NDArray[np.int64], device: torch.device
    ) -> None:
        """Open what `count_terms` made; `keep` are the documents that stay, in their new order."""
        words = str(arrays["words"]).split("\n")
        self._term_by_word = dict(zip(words, arrays["word_terms"].tolist(), strict=True))
        self._num_terms = 1 + int(arrays["whole.terms"].max())
        self._device = device
        place = np.full(len(arrays["whole.lengths"]), -1)
        place[keep] = np.arange(len(keep))
        self._size = len(keep), self._num_terms
        self._views = [
            self._open(arrays, view, weight, place)
            for view, weight in (("whole", 1.0), ("title", TITLE_WEIGHT))
        ]

    def terms(self, text: str) -> list[int]:
        """List the terms of a text that some document holds."""
        words = _WORD.findall(text.replace("’", "'").lower())
        return [self._term_by_word[word] for word in words if word in self._term_by_word]

    def scores(self, texts: Sequence[str]) -> Tensor:  # (Q, N)
        """Score every document for every query."""
        asked = np.zeros((self._num_terms, len(texts)), np.float32)
        for column, text in enumerate(texts):
            for term in self.terms(text):
                asked[term, column] += 1
        dense = torch.from_numpy(asked).to(self._device)
        return sum((view @ dense for view in self._views), torch.zeros(())).T.contiguous()

    def add_field(self, texts: Sequence[Sequence[str]], *, weight: float) -> None:
        """Let documents have one field more (pseudo-queries), scored as the title is."""
        own = [[term for text in each for term in self.terms(text)] for each in texts]
        pairs = np.array([(row, t) for row, each in enumerate(own) for t in each] or [(0, 0)])
        unique, counts = np.unique(pairs[:, 0] * self._num_terms + pairs[:, 1], return_counts=True)
        lengths = np.array([len(each) for each in own], np.float64)
        rows, terms = np.divmod(unique, self._num_terms)
        self._views.append(self._weigh(rows, terms, counts.astype(np.float64), lengths, weight))

    def drop_field(self) -> None:
        """Take the last field away again."""
        self._views.pop()

    def _open(
        self, arrays: Mapping[str, Any], view: str, weight: float, place: NDArray[Any]
    ) -> Tensor:
        starts, lengths = arrays[f"{view}.starts"], arrays[f"{view}.lengths"].astype(np.float64)
        rows = np.repeat(np.arange(len(lengths)), np.diff(starts))
        counts = arrays[f"{view}.counts"].astype(np.float64)
        return self._weigh(rows, arrays[f"{view}.terms"], counts, lengths, weight, place)

    def _weigh(
        self,
        rows: NDArray[Any],
        terms: NDArray[Any],
        counts: NDArray[np.float64],
        lengths: NDArray[np.float64],
        weight: float,
        place: NDArray[Any] | None = None,
    ) -> Tensor:
        """Return what each term adds to a document's score, for the documents that stay."""
        df = np.bincount(terms, minlength=self._num_terms)
        idf = np.log1p((len(lengths) - df + 0.5) / (df + 0.5))
        norms = 1.0 - B + B * lengths / max(lengths.mean(), 1e-9)
        impacts = weight * idf[terms] * counts * (K1 + 1.0) / (counts + K1 * norms[rows])
        at = rows if place is None else place[rows]
        kept = at >= 0
        places = torch.from_numpy(np.stack([at[kept], terms[kept]]).astype(np.int64))
        values = torch.from_numpy(impacts[kept].astype(np.float32))
        return (
            torch.sparse_coo_tensor(places, values, self._size, check_invariants=True)
            .coalesce()
            .to(self._device)
        )
