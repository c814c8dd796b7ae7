"""The ways of searching one collection, each made when first needed, and torch no sooner."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from quoth.app.config import Config
from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection.store import Store
from quoth.errors import CollectionError, ConfigError, IndexMismatch, MissingExtra
from quoth.index.dense_state import read_state
from quoth.records import Attention, Document, Passage, Query
from quoth.search.calibration import Calibration
from quoth.search.hybrid import HybridSearcher
from quoth.search.lexical import LexicalSearcher
from quoth.search.rerank import TITLES, QueryScorer, RerankingSearcher
from quoth.search.searcher import IndexedSearcher, Progress, Searcher
from quoth.search.snippets import best_passage
from quoth.text.passages import cut_document
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.models.glow.encoder import GlowEncoder
    from quoth.search.dense import DenseSearcher

NAMES = ("lexical", "dense", "hybrid")
"""Ways of searching, by the names that `--with` takes."""

LoadEncoder = Callable[[Config], "GlowEncoder"]
LoadGenerator = Callable[[str], QueryScorer]

_logger = logging.getLogger(__name__)
_S = TypeVar("_S", bound=Searcher)
_CALIBRATION_KIND = "fusion calibration"
_CALIBRATION_VERSION = 1


class Searchers:
    """All searchers over one opened store with one configuration."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        config: Config,
        *,
        load_encoder: LoadEncoder,
        load_generator: LoadGenerator,
    ) -> None:
        self._folder = folder
        self._store = store
        self._config = config
        self._load_encoder = load_encoder
        self._load_generator = load_generator
        self._made: dict[tuple[str, bool], Searcher] = {}

    def get(self, name: str, *, syntax: bool, rerank: bool = False) -> Searcher:
        """Give a searcher by name; with `syntax`, its queries may use + - quotes and field:.

        With `rerank`, the query generator puts its best hits into a new order.
        """
        if rerank:
            make = functools.partial(self._make_reranking, name, syntax=syntax)
            return self._once(f"{name} reranked", syntax, make)
        if name == "lexical":
            return self.lexical(syntax=syntax)
        if name == "dense":
            return self.dense()
        if name == "hybrid":
            return self._once(name, syntax, lambda: self._make_hybrid(syntax=syntax))
        raise ConfigError(f"there is no searcher {name!r}; there are {', '.join(NAMES)}")

    def lexical(self, *, syntax: bool) -> LexicalSearcher:
        """Give the BM25 searcher."""
        return self._once("lexical", syntax, lambda: self._make_lexical(syntax=syntax))

    def dense(self) -> DenseSearcher:
        """Give the vector searcher of a collection that has been encoded."""
        if not self.is_encoded:
            found = "unfinished vectors" if self._dense_folder.exists() else "no vectors yet"
            raise CollectionError(
                f"{self._folder} has {found} of {self._config.dense.encoder}; run"
                f' "quoth encode {self._folder}"'
            )
        return self.dense_side()

    def dense_side(self) -> DenseSearcher:
        """Give the vector searcher, encoded or not."""
        return self._once("dense", False, self._make_dense)

    def kept(self) -> Iterator[IndexedSearcher]:
        """Yield the searchers whose index is kept in step with the documents."""
        yield self.lexical(syntax=True)
        if self.is_encoded:
            yield self.dense_side()

    def is_current(self, change: int, *, searcher: str) -> bool:
        """Whether the indexes that a way of searching needs hold everything up to a change."""
        if not self.lexical(syntax=True).is_current(change):
            return False
        return searcher == "lexical" or not self.is_encoded or self._has_current_vectors(change)

    def catch_up(self, store: Store, *, searcher: str, progress: Progress) -> None:
        """Bring the indexes that a way of searching needs up to date."""
        self.lexical(syntax=True).catch_up(store, progress=progress)
        if searcher != "lexical" and self.is_encoded:
            self.dense_side().catch_up(store, progress=progress)

    def follow_writing(self, store: Store, *, progress: Progress) -> None:
        """Bring every index up to date; vectors wait where their encoder cannot be used."""
        self.catch_up(store, searcher="lexical", progress=progress)
        if not self.is_encoded or self._has_current_vectors(store.change):
            return
        try:
            self.dense_side().catch_up(store, progress=progress)
        except (MissingExtra, IndexMismatch) as error:
            _logger.warning("the documents are kept, their vectors are not up to date: %s", error)

    def describe(self) -> dict[str, dict[str, Any]]:
        """Describe every index that is kept."""
        described = {"lexical": self.lexical(syntax=True).describe()}
        if self.is_encoded:
            try:
                described["dense"] = self.dense_side().describe()
            except MissingExtra as error:
                described["dense"] = {"unavailable": str(error)}
        return described

    def best_passages(
        self,
        searcher: str,
        query: Query,
        stored: Mapping[int, Document],
        *,
        syntax: bool = True,
        besides: Collection[str] = (),
    ) -> dict[int, Passage | None]:
        """Choose the passage that each hit shows: where the query's words stand most.

        Hits by vectors show what their score is of, the passage nearest to the query; fused ones do
        so where none of the query's words stands in the document. Fields named in `besides` are
        chosen only from documents that have no other.
        """
        weights = self.lexical(syntax=syntax).term_weights(query)
        analyser = Analyser(self._config.analyser)
        near = {} if searcher == "lexical" else self.dense().best_passages(query, stored)
        chosen: dict[int, Passage | None] = {}
        for row, document in stored.items():
            every = self._store.passages(document, row)
            passages = [each for each in every if each.field not in besides] or every
            best = best_passage(passages, weights, analyser=analyser)
            matches = best is not None and not weights.keys().isdisjoint(analyser.terms(best.text))
            is_near = row in near and (searcher == "dense" or not matches)
            chosen[row] = near[row] if is_near else best
        return chosen

    def attention(
        self, searcher: str, query: Query, documents: Sequence[Document]
    ) -> tuple[Attention | None, ...]:
        """Say where the encoder looked; None for a searcher without vectors."""
        if searcher == "lexical":
            return tuple(None for _document in documents)
        return self.dense().attention(query, documents)

    @property
    def is_encoded(self) -> bool:
        """Whether the collection has vectors of the configured encoder, completely at least once.

        A damaged index counts as one; whoever uses it says so.
        """
        try:
            state = read_state(self._dense_folder)
        except CollectionError:
            return True
        return state is not None and (state.change > 0 or not state.segments)

    @property
    def calibration(self) -> Calibration | None:
        """What was found out about fusing, None before that or for another encoder."""
        found = open_artifact(
            self._folder / "hybrid", kind=_CALIBRATION_KIND, version=_CALIBRATION_VERSION
        )
        if found is None or found.config["encoder"] != self._model():
            return None
        return Calibration.from_record(found.config["calibration"])

    def keep_calibration(self, calibration: Calibration) -> None:
        """Save what was found out about fusing."""
        folder = self._folder / "hybrid"
        folder.mkdir(exist_ok=True)
        content = {
            "encoder": self._model(),
            "calibration": calibration.to_record(),
        }
        change = self._store.change
        save_artifact(folder, Artifact(_CALIBRATION_KIND, _CALIBRATION_VERSION, change, content))

    def close(self) -> None:
        """Close all that were made."""
        for searcher in self._made.values():
            searcher.close()
        self._made = {}

    @property
    def _dense_folder(self) -> Path:
        encoder = Path(self._config.dense.encoder)
        return self._folder / "dense" / (encoder.name or encoder.resolve().name)

    def _has_current_vectors(self, change: int) -> bool:
        """Whether all is encoded, told without the libraries that encoding needs."""
        state, log = read_state(self._dense_folder), self._store.log_digest(change)
        return state is not None and (state.change, state.log) == (change, log)

    def _model(self) -> dict[str, Any] | None:
        """Describe the model that made the vectors, to tell its calibration from another's."""
        state = read_state(self._dense_folder)
        return None if state is None else dict(state.model)

    def _once(self, name: str, syntax: bool, make: Callable[[], _S]) -> _S:
        if (name, syntax) not in self._made:
            self._made[name, syntax] = make()
        return cast(_S, self._made[name, syntax])

    def _make_lexical(self, *, syntax: bool) -> LexicalSearcher:
        return LexicalSearcher(
            self._folder / "lexical",
            self._store,
            analyser=Analyser(self._config.analyser),
            config=self._config.lexical,
            syntax=syntax,
        )

    def _make_dense(self) -> DenseSearcher:
        try:
            from quoth.search.dense import DenseSearcher
        except ImportError as error:
            raise missing_neural(error) from error
        return DenseSearcher(
            self._dense_folder,
            self._store,
            load_encoder=functools.partial(self._load_encoder, self._config),
            config=self._config.dense,
            counts=self.lexical(syntax=False).counts,
            cut=functools.partial(cut_document, config=self._config.passages),
        )

    def _make_hybrid(self, *, syntax: bool) -> HybridSearcher:
        sides: list[Searcher] = [self.lexical(syntax=syntax), self.dense()]
        config = self._config.fusion
        found = self.calibration
        weights = config.weights("lexical", ["dense"])
        if found and config.method == "calibrated":
            weights = dict(found.weights)
        ranges = found.usual_ranges() if found else None
        return HybridSearcher(sides, config=config, weights=weights, ranges=ranges)

    def _make_reranking(self, name: str, *, syntax: bool) -> RerankingSearcher:
        config = self._config.rerank
        return RerankingSearcher(
            self.get(name, syntax=syntax),
            self._store,
            config=config,
            load_scorer=functools.partial(self._load_generator, config.generator),
            choose=functools.partial(self.best_passages, name, syntax=syntax, besides=TITLES),
            syntax=syntax,
        )


def missing_neural(error: ImportError, *, what: str = "vectors") -> MissingExtra:
    """Say what to install where a library that networks need is absent."""
    return MissingExtra(f'{what} need {error.name}; run pip install "quoth[neural]"')
