"""The searchers of one collection, each made when first needed, and torch no sooner."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from quoth.collection.store import Store
from quoth.engine import reranking
from quoth.engine.calibration_file import (
    HYBRID,
    fusion_weights,
    read_calibration,
    save_calibration,
)
from quoth.engine.models import LoadEncoder, can_encode, open_dense
from quoth.engine.naming import LoadGenerative, LoadGenerator, open_generative
from quoth.engine.passages import BY_VECTORS, PassageChooser
from quoth.engine.writing import follow_if_possible
from quoth.errors import CollectionError, ConfigError
from quoth.portions import count_workers
from quoth.records import Attention, Document, Query
from quoth.search.dense.coverage import Stamp, stamp
from quoth.search.dense.on_disk import VectorsOnDisk
from quoth.search.dense.unfinished import UnfinishedVectors
from quoth.search.generative.state import TRIE, find_model, is_index_current
from quoth.search.hybrid.calibration import Calibration
from quoth.search.hybrid.searcher import HybridSearcher, SearchTogether
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.search.near import NearUnits
from quoth.search.rerank import ReadHits, ReadPassage, RerankingSearcher, Similarity
from quoth.search.searcher import KeptIndex, Progress, Searcher, Timed, untimed
from quoth.search.signed import SignedSearcher
from quoth.search.standings import Look
from quoth.settings.config import Config
from quoth.text.passages import cut_document
from quoth.text.query_syntax import has_signs, wanted_text
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.engine.calibrating import RerankingTrial
    from quoth.search.dense.searcher import DenseSearcher
    from quoth.search.generative.searcher import GenerativeSearcher

NAMES = ("lexical", "dense", "hybrid", "generative")
"""Ways of searching, by the names that `--with` takes."""

AUTO = "auto"
"""The searcher to name where the collection may choose."""

_S = TypeVar("_S", bound=Searcher)


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
        load_generative: LoadGenerative,
        load_reranker: reranking.LoadReranker,
        load_scorer: reranking.LoadScorer,
        turn: AbstractContextManager[object] | None = None,
        timed: Timed = untimed,
        exchanged: Path | None = None,
    ) -> None:
        """Search a collection, or a shard by the statistics of all, in the file `exchanged`.

        `turn` is held while a generative model that engines share is at work.
        """
        self._folder = folder
        self._store = store
        self._config = config
        self._load_encoder = load_encoder
        self._load_generator = load_generator
        self._load_generative = load_generative
        self.load_reranker = load_reranker
        self._load_scorer = load_scorer
        self._turn = turn
        self._timed = timed
        self._exchanged = exchanged
        self._made: dict[tuple[str, bool], Searcher] = {}
        self.corrections: dict[tuple[str, bool, bool], str] = {}
        encoder = Path(config.dense.encoder)
        own = folder / "dense" / (encoder.name or encoder.resolve().name)
        self._vectors = VectorsOnDisk(own, store)
        self._fused_of = self._look_at_fused()

    def get(
        self, name: str, *, syntax: bool, rerank: bool = False, feedback: bool = True
    ) -> Searcher:
        """Return a searcher by name; with `syntax`, its queries may use + - quotes and field:.

        With `rerank`, a model that reads them puts its best hits into a new order.
        """
        if name == "lexical" and not rerank:
            return self.lexical(syntax=syntax)
        self._forget_fusion_of_before()
        if rerank:
            read = functools.partial(self.passages.read_hits, name, syntax=syntax)
            first = self.get(name, syntax=syntax)
            similarity = self._similarity(syntax=syntax) if feedback else None
            make = functools.partial(self.rerank, first, read, syntax=syntax, similarity=similarity)
            return self._once(f"{name} reranked, {feedback}", syntax, make)
        if name == "hybrid":
            side = functools.partial(self.get, syntax=syntax)
            return self._once(name, syntax, lambda: self.fuse(side))
        if name in ("dense", "generative"):
            own: Searcher = self.dense() if name == "dense" else self.generative()
            return self._once(name, True, lambda: self._keep_to_signs(own)) if syntax else own
        raise ConfigError(f"there is no searcher {name!r}; choose one of {', '.join(NAMES)}")

    def lexical(self, *, syntax: bool) -> LexicalSearcher:
        """Return the BM25 searcher."""
        return self._once("lexical", syntax, lambda: self._make_lexical(syntax=syntax))

    def dense(self) -> DenseSearcher:
        """Return the vector searcher of a collection that has vectors."""
        if not self.has_vectors:
            raise CollectionError(
                f"{self._folder} has no vectors yet of {self._config.dense.encoder}; run"
                f' "quoth encode {self._folder}"'
            )
        return self.dense_side()

    def dense_side(self) -> DenseSearcher:
        """Return the vector searcher, encoded or not."""
        return self._once("dense", False, self._make_dense)

    def generative(self) -> GenerativeSearcher:
        """Return the generative searcher of a collection that a model was trained for."""
        return self._once("generative", False, self._make_generative)

    @functools.cached_property
    def analyser(self) -> Analyser:
        """The one way from text to terms, which remembers the words that it has stemmed."""
        return Analyser(self._config.analyser)

    def choose(self, name: str) -> str:
        """Return the best searcher that the collection has for the name `auto`, else the name."""
        if name != AUTO:
            return name
        return "hybrid" if can_encode() and self.has_vectors else "lexical"

    def decide(self, name: str, rerank: bool | None) -> tuple[str, bool]:
        """Return the searcher that a name stands for, and whether its hits are reranked.

        None leaves that to `auto`: it reranks what is fused where somebody can and has a share.
        """
        chosen = self.choose(name)
        if rerank is not None:
            return chosen, rerank
        if name != AUTO or chosen != "hybrid":  # looking for a reranker needs its packages
            return chosen, False
        can = reranking.find_reranker(self._config.rerank) is not None
        return chosen, can and self.rerank_share > 0.0

    @functools.cached_property
    def rerank_share(self) -> float:
        """The share that reranking has in the new score."""
        return reranking.share_of(self._config.rerank, self.calibration)

    def plain(self, query: Query, *, syntax: bool) -> Query:
        """Return what a query asks for in words alone; with `syntax`, without its signs."""
        if not (syntax and has_signs(query.text)):
            return query
        return Query(query.qid, wanted_text(query.text, fields=self._store.fields()))

    def _similarity(self, *, syntax: bool) -> Similarity:
        return Similarity(functools.partial(self.look_again, syntax=syntax), self.near)

    def _keep_to_signs(self, side: Searcher) -> SignedSearcher:
        plain = functools.partial(self.plain, syntax=True)
        return SignedSearcher(side, plain=plain, fitting=self.lexical(syntax=True).fitting)

    def near(self, query: Query, docids: Sequence[str]) -> Mapping[str, NearUnits]:
        """Return, of documents that have vectors, the one nearest to a query, and all cosines."""
        return self.dense_side().near(query, docids)

    def look_again(
        self, query: Query, passages: Sequence[ReadPassage], *, syntax: bool
    ) -> Sequence[Look] | None:
        """Look at passages a second time, the words of the query weighted by their idf."""
        return reranking.look_by_config(
            self._config,
            self.plain(query, syntax=syntax).text,
            passages,
            load_scorer=self._load_scorer,
            load_encoder=self._load_encoder,
            weights=self.lexical(syntax=syntax).term_weights(query),
            analyser=self.analyser,
        )

    def rerank(
        self, first: Searcher, read: ReadHits, *, syntax: bool, similarity: Similarity | None
    ) -> RerankingSearcher:
        """Let the best hits of a searcher be read, and put into a new order."""
        how = reranking.arrange(
            self._config,
            share=self.rerank_share,
            load=self.load_reranker,
            read=read,
            words=lambda query: self.plain(query, syntax=syntax).text,
            is_fused=isinstance(first, HybridSearcher),
            similarity=similarity,
        )
        return RerankingSearcher(first, how)

    def reranking_trial(self, read: ReadHits) -> RerankingTrial | None:
        """Return what is needed to find out what reranking is worth; None where nobody reads."""
        own = self.passages.read_document
        return reranking.make_trial(self._config, self.load_reranker, read=read, read_document=own)

    def kept(self, *, lost: Collection[str] = ()) -> Iterator[KeptIndex]:
        """Yield the indexes that are kept in step with the documents, and unfinished vectors.

        `lost` names folders in the collection whose index was taken away to be made anew.
        """
        yield self.lexical(syntax=True)
        if self.is_encoded or self._vectors.folder.relative_to(self._folder).as_posix() in lost:
            yield self.dense_side()
        elif self.has_vectors:
            yield UnfinishedVectors(self.dense_side())
        if self.has_generative:
            yield self.generative()

    def is_current(self, change: int, *, searcher: str) -> bool:
        """Whether the indexes that a way of searching needs hold everything up to a change."""
        if not self.lexical(syntax=True).is_current(change):
            return False
        if self._uses_dense(searcher) and not self._vectors.are_current(change):
            return False
        return not self._uses_generative(searcher) or self._has_current_names(change)

    def catch_up(self, store: Store, *, searcher: str, progress: Progress) -> None:
        """Bring the indexes that a way of searching needs up to date."""
        self.lexical(syntax=True).catch_up(store, progress=progress)
        if self._uses_dense(searcher):
            self.dense_side().catch_up(store, progress=progress)
        if self._uses_generative(searcher):
            self.generative().catch_up(store, progress=progress)

    def follow_writing(self, store: Store, *, progress: Progress) -> None:
        """Bring every index up to date; some wait where their model cannot be used."""
        self.catch_up(store, searcher="lexical", progress=progress)
        if self.is_encoded and not self._vectors.are_current(store.change):
            follow_if_possible("vectors", self.dense_side, store, progress)
        if self.has_generative and not self._has_current_names(store.change):
            follow_if_possible("identifiers", self.generative, store, progress)

    @functools.cached_property
    def passages(self) -> PassageChooser:
        """What chooses the passages of hits that are shown and read."""
        return PassageChooser(
            self._store,
            analyser=self.analyser,
            cut=functools.partial(cut_document, config=self._config.passages),
            lexical=lambda syntax: self.lexical(syntax=syntax),
            near=lambda query, stored: self.dense().body_cosines(query, stored),
            plain=self.plain,
        )

    def attention(
        self, searcher: str, query: Query, documents: Sequence[Document]
    ) -> tuple[Attention | None, ...]:
        """Say where the encoder looked; None for a searcher without vectors."""
        if searcher not in BY_VECTORS:
            return tuple(None for _document in documents)
        return self.dense().attention(query, documents)

    @property
    def is_encoded(self) -> bool:
        """Whether the collection had all vectors of the configured encoder at least once."""
        return self._vectors.were_finished

    @property
    def has_vectors(self) -> bool:
        """Whether there are vectors to search by, be it that an encoding is still under way."""
        return self._vectors.are_usable

    def coverage(self, searcher: str) -> str:
        """Say how much a way of searching sees by vectors; empty where it is everything."""
        if searcher not in BY_VECTORS or self.is_encoded:
            return ""
        return str(self.dense().coverage() or "")

    @property
    def has_generative(self) -> bool:
        """Whether a model for generative search was trained for the collection."""
        return self._find_generative() is not None

    @property
    def calibration(self) -> Calibration | None:
        """What was found out about fusing, None before that or for another encoder."""
        return read_calibration(self._folder / HYBRID, encoder=self._vectors.model())

    def keep_calibration(self, calibration: Calibration) -> None:
        """Save what was found out about fusing."""
        folder, change = self._folder / HYBRID, self._store.change
        save_calibration(folder, calibration, encoder=self._vectors.model(), change=change)

    def close(self) -> None:
        """Close all that were made."""
        for searcher in self._made.values():
            searcher.close()
        self._made = {}

    def _has_current_names(self, change: int) -> bool:
        """Whether all have their identifiers, told without the libraries that search by them."""
        folder, log = self._find_generative(), self._store.log_digest(change)
        config = self._config.generative
        return folder is not None and is_index_current(
            folder / TRIE, config, change=change, log=log
        )

    def _uses_dense(self, searcher: str) -> bool:
        return searcher in BY_VECTORS and self.is_encoded

    def _uses_generative(self, searcher: str) -> bool:
        fuses = searcher == "hybrid" and self._config.fusion.generative > 0.0
        return (fuses or searcher == "generative") and self.has_generative

    def _find_generative(self) -> Path | None:
        return find_model(self._folder, self._config.generative.model)

    def _look_at_fused(self) -> tuple[Stamp | None, Stamp | None]:
        return stamp(self._folder / HYBRID), stamp(self._vectors.folder)

    def _forget_fusion_of_before(self) -> None:
        """Fuse anew where an encoding that is under way has come further, or has calibrated."""
        found = self._look_at_fused()
        if found != self._fused_of:
            self._fused_of = found
            self.__dict__.pop("rerank_share", None)
            sides = ("lexical", "dense", "generative")
            self._made = {key: each for key, each in self._made.items() if key[0] in sides}

    def _once(self, name: str, syntax: bool, make: Callable[[], _S]) -> _S:
        if (name, syntax) not in self._made:
            self._made[name, syntax] = make()
        return cast(_S, self._made[name, syntax])

    def _make_lexical(self, *, syntax: bool) -> LexicalSearcher:
        return LexicalSearcher(
            self._folder / "lexical",
            self._store,
            analyser=self.analyser,
            config=self._config.lexical,
            syntax=syntax,
            exchanged=self._exchanged,
            workers=count_workers(self._config.collection.workers),
        )

    def _make_dense(self) -> DenseSearcher:
        return open_dense(
            self._vectors.folder,
            self._store,
            self._config,
            load_encoder=self._load_encoder,
            counts=self.lexical(syntax=False).counts,
            analyser=self.analyser,
        )

    def _make_generative(self) -> GenerativeSearcher:
        return open_generative(
            self._folder,
            self._store,
            self._config,
            load=self._load_generative,
            load_generator=self._load_generator,
            turn=self._turn,
        )

    def fuse(
        self, side: Callable[[str], Searcher], *, together: SearchTogether | None = None
    ) -> HybridSearcher:
        """Fuse searchers, given by name, as was found out for this collection."""
        sides = [side("lexical"), side("dense")]
        config = self._config.fusion
        found = self.calibration
        fuses_generative = self._uses_generative("hybrid")
        if fuses_generative:
            sides.append(side("generative"))
        weights = fusion_weights(
            config, found, has_all=self.is_encoded, generative=fuses_generative
        )
        ranges = found.usual_ranges() if found else None
        timed = self._timed
        return HybridSearcher(
            sides, config=config, weights=weights, ranges=ranges, timed=timed, together=together
        )
