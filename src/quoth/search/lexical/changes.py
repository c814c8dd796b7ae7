"""What changed in the store, given to whatever keeps words: index, statistics and records.

Where one batch after the other is being stored, changes can be followed as they come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quoth.collection.portions import PortionCutter, StoredPortion
from quoth.collection.store import Store
from quoth.errors import IndexMoved
from quoth.index.lexical.passage_terms import PassageTermsFile
from quoth.index.lexical.postings_writer import PostingsWriter
from quoth.index.lexical.writer import LexicalWriter
from quoth.search.lexical.analysing import analyse, analyse_portions
from quoth.search.lexical.records import ComparedRecords
from quoth.search.searcher import Progress
from quoth.text.words import Analyser
from quoth.vocabulary.statistics import Statistics

MAX_FIELDS = 32
"""Fields searched one by one, in order of appearance; later ones count in the whole only."""


class _Takers(NamedTuple):
    """What takes words; None for what does not need them."""

    writer: LexicalWriter | PostingsWriter | None
    statistics: Statistics | None
    records: PassageTermsFile | ComparedRecords | None


class StoredChanges:
    """The changes of a store up to one, or further and further while more are stored."""

    def __init__(
        self,
        store: Store,
        analyser: Analyser,
        progress: Progress,
        workers: int,
        further: Iterator[int] | None = None,
    ) -> None:
        """`further` yields numbers of changes that are stored by then, until there are no more.

        `workers` is how many others may help to analyse documents where there are many.
        """
        self._store = store
        self._analyser = analyser
        self._progress = progress
        self._workers = workers
        self._further = further
        self._done = self._total = 0
        self.upto = store.change if further is None else next(further)
        self.fields = store.fields()[:MAX_FIELDS]

    def follows(self, change: int, log: str) -> bool:
        """Whether something at this point of this history can be caught up."""
        return self._store.forgotten <= change <= self.upto and log == self._store.log_digest(
            change
        )

    def log(self) -> str:
        """Name the history so far."""
        return self._store.log_digest(self.upto)

    def apply(
        self,
        after: int,
        *,
        writer: LexicalWriter | PostingsWriter | None = None,
        statistics: Statistics | None = None,
        records: PassageTermsFile | ComparedRecords | None = None,
    ) -> None:
        """Give on what changed after one change."""
        if after == self.upto:
            return
        takers = _Takers(writer, statistics, records)
        self._drop(after, takers)
        self._total += self._store.count_between(after, self.upto)
        self._add(self._store.portions_between(after, self.upto), self._workers, takers)

    def apply_further(
        self,
        after: int,
        *,
        writer: LexicalWriter,
        statistics: Statistics | None,
        records: PassageTermsFile | None,
    ) -> None:
        """Do so, and go on while there are further changes.

        It comes out as if all had been there from the first. Where it would not, because of what
        came meanwhile, `IndexMoved` asks for another beginning.
        """
        if self._further is None:
            self.apply(after, writer=writer, statistics=statistics, records=records)
            return
        takers, cutter = _Takers(writer, statistics, records), PortionCutter(holds_back=True)
        self._follow(after, takers, cutter)
        for change in self._further:
            before, self.upto = self.upto, change
            if self._store.fields()[:MAX_FIELDS] != self.fields:
                raise IndexMoved("a field came that the index does not have")
            self._follow(before, takers, cutter)
        cutter.holds_back = False
        self._follow(self.upto, takers, cutter)

    def _follow(self, after: int, takers: _Takers, cutter: PortionCutter) -> None:
        """Give on one interval, but for what does not fill a portion yet."""
        first = cutter.first_row
        gone = self._drop(after, takers)
        if first is not None and any(row >= first for row in gone):
            raise IndexMoved("a document was replaced that had been added before")
        self._total += self._store.count_between(after, self.upto)
        added: Iterable[StoredPortion]
        added = self._store.portions_between(after, self.upto, cutter=cutter)
        if first is not None:  # a batch, read whole: a reader that stays makes SQLite's log longer
            added = list(added)
        self._add(added, self._workers // 2, takers)  # others are at work as well

    def _drop(self, after: int, takers: _Takers) -> list[int]:
        """Take out what was removed or replaced; returns the rows."""
        gone = []
        for stored in self._store.removed_between(after, self.upto):
            gone.append(stored.row)
            if takers.statistics is not None:
                takers.statistics.count(analyse(stored.document, self._analyser), sign=-1)
        if takers.writer is not None:
            takers.writer.remove(gone)
        if takers.records is not None:
            takers.records.drop(gone)
        return gone

    def _add(self, added: Iterable[StoredPortion], workers: int, takers: _Takers) -> None:
        """Analyse documents, each once, and give them on."""
        analysed = analyse_portions(added, config=self._analyser.config, workers=workers)
        with contextlib.closing(analysed) as portions:
            for portion in portions:
                self._progress("indexing words", self._done, self._total)
                self._done += len(portion.rows)
                if takers.writer is not None:
                    takers.writer.add_joined(portion.rows, portion.texts)
                if takers.statistics is not None:
                    takers.statistics.count_all(portion.counts)
                if takers.records is not None:
                    takers.records.put(portion.numbered_records())
        self._progress("indexing words", self._done, self._total)
