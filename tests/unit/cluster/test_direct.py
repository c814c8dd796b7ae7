"""The short way to a replica: who may ask, what is answered, and what becomes of a lost one."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, wait
from typing import Any

import pytest

from quoth.cluster.serving.direct import Address, DirectLine, Listening, Lost
from quoth.cluster.serving.hedging import FEWEST, RECENT, Hedging, LineCounts
from quoth.cluster.serving.port import RemotePort, ShardLine
from quoth.cluster.serving.replica import FAILED, Reply, ShardReplica
from quoth.errors import ClusterError, FilterError, ShardDown
from quoth.records import SearchRequest

KEY = b"k" * 32
HOST = "127.0.0.1"
PATIENCE = 120


class Port:
    """A shard that is none, and does what the query says."""

    number = 0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_go_on = threading.Event()

    def find(self, request: SearchRequest) -> tuple[str, ...]:
        self.asked.append(request.query)
        if request.query == "wait":
            self.may_go_on.wait(PATIENCE)
        if request.query == "refuse":
            raise FilterError("no condition")
        if request.query == "break":
            raise ZeroDivisionError("by nothing")
        return (request.query,)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _replica(opened: ExitStack) -> tuple[ShardReplica, Address]:
    replica = ShardReplica(Port, host=HOST, key=KEY)
    assert replica._listening is not None
    opened.callback(replica._listening.close)
    return replica, replica._listening.address


def _direct(
    opened: ExitStack, addresses: Sequence[Address], *, key: bytes = KEY, count: int = 0
) -> DirectLine:
    """Make a line whose replicas answer in turn where they are; the last one again and again."""
    left, lock = list(addresses), threading.Lock()

    def find() -> Address:
        with lock:
            if not left:
                raise Lost
            return left.pop(0) if len(left) > 1 else left[0]

    direct = DirectLine(find, count=count or len(addresses), key=key)
    opened.callback(direct.close)
    return direct


def _wait_until_known(direct: DirectLine, count: int) -> None:
    direct.look_for_replicas()
    waited = threading.Event()
    for _step in range(20 * PATIENCE):
        if len(direct._free) >= count:
            return
        waited.wait(0.05)
    raise AssertionError("the replicas were not found")


class NoHandle:
    """Stands for Ray where it must not be needed, or has lost the replica."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.ask, self.ping = self, self

    def remote(self, *given: Any) -> Any:
        self.asked.append(given)
        return self

    def result(self, *, timeout_s: float) -> Any:
        return Reply(("by Ray",))

    def cancel(self) -> None:
        """Nothing is under way."""


def _port(direct: DirectLine, handle: NoHandle, *, wait_seconds: float = PATIENCE) -> RemotePort:
    line = ShardLine(0, handle, wait_seconds=wait_seconds, direct=direct)  # type: ignore[arg-type]
    return RemotePort(line)


def test_questions_and_answers_go_past_ray(opened: ExitStack) -> None:
    _replica_of_one, address = _replica(opened)
    direct, handle = _direct(opened, [address]), NoHandle()
    _wait_until_known(direct, 1)
    port = _port(direct, handle)
    assert not port.is_costly and port.find(SearchRequest("owl")) == ("owl",)
    with pytest.raises(FilterError, match="no condition"):
        port.find(SearchRequest("refuse"))
    with pytest.raises(ClusterError, match="shard 0 failed at find: ZeroDivisionError"):
        port.find(SearchRequest("break"))
    assert port.find(SearchRequest("owl")) == ("owl",) and handle.asked == []
    assert len(direct._free[address]) == 1, "one connection serves one thread"


def test_before_a_replica_is_found_and_after_it_is_lost_ray_is_asked(opened: ExitStack) -> None:
    replica, address = _replica(opened)
    direct, handle = _direct(opened, [address]), NoHandle()
    port = _port(direct, handle)
    assert port.find(SearchRequest("owl")) == ("by Ray",)
    _wait_until_known(direct, 1)
    assert port.find(SearchRequest("owl")) == ("owl",)
    assert replica._listening is not None
    replica._listening.close()
    for connection in direct._free[address]:
        connection.close()  # as a machine that goes down leaves them
    assert port.find(SearchRequest("owl")) == ("by Ray",)


def test_the_replica_with_the_fewest_questions_is_asked(opened: ExitStack) -> None:
    (first, one), (second, other) = _replica(opened), _replica(opened)
    direct = _direct(opened, [one, other])
    _wait_until_known(direct, 2)
    port = _port(direct, NoHandle())
    waiting = threading.Thread(target=port.find, args=(SearchRequest("wait"),))
    waiting.start()
    while not (first._port.asked or second._port.asked):  # type: ignore[attr-defined]
        waiting.join(0.01)
    busy, idle = (first, second) if first._port.asked else (second, first)  # type: ignore[attr-defined]
    for _again in range(3):
        port.find(SearchRequest("owl"))
    assert busy._port.asked == ["wait"] and idle._port.asked == ["owl"] * 3  # type: ignore[attr-defined]
    busy._port.may_go_on.set()  # type: ignore[attr-defined]
    waiting.join()


def test_who_does_not_know_the_key_is_not_heard(opened: ExitStack) -> None:
    replica, address = _replica(opened)
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(address, authkey=b"x" * 32)
    direct = _direct(opened, [address], key=b"x" * 32)
    _wait_until_known(direct, 1)
    with pytest.raises(Lost):
        direct.ask(b"never read", wait_seconds=PATIENCE)
    assert replica._port.asked == []  # type: ignore[attr-defined]


