"""Inserting many rows into SQLite by few statements: a statement costs more than a row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import chain, islice

_PARAMETERS = 240  # of a statement; more of them gain nothing


def insert_many(
    connection: sqlite3.Connection,
    into: str,
    rows: Iterable[tuple[object, ...]],
    *,
    width: int,
    otherwise: str = "",
) -> None:
    """Insert rows of so many values, in order; `otherwise` says what to do about conflicts.

    >>> connection = sqlite3.connect(":memory:", isolation_level=None)
    >>> _ = connection.execute("CREATE TABLE owls (name TEXT, age INTEGER)")
    >>> insert_many(connection, "owls (name, age)", [("Athene", 3), ("Strix", 5)], width=2)
    >>> connection.execute("SELECT name, age FROM owls").fetchall()
    [('Athene', 3), ('Strix', 5)]
    """
    row = f"({','.join('?' * width)})"
    count, source = _PARAMETERS // width, iter(rows)
    many = f"INSERT INTO {into} VALUES {','.join([row] * count)} {otherwise}"
    while len(some := list(islice(source, count))) == count:
        connection.execute(many, list(chain.from_iterable(some)))
    connection.executemany(f"INSERT INTO {into} VALUES {row} {otherwise}", some)
