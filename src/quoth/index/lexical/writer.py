"""Change a lexical index: one batch, one tantivy commit, one `artifact.json`.

A batch either extends the current tantivy folder or builds a fresh one beside it; readers keep what
they opened, and a crash at any point leaves the last finished state or one that the next batch
completes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tantivy

from quoth.artifact import Artifact, FileSeal, save_artifact, seal_file, write_text_atomically
from quoth.compiled import is_compiled
from quoth.errors import CollectionError, Damaged, StorageFull
from quoth.index.lexical.index import (
    ALL,
    KIND,
    META,
    ROW,
    TOKENIZER,
    UNFINISHED,
    VERSION,
    LexicalIndex,
    is_failure,
    open_tantivy,
    read_segments,
    register_tokenizer,
    view_names,
)
from quoth.index.lexical.postings import ENTRY, PostingsEntry
from quoth.index.lexical.postings_writer import PostingsWriter, drop_other_files
from quoth.open_files import can_open_files, out_of_files, says_out_of_files
from quoth.storage_failures import says_storage_failed, storage_failed
from quoth.vocabulary.term_counts import FieldTerms, JoinedTerms, join_terms

_WORKER_LOST = "An index writer was killed"  # of a failed write, whose reason is lost
_LOCK = ".tantivy-writer.lock"
MANAGED = ".managed.json"
_HEAP_BYTES = 128_000_000
_DISK_FULL = re.compile(r"os error (28|27|122)\b|No space left|File too large|quota")


class LexicalWriter:
    """One batch of changes to a lexical index; call `commit` to finish it."""

    def __init__(
        self,
        folder: Path,
        *,
        fields: Sequence[str],
        identity: Mapping[str, Any],
        current: LexicalIndex | None,
    ) -> None:
        """Extend `current`, or build a new index where it is None."""
        self._folder = folder
        self._fields = tuple(fields)
        self._identity = dict(identity)
        self._current = current
        self._max_row = -1 if current is None else int(current.artifact.config["max_row"])
        self._num_removed = 0 if current is None else current.num_removed
        with _writing(folder):
            self._path = _fresh_folder(folder) if current is None else current.path
            index = (
                _create(self._path, self._fields) if current is None else open_tantivy(self._path)
            )
            self._schema = index.schema
            self._writer = index.writer(_HEAP_BYTES, 1)
            # What a killed writer left would collide: tantivy counts on from its last commit.
            self._writer.garbage_collect_files()
            if current is not None and not current.is_settled:
                self._drop_unrecorded()
        self._names = view_names(self._fields)
        with _writing(folder):
            self._postings = self._open_postings()

    def remove(self, rows: Iterable[int]) -> None:
        """Take documents out."""
        doomed = list(rows)
        self._num_removed += len(doomed)
        if doomed:
            if self._postings is not None:
                self._postings.remove(doomed)
            # Not delete_documents_by_term: it reads an int as signed and finds nothing.
            with _writing(self._folder):
                query = tantivy.Query.term_set_query(self._schema, ROW, doomed)
                self._writer.delete_documents_by_query(query)

    def add(self, row: int, document: FieldTerms) -> None:
        """Put a document in; rows must come in increasing order."""
        self.add_joined((row,), (join_terms(document),))

    def add_joined(self, rows: Sequence[int], documents: Sequence[JoinedTerms]) -> None:
        """Put documents in whose terms are joined; rows must come in increasing order."""
        with _writing(self._folder):
            for row, document in zip(rows, documents, strict=True):
                self._writer.add_document(self._entry(row, document))
            if self._postings is not None:
                self._postings.add_joined(rows, documents)
        self._max_row = rows[-1]

    def _entry(self, row: int, document: JoinedTerms) -> tantivy.Document:
        entry = tantivy.Document()
        entry.add_unsigned(ROW, row)
        for field, instances in document.items():
            name = self._names.get(field)
            for text in instances:  # one value each: phrases never cross from one to the next
                entry.add_text(ALL, text)
                if name is not None and name != ALL:
                    entry.add_text(name, text)
        return entry

    def commit(self, *, change: int, log: str) -> None:
        """Make the batch durable and record it as the state after `change` of the log."""
        with _writing(self._folder):
            # Before tantivy's, as tantivy is at work on what it was given last.
            postings = None if self._postings is None else self._postings.finish()
            if self._current is not None:
                write_text_atomically(self._folder / UNFINISHED, "")
            self._writer.commit()
            self._writer.wait_merging_threads()
            _let_others_read(self._path)
            files = self._seal_files()
            config: dict[str, Any] = {
                "fields": list(self._fields),
                "analyser": self._identity,
                "folder": self._path.name,
                "log": log,
                "max_row": self._max_row,
                "removed": self._num_removed,
            }
            if postings is not None:
                config[ENTRY] = postings[0].as_config()
                files.update(postings[1])
            save_artifact(self._folder, Artifact(KIND, VERSION, change, config, files))
            (self._folder / UNFINISHED).unlink(missing_ok=True)
        _remove_other_folders(self._folder, keep=self._path.name)
        drop_other_files(self._folder, postings[0] if postings else None)

    def close(self) -> None:
        """Let go of tantivy's lock; a batch that was not committed is dropped."""
        del self._writer

    def _drop_unrecorded(self) -> None:
        """Take out what a batch that was cut short had committed but not recorded."""
        query = tantivy.Query.range_query(
            self._schema, ROW, tantivy.FieldType.Unsigned, lower_bound=self._max_row + 1
        )
        self._writer.delete_documents_by_query(query)

    def _open_postings(self) -> PostingsWriter | None:
        """Begin a batch of postings, unless nothing can write them, or the index has none."""
        if not is_compiled():
            return None
        if self._current is None:
            return PostingsWriter(self._folder, self._fields)
        artifact = self._current.artifact
        entry = PostingsEntry.of(artifact)
        if entry is None:
            return None
        return PostingsWriter(self._folder, self._fields, current=entry, seals=artifact.files)

    def _seal_files(self) -> dict[str, FileSeal]:
        known = {} if self._current is None else self._current.artifact.files
        live = tuple(each["segment_id"].replace("-", "") for each in read_segments(self._path))
        seals = {}
        for path in sorted(self._path.iterdir()):
            name = f"{self._path.name}/{path.name}"
            if path.name == META:
                seals[name] = seal_file(path)
            elif path.name.startswith(live):
                seals[name] = known.get(name) or seal_file(path)
        return seals


