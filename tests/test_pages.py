"""Guard: every block of every page runs, or is read by a parser, or says why it does not run.

README.md and docs/usage.md run in tests/test_readme.py. A block below `<!-- not run: REASON -->`
gives one of the reasons below; its commands are looked up all the same: options must exist,
settings too, modules, extras, versions and targets of make. So is every command and setting that
the text mentions.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import itertools
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from page_blocks import (
    FENCE,
    ROOT,
    Block,
    blocks_to_run,
    find_blocks,
    find_commands,
    run_script,
    split_commands,
)

from quoth.cli.main import make_app
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.settings.config import build_config, sections, setting_names
from quoth.settings.parsing import read_assignments

PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    if page.name != "CHANGELOG.md"  # it tells of earlier versions
}
RUN = {"README.md", "docs/usage.md", "docs/install.md", "docs/integrations.md", "docs/serving.md"}
REASONS = {
    "installs packages",
    "needs a proxy",
    "needs a Ray cluster",
    "needs root",
    "serves until it is stopped",
    "takes hours, most of it on a GPU",
    "takes minutes",
}
OTHERS = {"cd", "git", "install", "ray", "source", "systemctl", "useradd", "python3"}
"""Programs of others, whose options are not looked up."""

BIRDS = [
    Document("owl", {"title": ("Barn owl",), "text": ("The owl hunts at dusk.",)}, {"year": 2021}),
    Document("hen", {"title": ("Hen",), "text": ("A hen sleeps at dusk.",)}, {"year": 2019}),
]
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_run_or_says_why(name: str) -> None:
    for block in find_blocks(PAGES[name]):
        place = f"{name}:{block.line}"
        if block.reason:
            assert block.reason in REASONS, place
            _check(block, place)
        elif block.language in ("sh", "console", "python"):
            assert name in RUN, f"{place} is never run; say why: <!-- not run: REASON -->"
        else:
            _read(block, place)


def _check(block: Block, place: str) -> None:
    """Look up the commands of a block that is not run."""
    if block.language == "nginx":
        assert "proxy_pass http://127.0.0.1:8080;" in block.text, place
        return
    for words in split_commands(block):
        program = Path(words[0]).name
        if program == "quoth":
            _parse(words[1:])
        elif program == "make":
            assert set(words[1:]) <= _targets(), place
        elif "pip" in (program, *words[1:3]):
            _check_installed(words)
        elif words[:2] == ["python", "-m"]:
            _check_module(words[2], [word for word in words[3:] if word.startswith("--")])
        else:
            assert program in OTHERS, f"{place}: {program}"


def _parse(words: list[str]) -> None:
    """Read a command line as quoth does, without running it."""
    command: Any = typer.main.get_command(make_app())
    context, rest, name = None, words, "quoth"
    while True:
        context = command.make_context(name, list(rest), parent=context)
        if not hasattr(command, "commands"):
            assignments = context.params.get("set_") or []
            read_assignments(assignments, sorted(sections()))
            return
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)


@functools.cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def _check_installed(words: list[str]) -> None:
    """Extras must exist, and versions be those that the Makefile pins."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words:
        if extras := re.fullmatch(r"(?:quoth|\.)\[(.+)\]", word):
            assert set(extras[1].split(",")) <= set(declared["optional-dependencies"]), word
        if "==" in word:
            assert re.search(rf"{re.escape(word)}$", (ROOT / "Makefile").read_text(), re.M), word


def _check_module(module: str, options: list[str]) -> None:
    """The module must exist, and each option stand in it or in what it imports from beside it."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else ROOT / module.replace(".", "/") / "__main__.py"
    text = path.read_text(encoding="utf-8")
    beside = [each.read_text(encoding="utf-8") for each in path.parent.glob("*.py")]
    for option in options:
        name = option.partition("=")[0]
        assert any(f'"{name}"' in each for each in (text, *beside)), f"{module} {name}"


def _read(block: Block, place: str) -> None:
    """Read what is data; what is neither that nor commands must be called text."""
    if block.language == "toml":
        build_config(tomllib.loads(block.text))
    elif block.language == "json":
        servers = json.loads(block.text).get("mcpServers", {})
        for each in servers.values():
            assert each["command"] == "quoth", place
            _parse(each["args"])
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    else:
        assert block.language == "text", f"{place}: a block without a language; text is one"
        first = {line.removeprefix("$ ").split(" ")[0] for line in block.text.splitlines()}
        assert not first & {"quoth", "pip", "make", "python", "curl"}, f"{place} holds commands"


@pytest.mark.parametrize("name", PAGES)
def test_what_is_said_of_commands_and_settings_is_true_of_them(name: str) -> None:
    prose = FENCE.sub("", PAGES[name])
    unknown = []
    for match in _SPAN.finditer(prose):
        words = match[1].replace("\\|", "|").split()
        if words[0] == "quoth" and len(words) > 1:
            unknown += [] if _is_known(words[1:]) else [match[1]]
        elif words[0].startswith("--") and "." in words[0]:
            setting = words[0].removeprefix("--").partition("=")[0]
            unknown += [] if _is_setting(setting) else [match[1]]
        unknown += [each for each in _assigned(words) if not _is_setting(each)]
    assert not unknown


def _is_known(words: list[str]) -> bool:
    """Whether a command exists and has the options that are mentioned with it."""
    command: Any = typer.main.get_command(make_app())
    if words[0] == "COMMAND" or words[0].startswith("--"):
        return True
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0].rstrip(",;") not in command.commands:
            return False
        command, words = command.commands[words[0].rstrip(",;")], words[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "--help-all"}
    mentioned = [word.partition("=")[0].replace("_", "-") for word in words]
    return all(word in known for word in mentioned if word.startswith("--"))


def _assigned(words: list[str]) -> Iterator[str]:
    """Find the settings that are set by --set."""
    for before, word in itertools.pairwise(words):
        if before == "--set":
            yield word.partition("=")[0]


def _is_setting(name: str) -> bool:
    section, _, field = name.replace("-", "_").partition(".")
    if section == "section" or (section in sections() and field in ("…", "")):
        return True  # a setting as such
    return section in sections() and field in setting_names(sections()[section])


UsageError = typer.BadParameter.__bases__[0]  # of the click that typer brings


@pytest.mark.parametrize(
    "wrong",
    [
        "quoth serch notes.quoth owls",
        "quoth search notes.quoth owls --no-such-option",
        "quoth train nothing",
        "pip install 'quoth[nothing]'",
        "pip install torch==0.1",
        "make nothing",
        "python -m benchmarks.no_such_module",
        "python -m benchmarks.papers --no-such-option",
        "rm -rf notes",
    ],
)
def test_what_is_wrong_with_a_command_is_found(wrong: str) -> None:
    with pytest.raises((AssertionError, FileNotFoundError, UsageError)):
        _check(Block("sh", 1, wrong, "takes minutes"), "here")


def test_what_is_wrong_with_a_mention_is_found() -> None:
    assert _is_known(["sync", "notes.quoth", "--dry-run"]) and _is_known(["keys", "rotate", "NAME"])
    assert not _is_known(["sync", "--wet-run"]) and not _is_known(["keys", "lose"])
    assert _is_setting("server.path-prefix") and not _is_setting("fusion.weights")


# The pages that are run -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection that the pages call notes.quoth."""
    folder = tmp_path_factory.mktemp("pages") / "work"
    (folder.parent / "home").mkdir()
    with Engine.open(folder / "notes.quoth") as engine:
        engine.add_documents(BIRDS)
    return folder


