"""Keep a generative index equal to what a rebuild from the store would give; nothing is retrained.

A row's fields never change, but identifiers may be kept for it later on: such rows are named anew.
The caller holds the writer's lock.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from quoth.collection.store import Store
from quoth.errors import CollectionError, IndexMismatch, OutOfFiles
from quoth.index.trie.build import build_trie, update_trie
from quoth.index.trie.trie import Sequences, Trie
from quoth.search.generative.added import (
    MOST_ADDED,
    AddedPhrases,
    can_add,
    no_phrases,
    read_new,
    take_rows,
    weigh_phrases,
)
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.files import GenerativeModel
from quoth.search.generative.index import GenerativeIndex, IndexBasis, open_index, save_index
from quoth.search.generative.names import (
    Float32,
    Identify,
    cut_names,
    join_sequences,
    measure_norms,
    name_documents,
)
from quoth.search.generative.state import (
    IndexState,
    identify_model,
    index_settings,
    read_index,
    save_index_state,
)
from quoth.search.searcher import Progress
from quoth.vocabulary.identifiers import Integers, OwnedSequences
from quoth.vocabulary.phrases.added import AddedWords

_CHUNK = 512
_logger = logging.getLogger(__name__)

LoadModel = Callable[[], GenerativeModel]
"""Loads the model, which takes seconds."""


class GenerativeUpkeep:
    """One pass of upkeep over a collection's generative index."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        load_model: LoadModel,
        config: GenerativeConfig,
        identify: Identify | None,
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._store = store
        self._load_model = load_model
        self._config = config
        self._identify = identify
        self._progress = progress
        upto = store.change
        self._basis = IndexBasis(
            upto, store.log_digest(upto), identify_model(folder.parent), index_settings(config)
        )

    def catch_up(self) -> None:
        """Apply what changed since the last time; build anew where that is impossible."""
        state = read_index(self._folder)
        if state is not None:
            require_own_model(self._folder, state)
        if state is None or not self._can_follow(state):
            self.rebuild()
        elif (state.change, state.log) != (self._basis.change, self._basis.log):
            self._extend(state)

    def rebuild(self) -> None:
        """Name every document from the store alone."""
        _logger.info("building the generative index in %s", self._folder)
        rows = sorted(self._store.live_rows())
        named, added = self._name(rows, no_phrases())
        trie = build_trie(
            Sequences(named.ids, named.offsets),
            owners=named.owners,
            num_phrases=len(self._load_model().vocabulary) + len(added),
        )
        self._save(trie, rows, added, known=None)

    def num_behind(self) -> int:
        """Count the changes that the next catching up brings, unless it has to start over."""
        try:
            state = read_index(self._folder)
        except CollectionError:
            return 0  # damage, which `find_damage` tells of
        if state is None:
            return self._basis.change
        return self._basis.change - state.change if self._can_follow(state) else 0

    def find_damage(self) -> tuple[str, ...]:
        """Check every checksum of the index, and the index against the store."""
        try:
            state = read_index(self._folder)
            if state is None:
                return ()  # the next catching up builds it
            index = open_index(self._folder, state, deep=True)
            require_own_model(self._folder, state)
        except OutOfFiles:
            raise
        except CollectionError as error:
            return (str(error),)
        if state.change > self._basis.change:
            return (
                f"{self._folder} is at change {state.change}, the store at {self._basis.change}",
            )
        if not self._is_of_this_history(state):
            return (f"{self._folder} follows another history than the store",)
        if not np.isin(index.trie.owners, index.rows).all():
            return (f"{self._folder} names documents that it does not hold",)
        if state.change < self._basis.change:
            return ()
        if not np.array_equal(index.rows, np.fromiter(self._store.ordered_rows(), np.int64)):
            return (f"{self._folder} holds other documents than the store",)
        return ()

    # Inner workings --------------------------------------------------------------------------

    def _can_follow(self, state: IndexState) -> bool:
        return (
            state.change <= self._basis.change
            and self._is_of_this_history(state)
            and state.settings == self._basis.settings
        )

    def _is_of_this_history(self, state: IndexState) -> bool:
        return state.log == self._store.log_digest(state.change)

    def _extend(self, state: IndexState) -> None:
        """Take gone and renamed rows out of the trie, and put new and renamed ones in."""
        index = open_index(self._folder, state)
        held, live = set(index.rows.tolist()), self._store.live_rows()
        identified = self._store.identified_between(state.change, self._basis.change)
        renamed = set(self._store.rows(identified).values()) & held & live
        gone, fresh = (held - live) | renamed, (live - held) | renamed
        if not gone and not fresh:
            newest = replace(state, change=self._basis.change, log=self._basis.log)
            save_index_state(self._folder, newest)
            return
        named, added = self._name(sorted(fresh), index.added)
        trie = update_trie(
            index.trie,
            added=Sequences(named.ids, named.offsets),
            owners=named.owners,
            removed=np.array(sorted(gone), dtype=np.int64),
            num_phrases=len(self._load_model().vocabulary) + len(added),
        )
        self._save(trie, sorted(live), added, known=(index.trie, index.norms))

    def _name(
        self, rows: Sequence[int], known: AddedPhrases
    ) -> tuple[OwnedSequences, AddedPhrases]:
        """Name documents, a chunk at a time, and cut the names into phrases, known or added."""
        model, parts = self._load_model(), []
        vocabulary, words = model.vocabulary, None
        if self._config.new_words and can_add(model.pixar):
            words = AddedWords(len(vocabulary), known.strings, most=MOST_ADDED)
        for start in range(0, len(rows), _CHUNK):
            self._progress("naming documents", start, len(rows))
            documents = self._store.documents(rows[start : start + _CHUNK])
            names = name_documents(
                documents, self._store, config=self._config, identify=self._identify
            )
            parts.append(cut_names(names, vocabulary, config=self._config, added=words))
        self._progress("naming documents", len(rows), len(rows))
        if words is not None and len(words) > len(known):
            self._progress("reading new words", 0, 0)
            known = read_new(model.pixar, known, words)
        return join_sequences(parts), known

    def _save(
        self,
        trie: Trie,
        rows: Iterable[int],
        added: AddedPhrases,
        *,
        known: tuple[Trie, Float32] | None,
    ) -> None:
        model, count = self._load_model(), len(added)
        weights = weigh_phrases(model.vocabulary.uses, self._config.weighting, num_added=count)
        take = functools.partial(take_rows, model.pixar.head, added)
        norms = measure_norms(trie, take, weights=weights, known=known)
        held: Integers = np.array(sorted(rows), dtype=np.int64)
        save_index(self._folder, GenerativeIndex(trie, norms, held, added), basis=self._basis)


def require_own_model(folder: Path, state: IndexState) -> None:
    """Refuse an index that was made with another model or vocabulary than stands beside it."""
    if state.model != identify_model(folder.parent):
        collection = folder.parents[2]
        raise IndexMismatch(
            f"{folder} was made with another model or phrase vocabulary than the one beside it; run"
            f' "quoth train pixar {collection}" to train one for these documents, or "quoth verify'
            f' {collection} --repair" to name them anew with this one'
        )
