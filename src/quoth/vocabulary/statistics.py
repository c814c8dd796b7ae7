"""What BM25 and GLOW count: documents per term, lengths per field, collection totals.

Counts are kept per view: one view per field, and `EVERYTHING`, the whole document. They live in a
small SQLite file of their own, so memory stays flat and one changed document costs a few rows; the
number of the last change they contain is committed with them. Derived: they can be recounted from
the documents at any time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quoth.errors import Damaged
from quoth.vocabulary.derived_file import SQLITE_ERRORS, DerivedFile, explain_failure
from quoth.vocabulary.term_counts import EVERYTHING, BatchCounts, FieldTerms

_MAX_PENDING = 300_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS frequencies (
  view TEXT NOT NULL, term TEXT NOT NULL, df INTEGER NOT NULL, PRIMARY KEY (view, term)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lengths (view TEXT PRIMARY KEY, total INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
"""


class Statistics(DerivedFile):
    """Collection statistics on disk; one writer at a time, any number of readers."""

    schema = _SCHEMA

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._pending = BatchCounts()
        self._num_documents = 0

    @property
    def change(self) -> int:
        """Number of the last change that is counted."""
        return self._number("change")

    @property
    def num_documents(self) -> int:
        """Documents counted."""
        return self._number("num_documents")

    @property
    def num_terms(self) -> int:
        """Distinct terms."""
        query = "SELECT count(*) FROM frequencies WHERE view = ?"
        return int(self._run(query, (EVERYTHING,))[0][0])

    @property
    def basis(self) -> dict[str, Any]:
        """What `commit` was told the counts rest on: the log and the analyser."""
        try:
            found: dict[str, Any] = json.loads(str(self._fact("basis", "{}")))
        except ValueError as error:
            raise Damaged(f"{self._path} cannot be read ({error})") from error
        return found

    def pin(self) -> None:
        """Keep looking at the present state until closed, whatever is committed meanwhile."""
        self._run("BEGIN")
        self._fact("change", 0)  # the first read fixes the state

    def summary(self) -> tuple[int, dict[str, int]]:
        """Return what is counted besides frequencies: documents, and terms per view."""
        return self.num_documents, self.total_lengths()

    def require_readable(self) -> None:
        """Raise where what is counted besides frequencies cannot be read."""
        self.summary()

    def total_lengths(self) -> dict[str, int]:
        """Terms in all documents together, per view."""
        return dict(self._run("SELECT view, total FROM lengths"))

    def average_lengths(self) -> dict[str, float]:
        """Mean number of terms per view, documents without the field counted as empty."""
        count = max(1, self.num_documents)
        return {view: total / count for view, total in self.total_lengths().items()}

    def document_frequencies(self, view: str, terms: Iterable[str]) -> dict[str, int]:
        """Number of documents that hold each term in this view; terms never seen are left out."""
        return dict(
            self._run(
                "SELECT term, df FROM frequencies WHERE view = ?"
                " AND term IN (SELECT value FROM json_each(?))",
                (view, json.dumps(list(terms))),
            )
        )

    def terms_from(self, beginning: str, shortest: int, longest: int) -> list[tuple[str, int]]:
        """List terms of any field with a beginning and a length, each with its documents."""
        return self._run(
            "SELECT term, df FROM frequencies WHERE view = ? AND term >= ? AND term < ?"
            " AND length(term) BETWEEN ? AND ?",
            (EVERYTHING, beginning, f"{beginning}\U0010ffff", shortest, longest),
        )

    def all_frequencies(self) -> Iterator[tuple[str, str, int]]:
        """Yield view, term and document frequency, sorted."""
        try:
            # Not `yield from`: it would close the cursor, perhaps after the connection.
            for counted in self._connection.execute(  # noqa: UP028
                "SELECT view, term, df FROM frequencies ORDER BY view, term"
            ):
                yield counted
        except SQLITE_ERRORS as error:
            raise explain_failure(self._path, error) from error

    def begin(self) -> None:
        """Start a batch of changes, visible to readers only once committed."""
        self._pending = BatchCounts()
        self._run("BEGIN IMMEDIATE")
        self._num_documents = self.num_documents

    def count(self, document: FieldTerms, *, sign: int = 1) -> None:
        """Count a document in (sign 1) or out (sign −1)."""
        self._num_documents += sign
        self._pending.count(document, sign=sign)
        self._flush_if_due()

    def count_all(self, counts: BatchCounts) -> None:
        """Count in what was counted elsewhere."""
        self._num_documents += counts.num_documents
        self._pending.add(counts)
        self._flush_if_due()

    def add_from(self, path: Path) -> tuple[int, dict[str, Any], int]:
        """Count in, as a batch of its own, what another file has counted.

        Gives the change, the basis and the number of documents that it was at.
        """
        self._run("ATTACH ? AS other", (f"{path.absolute().as_uri()}?mode=ro",))
        try:
            self.begin()
            for table, keys, value in (
                ("frequencies", "view, term", "df"),
                ("lengths", "view", "total"),
            ):
                self._run(
                    f"INSERT INTO {table} SELECT {keys}, {value} FROM other.{table}"
                    f" WHERE true ORDER BY {keys}"
                    f" ON CONFLICT DO UPDATE SET {value} = {value} + excluded.{value}"
                )
            other = dict(self._run("SELECT name, value FROM other.facts"))
            self._num_documents += other["num_documents"]
            basis = json.loads(other["basis"])
            self.commit(change=self.change + other["change"], basis={})
        except (KeyError, ValueError, TypeError) as error:
            raise Damaged(f"{path} cannot be read ({error})") from error
        finally:
            self.roll_back()
            self._run("DETACH other")
        return other["change"], basis, other["num_documents"]

    def settle(self) -> None:
        """Put everything into the one file, so that it can be copied."""
        self._run("PRAGMA journal_mode = DELETE")

    def clear(self) -> None:
        """Forget all counts, within a batch."""
        self._run("DELETE FROM frequencies")
        self._run("DELETE FROM lengths")
        self._num_documents = 0

    def commit(self, *, change: int, basis: Mapping[str, Any]) -> None:
        """Make the batch durable, as the state after a change."""
        self.flush()
        self._run("DELETE FROM frequencies WHERE df = 0")
        self._run("DELETE FROM lengths WHERE total = 0")
        for name, value in (
            ("change", change),
            ("num_documents", self._num_documents),
            ("basis", json.dumps(dict(basis), sort_keys=True)),
        ):
            self._run(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (name, value),
            )
        self._run("COMMIT")

    def _flush_if_due(self) -> None:
        if self._pending.num_pending > _MAX_PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what was counted so far, within the batch."""
        # Sorted, so that neighbouring rows of the B-tree are touched together.
        self._insert_many(
            "frequencies (view, term, df)",
            self._pending.frequencies(),
            width=3,
            otherwise="ON CONFLICT DO UPDATE SET df = df + excluded.df",
        )
        self._run_many(
            "INSERT INTO lengths VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET total = total + excluded.total",
            sorted(self._pending.total_lengths().items()),
        )
        self._pending = BatchCounts()

    def _number(self, name: str) -> int:
        value = self._fact(name, 0)
        if not isinstance(value, int):
            raise Damaged(f"{self._path} cannot be read ({name} is {value!r})")
        return value

    def _fact(self, name: str, default: object) -> Any:
        for (value,) in self._run("SELECT value FROM facts WHERE name = ?", (name,)):
            return value
        return default
