"""The folder of a collection in shards: where documents belong, and what is refused."""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections import Counter
from pathlib import Path

import pytest

from quoth.collection.shards import (
    ShardSet,
    create_shards,
    is_sharded,
    open_shards,
    shard_number,
)
from quoth.collection.store import Store
from quoth.errors import CollectionError, ConfigError, Damaged, NoCollection
from quoth.records import Document
from quoth.text.passages import PassageConfig, cut_document


def test_a_document_belongs_where_its_hash_says() -> None:
    shards = ShardSet(Path("x"), "", 7)
    for docid in ("a", "Œuvre", "a/b#3", ""):
        digest = hashlib.sha256(docid.encode()).hexdigest()
        assert shards.shard_of(docid) == int(digest[:16], 16) % 7


def test_documents_are_spread_evenly() -> None:
    shards = ShardSet(Path("x"), "", 4)
    counts = Counter(shards.shard_of(f"document-{at}") for at in range(4000))
    assert set(counts) == {0, 1, 2, 3} and all(900 < each < 1100 for each in counts.values())


def test_what_is_made_can_be_opened(tmp_path: Path) -> None:
    made = create_shards(tmp_path / "s", count=3)
    assert open_shards(tmp_path / "s") == made and is_sharded(tmp_path / "s")
    assert [path.name for path in made.shards] == ["shard-00000", "shard-00001", "shard-00002"]
    assert [shard_number(path) for path in made.shards] == [0, 1, 2]
    for path in made.shards:
        store = Store.open(path)
        assert store.num_documents == 0
        store.close()


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_an_impossible_count_is_refused_and_nothing_written(tmp_path: Path, count: int) -> None:
    with pytest.raises(ConfigError, match=f"{count} shards were asked for, expected 1 to 100,000"):
        create_shards(tmp_path / "s", count=count)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(CollectionError, match="exists and is not empty; name another folder"):
        create_shards(tmp_path, count=2)
    assert [each.name for each in tmp_path.iterdir()] == ["note.txt"]


def test_a_folder_without_shards_is_no_set(tmp_path: Path) -> None:
    assert not is_sharded(tmp_path)
    with pytest.raises(NoCollection, match=r"has no shards\.json; make one with .quoth shard"):
        open_shards(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    made = create_shards(tmp_path / "s", count=3)
    shutil.rmtree(made.shard(1))
    with pytest.raises(CollectionError, match="shard 1 of 3 is missing"):
        open_shards(tmp_path / "s")


def test_a_shard_of_another_set_is_refused(tmp_path: Path) -> None:
    made, other = (create_shards(tmp_path / name, count=2) for name in "ab")
    shutil.rmtree(made.shard(1))
    shutil.copytree(other.shard(1), made.shard(1))
    with pytest.raises(CollectionError, match="is a shard of another collection") as error:
        open_shards(made.folder)
    assert other.identity in str(error.value) and made.identity in str(error.value)


def test_shards_that_changed_places_are_refused(tmp_path: Path) -> None:
    made = create_shards(tmp_path / "s", count=2)
    made.shard(0).rename(tmp_path / "aside")
    made.shard(1).rename(made.shard(0))
    (tmp_path / "aside").rename(made.shard(1))
    with pytest.raises(CollectionError, match="holds shard 1 of its set, expected shard 0"):
        open_shards(made.folder)


def test_an_altered_description_is_damage(tmp_path: Path) -> None:
    made = create_shards(tmp_path / "s", count=2)
    path = made.folder / "shards.json"
    path.write_text(path.read_text().replace('"count": 2', '"count": 1'))
    with pytest.raises(Damaged, match="was altered"):
        open_shards(made.folder)


def test_no_store_is_made_in_a_folder_of_shards(tmp_path: Path) -> None:
    made = create_shards(tmp_path / "s", count=2)
    for use in (Store.create, Store.open):
        with pytest.raises(CollectionError, match="is a collection in shards"):
            use(made.folder)
    assert not (made.folder / "collection.db").exists()


def test_fields_can_be_put_into_another_order(tmp_path: Path) -> None:
    document = Document("d", {"title": ("a",), "text": ("b c",)})
    cut = functools.partial(cut_document, config=PassageConfig())
    store = Store.create(tmp_path / "c")
    store.add([document], cut=cut)
    before = store.passages(document, 1)
    assert [each.field for each in before] == ["title", "text"]
    store.put_fields(["url", "text", "title"])
    assert store.fields() == ("url", "text", "title")
    assert store.passages(document, 1) == before and not list(store.find_damage(cut=cut))
    store.add([Document("e", {"url": ("x",), "note": ("y",)})], cut=cut)
    assert store.fields() == ("url", "text", "title", "note")
    store.close()


def test_rows_can_be_given_and_are_counted_on_from(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "c")
    first, second = (Document(docid, {"text": (docid,)}) for docid in "ab")
    assert store.last_row == 0
    store.add([first, second], cut=lambda _document: (), rows=[7, 9])
    assert store.rows(["a", "b"]) == {"a": 7, "b": 9} and store.last_row == 9
    store.add([Document("a", {"text": ("new",)})], cut=lambda _document: ())
    assert store.rows(["a"]) == {"a": 10}
    store.close()