def _bash(name: str, blocks: list[Block], folder: Path) -> str:
    steps = "\n".join(f"# {name}:{each.line}\n{find_commands(each)}" for each in blocks)
    if shutil.which("man") is None:
        steps = steps.replace("| man -l -", "> /dev/null")
    script = folder.parent / "session.sh"
    script.write_text(f"set -e -o pipefail\n{steps}\n", encoding="utf-8")
    return run_script(script, "bash", "-x", folder=folder)


def test_installing_leaves_a_shell_that_completes(notes: Path) -> None:
    name = "docs/install.md"
    _bash(name, [each for each in blocks_to_run(PAGES[name]) if each.language == "sh"], notes)
    home = notes.parent / "home"
    assert "quoth completion zsh" in (home / ".zshrc").read_text()
    assert "_QUOTH_COMPLETE" in (home / ".config/fish/completions/quoth.fish").read_text()


INTEGRATIONS = blocks_to_run(PAGES["docs/integrations.md"])


@pytest.mark.parametrize("block", INTEGRATIONS, ids=lambda block: f"line-{block.line}")
def test_integrations(block: Block, notes: Path) -> None:
    tree = ast.parse(block.text)
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import)]
    for node in imported:
        module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        assert module is not None
        _require_libraries_of(module)
    script = notes.parent / f"integrations_{block.line}.py"
    opened = 'from quoth import Engine\n\nengine = Engine.open("notes.quoth")\n'
    script.write_text(opened + block.text, encoding="utf-8")
    run_script(script, sys.executable, folder=notes)


_ADAPTED = {"langchain": "langchain_core", "llama_index": "llama_index.core"}


def _require_libraries_of(module: str) -> None:
    adapted = module.removeprefix("quoth.adapters.") if "adapters" in module else module
    library = _ADAPTED.get(adapted, adapted)
    if library.startswith("quoth"):
        return
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec(library) is not None:
            return
    pytest.skip(f"{library} is not installed")


def test_serving(notes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not all(map(importlib.util.find_spec, ("fastapi", "torch", "quoth_weights"))):
        pytest.skip("the extra server, or the weights, are not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    blocks = blocks_to_run(PAGES["docs/serving.md"])
    shell = [each for each in blocks if each.language == "sh"]
    (curl,) = [each for each in shell if each.text.startswith("curl")]
    secrets = re.findall(r"^quoth_\S+$", _bash("serving.md", shell[:2], notes), re.M)
    plain, keyed = (
        words for block in shell[:2] for words in split_commands(block) if _serves(words)
    )
    with _running(plain, notes) as port:
        if shutil.which("curl"):
            moved = Block("sh", curl.line, curl.text.replace("8080", port))
            found = json.loads(_bash("serving.md", [moved], notes))
            assert [hit["docid"] for hit in found["hits"]] == ["owl", "hen"]
            assert "explanation" in found["hits"][0]
    (python,) = [each for each in blocks if each.language == "python"]
    with _running(keyed, notes) as port:
        script = notes.parent / "client.py"
        text = python.text.replace("8080", port).replace("quoth_…", secrets[-1])
        script.write_text(text, encoding="utf-8")
        told = run_script(script, sys.executable, "-W", "error", folder=notes)
    assert "The owl hunts at dusk." in told


def _serves(words: list[str]) -> bool:
    return words[:2] == ["quoth", "serve"]


@contextlib.contextmanager
def _running(words: list[str], folder: Path) -> Iterator[str]:
    """Serve as a page says, on another port and this computer only, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    arguments = [*words[1:], "--port", port, "--set", "server.processes=false"]
    arguments = [each.replace("0.0.0.0", "127.0.0.1") for each in arguments]
    quoth = [sys.executable, "-c", "from quoth.cli.main import main; main()"]
    with subprocess.Popen(
        [*quoth, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            assert any("serving notes.quoth at" in line for line in server.stderr)
            yield port
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
            assert server.wait() == 0
        finally:
            server.kill()
