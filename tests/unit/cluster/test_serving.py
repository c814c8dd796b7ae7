"""Serving shards without a cluster: what a replica answers, and what a line to replicas makes of
answers, of losses and of silence. Real replicas are in tests/end_to_end/test_cluster_serve.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from quoth.cluster.serving.config import ClusterConfig
from quoth.cluster.serving.port import RemotePort, ShardLine
from quoth.cluster.serving.replica import GroupReplica, Reply, ShardReplica
from quoth.errors import (
    ClusterError,
    ConfigError,
    Damaged,
    FilterError,
    OutOfDate,
    ShardDown,
)
from quoth.records import Document, Hit, Query, SearchRequest
from quoth.search.shard_questions import ShardHits, ShardQuestion

QUERY = Query("q", "owl")


class Port:
    """A shard that is none: it says what it was asked, or what is wrong with it."""

    number = 3

    def __init__(self) -> None:
        self.threads = {threading.get_ident()}

    def answer(self, questions: Sequence[ShardQuestion]) -> tuple[tuple[ShardHits, ...], ...]:
        """Find one document that is named by what was asked for."""
        self.threads.add(threading.get_ident())
        (asked,) = questions
        if asked.where:
            raise FilterError(f"{asked.where} is no condition")
        named = f"{asked.queries[0].text} {asked.k} {asked.syntax}"
        return ((ShardHits((named,), (1.0,)),),)

    def fetch(self, docids: Sequence[str]) -> tuple[Document, ...]:
        """Be broken in a way that nobody foresaw."""
        raise ZeroDivisionError(str(docids))


class Answer:
    """What a handle gives for a question: a value, or an error when asked for it."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome
        self.is_cancelled = False

    def result(self, *, timeout_s: float) -> Any:
        """Return the value."""
        assert timeout_s == 0.25
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def cancel(self) -> None:
        """Note that nobody waits any more."""
        self.is_cancelled = True


class Handle:
    """Stands for a handle of Ray Serve: each call takes the next of some outcomes."""

    def __init__(self, outcomes: Sequence[Any], pings: Sequence[Any] = ()) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: list[Answer] = []
        self._outcomes, self._pings = list(outcomes), list(pings)
        self.ask, self.ping = _Method(self._ask), _Method(self._ping)
        self.is_pinged = threading.Event()

    def _ask(self, *arguments: Any) -> Answer:
        self.asked.append(arguments)
        self.answers.append(Answer(self._outcomes.pop(0)))
        return self.answers[-1]

    def _ping(self) -> Answer:
        outcome = self._pings.pop(0)
        if not self._pings:
            self.is_pinged.set()
        return Answer(outcome)


class _Method:
    def __init__(self, call: Callable[..., Answer]) -> None:
        self.remote = call


def _line(handle: Handle) -> ShardLine:
    return ShardLine(3, handle, wait_seconds=0.25)  # type: ignore[arg-type]


def _find(port: RemotePort, where: str = "") -> str:
    ((found,),) = port.answer([_question(where)])
    return found.docids[0]


def _question(where: str = "") -> ShardQuestion:
    return ShardQuestion((QUERY,), 5, "lexical", where=where)


def test_a_replica_answers_on_the_thread_that_asks() -> None:
    replica = ShardReplica(Port)
    reply = asyncio.run(replica.ask("answer", [[_question()]], {}))
    assert reply.value[0][0].docids == ("owl 5 True",)
    assert replica._port.threads == {threading.get_ident()}  # Ray Serve asks on one thread


def test_errors_of_ours_travel_as_replies_and_others_as_they_are() -> None:
    replica = ShardReplica(Port)
    reply = asyncio.run(replica.ask("answer", [[_question("years")]], {}))
    assert reply == Reply(None, "FilterError", "years is no condition")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(replica.ask("fetch", [["a"]], {}))


def test_a_port_that_cannot_be_opened_ends_the_replica() -> None:
    def broken() -> Port:
        raise Damaged("a file is missing")

    with pytest.raises(Damaged, match="a file is missing"):
        ShardReplica(broken)


