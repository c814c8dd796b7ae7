"""Remember which docids have come by, on disk once there are many, so that memory stays flat."""

from __future__ import annotations

import sqlite3


class SeenDocids:
    """A set of docids that may outgrow memory; gone when closed."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)  # "" = a private file on disk
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("CREATE TABLE seen (docid TEXT PRIMARY KEY) WITHOUT ROWID")
        self._connection.execute("BEGIN")

    def is_new(self, docid: str) -> bool:
        """Note a docid; False if it was noted before."""
        cursor = self._connection.execute("INSERT OR IGNORE INTO seen VALUES (?)", (docid,))
        return cursor.rowcount == 1

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()
