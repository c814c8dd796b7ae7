"""A disk that fails is told from damage, and nothing is thrown away because of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection import database
from quoth.errors import Busy, Damaged, StorageFailed, StorageFull
from quoth.vocabulary import derived_file
from quoth.vocabulary.statistics import Statistics


def _error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize("explain", [database.explain_failure, derived_file.explain_failure])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_IOERR_READ", StorageFailed),
        ("SQLITE_IOERR_FSYNC", StorageFailed),
        ("SQLITE_IOERR_TRUNCATE", StorageFailed),
        ("SQLITE_NOMEM", StorageFailed),
        ("SQLITE_FULL", StorageFull),
        ("SQLITE_BUSY_RECOVERY", Busy),
        ("SQLITE_CORRUPT", Damaged),
        ("SQLITE_NOTADB", Damaged),
    ],
)
def test_what_sqlite_reports_is_told_apart(
    explain: object, name: str, kind: type[Exception]
) -> None:
    assert callable(explain)
    made = explain(Path("x.db"), _error(name))
    assert type(made) is kind and "x.db" in str(made)


def test_counts_survive_a_disk_that_fails_while_they_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "statistics.db"
    with closing(Statistics.open(path, write=True)) as statistics:
        statistics.begin()
        statistics.count({"text": [["owl"]]})
        statistics.commit(change=1, basis={})

    def fail(_self: Statistics) -> None:
        raise derived_file.explain_failure(path, _error("SQLITE_IOERR_TRUNCATE"))

    with monkeypatch.context() as patch:
        patch.setattr(Statistics, "require_readable", fail)
        with pytest.raises(StorageFailed, match="try again"):
            derived_file.open_or_replace(path, Statistics)
    with closing(Statistics.open(path)) as statistics:
        assert statistics.num_documents == 1


def test_a_description_that_cannot_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_artifact(tmp_path, Artifact("thing", 1, 0, {}))

    def fail(*_arguments: object, **_options: object) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(StorageFailed, match=r"artifact\.json"):
        open_artifact(tmp_path, kind="thing", version=1)
