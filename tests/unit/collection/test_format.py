"""What is not a collection of this format is refused, with a message that says what to do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection import schema
from quoth.collection.store import FILE_NAME, Store
from quoth.errors import Damaged, FormatMismatch, NoCollection
from quoth.records import Document, Passage


def _cut_nothing(_document: Document) -> tuple[Passage, ...]:
    return ()


def _make(folder: Path, *, version: int = schema.FORMAT_VERSION) -> Path:
    """Make a collection of one document that says it is in some format version."""
    with closing(Store.create(folder)) as store:
        store.add([Document("d", {"text": ("owl",)})], cut=_cut_nothing)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    return folder / FILE_NAME


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _message(folder: Path, *, write: bool) -> str:
    with pytest.raises(FormatMismatch) as caught:
        (Store.create if write else Store.open)(folder)
    return str(caught.value)


# --- Other versions -------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [False, True], ids=["reading", "writing"])
def test_a_newer_format_asks_for_a_newer_quoth(tmp_path: Path, write: bool) -> None:
    path = _make(tmp_path, version=schema.FORMAT_VERSION + 1)
    message = _message(tmp_path, write=write)
    assert str(path) in message and "upgrade Quoth" in message
    assert f"is in format {schema.FORMAT_VERSION + 1}" in message
    assert f"reads format {schema.FORMAT_VERSION}" in message
    assert _version(path) == schema.FORMAT_VERSION + 1


@pytest.mark.parametrize("write", [False, True], ids=["reading", "writing"])
def test_an_older_format_without_a_migration_is_refused_and_left_alone(
    tmp_path: Path, write: bool
) -> None:
    path = _make(tmp_path, version=0)
    before = path.read_bytes()
    message = _message(tmp_path, write=write)
    assert "is in format 0" in message and "open it with the Quoth that wrote it" in message
    assert path.read_bytes() == before


def test_a_migration_lifts_an_older_collection_when_it_is_opened_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _make(tmp_path)
    now = schema.FORMAT_VERSION
    steps = {
        now: "ALTER TABLE settings ADD COLUMN note TEXT;"
        " INSERT INTO settings VALUES ('a', '1', 'x')",
        now + 1: "UPDATE settings SET note = 'two steps' WHERE name = 'a'",
    }
    monkeypatch.setattr(schema, "FORMAT_VERSION", now + 2)
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    message = _message(tmp_path, write=False)
    assert f"is in format {now}" in message and "--repair" in message and str(tmp_path) in message
    with closing(Store.create(tmp_path)) as store:
        assert store.setting("a") == 1 and store.all_docids() == ("d",)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT note FROM settings WHERE name = 'a'").fetchall()
    assert found == [("two steps",)] and _version(path) == now + 2
    with closing(Store.open(tmp_path)) as store:
        assert store.get("d") == Document("d", {"text": ("owl",)})


def test_a_migration_that_fails_leaves_the_collection_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _make(tmp_path)
    now = schema.FORMAT_VERSION
    steps = {now: "ALTER TABLE settings ADD COLUMN note TEXT", now + 1: "DROP TABLE no_such_table"}
    with monkeypatch.context() as patched:
        patched.setattr(schema, "FORMAT_VERSION", now + 2)
        patched.setattr(schema, "MIGRATIONS", steps)
        with pytest.raises(Damaged, match="no_such_table"):
            Store.create(tmp_path)
    assert _version(path) == now
    with closing(sqlite3.connect(path)) as connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(settings)")]
    assert columns == ["name", "value"]
    with closing(Store.create(tmp_path)) as store:
        assert store.all_docids() == ("d",)


def test_a_gap_in_the_migrations_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path)
    now = schema.FORMAT_VERSION
    monkeypatch.setattr(schema, "FORMAT_VERSION", now + 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {now + 1: "SELECT 1"})
    assert "open it with the Quoth that wrote it" in _message(tmp_path, write=True)


# --- Other files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [False, True], ids=["reading", "writing"])
def test_a_database_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, write: bool
) -> None:
    path = tmp_path / FILE_NAME
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(Damaged, match="not one that Quoth wrote"):
        (Store.create if write else Store.open)(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        mode = connection.execute("PRAGMA journal_mode").fetchone()
    assert tables == [("recipes",)] and mode == ("delete",)


@pytest.mark.parametrize("write", [False, True], ids=["reading", "writing"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, write: bool) -> None:
    (tmp_path / FILE_NAME).write_text("Once upon a midnight dreary, " * 100)
    with pytest.raises(Damaged) as caught:
        (Store.create if write else Store.open)(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(caught.value) and "quoth verify" in str(caught.value)


def test_a_folder_without_a_collection_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NoCollection, match="quoth add"):
        Store.open(tmp_path / "none")


@pytest.mark.parametrize("write", [False, True], ids=["reading", "writing"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "empty"])
def test_an_index_without_its_documents_is_never_taken_for_a_new_collection(
    tmp_path: Path, write: bool, is_empty: bool
) -> None:
    (tmp_path / "lexical").mkdir()
    if is_empty:
        (tmp_path / FILE_NAME).touch()
    with pytest.raises(Damaged, match="restore the file from a backup") as caught:
        (Store.create if write else Store.open)(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(caught.value)


# --- Artifacts ------------------------------------------------------------------------------------


def test_an_artifact_reads_back_as_it_was_saved(tmp_path: Path) -> None:
    artifact = Artifact("lexical index", 3, 7, {"fields": ["title", "東京"]})
    save_artifact(tmp_path, artifact)
    assert open_artifact(tmp_path, kind="lexical index", version=3) == artifact
    assert open_artifact(tmp_path / "none", kind="lexical index", version=3) is None


@pytest.mark.parametrize(("kind", "version"), [("lexical index", 2), ("dense index", 3)])
def test_an_artifact_of_another_kind_or_version_is_refused(
    tmp_path: Path, kind: str, version: int
) -> None:
    save_artifact(tmp_path, Artifact("lexical index", 3, 7, {}))
    with pytest.raises(FormatMismatch) as caught:
        open_artifact(tmp_path, kind=kind, version=version)
    assert "a lexical index of format 3" in str(caught.value)
    assert f"a {kind} of format {version}" in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "null", "{not json", '{"seal": 1, "files": 3}']
)
def test_a_description_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "artifact.json").write_text(content)
    with pytest.raises(Damaged, match=r"artifact\.json"):
        open_artifact(tmp_path, kind="lexical index", version=1)


def test_a_description_that_was_altered_is_noticed(tmp_path: Path) -> None:
    save_artifact(tmp_path, Artifact("lexical index", 1, 7, {}))
    path = tmp_path / "artifact.json"
    content = json.loads(path.read_text()) | {"change": 8}
    path.write_text(json.dumps(content))
    with pytest.raises(Damaged, match="altered"):
        open_artifact(tmp_path, kind="lexical index", version=1)


def test_a_database_that_was_never_finished_is_no_collection_and_is_taken_over(
    tmp_path: Path,
) -> None:
    """Whoever is killed, or fails, while making a collection leaves a file without tables."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as unfinished:
        unfinished.execute("PRAGMA journal_mode = WAL")
    assert (tmp_path / FILE_NAME).stat().st_size
    with pytest.raises(NoCollection, match="quoth add"):
        Store.open(tmp_path)
    Store.create(tmp_path).close()
    Store.open(tmp_path).close()


def test_a_database_without_tables_beside_an_index_is_a_lost_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as blank:
        blank.execute("PRAGMA journal_mode = WAL")
    (tmp_path / "lexical").mkdir()
    for opening in (Store.open, Store.create):
        with pytest.raises(Damaged, match="documents of this collection are gone"):
            opening(tmp_path)