def record_postings(folder: Path, artifact: Artifact, postings: PostingsWriter) -> None:
    """Give an index postings that were written for all that it holds."""
    with _writing(folder):
        entry, seals = postings.finish()
        config = {**artifact.config, ENTRY: entry.as_config()}
        save_artifact(folder, replace(artifact, config=config, files={**artifact.files, **seals}))
    drop_other_files(folder, entry)


def _create(path: Path, fields: Sequence[str]) -> tantivy.Index:
    path.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(ROW, indexed=True, fast=True)
    for name in dict.fromkeys(view_names(fields).values()):
        builder.add_text_field(name, tokenizer_name=TOKENIZER, index_option="position")
    index = tantivy.Index(builder.build(), path=str(path))
    register_tokenizer(index)
    return index


def _let_others_read(path: Path) -> None:
    """Give tantivy's lists, which it lets nobody else read, the rights of its other files."""
    usual = stat.S_IMODE((path / _LOCK).stat().st_mode)
    for name in (META, MANAGED):
        with contextlib.suppress(FileNotFoundError):
            (path / name).chmod(usual)


def _fresh_folder(folder: Path) -> Path:
    taken = [int(name.rpartition("-")[2]) for name in _index_folders(folder)]
    return folder / f"index-{max(taken, default=0) + 1}"


def _index_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [path.name for path in folder.iterdir() if re.fullmatch(r"index-\d+", path.name)]


def _remove_other_folders(folder: Path, *, keep: str) -> None:
    for name in _index_folders(folder):
        if name != keep:
            shutil.rmtree(folder / name, ignore_errors=True)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say in our own terms why a write failed, panics of tantivy included."""
    try:
        yield
    except BaseException as error:
        if not is_failure(error):
            raise
        raise _explain(folder, error) from error


def _explain(folder: Path, error: BaseException) -> CollectionError:
    if says_out_of_files(error) or not can_open_files():
        return out_of_files(folder)
    if _DISK_FULL.search(str(error)):
        return StorageFull(
            f"{folder} could not be written: the disk is full or limited; the documents are safe,"
            " and search continues on the last finished index until there is room"
        )
    if says_storage_failed(error) or _WORKER_LOST in str(error):
        return storage_failed(folder, error)
    if type(error).__name__ == "PanicException":
        return Damaged(
            f'{folder} cannot be used as an index ({error}); run "quoth verify {folder.parent}'
            ' --repair"'
        )
    return CollectionError(f"{folder} could not be written ({error})")
