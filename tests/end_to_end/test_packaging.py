"""The wheel, the container file's steps and the systemd unit, run as far as the machine allows.

No container engine is needed: the steps that build the image run here, with the image's folders
moved below a temporary one, and its entry point, health check and stop signal are tried. The slow
test does so in a clean root (tools/try_container.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.server.access.keys import add_numbered_key
from quoth.settings.server import ServerConfig

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "packaging" / "Containerfile"
UNIT = ROOT / "packaging" / "quoth.service"
LONGEST = ("timeout_seconds", "answer_seconds", "write_seconds")
Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the container file copies, so that nothing else can be relied on."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel: pip install hatchling")
    folder = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for name, argument in instructions():
        if name == "COPY" and "--from" not in argument:
            *sources, target = argument.split()
            for each in sources:
                if (ROOT / each).is_dir():
                    shutil.copytree(ROOT / each, folder / target, ignore=ignored)
                else:
                    (folder / target).mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / each, folder / target)
    return folder


def instructions() -> list[Instruction]:
    """Read the container file: each instruction with its argument, lines joined."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.M)
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def argument_of(name: str) -> str:
    """Return the argument of the last instruction of a kind, which is the one in force."""
    return [argument for each, argument in instructions() if each == name][-1]


def offline() -> dict[str, str]:
    """Let pip fetch nothing and build with what is installed."""
    quiet = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return {**os.environ, **quiet, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""}


def test_a_wheel_holds_everything_but_models(source: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path), str(source)], check=True, env=offline())
    (wheel,) = tmp_path.glob("quoth-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        (record,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = opened.read(record).decode()
    package = ROOT / "src" / "quoth"
    wanted = {
        str(each.relative_to(package.parent))
        for each in package.rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    assert wanted <= names
    assert any(name.endswith("share/man/man1/quoth.1") for name in names)
    assert not [name for name in names if name.endswith((".safetensors", ".gguf", ".onnx"))]
    assert "Provides-Extra: all" in described
    assert wheel.stat().st_size < 5_000_000


@pytest.fixture(scope="module")
def image(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the steps of the build; the environment may use the libraries installed here."""
    root = tmp_path_factory.mktemp("image")
    extras = next(argument.partition("=")[2] for name, argument in instructions() if name == "ARG")
    for name, argument in instructions():
        if name == "RUN" and "useradd" not in argument:
            step = argument.replace("/opt/quoth", str(root / "opt")).replace("/src", str(source))
            subprocess.run(
                ["sh", "-ec", step], check=True, env={**offline(), "EXTRAS": extras}, cwd=source
            )
            _lend_libraries(root / "opt")
    return root


def _lend_libraries(environment: Path) -> None:
    for folder in environment.glob("lib/python*/site-packages"):
        (folder / "lent.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")


def test_the_image_serves_is_healthy_and_stops_when_told(image: Path, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents([Document("owl", {"text": ("Owls hunt at dusk.",)})])
    entry, command = json.loads(argument_of("ENTRYPOINT")), json.loads(argument_of("CMD"))
    assert argument_of("STOPSIGNAL") == "SIGTERM" and argument_of("USER") == "quoth"
    assert command[command.index("--port") + 1] == argument_of("EXPOSE") == "8080"
    moved = _Moved(image, tmp_path)
    keys = [*moved(entry), "keys", "new", "me", "--keys", str(tmp_path / "keys.jsonl")]
    subprocess.run(keys, check=True, capture_output=True, env=moved.environment)
    check = json.loads(argument_of("HEALTHCHECK").partition("CMD ")[2])
    with moved.running([*moved(entry), *moved(command)]) as server:
        subprocess.run(moved(check), check=True, env=moved.environment)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=240) == 0


class _Moved:
    """Commands of the image, with its folders and its port moved to where they are here."""

    def __init__(self, image: Path, data: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self._image, self._data = image, data
        installed = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.environment = {**installed, "XDG_CACHE_HOME": str(data / "cache")}

    def __call__(self, arguments: list[str]) -> list[str]:
        changes = {"/opt/quoth": str(self._image / "opt"), "/data": str(self._data)}
        changes |= {"8080": self._port, "0.0.0.0": "127.0.0.1", "timeout=4": "timeout=200"}
        moved = []
        for each in arguments:
            for old, new in changes.items():
                each = each.replace(old, new)
            moved.append(each)
        return moved

    @contextlib.contextmanager
    def running(self, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
        """Run the server from when it listens on; it logs JSON."""
        with subprocess.Popen(
            arguments, env=self.environment, stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stderr is not None
            seen = ""
            try:
                while not seen.startswith("serving "):
                    seen = json.loads(next(server.stderr, '{"message": "serving ended"}'))[
                        "message"
                    ]
                assert server.poll() is None, "the server ended before it listened"
                yield server
            finally:
                server.kill()


@pytest.mark.slow
def test_the_image_is_built_and_run_in_a_clean_root(tmp_path: Path) -> None:
    """What test_the_image_serves… does with lent libraries, from a bare Debian and the index."""
    missing = [name for name in ("debootstrap", "unshare", "chroot") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing else'}")
    lent = [each for each in os.environ.get("PIP_FIND_LINKS", "").split() if Path(each).is_dir()]
    options = [word for folder in lent for word in ("--lend", folder)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "try_container.py"), str(tmp_path), *options],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "and stopped" in done.stderr, done.stderr


def test_the_unit_is_valid(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = Path(sys.executable).parent / "quoth"
    text = UNIT.read_text().replace("/opt/quoth/bin/quoth", str(program))
    (tmp_path / "quoth.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "quoth.service")],
        capture_output=True,
        text=True,
    )
    own = [line for line in done.stderr.splitlines() if "quoth.service" in line]
    assert own == [], done.stderr


def test_the_unit_starts_a_command_that_is_understood(tmp_path: Path) -> None:
    """Its options are parsed and its keys are read; then there is no collection."""
    add_numbered_key(tmp_path / "keys.jsonl", "read")
    (start,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.M)
    moved = start.replace("/etc/quoth", str(tmp_path)).replace("/var/lib/quoth", str(tmp_path))
    quoth = [sys.executable, "-c", "from quoth.cli.main import main; main()"]
    done = subprocess.run([*quoth, *shlex.split(moved)[1:]], capture_output=True, text=True)
    assert done.returncode == 3 and "notes.quoth" in done.stderr, done.stderr
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.M)
    longest = max(getattr(ServerConfig(), each) for each in LONGEST)
    assert stop and int(stop[1]) > longest
