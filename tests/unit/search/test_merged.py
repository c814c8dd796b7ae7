"""Asking many shards at once: exact merging, and saying who did not answer."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from quoth.errors import CollectionError, Interrupted, ShardDown
from quoth.interruption import Interruption, check_interruption, interruptible
from quoth.records import Document, Hit, Part, Query, SearchRequest, ShownHit
from quoth.search import fan_out as fan_out_module
from quoth.search.coverage import Coverage, HeldVectors
from quoth.search.fan_out import FanOut
from quoth.search.merged import (
    MergedSearcher,
    UnfinishedMergedSearcher,
    merge_hits,
    search_together,
)
from quoth.search.searcher import PartialSearcher
from quoth.search.shard_questions import ShardHits, ShardQuestion

OFF = 1.2
"""By what factor scores of a shard may be off."""


class Port:
    """A shard with known scores, or one that is down."""

    is_costly = False
    is_here = True

    def __init__(
        self,
        number: int,
        scores: dict[str, float],
        why: str = "",
        off: dict[str, float] | None = None,
    ) -> None:
        self.number = number
        self.shards = (number,)
        self._scores = scores
        self._why = why
        self._off = off or {}
        self.settled: list[str] = []
        self.asked: list[tuple[str, str, bool]] = []

    def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
        self._be_there()
        self.asked += [(each.where, each.searcher, each.syntax) for each in questions]
        return tuple(
            tuple(self._best(each.k, each.exactly) for _query in each.queries) for each in questions
        )

    def settle(
        self, question: ShardQuestion, docids: Sequence[Sequence[str]]
    ) -> tuple[tuple[float | None, ...], ...]:
        self._be_there()
        self.settled += [docid for own in docids for docid in own]
        return tuple(tuple(self._scores.get(docid) for docid in own) for own in docids)

    def _best(self, k: int, exactly: bool) -> ShardHits:
        """Return the k best; those that are off, by what they are off by, and one more."""
        told = {
            docid: score * (1.0 if exactly else self._off.get(docid, 1.0))
            for docid, score in self._scores.items()
        }
        best = sorted(told.items(), key=lambda pair: (-pair[1], pair[0]))
        best = best[: k + 1 if self._off and not exactly else k]
        docids, scores = tuple(each[0] for each in best), tuple(each[1] for each in best)
        if not self._off or exactly:
            return ShardHits(docids, scores)
        return ShardHits(docids, scores, 1 / OFF, OFF)

    def find(self, request: SearchRequest) -> tuple[ShownHit, ...]:
        own = self._best(request.k, True)
        hits = [Hit(*pair) for pair in zip(own.docids, own.scores, strict=True)]
        return self.show(request, hits)

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

    def show_settled(self, request: SearchRequest, docids: Sequence[str]) -> tuple[ShownHit, ...]:
        self.settled += docids
        return self.show(request, [Hit(docid, self._scores[docid]) for docid in docids])

    def sign(self, docids: Sequence[str]) -> dict[str, bytes]:
        self._be_there()
        return {docid: docid.encode() for docid in docids if docid in self._scores}

    def held(self) -> HeldVectors:
        self._be_there()
        return HeldVectors(4, 1, Coverage(2, 9))

    def lacking(self, docids: Sequence[str]) -> frozenset[str]:
        self._be_there()
        return frozenset(docid for docid in docids if docid.endswith("x"))

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
        question = ShardQuestion((Query("q", ""),), k, "lexical")
        found = [port.answer([question])[0][0] for port in ports]
        expected = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        assert [(hit.docid, hit.score) for hit in merge_hits(found, k=k)] == expected


@pytest.mark.parametrize("seed", range(30))
def test_what_is_proposed_and_settled_is_the_exact_ranking(seed: int, fan_out: Opened) -> None:
    chance = random.Random(seed)
    scores = {f"d{at % 4}-{at}": float(chance.randint(1, 30)) for at in range(120)}
    off = {docid: chance.uniform(1 / OFF, OFF) for docid in scores}
    ports = [
        Port(number, {docid: score for docid, score in scores.items() if docid[1] == str(number)})
        for number in range(4)
    ]
    for port in ports:
        port._off = off
    merged = _merged(fan_out(ports))
    for k in (1, 2, 10, 119, 200):
        queries = [Query("q", "owl"), Query("r", "owl")]
        found = merged.search(queries, k=k, allowed=None)
        expected = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        for qid in ("q", "r"):
            assert [(hit.docid, hit.score) for hit in found.hits[qid]] == expected
        shown = merged.find_settled(SearchRequest("owl", k=k))
        assert [(each.hit.docid, each.hit.score) for each in shown] == expected


def test_only_what_may_be_among_the_best_is_scored_exactly(fan_out: Opened) -> None:
    scores = [{f"d{n}-{at}": 100.0 * 0.5 ** (4 * at + n) for at in range(20)} for n in range(3)]
    ports = [Port(n, scores[n], off=dict.fromkeys(scores[n], 1.05)) for n in range(3)]
    merged = _merged(fan_out(ports))
    found = merged.search([Query("q", "owl")], k=3, allowed=None)
    assert [hit.docid for hit in found.hits["q"]] == ["d0-0", "d1-0", "d2-0"]
    assert [port.settled for port in ports] == [["d0-0"], ["d1-0"], ["d2-0"]]


def test_several_searchers_are_asked_in_one_round(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.0}), Port(1, {"d1": 2.0}), Port(2, {}, why="lost")]
    fan = fan_out(ports)
    rounds = []
    ask = fan.ask
    fan.ask = lambda *given: (rounds.append(1), ask(*given))[1]  # type: ignore[method-assign]
    sides = [
        MergedSearcher(name, fan, shard_of=lambda docid: int(docid[1]))
        for name in ("lexical", "dense")
    ]
    found = search_together(sides, [Query("q", "owl")], k=5)
    assert [hit.docid for hit in found["dense"].hits["q"]] == ["d1", "d0"]
    assert len(rounds) == 1 and ports[0].asked == [("", "lexical", True), ("", "dense", True)]
    assert [side.unreachable for side in sides] == [{2: "lost"}] * 2


def test_what_is_prepared_reaches_every_shard(fan_out: Opened) -> None:
    seen: list[Any] = []

    class Seeing(Port):
        def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
            seen.extend(each.prepared for each in questions)
            return super().answer(questions)

    made: list[str] = []

    def prepare(name: str, queries: Sequence[Query], _syntax: bool) -> list[str]:
        made.append(name)
        return [query.text.upper() for query in queries]

    merged = _merged(fan_out([Seeing(0, {}), Seeing(1, {})]), prepare=prepare)
    merged.search([Query("q", "owl")], k=5, allowed=None)
    assert made == ["lexical"] and seen == [["OWL"], ["OWL"]]


def test_unfinished_vectors_are_counted_over_all_shards_within_reach(fan_out: Opened) -> None:
    ports = [Port(0, {}), Port(1, {}, why="lost"), Port(2, {})]
    side = UnfinishedMergedSearcher("dense", fan_out(ports), shard_of=lambda docid: int(docid[1]))
    assert isinstance(side, PartialSearcher) and side.is_partial
    assert side.held_share == 2 / 8 and side.coverage() == "vectors cover 4 of 18 passages"
    assert side.lacking(["d0", "d2x", "d0x"]) == {"d2x", "d0x"}
    assert side.unreachable == {1: "lost"} and side.lacking([]) == frozenset()


class Elsewhere(Port):
    """A shard in another process."""

    is_here = False


def test_shards_elsewhere_are_asked_at_the_same_time(fan_out: Opened) -> None:
    meeting = threading.Barrier(3, timeout=30)  # breaks, were they asked one after the other
    ports = [Elsewhere(number, {}) for number in range(3)]
    asked = fan_out(ports).ask(lambda port: (meeting.wait(), port.number)[1])
    assert asked.answers == {0: 0, 1: 1, 2: 2} and asked.unreachable == {}


def test_shards_here_are_asked_in_turn_until_one_is_slow(
    fan_out: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: passed[0], thread_time=lambda: passed[0])
    monkeypatch.setattr(fan_out_module, "time", clock)
    fan, caller = fan_out([Port(number, {}) for number in range(3)]), threading.get_ident()

    def ask(seconds: float) -> list[bool]:
        """Let every shard take so long; say who was asked by this thread."""

        def question(port: Port) -> bool:
            is_here = threading.get_ident() == caller
            passed[0] += seconds * (is_here and port.number == 0)
            return is_here

        return list(fan.ask(question).answers.values())  # type: ignore[arg-type]

    assert ask(0.002) == [True, True, True]
    assert ask(1.0) == [True, True, True], "nobody knew"
    assert ask(0.002) == [True, False, False]
    for _quick in range(100):
        last = ask(0.002)
    assert last == [True, True, True]


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


def test_hits_are_signed_by_their_own_shards(fan_out: Opened) -> None:
    ports = [Port(0, {"d0": 1.0}), Port(1, {}, why="lost"), Port(2, {"d2": 2.0})]
    merged = _merged(fan_out(ports))
    hits = [Hit("d2", 2.0), Hit("d1", 1.5), Hit("d0", 1.0), Hit("d0gone", 1.0)]
    assert merged.sign(hits) == {"d0": b"d0", "d2": b"d2"}
    assert merged.unreachable == {1: "lost"} and merged.sign([]) == {}


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
