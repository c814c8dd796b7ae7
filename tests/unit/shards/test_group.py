"""Many shards asked as a tree: the same to the bit as flat, with all shards and with some gone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quoth.collection.shards import create_shards, open_shards
from quoth.errors import ShardDown
from quoth.records import Document, Query, SearchRequest
from quoth.search.fan_out import FanOut, FromGroup, ShardPort
from quoth.search.group import GroupPort, arrange_groups
from quoth.search.merged import MergedSearcher
from quoth.search.shard_questions import ShardQuestion
from quoth.shards.engine import ShardedEngine
from quoth.shards.port import LocalPort

COUNT = 36
WORDS = ("owl", "barn", "moon", "field", "mouse", "night", "wing", "hunt", "dusk", "silent")
QUERIES = ("owl", "barn owl", "moon field night", "silent wing hunt dusk", "mouse", "nothing here")


def _documents() -> list[Document]:
    seeded = random.Random(7)
    return [
        Document(f"d{at}", {"text": (" ".join(seeded.choices(WORDS, k=seeded.randint(2, 40))),)})
        for at in range(6 * COUNT)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("many") / "owls.shards"
    create_shards(made, count=COUNT)
    with ShardedEngine.open(made) as engine:
        engine.add_documents(_documents())
    return made


@pytest.fixture(scope="module")
def ports(folder: Path) -> Iterator[list[LocalPort]]:
    opened = [LocalPort.open(path) for path in open_shards(folder).shards]
    yield opened
    for port in opened:
        port.close()


class _Down:
    """A shard that cannot be reached."""

    is_costly = False
    is_here = True

    def __init__(self, number: int) -> None:
        self.number = number
        self.shards = (number,)

    def __getattr__(self, name: str) -> Any:
        raise ShardDown(self.number, "its machine is lost")


def _groups(folder: Path, ports: list[Any]) -> list[Any]:
    shard_of = open_shards(folder).shard_of
    return [
        GroupPort(at, [ports[number] for number in numbers], shard_of=shard_of)
        for at, numbers in enumerate(arrange_groups(len(ports)))
    ]


@pytest.fixture(scope="module")
def flat(folder: Path, ports: list[LocalPort]) -> Iterator[ShardedEngine]:
    with ShardedEngine.open(folder, ports=ports) as engine:
        yield engine


@pytest.fixture(scope="module")
def tree(folder: Path, ports: list[LocalPort]) -> Iterator[ShardedEngine]:
    with ShardedEngine.open(folder, ports=_groups(folder, ports)) as engine:
        yield engine


def test_groups_are_as_many_as_each_has_members() -> None:
    for count in range(1, 200):
        groups = arrange_groups(count)
        assert [each for group in groups for each in group] == list(range(count))
        assert max(map(len, groups)) - min(map(len, groups)) <= 1
        assert max(map(len, groups)) <= len(groups) <= max(map(len, groups)) + 1


@pytest.mark.parametrize("query", QUERIES)
def test_a_tree_finds_and_shows_the_same_to_the_bit(
    flat: ShardedEngine, tree: ShardedEngine, query: str
) -> None:
    for request in (
        SearchRequest(query, k=10, syntax=False),
        SearchRequest(query, k=7, offset=5, explain=True),
        SearchRequest(query, k=200, where="", syntax=False),
    ):
        expected, found = flat.find(request), tree.find(request)
        assert found == expected and (expected.hits or query == "nothing here")


def test_a_tree_runs_many_queries_the_same(flat: ShardedEngine, tree: ShardedEngine) -> None:
    queries = [Query(str(at), text) for at, text in enumerate(QUERIES)]
    for k in (1, 10, 1000):
        assert tree.run(queries, k=k).hits == flat.run(queries, k=k).hits


def test_a_tree_merges_two_levels_deep_the_same(folder: Path, ports: list[LocalPort]) -> None:
    shard_of = open_shards(folder).shard_of
    inner = _groups(folder, ports)
    root = GroupPort(0, inner, shard_of=shard_of)
    queries = tuple(Query(str(at), text) for at, text in enumerate(QUERIES))
    question = ShardQuestion(queries, 10, "lexical", syntax=False)
    above = root.answer([question]).value
    flat = GroupPort(0, ports, shard_of=shard_of).answer([question]).value
    assert above == flat and all(hits.are_settled for own in flat for hits in own)


def test_every_method_of_a_group_is_that_of_its_shards(
    folder: Path, ports: list[LocalPort]
) -> None:
    place = open_shards(folder).shard_of
    group = GroupPort(0, ports, shard_of=place)
    docids = [f"d{at}" for at in range(20)]
    question = ShardQuestion((Query("q", "barn owl"),), 10, "lexical", syntax=False)
    alone = [ports[place(docid)].settle(question, [[docid]])[0][0] for docid in docids]
    assert group.settle(question, [docids]).value == (tuple(alone),)
    assert group.sign([*docids, "none"]).value == {
        docid: ports[place(docid)].sign([docid])[docid] for docid in docids
    }
    assert [each.docid for each in group.fetch([*docids, "none"]).value] == docids
    request = SearchRequest("barn owl", k=10, syntax=False)
    found = group.find(request).value
    assert [each.hit for each in found] == [
        each.hit
        for each in sorted(
            group.show_settled(request, [each.hit.docid for each in found]).value,
            key=lambda each: (-each.hit.score, each.hit.docid),
        )
    ]
    parts = group.explain(Query("q", "owl"), docids[:2], searcher="lexical").value
    assert parts == tuple(
        ports[place(docid)].explain(Query("q", "owl"), [docid], searcher="lexical")[0]
        for docid in docids[:2]
    )


class _Near:
    """A shard whose vectors say which shard it is."""

    is_costly = False
    is_here = True

    def __init__(self, number: int) -> None:
        self.number = number
        self.shards = (number,)

    def near(self, _query: Query, docids: Sequence[str]) -> dict[str, Any]:
        return {docid: [self.number] for docid in docids if docid != "d1-new"}


def test_vectors_of_a_group_come_from_the_shards_within_reach() -> None:
    ports: list[Any] = [_Near(0), _Near(1), _Down(2)]
    group = GroupPort(0, ports, shard_of=lambda docid: int(docid[1]))
    found = group.near(Query("q", "owl"), ["d0", "d1", "d1-new", "d2"])
    assert found.value == {"d0": [0], "d1": [1]} and set(found.unreachable) == {2}
    side = MergedSearcher("dense", FanOut(ports), shard_of=lambda docid: int(docid[1]))
    assert side.near(Query("q", "owl"), ["d0", "d1", "d2"]) == {"d0": [0], "d1": [1]}
    assert set(side.unreachable) == {2} and side.near(Query("q", "owl"), []) == {}


def test_documents_and_status_come_through_a_tree(flat: ShardedEngine, tree: ShardedEngine) -> None:
    assert tree.document("d5") == flat.document("d5")
    assert tree.status() == flat.status()


def test_a_tree_says_which_shards_are_gone(folder: Path, ports: list[LocalPort]) -> None:
    gone = open_shards(folder).shard_of("d5")
    some: list[Any] = [_Down(port.number) if port.number == gone else port for port in ports]
    request = SearchRequest("barn owl", k=50, syntax=False)
    with (
        ShardedEngine.open(folder, ports=some) as flat,
        ShardedEngine.open(folder, ports=_groups(folder, some)) as tree,
    ):
        assert tree.find(request) == flat.find(request)
        assert [each.shard for each in tree.find(request).unreachable] == [gone]
        with pytest.raises(ShardDown, match="its machine is lost"):
            tree.document("d5")
        assert tree.status() == flat.status()


def test_a_group_that_is_gone_is_all_its_shards(folder: Path, ports: list[LocalPort]) -> None:
    groups = _groups(folder, ports)
    lost = groups[2]
    groups[2] = _Down(lost.number)
    groups[2].shards = lost.shards
    with ShardedEngine.open(folder, ports=groups) as tree:
        found = tree.find(SearchRequest("barn owl", k=50, syntax=False))
        assert tuple(each.shard for each in found.unreachable) == lost.shards
        assert found.hits


def test_where_no_shard_answers_the_first_is_named() -> None:
    asked: list[ShardPort] = [_Down(3), _Down(5)]  # type: ignore[list-item]
    with pytest.raises(ShardDown, match="none of 2 shards can be reached"):
        FanOut(asked).ask(lambda port: port.status())


def test_what_a_group_says_is_unpacked_with_what_it_missed() -> None:
    class Group(_Down):
        def __init__(self) -> None:
            super().__init__(0)
            self.shards = (0, 1, 2)

        def fetch(self, docids: list[str]) -> Any:
            return FromGroup(tuple(docids), {1: "gone"})

    asked = FanOut([Group()]).ask(lambda port: port.fetch(["a"]))  # type: ignore[list-item]
    assert asked.answers == {0: ("a",)} and asked.unreachable == {1: "gone"}


def test_a_question_that_is_settled_stays_so(folder: Path, ports: list[LocalPort]) -> None:
    group = GroupPort(0, ports, shard_of=open_shards(folder).shard_of)
    question = ShardQuestion((Query("q", "barn owl"),), 10, "lexical", syntax=False)
    ((proposed,),) = group.answer([question]).value
    ((exact,),) = group.answer([replace(question, exactly=True)]).value
    assert proposed == exact
