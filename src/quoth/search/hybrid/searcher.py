"""Several searchers as one: their runs fused, with weights found without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from quoth.records import Document, Part, Query, RankAndScore, Run
from quoth.search.hybrid.explained import explain_fused, find_standings
from quoth.search.hybrid.fusion import UsualRanges, fuse, temper
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.searcher import PartialSearcher, Searcher, Timed, untimed

SearchTogether = Callable[[Sequence[str], Sequence[Query], int], Mapping[str, Run]]
"""Finds the k best documents by several searchers, given by their names."""


class HybridSearcher:
    """Fuses the runs of other searchers; it keeps no index of its own.

    A search is followed by questions about it: who found a document, and what its score is made of.
    So what each side found for a single query is kept until the next one, and each side is asked
    once. Whoever made it closes it when the collection changes.
    """

    name = "hybrid"

    def __init__(
        self,
        searchers: Sequence[Searcher],
        *,
        config: FusionConfig,
        weights: Mapping[str, float],
        ranges: UsualRanges | None = None,
        timed: Timed = untimed,
        together: SearchTogether | None = None,
    ) -> None:
        """Fuse searchers; `together` asks several of them at once, where that costs less."""
        self._searchers = searchers
        self._config = config
        self._weights = weights
        self._ranges = ranges
        self._timed = timed
        self._together = together
        self._kept = _KeptRuns((), 0, None)

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query by the fused score.

        A searcher that has no weight is not even asked, so it costs nothing.
        """
        runs = self._runs(queries, k=k, allowed=allowed, silent=self._silent())
        with self._timed("fuse"):
            fused = fuse(
                runs,
                self._config,
                weights=self._tempered(),
                ranges=self._ranges,
                k=k,
                unknown=self._unknown(runs),
            )
        return Run(self.name, fused.hits)

    def ranked(self, k: int) -> int:
        """How many hits have their final order where k are asked for: none costs a search more."""
        return self._depth(k)

    def found_by(
        self, query: Query, docids: Sequence[str], *, k: int, allowed: set[int] | None
    ) -> dict[str, dict[str, RankAndScore]]:
        """Say where each side has these documents; k and rows as in the search that found them."""
        wanted: dict[str, dict[str, RankAndScore]] = {docid: {} for docid in docids}
        for run in self._runs([query], k=k, allowed=allowed, silent=self._silent()):
            for rank, hit in enumerate(run.hits[query.qid], start=1):
                if hit.docid in wanted:
                    wanted[hit.docid][run.name] = RankAndScore(rank, hit.score)
        return wanted

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
        unknown, weights = self._unknown(runs), self._tempered()
        return tuple(
            explain_fused(
                find_standings(
                    runs,
                    qid=query.qid,
                    docid=document.docid,
                    normalise=self._config.normalise,
                    ranges=self._ranges,
                    unknown=unknown,
                ),
                self._config,
                weights=weights,
            )
            for document in documents
        )

    def close(self) -> None:
        """Forget what was found; the searchers are closed by whoever made them."""
        self._kept = _KeptRuns((), 0, None)

    def _unknown(self, runs: Sequence[Run]) -> dict[str, frozenset[str]]:
        """Name what a side does not hold yet of the documents that the others found."""
        partial = self._partial()
        if not partial:
            return {}
        found = {hit.docid for run in runs for hits in run.hits.values() for hit in hits}
        return {each.name: each.lacking(sorted(found)) for each in partial}

    def _tempered(self) -> Mapping[str, float]:
        """Weigh sides that lack documents less."""
        shares = {each.name: each.held_share for each in self._partial()}
        return temper(self._weights, shares) if shares else self._weights

    def _partial(self) -> list[PartialSearcher]:
        """List the sides that are asked and may lack documents."""
        silent = self._silent()
        asked = [each for each in self._searchers if each.name not in silent]
        return [each for each in asked if isinstance(each, PartialSearcher) and each.is_partial]

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
        kept = self._kept
        if not kept.are_of(queries, depth, allowed):
            kept = _KeptRuns(tuple(queries), depth, allowed)
        self._ask_together(kept, silent)
        runs = [
            Run(each.name, {query.qid: () for query in queries})
            if each.name in silent
            else kept.runs.get(each.name) or self._ask(each, kept)
            for each in self._searchers
        ]
        self._kept = kept if len(queries) == 1 else _KeptRuns((), 0, None)
        return runs

    def _ask_together(self, kept: _KeptRuns, silent: Set[str]) -> None:
        """Ask all sides at once that are to be asked, where several can be."""
        names = [each.name for each in self._searchers if each.name not in silent]
        missing = [name for name in names if name not in kept.runs]
        if self._together is not None and len(missing) > 1:
            with self._timed("search " + " and ".join(missing)):
                kept.runs.update(self._together(missing, kept.queries, kept.depth))

    def _ask(self, side: Searcher, kept: _KeptRuns) -> Run:
        with self._timed(f"search {side.name}"):
            found = side.search(kept.queries, k=kept.depth, allowed=kept.allowed)
        kept.runs[side.name] = found
        return found


@dataclass(frozen=True, slots=True)
class _KeptRuns:
    """What the sides found for some queries, by name."""

    queries: tuple[Query, ...]
    depth: int
    allowed: set[int] | None
    runs: dict[str, Run] = field(default_factory=dict)

    def are_of(self, queries: Sequence[Query], depth: int, allowed: set[int] | None) -> bool:
        """Whether the same is asked again; rows are compared by identity, as they may be many."""
        same = (self.queries, self.depth) == (tuple(queries), depth)
        return same and self.allowed is allowed
