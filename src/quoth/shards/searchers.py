"""The searchers of a collection in shards: each asks all shards, and what fuses them is as ever."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import Enum

from quoth.collection.shards import ShardSet
from quoth.engine.passages import BY_VECTORS
from quoth.engine.searchers import AUTO, NAMES, Searchers
from quoth.errors import CollectionError, ConfigError
from quoth.records import Query
from quoth.search.fan_out import FanOut
from quoth.search.merged import MergedSearcher, UnfinishedMergedSearcher, search_together
from quoth.search.rerank import ReadPassage, Similarity
from quoth.search.searcher import Searcher
from quoth.search.standings import Look
from quoth.shards.found import read_shown
from quoth.shards.port import LocalPort

Sides = dict[str, MergedSearcher]
"""The searchers that are not themselves made of others, by name; made for one question."""


class _Vectors(Enum):
    """Which vectors a collection in shards has."""

    NONE = "some shard has none"
    SOME = "every shard has some; an encoding is under way, or was interrupted"
    ALL = "all were there at least once; writing keeps them in step"


class ShardSearchers:
    """Makes searchers over all shards; what holds for all of them, the first shard knows."""

    def __init__(self, shards: ShardSet, local: Sequence[LocalPort], fan_out: FanOut) -> None:
        """Search through `fan_out`; `local` are the same shards, opened in this process."""
        self._shards = shards
        self._engines = [port.engine for port in local]
        self._first = local[0].engine
        self._prepare = local[0].prepare
        self._fan_out = fan_out

    def _place(self, docid: str) -> int:
        """Return the number of the port that a document is behind."""
        return self._fan_out.place(self._shards.shard_of(docid))

    def decide(self, searcher: str, rerank: bool | None) -> tuple[str, bool]:
        """Return the searcher that a name stands for, and whether its hits are reranked."""
        if searcher != AUTO:
            return searcher, bool(rerank)
        if self._look_at_vectors() is _Vectors.NONE:
            return "lexical", bool(rerank)
        return self._first.with_searchers(lambda own: own.decide(AUTO, rerank))

    def sides(self, name: str, *, where: str, syntax: bool) -> Sides:
        """Make the searchers of one question, for the searcher of a name."""
        lacks = name in BY_VECTORS and self._look_at_vectors() is _Vectors.SOME
        kinds = {"dense": UnfinishedMergedSearcher} if lacks else {}
        return {
            name: kinds.get(name, MergedSearcher)(
                name,
                self._fan_out,
                shard_of=self._place,
                where=where,
                syntax=syntax,
                prepare=self._prepare,
            )
            for name in NAMES
            if name != "hybrid"
        }

    def get(
        self, name: str, sides: Sides, *, rerank: bool, syntax: bool, feedback: bool = True
    ) -> Searcher:
        """Return a searcher by name, made of the searchers of a question."""
        first = self._get_plain(name, sides)
        if not rerank:
            return first
        read = read_shown(sides["lexical"], searcher=name, syntax=syntax)
        look_again = functools.partial(self._look_again, syntax=syntax)
        similarity = Similarity(look_again, sides["dense"].near) if feedback else None
        how = functools.partial(
            Searchers.rerank, first=first, read=read, syntax=syntax, similarity=similarity
        )
        return self._first.with_searchers(how)

    def _look_again(
        self, query: Query, passages: Sequence[ReadPassage], *, syntax: bool
    ) -> Sequence[Look] | None:
        """Look at passages a second time; any shard knows the idf of all."""
        return self._first.with_searchers(
            lambda own: own.look_again(query, passages, syntax=syntax)
        )

    def _look_at_vectors(self) -> _Vectors:
        """Say which vectors there are; all shards have had theirs since the same moment."""
        is_encoded, has_some = self._first.with_searchers(
            lambda own: (own.is_encoded, own.has_vectors)
        )
        if is_encoded or not has_some:
            return _Vectors.ALL if is_encoded else _Vectors.NONE
        others = self._engines[1:]
        every = all(each.with_searchers(lambda own: own.has_vectors) for each in others)
        return _Vectors.SOME if every else _Vectors.NONE

    def _get_plain(self, name: str, sides: Sides) -> Searcher:
        if name not in NAMES:
            raise ConfigError(f"there is no searcher {name!r}; choose one of {', '.join(NAMES)}")
        if name in BY_VECTORS and self._look_at_vectors() is _Vectors.NONE:
            folder, encoder = self._shards.folder, self._first.config.dense.encoder
            raise CollectionError(
                f'{folder} has no vectors yet of {encoder}; run "quoth encode {folder}"'
            )
        if name == "hybrid":
            return self._first.with_searchers(
                lambda own: own.fuse(
                    lambda side: sides[side],
                    together=lambda names, queries, k: search_together(
                        [sides[name] for name in names], queries, k=k
                    ),
                )
            )
        return sides[name]


def coverage(searcher: str, sides: Sides) -> str:
    """Say how much a way of searching sees by vectors; empty where it is everything."""
    dense = sides["dense"]
    if searcher in BY_VECTORS and isinstance(dense, UnfinishedMergedSearcher):
        return dense.coverage()
    return ""
