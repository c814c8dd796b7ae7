"""Keep the lexical index and the statistics equal to what a rebuild from the store would give.

Both follow the store's change log and record how far they got, together with the log's digest
there, so an index that belongs to another history (a restored backup, say) is noticed and rebuilt.
Statistics are committed right after the index; whichever a crash leaves behind is caught up on its
own. The terms of passages are committed before the index, so whatever is found has them; older
collections get them with the next write.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from quoth.artifact import FILE_NAME, Artifact, find_damage
from quoth.collection.store import Store
from quoth.errors import CollectionError, OutOfFiles
from quoth.index.lexical.index import META, UNFINISHED, LexicalIndex, read_artifact, read_segments
from quoth.index.lexical.passage_terms import FILE_NAME as PASSAGES_FILE
from quoth.index.lexical.passage_terms import PassageTermsFile
from quoth.index.lexical.postings_writer import PostingsWriter
from quoth.index.lexical.writer import LexicalWriter
from quoth.search.lexical.analysing import AnalysedPortion, analyse, analyse_portions
from quoth.search.lexical.kept_postings import ComparedPostings, complete_postings
from quoth.search.lexical.opening import require_analyser
from quoth.search.lexical.records import ComparedRecords, record_basis
from quoth.search.searcher import Progress
from quoth.text.words import Analyser
from quoth.vocabulary.derived_file import open_or_replace
from quoth.vocabulary.statistics import Statistics

STATISTICS_FILE = "statistics.db"
MAX_FIELDS = 32
"""Fields searched one by one, in order of appearance; later ones count in the whole only."""

_FINISHED = "lexical_finished"  # setting of the store: from then on, no index means a lost one
_KEPT = "passage_terms_kept"  # setting of the store: from then on, no such file means a lost one
_logger = logging.getLogger(__name__)


class LexicalUpkeep:
    """One pass of upkeep over a collection's lexical side; the caller holds the writer's lock."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        analyser: Analyser,
        compact_share: float,
        progress: Progress,
        workers: int,
    ) -> None:
        """`workers` is how many processes may help to analyse documents where there are many."""
        self._folder = folder
        self._store = store
        self._analyser = analyser
        self._compact_share = compact_share
        self._progress = progress
        self._workers = workers
        self._upto = store.change
        self._fields = store.fields()[:MAX_FIELDS]

    def catch_up(self) -> None:
        """Apply what changed since the last time; rebuild where that is impossible or wasteful."""
        index = LexicalIndex.open(self._folder)
        if index is not None:
            require_analyser(index, self._analyser, self._folder.parent)
        if (
            index is None
            or index.fields != self._fields
            or not self._follows(index.artifact.change, index.artifact.config["log"])
        ):
            self.rebuild()
            return
        path = self._folder / STATISTICS_FILE
        with contextlib.closing(Statistics.open(path, write=True)) as statistics:
            if not self._follows(statistics.change, statistics.basis.get("log", "")):
                self._recount(statistics)
            self._extend(index, statistics)
        if not self._compact_if_due():
            self._complete_records()
            complete_postings(self._folder, lambda fresh: self._apply(0, writer=fresh))

    def rebuild(self) -> None:
        """Build index and statistics from the store alone."""
        _logger.info("building the lexical index of %s", self._folder.parent)
        self._folder.mkdir(parents=True, exist_ok=True)
        with (
            contextlib.closing(
                open_or_replace(self._folder / STATISTICS_FILE, Statistics)
            ) as statistics,
            self._records() as records,
        ):
            statistics.begin()
            statistics.clear()
            records.clear()
            with contextlib.closing(self._writer(None)) as writer:
                self._apply(0, writer=writer, statistics=statistics, records=records)
                self._commit_records(records)
                statistics.flush()  # while tantivy is at work on what it was given last
                writer.commit(change=self._upto, log=self._log())
            statistics.commit(change=self._upto, basis=self._basis())
        self._store.set_setting(_FINISHED, True)
        self._store.set_setting(_KEPT, True)

    def num_behind(self) -> int:
        """Count the changes that the next catching up brings, unless it has to start over."""
        try:
            artifact = read_artifact(self._folder)
            if artifact is None:
                return 0 if self._was_finished() else self._upto
            reached = [(artifact.change, artifact.config["log"])]
            with contextlib.closing(Statistics.open(self._folder / STATISTICS_FILE)) as counted:
                reached.append((counted.change, counted.basis.get("log", "")))
        except CollectionError:
            return 0  # damage, which `find_damage` tells of
        return max(self._upto - at if self._follows(at, log) else 0 for at, log in reached)

    def find_damage(self) -> Iterator[str]:
        """Say what is wrong with the index or the statistics, compared with the store.

        What a killed writer left unfinished is no damage (see `num_behind`): such an index is
        checked as far as it goes.
        """
        try:
            artifact = read_artifact(self._folder)
            if artifact is None:
                if self._was_finished():
                    yield f"{self._folder / FILE_NAME} is missing: the index must be finished anew"
                return
            damaged = self._check_files(artifact)
            yield from damaged
            is_unfinished = (self._folder / UNFINISHED).exists()
            index = None if damaged else LexicalIndex.open(self._folder)
            if index is not None:
                require_analyser(index, self._analyser, self._folder.parent)
                yield from self._compare(index, is_unfinished=is_unfinished)
        except OutOfFiles:
            raise
        except CollectionError as error:
            yield str(error)

    def _was_finished(self) -> bool:
        """Whether the store remembers that there was an index."""
        return bool(self._store.setting(_FINISHED))

    def _check_files(self, artifact: Artifact) -> tuple[str, ...]:
        """Check all checksums first: tantivy trusts what it opens.

        A stopped writer may have replaced tantivy's list of segments, and dropped those that the
        new list does not name; whatever else was recorded must still be as it was written.
        """
        if not (self._folder / UNFINISHED).exists():
            return find_damage(self._folder, artifact, deep=True)
        path = self._folder / artifact.config["folder"]
        live = tuple(each["segment_id"].replace("-", "") for each in read_segments(path))
        kept = {
            name: seal
            for name, seal in artifact.files.items()
            if Path(name).name != META
            and (Path(name).name.startswith(live) or (self._folder / name).exists())
        }
        return find_damage(self._folder, replace(artifact, files=kept), deep=True)

    def _compare(self, index: LexicalIndex, *, is_unfinished: bool) -> Iterator[str]:
        change, log = index.artifact.change, index.artifact.config["log"]
        if not self._follows(change, log):
            yield (
                f"{self._folder} is at change {change} of another history than the store, which is"
                f" at {self._upto}"
            )
            return
        if change < self._upto or (is_unfinished and not index.is_settled):
            yield from self._check_statistics()
            return
        if not index.holds(self._store.ordered_rows()):
            yield f"{index.path} holds other documents than the store"
        with (
            contextlib.closing(Statistics.open(self._folder / STATISTICS_FILE)) as statistics,
            contextlib.closing(self._stored_records()) as records,
        ):
            compared = ComparedRecords(records)
            broken = tuple(self._check_records(records))
            is_comparable = not broken and self._keeps(records, self._upto)
            yield from self._compare_counts(
                index, statistics, records=compared if is_comparable else None
            )
            yield from broken
            if is_comparable and not compared.is_begun:
                self._apply(0, records=compared)
            if is_comparable and compared.differs():
                yield f"{self._folder / PASSAGES_FILE}: terms of passages differ from the documents"

    def _check_statistics(self) -> Iterator[str]:
        """Check the statistics for themselves, where there is nothing to compare them with."""
        with contextlib.closing(Statistics.open(self._folder / STATISTICS_FILE)) as statistics:
            yield from statistics.check_structure()

    def _compare_counts(
        self, index: LexicalIndex, statistics: Statistics, *, records: ComparedRecords | None
    ) -> Iterator[str]:
        """Count all documents again; their records are compared on the way."""
        path = self._folder / STATISTICS_FILE
        broken = statistics.check_structure()
        yield from broken
        follows = self._follows(statistics.change, statistics.basis.get("log", ""))
        if broken or (follows and statistics.change < self._upto):
            return
        if (statistics.change, statistics.basis) != (self._upto, self._basis()):
            yield f"{path}: counted at another change, or otherwise, than the store's last one"
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            recounted = Statistics.open(Path(scratch) / STATISTICS_FILE, write=True)
            try:
                postings = ComparedPostings(index, Path(scratch))
                self._recount(recounted, records=records, postings=postings.fresh)
                if postings.differ():
                    yield f"{postings.place}: postings differ from the documents"
                if recounted.summary() != statistics.summary():
                    yield f"{path}: totals differ from the documents"
                pairs = zip_longest(recounted.all_frequencies(), statistics.all_frequencies())
                if any(right != found for right, found in pairs):
                    yield f"{path}: document frequencies differ from the documents"
                elif not index.num_dead and any(
                    index.document_frequencies(view, (term,)) != {term: df}
                    for view, term, df in recounted.all_frequencies()
                    if index.has_view(view)
                ):
                    yield f"{index.path}: postings differ from the documents"
            finally:
                recounted.close()

    def _stored_records(self) -> PassageTermsFile:
        path = self._folder / PASSAGES_FILE
        return PassageTermsFile.open(path) if path.exists() else PassageTermsFile.none()

    def _check_records(self, records: PassageTermsFile) -> Iterator[str]:
        """Check the terms of passages for themselves; what is outdated is written anew later."""
        path = self._folder / PASSAGES_FILE
        if not path.exists():  # perhaps of a collection from before there was one
            if self._store.setting(_KEPT):
                yield f"{path} is missing: the terms of passages must be written anew"
            return
        yield from records.check_structure()
        change, log = records.reached
        if change >= 0 and log != self._store.log_digest(change):
            yield f"{path} is of another history than the store"

    def _follows(self, change: int, log: str) -> bool:
        """Whether something at this point of this history can be caught up."""
        return self._store.forgotten <= change <= self._upto and log == self._store.log_digest(
            change
        )

    def _extend(self, index: LexicalIndex, statistics: Statistics) -> None:
        after, counted = index.artifact.change, statistics.change
        if counted < self._upto:
            statistics.begin()
        try:
            if after == self._upto and index.is_settled:
                self._apply(counted, statistics=statistics)
            else:
                both = statistics if after == counted else None
                self._extend_index(index, both)
                if both is None:  # a crash fell between the two commits
                    self._apply(counted, statistics=statistics)
            if counted < self._upto:
                statistics.commit(change=self._upto, basis=self._basis())
        except BaseException:
            statistics.roll_back()
            raise

    def _extend_index(self, index: LexicalIndex, statistics: Statistics | None) -> None:
        after = index.artifact.change
        with (
            contextlib.closing(self._writer(index)) as writer,
            self._records() as records,
        ):
            keeps = self._keeps(records, after)
            self._apply(
                after, writer=writer, statistics=statistics, records=records if keeps else None
            )
            if keeps:
                self._commit_records(records)
            if statistics is not None:
                statistics.flush()
            writer.commit(change=self._upto, log=self._log())

    def _apply(
        self,
        after: int,
        *,
        writer: LexicalWriter | PostingsWriter | None = None,
        statistics: Statistics | None = None,
        records: PassageTermsFile | ComparedRecords | None = None,
    ) -> None:
        if after == self._upto:
            return
        gone = []
        for stored in self._store.removed_between(after, self._upto):
            gone.append(stored.row)
            if statistics is not None:
                statistics.count(analyse(stored.document, self._analyser), sign=-1)
        if writer is not None:
            writer.remove(gone)
        if records is not None:
            records.drop(gone)
        done, total = 0, self._store.count_between(after, self._upto)
        with contextlib.closing(self._analysed(after)) as portions:
            for portion in portions:
                self._progress("indexing words", done, total)
                done += len(portion.rows)
                if writer is not None:
                    writer.add_joined(portion.rows, portion.texts)
                if statistics is not None:
                    statistics.count_all(portion.counts)
                if records is not None:
                    records.put(portion.numbered_records())
        self._progress("indexing words", total, total)

    def _analysed(self, after: int) -> Generator[AnalysedPortion, None, None]:
        """Analyse the documents that came after a change, each once."""
        added = self._store.portions_between(after, self._upto)
        return analyse_portions(added, config=self._analyser.config, workers=self._workers)

    @contextlib.contextmanager
    def _records(self) -> Iterator[PassageTermsFile]:
        """Open the terms of passages for a batch of changes, which is dropped unless committed."""
        opened = open_or_replace(self._folder / PASSAGES_FILE, PassageTermsFile)
        with contextlib.closing(opened) as records:
            records.begin()
            try:
                yield records
            finally:
                records.roll_back()

    def _complete_records(self) -> None:
        """Write the terms of all passages where they are missing, or of otherwise cut ones."""
        with self._records() as records:
            if not self._keeps(records, self._upto):
                records.clear()
                self._apply(0, records=records)
                self._commit_records(records)
                self._store.set_setting(_KEPT, True)

    def _keeps(self, records: PassageTermsFile, change: int) -> bool:
        """Whether records hold all passages up to a change, as they are cut and analysed now."""
        reached, log = records.reached
        is_ours = reached >= change and self._follows(reached, log)
        return is_ours and records.basis == self._record_basis()

    def _commit_records(self, records: PassageTermsFile) -> None:
        records.commit(basis=self._record_basis(), change=self._upto, log=self._log())

    def _record_basis(self) -> dict[str, Any]:
        return record_basis(self._store, self._analyser)

    def _recount(
        self,
        statistics: Statistics,
        *,
        records: ComparedRecords | None = None,
        postings: PostingsWriter | None = None,
    ) -> None:
        statistics.begin()
        statistics.clear()
        self._apply(0, writer=postings, statistics=statistics, records=records)
        statistics.commit(change=self._upto, basis=self._basis())

    def _compact_if_due(self) -> bool:
        index = LexicalIndex.open(self._folder)
        if index is None:
            return False
        gone = index.num_removed
        if gone <= self._compact_share * (index.num_documents + gone):
            return False
        self.rebuild()
        return True

    def _writer(self, current: LexicalIndex | None) -> LexicalWriter:
        return LexicalWriter(
            self._folder,
            fields=self._fields,
            identity=self._analyser.identity(),
            current=current,
        )

    def _log(self) -> str:
        return self._store.log_digest(self._upto)

    def _basis(self) -> dict[str, Any]:
        return {"log": self._log(), "analyser": self._analyser.identity()}
