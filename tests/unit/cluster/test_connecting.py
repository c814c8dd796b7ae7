"""Joining a cluster: what cannot be joined is told at once, and clearly."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quoth.cluster import connecting
from quoth.cluster.connecting import joined
from quoth.errors import ClusterError, ConfigError, MissingExtra


@contextmanager
def answering(content: bytes) -> Iterator[str]:
    """Listen on some port, and say the same to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            link, _address = server.accept()
            with link:
                link.recv(64)
                link.sendall(content)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("address", ["", "head", "head:", ":6379", "ray://a:1", "a:65536", "a:x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with (
        pytest.raises(ConfigError, match=r"expected HOST:PORT .* auto .* or local"),
        joined(address),
    ):
        pass


def test_nobody_at_the_address_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ClusterError, match=r"refused .*ray start --head"), joined(free):
        pass


def test_something_else_at_the_address_is_told() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address,
        pytest.raises(ClusterError, match="something else answers there"),
        joined(address),
    ):
        pass


def test_a_machine_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match="timed out"), joined(address):
            pass


def test_what_must_be_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r'pip install "quoth\[cluster\]"'), joined("auto"):
        pass


def test_no_usage_statistics_while_joined_and_nothing_left_behind() -> None:
    before = dict(os.environ)
    with connecting._environment():
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert dict(os.environ) == before


def test_what_ray_prints_stays_out_of_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with connecting._quiet():
        print("ours")
        noisy = threading.Thread(target=print, args=("a machine was lost",), name="ray_listener")
        noisy.start()
        noisy.join()
    assert capsys.readouterr().out == "ours\n"


def test_why_a_cluster_cannot_be_joined() -> None:
    assert "other versions" in connecting._explain("a:1", "Version mismatch: Ray 2.1 and 2.2")
    assert "belongs to no Ray cluster" in connecting._explain("auto", "Could not find any")
    assert connecting._explain("a:1", "odd").endswith("cannot be joined: odd")
