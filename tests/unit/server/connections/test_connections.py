"""Connections of a server under clients that stall, flood or cheat, with every parser and loop."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

import pytest
from small_server import GET, HALF_BODY, HALF_HEAD, HELD, LARGE, WIRES, Wire, on_every_wire
from wire import SECONDS, connected, post, read_last_reply, read_reply, read_to_end, send

from quoth.errors import ConfigError
from quoth.server.connections.connections import Connection, Connections
from quoth.server.connections.refusals import ENDING
from quoth.settings.server import ServerConfig


@pytest.mark.parametrize("wire", WIRES, ids="-".join)
def test_every_parser_and_loop_is_tried(wire: tuple[str, str]) -> None:
    if not Wire.is_installed(*wire):
        pytest.skip(f"{' or '.join(wire)} is not installed")


# Limits of time --------------------------------------------------------------------------------


@on_every_wire
def test_a_request_that_stops_half_way_is_answered_408(wire: Wire) -> None:
    with wire.serve(ServerConfig(header_seconds=1.0, body_seconds=1.0)) as url:
        with connected(url, HALF_HEAD) as head, connected(url, HALF_BODY) as body:
            for client in (head, body):
                reply = read_last_reply(client)
                assert reply.status == 408 and reply.rest == b""
                assert reply.error()["kind"] == "RequestTimeout"
                assert reply.error()["request_id"] == reply.headers["x-request-id"]
        with connected(url, GET) as client:
            assert read_reply(client).status == 200


@on_every_wire
def test_bytes_that_trickle_in_extend_no_limit(wire: Wire) -> None:
    with wire.serve(ServerConfig(header_seconds=0.5, body_seconds=0.5)) as url:
        for begun, piece in ((HALF_HEAD, b"x"), (post("/length", b"", "X: 1")[:-2], b"Y: 2\r\n")):
            with connected(url, begun) as client:
                client.settimeout(0.05)
                reply = _trickle(client, piece)
                assert reply.startswith(b"HTTP/1.1 408 ")
        chunked = b"POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        with connected(url, chunked) as client:
            client.settimeout(0.05)
            assert _trickle(client, b"1\r\nx\r\n").startswith(b"HTTP/1.1 408 ")


def _trickle(client: socket.socket, piece: bytes) -> bytes:
    """Send a little again and again until the server answers; it must before a minute is over."""
    for _ in range(1_200):
        send(client, piece)
        try:
            return client.recv(65_536)
        except TimeoutError:
            continue
    raise AssertionError("the server waited for ever")


@on_every_wire
def test_a_silent_connection_is_closed_without_an_answer(wire: Wire) -> None:
    with (
        wire.serve(ServerConfig(header_seconds=0.2)) as url,
        connected(url) as client,
    ):
        assert read_to_end(client) == b""


@on_every_wire
def test_rest_between_requests_is_no_stall_but_half_a_second_one_is(wire: Wire) -> None:
    config = ServerConfig(header_seconds=1.0, body_seconds=1.0, keep_alive_seconds=60)
    with wire.serve(config) as url, connected(url) as client:
        for request in (GET, post("/length", b"body")):
            send(client, request)
            assert read_reply(client).status == 200
            time.sleep(1.2)
        send(client, HALF_HEAD)
        assert read_last_reply(client).status == 408


@on_every_wire
def test_work_is_not_cut_by_the_limits_of_arrival(wire: Wire) -> None:
    config = ServerConfig(header_seconds=1.0, body_seconds=1.0)
    with wire.serve(config) as url, connected(url, HELD) as client:
        assert wire.begun.acquire(timeout=SECONDS)
        time.sleep(1.2)
        wire.free.set()
        assert read_reply(client).body == b'"done"'


@on_every_wire
def test_a_body_that_nobody_reads_is_waited_for_no_longer(wire: Wire) -> None:
    half = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
    with wire.serve(ServerConfig(body_seconds=0.3)) as url, connected(url, half) as client:
        reply = read_last_reply(client)
        assert reply.status == 404 and reply.rest == b""


@on_every_wire
def test_whoever_still_sends_is_answered_before_the_connection_closes(wire: Wire) -> None:
    asked = post("/nowhere", b"x" * LARGE, "Connection: close")
    with wire.serve(ServerConfig()) as url, connected(url) as client:
        assert send(client, asked[: LARGE // 2])
        assert read_last_reply(client).status == 404
        assert send(client, asked[LARGE // 2 :])
    with wire.serve(ServerConfig()) as url, connected(url, HALF_HEAD) as client:
        assert send(client, b"x" * (LARGE // 2))
        assert read_last_reply(client).status == 431
    with wire.serve(ServerConfig(body_seconds=0.3)) as url, connected(url) as client:
        assert send(client, asked[:LARGE])
        assert wire.wait_until_alone(SECONDS)


@on_every_wire
def test_a_client_that_takes_nothing_of_a_response_is_disconnected(wire: Wire) -> None:
    asked = GET.replace(b"/ ", b"/large ")
    with wire.serve(ServerConfig(body_seconds=0.5)) as url, connected(url, asked) as client:
        assert wire.begun.acquire(timeout=SECONDS)
        assert wire.wait_until_alone(SECONDS)
        assert len(read_to_end(client)) < LARGE
    with wire.serve(ServerConfig()) as url, connected(url, asked) as client:
        assert len(read_reply(client).body) == LARGE + 2


class Stub(Connection):
    """A connection whose time and whose client a test plays."""

    cycle = None
    flow: Any = object()
    loop: Any
    transport: Any
    _unset_keepalive_if_required = Mock()

    def __init__(self, left: list[int], config: ServerConfig) -> None:
        self.loop = Mock(**{"time.return_value": 0.0})
        self.transport = Mock(**{"get_write_buffer_size.side_effect": left})
        super().__init__(Connections(config))

    def run_timers(self) -> None:
        """Call what was to be called after the limit of a body, until nothing is."""
        while self.loop.call_later.call_args_list:
            seconds, call, *given = self.loop.call_later.call_args_list.pop(0).args
            if seconds == self._all.config.body_seconds:
                call(*given)


@pytest.mark.parametrize(
    ("left", "is_cut"),
    [
        ([900, 500, 500, 100, 100, 0, 0], False),  # each is looked at twice: to judge, and to go on
        ([900, 500, 500, 500], True),
        ([900, 900], True),
        ([900, 0, 0], False),
    ],
)
def test_a_slow_reader_is_cut_only_where_it_takes_nothing(left: list[int], is_cut: bool) -> None:
    connection = Stub(left, ServerConfig())
    connection._watch_writes()
    connection.run_timers()
    assert connection.transport.abort.called == is_cut


def test_a_client_that_left_does_not_trouble_the_end() -> None:
    connection = Stub([], ServerConfig())
    connection.flow = Mock()
    connection.transport.is_closing.return_value = False
    connection.transport.write_eof.side_effect = OSError(errno.ENOTCONN, "not connected")
    connection.refuse(ENDING)
    assert connection.transport.write.called


# Limits of number ------------------------------------------------------------------------------


@on_every_wire
def test_idle_and_half_sent_connections_keep_nobody_out(wire: Wire) -> None:
    config = ServerConfig(max_connections=100, header_seconds=60, body_seconds=60)
    with wire.serve(config) as url, ExitStack() as stack:
        for at in range(100):
            half = (b"", HALF_HEAD, GET)[at % 3]
            client = stack.enter_context(connected(url, half))
            if half == GET:
                assert read_reply(client).status == 200
        time.sleep(1.2)  # from here on, half-sent ones give way
        for _ in range(60):
            client = stack.enter_context(connected(url, GET))
            assert read_reply(client).status == 200


@on_every_wire
def test_the_connection_that_rested_longest_gives_way(wire: Wire) -> None:
    with wire.serve(ServerConfig(max_connections=2)) as url, ExitStack() as stack:
        first, second = (stack.enter_context(connected(url, GET)) for _ in range(2))
        for client in (first, second):
            assert read_reply(client).status == 200
        send(first, GET)
        assert read_reply(first).status == 200  # now the second has rested longest
        time.sleep(0.3)
        assert read_reply(stack.enter_context(connected(url, GET))).status == 200
        assert read_to_end(second) == b""
        send(first, GET)
        assert read_reply(first).status == 200


@on_every_wire
def test_beyond_the_limit_a_connection_is_answered_503(wire: Wire) -> None:
    with wire.serve(ServerConfig(max_connections=2)) as url, ExitStack() as stack:
        working = [stack.enter_context(connected(url, HELD)) for _ in range(2)]
        assert all(wire.begun.acquire(timeout=SECONDS) for _ in working)
        for _ in range(20):
            reply = read_last_reply(stack.enter_context(connected(url, GET)))
            assert reply.status == 503 and reply.headers["retry-after"] == "1"
            assert reply.error()["kind"] == "Overloaded"
        wire.free.set()
        assert [read_reply(each).status for each in working] == [200, 200]
        time.sleep(0.3)
        assert read_reply(stack.enter_context(connected(url, GET))).status == 200


def test_those_turned_away_are_logged_together(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire("h11", "asyncio")
    with (
        caplog.at_level(logging.WARNING),
        wire.serve(ServerConfig(max_connections=1)) as url,
        connected(url, HELD),
    ):
        assert wire.begun.acquire(timeout=SECONDS)
        for _ in range(20):
            with connected(url, GET) as client:
                assert read_last_reply(client).status == 503
    lines = [each.getMessage() for each in caplog.records if "turned away" in each.getMessage()]
    assert 1 <= len(lines) < 20  # one in five seconds


class Exhausted(socket.socket):
    """A listening socket for whose first connection the process has no descriptor."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if not self.failures:
            self.failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


@on_every_wire
def test_without_a_descriptor_a_connection_is_answered_503(wire: Wire) -> None:
    server = wire.make(ServerConfig())
    with Exhausted() as exhausted:
        exhausted.bind(("127.0.0.1", 0))
        exhausted.listen()
        url = f"http://127.0.0.1:{exhausted.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [exhausted]})
        thread.start()
        try:
            with connected(url, GET) as client:
                assert read_last_reply(client).status == 503
            with connected(url, GET) as client:
                assert read_reply(client).status == 200
        finally:
            server.should_exit = True
            thread.join()


# Settings --------------------------------------------------------------------------------------


def test_settings_of_connections_are_checked() -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(
            max_connections=0,
            header_seconds=0,
            body_seconds=-1,
            shutdown_seconds=0,
            proxies=("example.org",),
            path_prefix="notes/",
        )
    for name in ("max_connections", "header_seconds", "body_seconds", "shutdown_seconds"):
        assert f"{name} is" in str(caught.value)
    assert "proxies has 'example.org'" in str(caught.value)
    assert "path_prefix is 'notes/'" in str(caught.value)
