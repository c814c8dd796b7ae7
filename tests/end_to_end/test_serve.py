"""`quoth serve` as a user meets it: its messages, kills while it writes, and an orderly end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from quoth.cli.main import main
from quoth.engine.engine import Engine
from quoth.records import Document

QUOTH = Path(sys.executable).parent / "quoth"
Quoth = Callable[..., tuple[int, str, str]]


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    """Run the command in this process; gives the exit code, output and messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quoth", "serve", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl hunts.",)})])
    return folder


_WITHOUT_ANSWERS = """
import sys
sys.modules["torch"] = None
from quoth.cli.main import main
main()
"""


@contextmanager
def _serve(
    collection: Path, *options: str, answers: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server at a port of the system's choice; gives the process and its address.

    Without answers it loads no language model, which takes longer than all else.
    """
    start = [str(QUOTH)] if answers else [sys.executable, "-c", _WITHOUT_ANSWERS]
    command = [*start, "serve", str(collection), "--port", "0", "--server.workers", "1", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            first = server.stderr.readline()
            found = re.search(r"at (http://127\.0\.0\.1:\d+)$", first)
            assert found, first + server.stderr.read()
            drain = threading.Thread(target=server.stderr.read, daemon=True)
            drain.start()
            yield server, found[1]
        finally:
            server.kill()
            server.wait(300)
            drain.join(300)


def _ask(url: str, body: object = None, *, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.loads(response.read())


def _documents(number: int) -> dict[str, Any]:
    return {
        "documents": [
            {"docid": f"{number}/{at}", "fields": {"text": f"batch{number} owl {at}"}}
            for at in range(20)
        ]
    }


def test_everything_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "new.quoth"
    acknowledged: list[int] = []
    enough = threading.Event()

    def write(address: str) -> None:
        for number in range(100_000):
            try:
                _ask(f"{address}/documents", _documents(number))
            except (OSError, HTTPException):
                return  # the server was killed
            acknowledged.append(number)
            if number == 3:
                enough.set()

    with _serve(folder, "--allow-writes") as (server, address):
        writing = threading.Thread(target=write, args=(address,))
        writing.start()
        assert enough.wait(300)
        server.send_signal(signal.SIGKILL)
        writing.join(300)
    with _serve(folder) as (_server, address):
        for number in acknowledged:
            asked = {"query": f"+batch{number}", "k": 100}
            hits = _ask(f"{address}/search", asked)["hits"]
            assert {hit["docid"] for hit in hits} == {f"{number}/{at}" for at in range(20)}
        doubtful = len(acknowledged)
        asked = {"query": f"+batch{doubtful}", "k": 100}
        assert len(_ask(f"{address}/search", asked)["hits"]) in (0, 20)  # whole, or not at all
        known = 20 * len(acknowledged)
        assert _ask(f"{address}/status")["documents"] in (known, known + 20)


def test_an_orderly_end_finishes_what_was_begun(tmp_path: Path) -> None:
    folder = tmp_path / "new.quoth"
    many = [
        {"docid": str(at), "fields": {"text": f"owl {at} " + "word " * 200}} for at in range(400)
    ]
    outcome: list[Any] = []
    with _serve(folder, "--allow-writes") as (server, address):
        _ask(f"{address}/documents", _documents(0))  # all is loaded
        writing = threading.Thread(
            target=lambda: outcome.append(_ask(f"{address}/documents", {"documents": many}))
        )
        writing.start()
        _wait_for_the_writer(folder)
        server.send_signal(signal.SIGTERM)
        writing.join(300)
        server.wait(300)
    assert outcome == [{"added": 400, "updated": 0, "unchanged": 0}]
    with Engine.open(folder) as engine:
        assert engine.status()["documents"] == 420
        assert engine.verify().is_clean


def _wait_for_the_writer(folder: Path) -> None:
    """Wait until somebody holds the writer's lock."""
    from quoth.collection.lock import hold_writer_lock
    from quoth.errors import Busy

    while True:
        try:
            with hold_writer_lock(folder, wait_seconds=0.0):
                pass
        except Busy:
            return


def test_two_servers_one_writes_both_serve(collection: Path) -> None:
    with (
        _serve(collection, "--allow-writes") as (_writer, writing),
        _serve(collection) as (_reader, reading),
    ):
        assert _ask(f"{writing}/documents", _documents(1))["added"] == 20
        for address in (writing, reading):
            found = _ask(f"{address}/search", {"query": "batch1", "k": 100})
            assert len(found["hits"]) == 20
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            _ask(f"{reading}/documents", _documents(2))
        refused.value.close()


def test_times_of_a_running_server_are_printed(collection: Path, quoth: Quoth) -> None:
    with _serve(collection, answers=True) as (_server, address):
        _ask(f"{address}/search", {"query": "owl"})
        code, out, _err = quoth("--stats", address)
    assert code == 0
    assert re.search(r"search lexical\W+\d+\W+[\d.]+\W+[\d.]+\W+[\d.]+", out)
    assert "queue: 0 of 256" in out and "memory: " in out and "p99 ms" in out
    code, _out, err = quoth("--stats", address)
    assert code == 2 and "is a server running?" in err


def test_a_new_key_is_printed_once(quoth: Quoth, tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    code, out, err = quoth("--new-key", "read", "--keys", path)
    assert code == 0 and out.startswith("quoth_") and out.strip() not in err and "'read-1'" in err
    assert out.strip() not in path.read_text()
    code, other, _err = quoth("--new-key", "write", "--keys", path)
    assert code == 0 and other != out and len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ([], 2, "no collection given"),
        (["{collection}", "--host", "0.0.0.0"], 2, "so keys are needed"),
        (["{collection}", "--keys", "{folder}/none"], 2, "quoth keys new"),
        (["{collection}", "--port", "70000"], 2, "port is 70000"),
        (["{collection}", "--host", "203.0.113.1", "--keys", "{keys}"], 2, "cannot be listened at"),
        (["{folder}/none.quoth"], 3, "there is no collection"),
        (["--new-key", "read"], 2, "needs --keys"),
        (["--new-key", "admin", "--keys", "{keys}"], 2, "expected observe, read or write"),
        (["--stats", "ftp://a"], 2, "expected http://"),
    ],
)
def test_what_cannot_be_served_is_explained(
    quoth: Quoth, collection: Path, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    keys = tmp_path / "keys.jsonl"
    assert quoth("--new-key", "read", "--keys", keys)[0] == 0
    places = {"collection": str(collection), "folder": str(tmp_path), "keys": str(keys)}
    found, out, err = quoth(*(each.format(**places) for each in arguments))
    assert found == code and out == "" and expected in err and "Traceback" not in err


def _run_without(module: str, code: str) -> subprocess.CompletedProcess[str]:
    blocked = f"import sys; sys.modules[{module!r}] = None; {code}"
    return subprocess.run(
        [sys.executable, "-c", blocked],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.mark.parametrize("module", ["fastapi", "uvicorn"])
def test_a_missing_library_is_named_with_what_installs_it(module: str, collection: Path) -> None:
    given = ["quoth", "serve", str(collection)]
    code = f"sys.argv = {given!r}; from quoth.cli.main import main; main()"
    found = _run_without(module, code)
    assert found.returncode == 2 and "Traceback" not in found.stderr
    assert (
        f"serving needs {module}" in found.stderr and 'pip install "quoth[server]"' in found.stderr
    )


def test_nothing_of_the_server_is_imported_before_it_serves() -> None:
    code = (
        "import sys; sys.argv = ['quoth', 'serve', '--help']; from quoth.cli.main import make_app;"
        "make_app()(standalone_mode=False);"
        "heavy = {'fastapi', 'starlette', 'uvicorn', 'mcp', 'torch'};"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert found.returncode == 0 and b"--allow-writes" in found.stdout


def test_bm25_is_served_without_the_libraries_of_networks(collection: Path) -> None:
    code = f"""
for name in ("torch", "numpy", "transformers", "tokenizers"):
    sys.modules[name] = None
from fastapi.testclient import TestClient
from quoth.engine.engine import Engine
from quoth.server.routes import create_app
with Engine.open({str(collection)!r}) as engine:
    with TestClient(create_app(engine), base_url="http://127.0.0.1") as client:
        while client.get("/health/ready").status_code != 200: pass
        print(client.post("/search", json={{"query": "owl"}}).json()["hits"][0]["docid"])
        print(client.post("/answer", json={{"question": "owl"}}).json()["error"]["message"])
"""
    found = _run_without("faiss", code)
    first, second = found.stdout.splitlines()
    assert first == "owl" and 'pip install "quoth[neural]"' in second, found.stderr
