"""Change an index's postings: one batch, some files, named by the artifact of the index at its end.

Documents are collected in memory and written as segments. At the end of a batch, the last segments
become one while they are small beside what follows them, so a collection has few of them, and a
document is written anew a number of times that grows with the logarithm of the collection's size.
Files that no artifact names are left over from a batch that was cut short; the next one drops them.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.artifact import FileSeal, seal_file, sync_folder
from quoth.index.lexical.postings import (
    FOLDER,
    NUM_VIEWS,
    PostingsEntry,
    map_files,
    open_segments,
    view_numbers,
)
from quoth.vocabulary.term_counts import JoinedTerms
from quoth.vocabulary.weighting import K1, kept_lengths

if TYPE_CHECKING:
    from quoth.native import PostingsBuilder

_FLUSH_BYTES = 24_000_000
_SMALL = 1_024  # documents; smaller segments are merged whenever one is added
_BODY = "text"
_LENGTHS = struct.pack("=256I", *kept_lengths())
_AVERAGES = struct.Struct(f"={NUM_VIEWS}d")


class PostingsWriter:
    """One batch of changes; `finish` writes it, and the artifact then has to name what came."""

    def __init__(
        self,
        folder: Path,
        fields: Sequence[str],
        *,
        current: PostingsEntry | None = None,
        seals: Mapping[str, FileSeal] | None = None,
    ) -> None:
        """Extend `current`, whose files were sealed before; begin anew where it is None."""
        self._folder = folder
        self._fields = tuple(fields)
        self._segments = list(current.segments) if current else []
        self._last_row = current.last_row if current else -1
        self._gone: set[int] = set()
        if current is not None and current.gone is not None:
            self._gone.update(array("q", map_files(folder, [current.gone])[0].tobytes()))
        self._views = view_numbers(fields)
        self._seals = dict(seals or {})
        self._builder = self._new_builder()
        self._gone_name = current.gone if current else None
        self._has_lost_more = False
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        self._number = _last_number(folder)

    def remove(self, rows: Iterable[int]) -> None:
        """Take documents out that were added in earlier batches."""
        doomed = {row for row in rows if row <= self._last_row} - self._gone
        self._has_lost_more |= bool(doomed)
        self._gone |= doomed

    def add_joined(self, rows: Sequence[int], documents: Sequence[JoinedTerms]) -> None:
        """Put documents in whose terms are joined; rows must come in increasing order."""
        numbers, joined, done = array("q", rows).tobytes(), tuple(documents), 0
        while done < len(joined):
            done += self._builder.add(numbers, joined, self._views, done, _FLUSH_BYTES)
            self._last_row = rows[done - 1]
            if self._builder.size() >= _FLUSH_BYTES:
                self._flush()

    def finish(self) -> tuple[PostingsEntry, dict[str, FileSeal]]:
        """Write what was added and removed; returns the files, and the seals of new ones."""
        if self._builder.count():
            self._flush()
        if self._has_lost_more:
            self._write_gone()
        self._merge_small_ones()
        entry = PostingsEntry(tuple(self._segments), self._gone_name, self._last_row)
        sync_folder(self._folder / FOLDER)
        return entry, {f"{FOLDER}/{name}": self._seal(name) for name in names_of(entry)}

    def _flush(self) -> None:
        builder, self._builder = self._builder, self._new_builder()
        self._segments.append(self._write(lambda handle: builder.write(handle, K1, None)))

    def _new_builder(self) -> PostingsBuilder:
        from quoth.native import PostingsBuilder

        return PostingsBuilder(_LENGTHS, self._views[_BODY] if _BODY in self._fields else 0)

    def _write_gone(self) -> None:
        rows = array("q", sorted(self._gone)).tobytes()
        self._gone_name = self._write(lambda handle: _write_all(handle, rows), kind="gone")

    def _merge_small_ones(self) -> None:
        entry = PostingsEntry(tuple(self._segments), self._gone_name, self._last_row)
        opened = open_segments(self._folder, entry)
        counts = opened.counts()
        start = merged_from(counts)
        if start >= len(counts) - 1:
            return
        averages = _mean(opened.averages(), counts)
        merged = self._write(
            lambda handle: opened.merge(start, len(counts), handle, K1, averages, _LENGTHS)
        )
        self._segments[start:] = [merged]
        if start == 0:  # whatever was gone is left out
            self._gone, self._gone_name = set(), None

    def _write(self, write: Callable[[int], None], *, kind: str = "segment") -> str:
        """Write a file of a name that no other has had, to the disk."""
        self._number += 1
        name = f"{kind}-{self._number}.bin"
        with (self._folder / FOLDER / name).open("wb") as stream:
            write(stream.fileno())
            os.fsync(stream.fileno())
        return name

    def _seal(self, name: str) -> FileSeal:
        known = self._seals.get(f"{FOLDER}/{name}")  # a name is never given twice
        return known or seal_file(self._folder / FOLDER / name)


def names_of(entry: PostingsEntry) -> tuple[str, ...]:
    """List the files of an entry."""
    return (*entry.segments, *([entry.gone] if entry.gone else []))


def drop_other_files(folder: Path, entry: PostingsEntry | None) -> None:
    """Remove the files that an entry does not name; who has mapped them keeps them."""
    kept = set(names_of(entry)) if entry else set()
    for path in _files(folder):
        if path.name not in kept:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def merged_from(counts: Sequence[int]) -> int:
    """Tell from which segment on all become one, by how many documents each has.

    >>> merged_from([100_000, 900, 80, 1]), merged_from([90_000, 20_000, 30_000])
    (1, 0)
    >>> merged_from([500_000, 100_000, 30_000])
    2
    """
    start, total = len(counts) - 1, sum(counts[-1:])
    while start > 0 and counts[start - 1] <= max(_SMALL, 2 * total):
        start -= 1
        total += counts[start]
    return max(start, 0)


def _mean(averages: Sequence[bytes], counts: Sequence[int]) -> bytes:
    """Average what segments were written with, by their documents."""
    total = max(1, sum(counts))
    rows = [_AVERAGES.unpack(each) for each in averages]
    return _AVERAGES.pack(
        *(
            sum(row[view] * count for row, count in zip(rows, counts, strict=True)) / total
            for view in range(NUM_VIEWS)
        )
    )


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _files(folder: Path) -> list[Path]:
    place = folder / FOLDER
    return [path for path in place.iterdir() if path.is_file()] if place.is_dir() else []


def _last_number(folder: Path) -> int:
    found = (re.fullmatch(r"\w+-(\d+)\.bin", path.name) for path in _files(folder))
    return max((int(match[1]) for match in found if match), default=0)
