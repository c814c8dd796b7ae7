"""`quoth serve` as a process: few descriptors, an end in time, and a real proxy before it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from wire import connected, post, read_last_reply, read_reply, read_to_end, send

from quoth.engine.engine import Engine
from quoth.records import Document

ROOT = Path(__file__).resolve().parents[2]
PARSERS = ("httptools", pytest.param("h11", marks=pytest.mark.slow))  # units try both
SEARCH = post("/search", b'{"query": "owl"}', "Content-Type: application/json")
HALF_BODY = SEARCH[:-4]
READY = b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
IN_THREADS = ("--server.processes", "false")


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)})])
    return folder


class Served:
    """A server in a process of its own, and the lines that it logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(r"at (http://127\.0\.0\.1:\d+)", first)
        assert found, first
        self.url = found[1]
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_until_ready(self) -> None:
        """Wait until models are loaded."""
        for _ in range(600):
            with connected(self.url, READY) as one:
                if read_reply(one).status == 200:
                    return
            time.sleep(0.1)
        raise AssertionError("\n".join(self.lines))

    def wait_for_line(self, part: str) -> None:
        """Wait until it has logged a line with this in it."""
        for _ in range(600):
            if any(part in line for line in self.lines):
                return
            time.sleep(0.1)
        raise AssertionError("\n".join(self.lines))

    def end(self, number: signal.Signals) -> None:
        """Send a signal; the process must be gone before all patience is."""
        self.process.send_signal(number)
        self.process.wait(300)

    def close(self) -> None:
        """End it in any case."""
        self.process.kill()
        self.process.wait(300)
        self._reading.join(300)


@contextmanager
def serving(
    collection: Path,
    *options: str,
    parser: str = "httptools",
    open_files: int = 0,
    before: str = "pass",
) -> Iterator[Served]:
    """Start a server at a port of the system's choice, after some other code."""
    if parser == "httptools":
        pytest.importorskip("httptools")
    given = ["quoth", "serve", str(collection), "--port", "0", *options]
    code = f"import sys; sys.argv = {given!r}; " + _LIMIT.format(open_files)
    if parser == "h11":
        code += "; sys.modules['httptools'] = None"
    code += "; sys.modules['torch'] = None"  # no answers, so that it is ready at once
    code += f"; {before}; from quoth.cli.main import main; main()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        served = Served(process)
        try:
            yield served
        finally:
            served.close()


_LIMIT = (
    "import resource; most = {} or resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
    " resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))"
)


# Descriptors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", PARSERS)
def test_with_few_descriptors_everybody_is_answered(collection: Path, parser: str) -> None:
    patient = ("--server.patience-seconds", "300")  # or a busy machine answers 429
    with serving(collection, *patient, parser=parser, open_files=64) as served:
        served.wait_until_ready()
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(connected(served.url))
            statuses = _ask_at_once(served.url, 100)
        assert len(statuses) == 100 and set(statuses) <= {200, 408, 503}, statuses
        time.sleep(1.5)  # idle ones are gone, or may give way
        assert [_ask_at_once(served.url, 1) for _ in range(20)] == [[200]] * 20
        assert _ask_at_once(served.url, 4) == [200] * 4
        served.end(signal.SIGTERM)
    log = "\n".join(served.lines)
    assert re.search(r"at most \d+ connections at a time instead of 2000", log)
    assert 1 <= log.count("turned away with 503") < 100
    assert "Traceback" not in log and "out of system resource" not in log