def test_the_ports_methods_arrive_with_their_arguments() -> None:
    found = ((ShardHits(("a",), (1.0,)),),)
    outcomes: list[Any] = [found, ((1.0,),), *[()] * 6, 3, frozenset(), {"a": 2}]
    handle = Handle([Reply(each) for each in outcomes])
    request = SearchRequest("owl", k=5)
    port = RemotePort(_line(handle))
    assert _find(port) == "a"
    assert port.settle(replace(_question(), prepared=[1]), [["a"]]) == ((1.0,),)
    assert port.find(request) == ()
    assert port.show_settled(request, ["a"]) == ()
    assert port.sign(["a"]) == ()
    assert port.show(request, [Hit("a", 1.0)]) == ()
    assert port.explain(QUERY, ["a"], searcher="dense", syntax=False) == ()
    assert port.fetch(["a"]) == ()
    assert port.held() == 3  # as it came
    assert port.lacking(["a"]) == frozenset()
    assert port.status() == {"a": 2}
    assert handle.asked == [
        ("answer", ([_question()],), {}),
        ("settle", (_question(), [["a"]]), {}),
        ("find", (request,), {}),
        ("show_settled", (request, ["a"]), {}),
        ("sign", (["a"],), {}),
        ("show", (request, [Hit("a", 1.0)]), {}),
        ("explain", (QUERY, ["a"]), {"searcher": "dense", "syntax": False}),
        ("fetch", (["a"],), {}),
        ("held", (), {}),
        ("lacking", (["a"],), {}),
        ("status", (), {}),
    ]


def test_what_is_wrong_with_the_question_is_raised_as_it_was() -> None:
    port = RemotePort(_line(Handle([Reply(None, "FilterError", "years is no condition")])))
    with pytest.raises(FilterError, match="years is no condition"):
        _find(port, where="years")


@pytest.mark.parametrize("kind", [Damaged, OutOfDate])
def test_what_is_wrong_with_the_shard_puts_it_out_of_reach(kind: type[Exception]) -> None:
    port = RemotePort(_line(Handle([Reply(None, kind.__name__, "the reason"), Reply({"a": 1})])))
    with pytest.raises(ShardDown, match="out of reach: the reason"):
        port.status()
    assert port.status() == {"a": 1}, "it is asked again: its replicas live"


@pytest.mark.parametrize("loss", [ActorDiedError(), TimeoutError()])
def test_a_lost_replica_costs_one_more_attempt(loss: Exception) -> None:
    handle = Handle([loss, Reply({"documents": 2})])
    assert RemotePort(_line(handle)).status() == {"documents": 2}
    assert handle.answers[0].is_cancelled == isinstance(loss, TimeoutError)


def test_a_silent_shard_is_refused_at_once_until_it_answers_a_ping() -> None:
    gate = threading.Event()

    class Held(Answer):
        def result(self, *, timeout_s: float) -> Any:
            gate.wait()
            return super().result(timeout_s=timeout_s)

    handle = Handle([TimeoutError(), ActorDiedError(), Reply({"documents": 2})])
    handle.ping = _Method(lambda: Held(None))
    line = _line(handle)
    port = RemotePort(line)
    for _question in range(3):
        with pytest.raises(ShardDown, match="its process or machine was lost"):
            port.status()
    assert len(handle.asked) == 2, "the second and third questions were not sent"
    gate.set()
    while line.is_down:
        pass
    assert port.status() == {"documents": 2}


def test_looking_for_a_shard_goes_on_until_it_is_back() -> None:
    handle = Handle([TimeoutError(), TimeoutError(), Reply({})], pings=[TimeoutError(), None])
    line = _line(handle)
    with pytest.raises(ShardDown, match=r"no replica answered within 0\.25 seconds"):
        RemotePort(line).status()
    assert handle.is_pinged.wait(300)
    while line.is_down:
        pass
    assert RemotePort(line).status() == {}


def test_what_nobody_foresaw_is_no_partial_result() -> None:
    class Failed(RayTaskError):
        def __init__(self) -> None:
            Exception.__init__(self)

        def __str__(self) -> str:
            return "Traceback\nZeroDivisionError: oh"

    port = RemotePort(_line(Handle([Failed()])))
    with pytest.raises(ClusterError, match="shard 3 failed at fetch: ZeroDivisionError"):
        port.fetch(["a"])


def test_settings_that_make_no_sense_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ClusterConfig(replicas=0, target_queries=0, cpus=-1, wait_seconds=0)
    for name in ("replicas", "target_queries", "cpus", "wait_seconds"):
        assert f"{name} is " in str(caught.value)
    with pytest.raises(ConfigError, match="max_replicas is 1, expected 0 or at least 2"):
        ClusterConfig(replicas=2, max_replicas=1)


def test_an_inner_router_waits_on_a_thread_of_its_own() -> None:
    replica = GroupReplica(Port)
    reply = asyncio.run(replica.ask("answer", [[_question()]], {}))
    assert reply.value[0][0].docids == ("owl 5 True",)
    (waited,) = replica._port.threads - {threading.get_ident()}  # type: ignore[union-attr]
    assert waited, "Ray lets nobody wait on the thread that runs its loop"
