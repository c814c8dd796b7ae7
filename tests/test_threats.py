"""The promises of SECURITY.md: each names a test that is there, and some are tested here."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "quoth").rglob("*.py"))
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
TRUSTED_AMONG_THEMSELVES = {"cluster", "portion_workers.py"}
"""Where processes exchange pickled objects: members of a Ray cluster, and a writer's own workers,
over sockets that nobody else can reach."""


def _tools() -> None:
    if str(ROOT / "tools") not in sys.path:
        sys.path.insert(0, str(ROOT / "tools"))


def test_every_promise_names_a_test_that_exists() -> None:
    assert len(NAMED) > 15
    for path, name in NAMED:
        tree = ast.parse((ROOT / path).read_text())
        names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
        assert name in names, f"{path}::{name}"
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line[:2] == "| "]
    assert all("`tests/" in row for row in rows[1:]), "a promise without a test"


def test_no_code_is_made_of_data() -> None:
    for path in SOURCES:
        if TRUSTED_AMONG_THEMSELVES & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in FORBIDDEN_CALLS, f"{path}:{node.lineno}"
            is_completion = path.parts[-2:] == ("commands", "shell.py")  # `shell` names one there
            if isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
                if is_completion and node.arg == "shell":
                    continue
                assert isinstance(node.value, ast.Constant) and node.value.value is False, path
            imported = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not FORBIDDEN_MODULES & {each.split(".")[0] for each in imported}, path


@pytest.mark.parametrize("name", ["collection.db", "lexical/passages.db", "lexical/statistics.db"])
def test_what_is_removed_is_overwritten(tmp_path: Path, name: str) -> None:
    secret = "zanzibarisch"
    folder = tmp_path / "c.quoth"
    with Engine.open(folder) as engine:
        others = [Document(f"d{at}", {"text": (f"owl {at}",)}) for at in range(40)]
        engine.add_documents([Document("secret", {"text": (f"the {secret} word",)}), *others])
        assert secret.encode() in (folder / "collection.db").read_bytes()
        engine.remove(["secret"])
    for path in folder.rglob(Path(name).name + "*"):
        assert secret.encode() not in path.read_bytes(), path


NO_NETWORK = """
import json, socket, sys
from pathlib import Path
def refuse(*arguments, **options):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = refuse
socket.getaddrinfo = refuse
from quoth.engine.engine import Engine
folder = Path(sys.argv[1])
(folder / "a.html").write_text("<html><body><img src='http://example.org/x'>owl</body></html>")
(folder / "b.md").write_text("# Owl ![x](http://example.org/y)")
with Engine.open(folder / "c.quoth") as engine:
    report = engine.add([str(folder / "a.html"), str(folder / "b.md")])
    hits = engine.search("owl")
    engine.verify()
print(json.dumps([report.added, len(hits)]))
"""


def test_no_connection_is_opened(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_NETWORK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, 2]


def test_every_locked_package_has_a_hash() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()[1:]
    assert len(lines) > 100
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line), line
    names = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    assert {"tantivy", "pypdf", "trafilatura", "fastapi", "pytest"} <= names
    assert "torch==2.13.0" in (ROOT / "pyproject.toml").read_text()  # its files differ by machine


def test_a_bill_of_materials_is_the_same_twice_and_names_what_is_needed() -> None:
    _tools()
    import sbom

    bills = [sbom.make_bill(sbom.installed(), root="pytest") for _time in range(2)]
    assert bills[0] == bills[1] and bills[0]["bomFormat"] == "CycloneDX"
    names = {each["name"].lower() for each in bills[0]["components"]}
    assert {"pluggy", "iniconfig", "packaging"} <= names
    references = {each["bom-ref"] for each in bills[0]["components"]}
    needed = {each for row in bills[0]["dependencies"] for each in row["dependsOn"]}
    assert needed <= {*references, bills[0]["metadata"]["component"]["bom-ref"]}


def test_advisories_are_compared_without_a_network() -> None:
    _tools()
    import audit

    advisory = {
        "id": "X-1",
        "summary": "bad",
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": "Some_Package"},
                "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "1.5"}]}
                ],
            }
        ],
    }
    for version, expected in (("0.9", 0), ("1.0", 1), ("1.4.9", 1), ("1.5", 0)):
        found = list(audit.affected(advisory, {"some-package": version}))
        assert len(found) == expected, version
    assert not list(audit.affected({**advisory, "withdrawn": "now"}, {"some-package": "1.2"}))
