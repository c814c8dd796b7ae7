"""What a dense index read of each document, in a small log beside its vectors.

Lines of JSON, each on disk before the vectors it speaks of: `{"upto": 9, "log": "…"}` opens an
encoding and names the history its rows belong to; `[[row, subwords, cut], …]` is one chunk of it,
with the first unit as a fourth number where it is not the document's first one. Rows that the index
does not hold are passed over, and so is a line that a kill cut short.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from quoth.artifact import write_text_atomically
from quoth.index.dense.files import explain

FILE_NAME = "encoding.jsonl"
_MAX_DEAD_SHARE = 0.5


class History(Protocol):
    """What tells one history of a store from another; `Store` is one."""

    def log_digest(self, change: int) -> str:
        """Name the history up to a change."""
        ...


class EncodingRecord:
    """The log of one dense index."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def begin(self, upto: int, *, log: str) -> None:
        """Record, durably, which history is about to be encoded."""
        self._append({"upto": upto, "log": log})

    def note(
        self,
        rows: Sequence[int],
        lengths: Sequence[int],
        cuts: Sequence[int],
        *,
        start: int = 0,
    ) -> None:
        """Record how many subwords are read and cut of each row, of its units from `start` on."""
        totals: dict[int, list[int]] = {}
        for row, length, cut in zip(rows, lengths, cuts, strict=True):
            own = totals.setdefault(row, [row, 0, 0])
            own[1] += length
            own[2] += cut
        self._append([[*own, start] if start else own for own in totals.values()])

    def is_of_history(self, store: History) -> bool:
        """Whether every encoding so far was of this store's history."""
        return all(
            store.log_digest(line["upto"]) == line["log"]
            for line in self._lines()
            if isinstance(line, Mapping)
        )

    def totals(self, held: Collection[int]) -> dict[str, int]:
        """Sum up over the rows that are held."""
        counted = [own for row, own in self.by_row().items() if row in held]
        return {
            "subwords": sum(length for length, _cut in counted),
            "subwords_cut": sum(cut for _length, cut in counted),
            "documents_cut": sum(cut > 0 for _length, cut in counted),
        }

    def compact(self, live: Collection[int]) -> None:
        """Rewrite the log once most of its rows are gone."""
        by_row = self.by_row()
        kept = [[row, *own] for row, own in sorted(by_row.items()) if row in live]
        if len(by_row) - len(kept) > _MAX_DEAD_SHARE * len(by_row):
            opened = [line for line in self._lines() if isinstance(line, Mapping)][-1:]
            text = "".join(json.dumps(line) + "\n" for line in [*opened, kept])
            write_text_atomically(self._path, text)

    def clear(self) -> None:
        """Forget everything."""
        self._path.unlink(missing_ok=True)

    def by_row(self) -> dict[int, tuple[int, int]]:
        """Return subwords read and cut by row; units that were encoded twice count as the last."""
        openings: dict[int, tuple[int, int]] = {}
        rest: dict[tuple[int, int], tuple[int, int]] = {}  # of few rows: most have one unit
        for chunk in (line for line in self._lines() if isinstance(line, list)):
            for row, length, cut, *start in chunk:
                if start and start[0]:
                    rest[row, start[0]] = (length, cut)
                else:
                    openings[row] = (length, cut)
        for (row, _start), (length, cut) in rest.items():
            known = openings.get(row, (0, 0))
            openings[row] = (known[0] + length, known[1] + cut)
        return openings

    def _lines(self) -> Iterator[Any]:
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # a kill cut it short

    def _append(self, line: object) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as stream:
                if stream.tell() and not self._ends_with_newline():
                    stream.write(b"\n")
                stream.write(json.dumps(line).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise explain(self._path, error) from error

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"
