"""The load on a server: every response is taken for what it is, and late queries count as late."""

from __future__ import annotations

import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from benchmarks.serve.exchanges import Connection, Exchanges
from benchmarks.serve.load import (
    Tally,
    ask,
    bodies_of,
    load_closed,
    load_crowd,
    load_open,
    requests_of,
)

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the load is for Linux")

REQUEST = b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"

Answer = Callable[[socket.socket, int], None]
"""Answers one connection, of which it is told how many came before."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Have every connection answered by a thread of its own."""
    numbers = itertools.count()

    def serve(client: socket.socket) -> None:
        with client, suppress(ConnectionError):
            answer(client, next(numbers))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _address = listening.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def answer_all(response: bytes) -> Answer:
    """Answer every request alike."""

    def answer(client: socket.socket, _number: int) -> None:
        while client.recv(65_536):
            client.sendall(response)

    return answer


def statuses(url: str, *, times: int) -> dict[int, int]:
    """Ask so many times, one after another on one connection, and count what was told."""
    exchanges, tally, left = Exchanges(url), Tally(), iter(range(times))
    connection = Connection(exchanges)

    def go_on(_status: int) -> None:
        if next(left, None) is not None:
            ask(connection, REQUEST, tally, since=time.perf_counter(), then=go_on)

    go_on(0)
    exchanges.run()
    connection.close()
    return tally.statuses


def test_a_load_survives_connections_that_are_closed_while_they_rest() -> None:
    def answer_once(client: socket.socket, _number: int) -> None:
        client.recv(65_536)
        client.sendall(OK)
        client.recv(1)

    with answering(answer_once) as url:
        assert statuses(url, times=3) == {200: 3}


def test_a_load_opens_another_connection_where_the_server_says_so() -> None:
    def answer_last(client: socket.socket, _number: int) -> None:
        client.recv(65_536)
        client.sendall(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    with answering(answer_last) as url:
        assert statuses(url, times=3) == {200: 3}


@pytest.mark.parametrize(
    "response",
    [b"", OK[:-1], OK + b"}", b"HTTP/1.1 OK\r\n\r\n", OK.replace(b": 2", b": two")],
    ids=["none", "short", "long", "no status", "no length"],
)
def test_a_load_notes_what_is_no_response(response: bytes) -> None:
    def answer_once(client: socket.socket, _number: int) -> None:
        client.recv(65_536)
        client.sendall(response)

    with answering(answer_once) as url:
        assert statuses(url, times=2) == {0: 2}


def test_a_load_notes_that_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    assert statuses(url, times=2) == {0: 2}


def test_a_response_may_come_in_pieces_and_a_request_be_taken_in_pieces() -> None:
    large = b"x" * 4_000_000
    taken = []

    def answer(client: socket.socket, _number: int) -> None:
        received = bytearray()
        while len(received) < len(large):
            received += client.recv(65_536)
        taken.append(bytes(received) == large)
        for at in range(len(OK)):
            client.sendall(OK[at : at + 1])
        client.recv(1)

    with answering(answer) as url:
        exchanges, told = Exchanges(url), list[int]()
        connection = Connection(exchanges)
        connection.ask(large, told.append)
        exchanges.run()
        connection.close()
    assert (told, taken) == ([200], [True])


def test_statuses_are_counted_apart() -> None:
    responses = [OK, BUSY, OK, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"]

    def answer(client: socket.socket, _number: int) -> None:
        for each in responses:
            client.recv(65_536)
            client.sendall(each)

    with answering(answer) as url:
        exchanges, tally = Exchanges(url), Tally()
        connection = Connection(exchanges)
        for _each in responses:
            ask(connection, REQUEST, tally, since=time.perf_counter(), then=lambda _status: None)
            exchanges.run()
        connection.close()
    assert tally.statuses == {200: 2, 429: 1, 503: 1}
    assert (len(tally.latencies), tally.refused, tally.errors) == (2, 1, 1)


def test_an_open_load_asks_at_its_rate_however_late_answers_are() -> None:
    free = threading.Event()

    def answer(client: socket.socket, number: int) -> None:
        while client.recv(65_536):
            if number == 0:
                assert free.wait(300)
            client.sendall(OK)

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            if number == 9:
                free.set()  # the first one is answered after the last was sent
            yield REQUEST

    with answering(answer) as url:
        tally = load_open(Exchanges(url), requests(), rate=200.0, seconds=0.05)
    assert tally.statuses == {200: 10}
    assert max(tally.latencies) >= 0.04  # what the first one waited


def test_what_the_load_is_late_by_counts() -> None:
    def slow() -> Iterator[bytes]:
        time.sleep(0.2)
        while True:
            yield REQUEST

    with answering(answer_all(OK)) as url:
        tally = load_open(Exchanges(url), slow(), rate=100.0, seconds=0.02)
    assert len(tally.latencies) == 2
    assert min(tally.latencies) >= 0.19


def test_a_closed_load_keeps_its_clients_busy_and_a_refused_one_waits() -> None:
    with answering(answer_all(OK)) as url:
        answered = load_closed(Exchanges(url), itertools.repeat(REQUEST), clients=2, seconds=0.2)
    with answering(answer_all(BUSY)) as url:
        refused = load_closed(Exchanges(url), itertools.repeat(REQUEST), clients=2, seconds=0.2)
    assert set(answered.statuses) == {200} and answered.statuses[200] >= 2
    assert set(refused.statuses) == {429} and 2 <= refused.refused <= 2 * 4


def test_a_crowd_asks_in_turns() -> None:
    with answering(answer_all(OK)) as url:
        tally = load_crowd(
            Exchanges(url), itertools.repeat(REQUEST), clients=4, rate=40.0, seconds=0.19
        )
    assert sum(tally.statuses.values()) + tally.unsent == 8
    assert set(tally.statuses) == {200}


def test_requests_are_whole() -> None:
    (body,) = bodies_of(["owls"], searcher="lexical")
    head, _, sent = next(requests_of([body], url="http://127.0.0.1:80/")).partition(b"\r\n\r\n")
    assert json.loads(sent) == {"query": "owls", "k": 10, "searcher": "lexical"}
    assert b"\r\nHost: 127.0.0.1:80\r\n" in head
    assert head.endswith(b"Content-Length: %d" % len(sent))
