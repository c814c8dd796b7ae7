"""Several searchers as one: their runs fused, with weights found without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from quoth.records import Document, Part, Query, Run
from quoth.search.hybrid.fusion import UsualRanges, explain_fused, find_standings, fuse
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.searcher import Searcher


class HybridSearcher:
    """Fuses the runs of other searchers; it keeps no index of its own."""

    name = "hybrid"

    def __init__(
        self,
        searchers: Sequence[Searcher],
        *,
        config: FusionConfig,
        weights: Mapping[str, float],
        ranges: UsualRanges | None = None,
    ) -> None:
        self._searchers = searchers
        self._config = config
        self._weights = weights
        self._ranges = ranges

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query by the fused score.

        A searcher that has no weight is not even asked, so it costs nothing.
        """
        runs = self._runs(queries, k=k, allowed=allowed, silent=self._silent())
        fused = fuse(runs, self._config, weights=self._weights, ranges=self._ranges, k=k)
        return Run(self.name, fused.hits)

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say what each searcher adds to each score; k and rows as in the search it explains."""
        runs = self._runs([query], k=k, allowed=allowed)
        return tuple(
            explain_fused(
                find_standings(
                    runs,
                    qid=query.qid,
                    docid=document.docid,
                    normalise=self._config.normalise,
                    ranges=self._ranges,
                ),
                self._config,
                weights=self._weights,
            )
            for document in documents
        )

    def close(self) -> None:
        """Nothing is open here; the searchers are closed by whoever made them."""

    def _depth(self, k: int) -> int:
        return max(k, self._config.depth)

    def _silent(self) -> set[str]:
        if self._config.method == "rrf":
            return set()
        return {name for name, weight in self._weights.items() if weight == 0}

    def _runs(
        self,
        queries: Sequence[Query],
        *,
        k: int,
        allowed: set[int] | None,
        silent: Set[str] = frozenset(),
    ) -> list[Run]:
        depth = self._depth(k)
        return [
            Run(each.name, {query.qid: () for query in queries})
            if each.name in silent
            else each.search(queries, k=depth, allowed=allowed)
            for each in self._searchers
        ]