def _ask_at_once(url: str, number: int) -> list[int]:
    """Send a search from this many clients at a time; a reset without an answer raises."""
    found: list[int] = []

    def ask() -> None:
        with connected(url, SEARCH) as client:
            found.append(read_reply(client).status)

    threads = [threading.Thread(target=ask) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return found


def test_too_few_descriptors_are_explained(collection: Path) -> None:
    command = [sys.executable, "-c", _LIMIT.format(50) + "; " + _SERVE.format(str(collection))]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert "may open 50 files, but 3 workers need 56" in " ".join(found.stderr.split())


_SERVE = "import sys; sys.argv = ['quoth', 'serve', {!r}]; from quoth.cli.main import main; main()"


# The end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", PARSERS)
def test_unfinished_requests_do_not_delay_the_end(collection: Path, parser: str) -> None:
    options = (*IN_THREADS, "--server.shutdown-seconds", "3600")
    with serving(collection, *options, parser=parser) as served:
        served.wait_until_ready()
        with ExitStack() as stack:
            idle = stack.enter_context(connected(served.url, SEARCH))
            assert read_reply(idle).status == 200
            silent = stack.enter_context(connected(served.url))
            halves = [
                stack.enter_context(connected(served.url, half)) for half in (HALF_BODY, SEARCH[:9])
            ]
            for _turn in range(10):  # of the loop, in which it takes what the others sent
                send(idle, READY)
                assert read_reply(idle).status == 200
            served.end(signal.SIGTERM)
            for half in halves:
                reply = read_last_reply(half)
                assert reply.status == 503 and reply.error()["kind"] == "Ending"
            assert read_to_end(idle) == read_to_end(silent) == b""
    assert served.process.returncode == 0


@pytest.mark.parametrize("parser", PARSERS)
def test_what_is_under_way_at_the_end_has_a_limit(collection: Path, parser: str) -> None:
    with (
        _sleeping(collection, "--server.shutdown-seconds", "1", parser=parser) as served,
        connected(served.url, SEARCH) as client,
    ):
        served.wait_for_line("searching")
        served.end(signal.SIGTERM)
        assert read_last_reply(client).status == 503
    assert served.process.returncode == 1
    assert any("was not finished within 3 seconds" in line for line in served.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(collection: Path, number: signal.Signals) -> None:
    with (
        _sleeping(collection, "--server.shutdown-seconds", "3600") as served,
        connected(served.url, SEARCH) as client,
    ):
        served.wait_for_line("searching")
        served.process.send_signal(number)
        served.wait_for_line("Shutting down")
        assert served.process.poll() is None
        served.end(number)
        read_to_end(client)
    assert served.process.returncode == -number


@contextmanager
def _sleeping(collection: Path, *options: str, parser: str = "httptools") -> Iterator[Served]:
    """Serve with searches that say that they have begun, and then take hours."""
    sleep = "import os, time; from quoth.engine.engine import Engine as engine"
    sleep += "; from quoth.server.connections import process"
    sleep += "; process._CLOSING_SECONDS = 2.0"
    sleep += "; engine.find = lambda *_given, **_named:"
    sleep += " os.write(2, b'searching\\n') and time.sleep(3600)"
    with serving(collection, *IN_THREADS, *options, parser=parser, before=sleep) as served:
        served.wait_for_line("startup complete")  # from then on it takes signals and answers
        yield served


# Behind a proxy --------------------------------------------------------------------------------


def _documented_configuration() -> str:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    return str(found)


def test_the_documented_proxy_serves(collection: Path, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    options = [*IN_THREADS, "--server.proxies", "127.0.0.1", "--server.path-prefix", "/notes"]
    options += ["--server.hosts", "notes.example", "--server.log-format", "json"]
    with serving(collection, *options) as served:
        served.wait_until_ready()
        with _proxy(nginx, served.url, tmp_path) as url:
            asked = {"query": "owl"}
            assert _fetch(f"{url}/notes/search", asked)["hits"][0]["docid"] == "owl"
            assert _fetch(f"{url}/notes/health/live") == {"status": "live"}
            described = _fetch(f"{url}/notes/openapi.json")
            assert described["servers"] == [{"url": "/notes"}]
            assert _fetch(f"{url}/notes/limits")["k"] > 0
        served.end(signal.SIGTERM)
    lines = [json.loads(line) for line in served.lines if line.startswith("{")]
    paths = [line["path"] for line in lines if "path" in line]
    assert paths[-4:] == ["/search", "/health/live", "/openapi.json", "/limits"]


def _fetch(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Host": "notes.example"}
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.loads(response.read())


@contextmanager
def _proxy(nginx: str, server: str, folder: Path) -> Iterator[str]:
    """Start nginx as documented, but without TLS and at a free port; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = _documented_configuration().replace("127.0.0.1:8080", server.removeprefix("http://"))
    site = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", site)
    site = re.sub(r" *ssl_certificate.*\n", "", site)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = (
        f"pid {folder}/nginx.pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; {paths}\n{site} }}\n"
    )
    (folder / "nginx.conf").write_text(whole)
    command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(300)


def _wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        assert process.poll() is None and process.stderr is not None, process.communicate()[1]
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens at port {port}")