def test_a_router_does_not_read_what_a_stranger_sends(opened: ExitStack) -> None:
    stranger = Listening(HOST, lambda *_given: Reply(("mine",)), key=b"x" * 32)
    opened.callback(stranger.close)
    direct = _direct(opened, [stranger.address])
    _wait_until_known(direct, 1)
    with pytest.raises(Lost):
        direct.ask(b"", wait_seconds=PATIENCE)


def test_a_late_answer_is_never_taken_for_the_next_one(opened: ExitStack) -> None:
    replica, address = _replica(opened)
    direct, handle = _direct(opened, [address]), NoHandle()
    _wait_until_known(direct, 1)
    hasty = _port(direct, handle, wait_seconds=0.01)
    with pytest.raises(ShardDown, match=r"no replica answered within 0\.01 seconds"):
        hasty._line._ask_directly("find", (SearchRequest("wait"),), {})
    assert direct._free[address] == []
    replica._port.may_go_on.set()  # type: ignore[attr-defined]
    assert _port(direct, handle).find(SearchRequest("owl")) == ("owl",)


def test_failures_have_a_kind_that_no_error_is_called() -> None:
    assert not FAILED.isidentifier()


def _two_replicas(opened: ExitStack) -> tuple[DirectLine, dict[Address, Any]]:
    """Make a line to two replicas that knows how long answers take."""
    found = [_replica(opened), _replica(opened)]
    direct = _direct(opened, [address for _replica_of_two, address in found])
    direct.hedging = Hedging(0.5)
    _wait_until_known(direct, 2)
    port = _port(direct, NoHandle())
    for _again in range(FEWEST):
        port.find(SearchRequest("owl"))
    assert 0 < direct.hedging.patience < PATIENCE
    return direct, {address: replica._port for replica, address in found}


def _slow_first(direct: DirectLine, ports: dict[Address, Any]) -> tuple[Any, Any]:
    """Say which replica is asked next, and which one after it."""
    first = min(direct._free, key=lambda each: direct._under_way.get(each, 0))
    return ports[first], next(port for address, port in ports.items() if address != first)


class _Stalls(Port):
    """A shard whose every answer waits until it may go on."""

    def find(self, request: SearchRequest) -> tuple[str, ...]:
        self.asked.append(request.query)
        self.may_go_on.wait(PATIENCE)
        return ("late",)


def test_a_second_replica_is_asked_where_the_first_is_slow(opened: ExitStack) -> None:
    direct, ports = _two_replicas(opened)
    slow, other = _slow_first(direct, ports)
    slow.find = functools.partial(_Stalls.find, slow)
    before = direct.hedging.counts
    assert _port(direct, NoHandle()).find(SearchRequest("hedged")) == ("hedged",)
    assert slow.asked[-1] == other.asked[-1] == "hedged"
    after = direct.hedging.counts
    assert (after.hedged - before.hedged, after.won - before.won) == (1, 1)
    assert len(direct._unwanted) == 1
    address = direct._unwanted[0].address
    assert direct._under_way[address] == 1, "it counts as busy until it has answered"
    slow.may_go_on.set()
    assert wait([direct._unwanted[0].connection], PATIENCE)
    del slow.find
    answers = {_port(direct, NoHandle()).find(SearchRequest(str(n)))[0] for n in range(4)}
    assert answers == {"0", "1", "2", "3"}, "the late answer is nobody's"
    assert not direct._unwanted and not any(direct._under_way.values())


def test_without_credit_or_another_replica_one_answer_is_waited_for(opened: ExitStack) -> None:
    direct, ports = _two_replicas(opened)
    slow, other = _slow_first(direct, ports)
    slow.find = functools.partial(_Stalls.find, slow)
    while direct.hedging.take():
        pass
    hedged, asked = direct.hedging.counts.hedged, len(other.asked)
    direct.hedging._share = 0.0
    waiting = threading.Timer(0.5, slow.may_go_on.set)
    waiting.start()
    assert _port(direct, NoHandle()).find(SearchRequest("slow")) == ("late",)
    assert (direct.hedging.counts.hedged, len(other.asked)) == (hedged, asked)
    waiting.join()


def test_a_replica_that_is_lost_leaves_the_answer_to_the_other(opened: ExitStack) -> None:
    direct, ports = _two_replicas(opened)
    slow, other = _slow_first(direct, ports)
    slow.find = functools.partial(_Stalls.find, slow)
    other.find = functools.partial(_Stalls.find, other)
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(_port(direct, NoHandle()).find(SearchRequest("both")))
    )
    asking.start()
    while not (slow.asked[-1:] == other.asked[-1:] == ["both"]):
        asking.join(0.01)
    other.find = functools.partial(_break_off, other)
    slow.may_go_on.set()
    asking.join(PATIENCE)
    assert found == [("late",)]
    other.may_go_on.set()


def _break_off(_port_of_other: Port, _request: SearchRequest) -> tuple[str, ...]:
    raise AssertionError("nobody asks again")


def test_repetitions_stay_within_their_share() -> None:
    hedging = Hedging(0.05)
    granted = 0
    for _question in range(1_000):
        hedging.begin()
        granted += hedging.take()
    assert granted == 1_000 * 0.05 and hedging.counts == LineCounts(1_000, granted, 0)
    assert hedging.patience == math.inf, "nothing was answered yet"


def test_what_is_slow_follows_recent_answers() -> None:
    hedging = Hedging(0.05)
    for _each in range(RECENT):
        hedging.note(0.1, by_second=False)
    assert hedging.patience == 0.1
    for _each in range(RECENT):
        hedging.note(2.0, by_second=True)
    assert hedging.patience == 2.0 and hedging.counts.won == RECENT
