"""Asking many shards at once: exact merging, and saying who did not answer."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from quoth.errors import CollectionError, Interrupted, ShardDown
from quoth.interruption import Interruption, check_interruption, interruptible
from quoth.records import Document, Hit, Part, Query, Run, SearchRequest, ShownHit
from quoth.search.merged import FanOut, MergedSearcher, merge_runs


class Port:
    """A shard with known scores, or one that is down."""

    def __init__(self, number: int, scores: dict[str, float], why: str = "") -> None:
        self.number = number
        self._scores = scores
        self._why = why
        self.asked: list[tuple[str, str, bool]] = []

    def run(
        self, queries: Sequence[Query], *, k: int, where: str, searcher: str, syntax: bool
    ) -> Run:
        self._be_there()
        self.asked.append((where, searcher, syntax))
        hits = [Hit(docid, score) for docid, score in self._scores.items()]
        best = tuple(sorted(hits, key=lambda hit: (-hit.score, hit.docid))[:k])
        return Run(searcher, {query.qid: best for query in queries})

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        query = Query("q", request.query)
        run = self.run([query], k=request.k, where="", searcher=request.searcher, syntax=True)
        return self.show(request, run.hits["q"])

    def show(self, request: SearchRequest, hits: Sequence[Hit]) -> tuple[ShownHit, ...]:
        self._be_there()
        return tuple(ShownHit(at, hit) for at, hit in enumerate(hits, start=1))

    def explain(
        self, query: Query, docids: Sequence[str], *, searcher: str, syntax: bool = True
    ) -> tuple[Part, ...]:
        self._be_there()
        return tuple(Part(f"{searcher} in {self.number}", self._scores[each]) for each in docids)

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        self._be_there()
        return tuple(Document(each, {"text": ("a",)}) for each in docids if each in self._scores)

    def status(self) -> dict[str, Any]:
        self._be_there()
        return {"documents": len(self._scores)}

    def _be_there(self) -> None:
        if self._why:
            raise ShardDown(self.number, self._why)


Opened = Callable[[Sequence[Port]], FanOut]


@pytest.fixture
def fan_out() -> Iterator[Opened]:
    made: list[FanOut] = []

    def make(ports: Sequence[Port]) -> FanOut:
        made.append(FanOut(ports))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("seed", range(10))
def test_merging_equals_sorting_everything(seed: int) -> None:
    chance = random.Random(seed)
    scores = {f"d{at}": float(chance.randint(0, 9)) for at in range(60)}  # with many ties
    ports = [
        Port(
            number,
            {docid: score for docid, score in scores.items() if int(docid[1:]) % 4 == number},
        )
        for number in range(4)
    ]
    for k in (1, 7, 60, 100):
        runs = [
            port.run([Query("q", "")], k=k, where="", searcher="lexical", syntax=True)
            for port in ports
        ]
        expected = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        merged = merge_runs(runs, name="lexical", k=k)
        assert [(hit.docid, hit.score) for hit in merged.hits["q"]] == expected


def test_all_shards_are_asked_at_the_same_time(fan_out: Opened) -> None:
    meeting = threading.Barrier(3, timeout=30)  # breaks, were they asked one after the other
    ports = [Port(number, {}) for number in range(3)]
    asked = fan_out(ports).ask(lambda port: (meeting.wait(), port.number)[1])
    assert asked.answers == {0: 0, 1: 1, 2: 2} and asked.unreachable == {}


def test_who_stops_the_caller_stops_the_shards(fan_out: Opened) -> None:
    fan = fan_out([Port(number, {}) for number in range(3)])
    with interruptible(Interruption()) as given:
        fan.ask(lambda _port: check_interruption())
        given.stop()
        with pytest.raises(Interrupted):
            fan.ask(lambda _port: check_interruption())
    fan.ask(lambda _port: check_interruption())


def _merged(fan: FanOut, **options: Any) -> MergedSearcher:
    return MergedSearcher("lexical", fan, shard_of=lambda docid: int(docid[1]), **options)


def test_a_shard_that_is_down_is_left_out_and_named(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 2.0}), Port(1, {"d1": 9.0}, why="node lost"), Port(2, {"d2": 3.0})]
    merged = _merged(fan_out(ports))
    found = merged.search([Query("q", "owl")], k=10, allowed=None)
    assert [hit.docid for hit in found.hits["q"]] == ["d2", "d0"]
    assert merged.unreachable == {1: "node lost"}
    parts = merged.explain(Query("q", "owl"), [Document(each, {}) for each in ("d1", "d0")])
    assert [part.value for part in parts] == [0.0, 2.0] and "out of reach" in parts[0].label


def test_where_all_are_down_it_says_so(fan_out: Opened) -> None:
    merged = _merged(fan_out([Port(0, {}, why="no route"), Port(1, {}, why="no route")]))
    with pytest.raises(CollectionError, match=r"none of 2 shards can be reached \(no route\)"):
        merged.search([Query("q", "owl")], k=10, allowed=None)


def test_only_the_shards_of_documents_are_asked_about_them(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.0}), Port(1, {}, why="down"), Port(2, {"d2": 2.0, "d2x": 3.0})]
    merged = _merged(fan_out(ports))
    documents = [Document(docid, {}) for docid in ("d2x", "d0", "d2")]
    parts = merged.explain(Query("q", "owl"), documents)
    assert [(part.label, part.value) for part in parts] == [
        ("lexical in 2", 3.0),
        ("lexical in 0", 1.0),
        ("lexical in 2", 2.0),
    ]
    assert merged.unreachable == {}


def test_condition_and_syntax_reach_every_shard_once(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.0}), Port(1, {"d1": 1.0})]
    merged = _merged(fan_out(ports), where="year > 2000", syntax=False)
    merged.search([Query("q", "owl")], k=5, allowed=None)
    assert [port.asked for port in ports] == [[("year > 2000", "lexical", False)]] * 2


def test_shown_hits_are_merged_by_score_and_cut_to_the_page(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.04, "d2": 0.5}), Port(1, {"d1": 1.02}), Port(2, {}, why="lost")]
    merged = _merged(fan_out(ports))
    for request, expected in (
        (SearchRequest("owl", k=1), ["d0"]),
        (SearchRequest("owl", k=2), ["d0", "d1"]),
        (SearchRequest("owl", k=2, offset=1), ["d1", "d2"]),
    ):
        assert [each.hit.docid for each in merged.find(request)] == expected
    assert merged.unreachable == {2: "lost"}


def test_hits_are_shown_by_their_own_shards_in_their_order(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.0}), Port(1, {}, why="lost"), Port(2, {"d2": 2.0})]
    merged = _merged(fan_out(ports))
    shown = merged.show(SearchRequest("owl"), [Hit("d2", 2.0), Hit("d1", 1.5), Hit("d0", 1.0)])
    assert [each.hit for each in shown] == [Hit("d2", 2.0), Hit("d0", 1.0)]
    assert merged.unreachable == {1: "lost"}


def test_other_errors_are_not_taken_for_a_shard_that_is_down(fan_out: Opened) -> None:
    class Broken(Port):
        def status(self) -> dict[str, Any]:
            raise CollectionError("the disk is full")

    with pytest.raises(CollectionError, match="the disk is full"):
        fan_out([Port(0, {}), Broken(1, {})]).ask(lambda port: port.status())


def test_a_shard_that_is_down_can_be_told_across_processes() -> None:
    told = pickle.loads(pickle.dumps(ShardDown(3, "node lost")))
    assert (told.number, told.why) == (3, "node lost")
    assert str(told) == "shard 3 is out of reach: node lost"
