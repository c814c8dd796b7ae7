"""BM25 over packed counts, for machines without an index: the product's formula, as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.vocabulary.weighting import K1, B

TITLE_WEIGHT = 0.3
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class Bm25:
    """Scores all documents for queries: a whole view and a title view, as the product weighs."""

    def __init__(self, arrays: Mapping[str, Any], *, keep: NDArray[np.int64] | None = None) -> None:
        """Open what `count_terms` made; `keep` are the documents that stay, in their new order."""
        words = str(arrays["words"]).split("\n")
        self._term_by_word = dict(zip(words, arrays["word_terms"].tolist(), strict=True))
        self._views = [
            _View(arrays, "whole", weight=1.0, keep=keep),
            _View(arrays, "title", weight=TITLE_WEIGHT, keep=keep),
        ]
        self.num_documents = self._views[0].num_documents

    def terms(self, text: str) -> list[int]:
        """List the terms of a text that some document holds."""
        words = _WORD.findall(text.replace("’", "'").lower())
        return [self._term_by_word[word] for word in words if word in self._term_by_word]

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:  # (Q, N)
        """Score every document for every query."""
        found = np.zeros((len(texts), self.num_documents), np.float32)
        for row, text in enumerate(texts):
            for term in self.terms(text):
                for view in self._views:
                    rows, impacts = view.postings(term)
                    found[row, rows] += impacts
        return found

    def add_field(self, texts: Sequence[Sequence[str]], *, weight: float) -> None:
        """Let documents have one field more (pseudo-queries), scored as the title is."""
        own = [[term for text in each for term in self.terms(text)] for each in texts]
        self._views.append(_View.of_terms(own, weight=weight))

    def drop_field(self) -> None:
        """Take the last field away again."""
        self._views.pop()


class _View:
    """One field's postings with what each adds to a score."""

    def __init__(
        self,
        arrays: Mapping[str, Any],
        name: str,
        *,
        weight: float,
        keep: NDArray[np.int64] | None = None,
    ) -> None:
        starts, terms = arrays[f"{name}.starts"], arrays[f"{name}.terms"]
        lengths = arrays[f"{name}.lengths"].astype(np.float64)
        counts = arrays[f"{name}.counts"].astype(np.float64)
        rows = np.repeat(np.arange(len(lengths)), np.diff(starts))
        self._fill(rows, terms, counts, lengths, weight)
        if keep is not None:
            place = np.full(len(lengths), -1)
            place[keep] = np.arange(len(keep))
            kept = place[self._rows] >= 0
            before = np.concatenate(([0], np.cumsum(kept)))
            self._starts = before[self._starts]
            self._rows, self._impacts = place[self._rows[kept]], self._impacts[kept]
            self.num_documents = len(keep)

    @classmethod
    def of_terms(cls, own: Sequence[Sequence[int]], *, weight: float) -> _View:
        """Count the terms of a field."""
        view = cls.__new__(cls)
        pairs = np.array([(row, t) for row, each in enumerate(own) for t in each] or [(0, 0)])
        unique, counts = np.unique(pairs, axis=0, return_counts=True)
        lengths = np.array([len(each) for each in own], np.float64)
        view._fill(unique[:, 0], unique[:, 1], counts.astype(np.float64), lengths, weight)
        return view

    def _fill(
        self,
        rows: NDArray[Any],
        terms: NDArray[Any],
        counts: NDArray[np.float64],
        lengths: NDArray[np.float64],
        weight: float,
    ) -> None:
        self.num_documents = total = len(lengths)
        size = int(terms.max(initial=0)) + 1
        df = np.bincount(terms, minlength=size)
        idf = np.log1p((total - df + 0.5) / (df + 0.5))
        norms = 1.0 - B + B * lengths / max(lengths.mean(), 1e-9)
        impacts = weight * idf[terms] * counts * (K1 + 1.0) / (counts + K1 * norms[rows])
        order = np.argsort(terms, kind="stable")
        self._rows, self._impacts = rows[order], impacts[order].astype(np.float32)
        self._starts = np.concatenate(([0], np.cumsum(df)))

    def postings(self, term: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the documents that hold a term, and what it adds to their scores."""
        if term + 1 >= len(self._starts):
            return self._rows[:0], self._impacts[:0]
        own = slice(self._starts[term], self._starts[term + 1])
        return self._rows[own], self._impacts[own]
