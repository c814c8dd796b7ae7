"""Search by generating identifiers: encode → shortlist → score → decode → aggregate → hits.

After PIXAR: a query becomes a pooled vector and slot vectors in one pass; a shortlist scores some
of the head's phrases; the best identifiers of the trie are found by these scores; and whoever owns
them is found. By default an identifier scores as the cosine of the pooled vector and the weighted
sum of its phrases' rows, to which the query's words add what each knows of a phrase better, and a
document as its best identifier and a share of the mean of all, which needs no order of phrases (the
paper's reading: order = ordered).

Decoding goes deeper, four times at a time, until k allowed documents are found that nothing deeper
can surpass, whatever its mean, or nothing is left. Where a document's score sums over identifiers
(any aggregate but max), it depends on how deep that was. The model is loaded when first needed:
what an index holds, and whether it is current and whole, is told without it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quoth.collection.store import Store
from quoth.errors import CollectionError, IndexMoved
from quoth.interruption import check_interruption
from quoth.models.pixar.pixar import EncodedQueries
from quoth.models.pixar.shortlist.interface import Floats
from quoth.records import Document, Hit, Part, Query, Run
from quoth.search.generative import aggregate as aggregation
from quoth.search.generative.added import (
    PhraseTexts,
    combine_scores,
    score_added,
    weigh_phrases,
)
from quoth.search.generative.aggregate import Evidence, Owners, gather_evidence
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.decode.config import BY_POOLED, COSINES
from quoth.search.generative.decode.decoder import Decoded, Decoder
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores, uses_end
from quoth.search.generative.explain import NAME, Grounds, explain_document
from quoth.search.generative.files import GenerativeModel
from quoth.search.generative.index import GenerativeIndex, open_index
from quoth.search.generative.means import MeanScorer, bound_unseen
from quoth.search.generative.names import Identify
from quoth.search.generative.state import is_index_current, read_index, read_model
from quoth.search.generative.upkeep import GenerativeUpkeep, LoadModel, require_own_model
from quoth.search.searcher import Progress
from quoth.vocabulary.identifiers import Integers

_DEEPER = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """What was decoded for a query, and whom it names."""

    scores: PhraseScores
    evidence: Evidence
    owners: Owners


class GenerativeSearcher:
    """Generative search over one collection; its folder is the index inside a model's folder."""

    name = NAME

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        load_model: LoadModel,
        config: GenerativeConfig,
        identify: Identify | None = None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """Search what lies in `folder`; `turn` is held while a model that is shared is at work."""
        self.folder = folder
        self._store = store
        self._load_model = load_model
        self._config = config
        self._identify = identify
        self._turn = turn or nullcontext()
        self._index: GenerativeIndex | None = None
        self._decoders: dict[int, Decoder] = {}
        self._means: MeanScorer | None = None
        self._asked: tuple[tuple[str, ...], EncodedQueries] | None = None
        self._known: tuple[tuple[str, ...], Sequence[PhraseScores]] = ((), ())

    # Searching -------------------------------------------------------------------------------

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        """Find the k best documents for each query among the allowed rows (None: all).

        A query without text finds nothing.
        """
        hits: dict[str, tuple[Hit, ...]] = {query.qid: () for query in queries}
        asked = [query for query in queries if query.text.strip()]
        rows = _as_rows(allowed)
        with self._turn:
            for query, found in zip(asked, self._find_all(asked, k, rows), strict=True):
                hits[query.qid] = self._rank(found.owners, k)
        return Run(self.name, hits)

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        """Say which identifiers make up each score, and what their phrases scored."""
        rows = self._store.rows([document.docid for document in documents])
        if not query.text.strip():
            return tuple(Part(f"{NAME}: the query is empty", 0.0) for _document in documents)
        with self._turn:
            (found,) = self._find_all([query], k, _as_rows(allowed))
        config = self._config
        grounds = Grounds(
            self._opened().trie,
            found.scores,
            config.decoding(),
            config.aggregation(),
            self._norms(),
        )
        texts = PhraseTexts(self._model.vocabulary, self._opened().added)
        return tuple(
            self._explain(rows.get(document.docid, -1), found, grounds, texts)
            for document in documents
        )

    def phrase_scores(self, queries: Sequence[Query]) -> tuple[PhraseScores, ...]:
        """Score phrases for queries that have text."""
        with self._turn:
            return tuple(self._score_all(queries))

    def know_scores(self, queries: Sequence[Query], scores: Sequence[PhraseScores]) -> None:
        """Take the scores of phrases from who has asked the same model already; the last stay."""
        self._known = (tuple(query.text for query in queries), scores)

    def describe(self) -> dict[str, Any]:
        """Say what the index holds, and which model made it."""
        state, model = read_index(self.folder), read_model(self.folder.parent)
        return {
            "change": state.change if state else 0,
            "documents": state.num_documents if state else 0,
            "identifiers": state.num_identifiers if state else 0,
            "model": self.folder.parent.name,
            "phrases": (model.config["phrases"] if model else 0)
            + (state.num_added if state else 0),
            "order": self._config.order,
        }

    def close(self) -> None:
        """Let go of the opened state."""
        self._index = self._asked = self._means = None
        self._known = ((), ())
        self._decoders = {}

    # Upkeep ----------------------------------------------------------------------------------

    def is_current(self, change: int) -> bool:
        """Whether everything up to a change has its names in the index."""
        log = self._store.log_digest(change)
        return is_index_current(self.folder, self._config, change=change, log=log)

    def catch_up(self, store: Store, *, progress: Progress) -> None:
        """Name what is new, drop what is gone; nothing is trained."""
        self._upkeep(store, progress).catch_up()
        self.close()

    def rebuild(self, store: Store, *, progress: Progress) -> None:
        """Name every document anew."""
        self._upkeep(store, progress).rebuild()
        self.close()

    def discard(self) -> None:
        """Delete the index, not the model."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def find_damage(self, store: Store, *, progress: Progress) -> tuple[str, ...]:
        """Check every checksum of the index, and the index against the store."""
        progress("checking identifiers", 0, 0)
        return self._upkeep(store, progress).find_damage()

    def num_behind(self, store: Store) -> int:
        """Count the changes that catching up would bring."""
        return self._upkeep(store, lambda _what, _done, _total: None).num_behind()

    # Inner workings --------------------------------------------------------------------------

    @cached_property
    def _model(self) -> GenerativeModel:
        return self._load_model()

    def _upkeep(self, store: Store, progress: Progress) -> GenerativeUpkeep:
        return GenerativeUpkeep(
            self.folder,
            store,
            load_model=lambda: self._model,
            config=self._config,
            identify=self._identify,
            progress=progress,
        )

    def _find_all(
        self, queries: Sequence[Query], k: int, rows: Integers | None
    ) -> Iterator[_Decoded]:
        """Find documents for each query, one by one: scores of all would fill the memory."""
        known, scores = self._known
        if known == tuple(query.text for query in queries):
            yield from (self._find(each, k, rows) for each in scores)
        elif queries:
            yield from (self._find(each, k, rows) for each in self._score_all(queries))

    def _score_all(self, queries: Sequence[Query]) -> Iterator[PhraseScores]:
        encoded = self._encode(queries)
        for pooled, slots, words in zip(*encoded, strict=True):
            yield self._score_phrases(pooled, slots, words)

    def _find(self, scores: PhraseScores, k: int, rows: Integers | None) -> _Decoded:
        """Decode until k allowed documents are found that nothing deeper can surpass."""
        index, order = self._opened(), self._config.order
        scores = score_added(scores, self._model.pixar.head, index.added, order)
        trie, config = index.trie, self._config.aggregation()
        depth = self._config.depth
        while True:
            check_interruption()
            (decoded,) = self._decoder(depth).decode([scores])
            evidence = gather_evidence(trie, decoded, scale=scores.length)
            owners = aggregation.aggregate(evidence, config, k=len(evidence.owners))
            if rows is not None:
                is_allowed = np.isin(owners.rows, rows)
                owners = Owners(owners.rows[is_allowed], owners.scores[is_allowed])
            if self._config.counts_all:
                owners = self._mean_scorer().add(owners, scores)
            found = _Decoded(scores, evidence, owners)
            is_all = len(decoded.rows) < depth or depth >= len(trie)
            if is_all or (rows is not None and not len(rows)):
                return found
            if len(owners.rows) >= k and (
                config.method != "max" or self._bound(decoded) < owners.scores[k - 1]
            ):
                return found
            depth *= _DEEPER

    def _bound(self, decoded: Decoded) -> float:
        """Bound the score of documents that are not seen yet, best identifiers first."""
        share = self._config.mean_share if self._config.counts_all else 0.0
        return bound_unseen(float(decoded.scores[-1]), share)

    def _explain(self, owner: int, found: _Decoded, grounds: Grounds, texts: PhraseTexts) -> Part:
        own = aggregation.explain(found.evidence, grounds.aggregation, owner=owner)
        mean = None
        if own and self._config.counts_all:
            mean = self._mean_scorer().explain(owner, own[0].share, found.scores)
        return explain_document(own, grounds, texts, mean=mean)

    def _rank(self, owners: Owners, k: int) -> tuple[Hit, ...]:
        """Return the k best owners as hits; docids decide among those that tie with the last."""
        if len(owners.rows) > k:
            is_near = owners.scores >= owners.scores[k - 1] if k else np.zeros(0, dtype=bool)
            owners = Owners(owners.rows[is_near], owners.scores[is_near])
        rows = owners.rows.tolist()
        docids = self._store.docids(rows)
        if len(docids) < len(rows):
            raise IndexMoved("a writer replaced the generative index during a search; search again")
        hits = [
            Hit(docids[row], score) for row, score in zip(rows, owners.scores.tolist(), strict=True)
        ]
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.docid))[:k])

    def _score_phrases(self, pooled: Floats, slots: Floats, words: Floats) -> PhraseScores:
        """Shortlist phrases for a query with vectors (D,), (S, D) and (T, D), and score them."""
        config, head, shortlist = self._config, self._model.pixar.head, self._model.shortlist
        is_pooled = config.order in BY_POOLED
        wanted = slots if not is_pooled else words if config.order == "bag_max" else slots[:0]
        if shortlist.config.method == "full" and is_pooled:
            places = np.arange(len(shortlist.rows), dtype=np.int32)  # bags: choose no fewer
        else:
            places = shortlist.choose(pooled, wanted if len(wanted) else slots)
        found = shortlist.score(places, pooled, slots=wanted)
        count = int(np.searchsorted(found.phrase_ids, head.num_phrases))  # symbols come last
        phrase_ids, by_pooled = found.phrase_ids[:count], found.pooled_scores[:count]
        length = max(float(np.linalg.norm(pooled)), 1e-12) if config.order in COSINES else 0.0
        return PhraseScores(
            phrase_ids,
            slot_scores=None if is_pooled else found.slot_scores[:, :count],
            pooled_scores=combine_scores(
                by_pooled,
                found.slot_scores[:, :count],
                head.bias[phrase_ids],
                order=config.order,
                length=length,
            ),
            end_scores=self._score_ends(slots) if uses_end(config.decoding()) else None,
            length=length,
            pooled=pooled,
            vectors=wanted,
        )

    def _score_ends(self, slots: Floats) -> Floats:  # (S + 1,)
        """Score the end after 0, 1 … S phrases; after S there is no slot that could go on."""
        head = self._model.pixar.head
        row = head.rows[head.eos_id].astype(np.float32)
        ends: Floats = np.append(slots @ row + head.bias[head.eos_id], np.float32(0.0))
        return ends

    def _encode(self, queries: Sequence[Query]) -> EncodedQueries:
        """Encode queries; the last ones are kept, as explaining asks for them again."""
        texts = tuple(query.text for query in queries)
        if self._asked is None or self._asked[0] != texts:
            self._asked = (texts, self._model.pixar.encode_queries(texts))
        return self._asked[1]

    def _decoder(self, depth: int) -> Decoder:
        if depth not in self._decoders:
            config = self._config.decoding(depth=depth)
            threads = self._model.shortlist.rows.threads
            self._decoders[depth] = Decoder(
                self._opened().trie, config, norms=self._norms(), threads=threads
            )
        return self._decoders[depth]

    def _mean_scorer(self) -> MeanScorer:
        if self._means is None:
            index = self._opened()
            self._means = MeanScorer(
                index.trie, index.owned, norms=self._norms(), config=self._config
            )
        return self._means

    def _norms(self) -> BagNorms:
        index, uses = self._opened(), self._model.vocabulary.uses
        weights = weigh_phrases(uses, self._config.weighting, num_added=len(index.added))
        return BagNorms(weights, index.norms)

    def _opened(self) -> GenerativeIndex:
        if self._index is None:
            state = read_index(self.folder)
            if state is None:
                raise CollectionError(
                    f"{self.folder} holds no index of the documents yet; search again when no"
                    " other process is writing"
                )
            require_own_model(self.folder, state)
            self._index = open_index(self.folder, state)
        return self._index


def _as_rows(allowed: set[int] | None) -> Integers | None:
    return None if allowed is None else np.fromiter(allowed, dtype=np.int64, count=len(allowed))
