"""Guard: the commands of README.md and docs/usage.md run, and the pages' links lead somewhere.

Every fenced block of a page tagged `sh` or `console` is run, all in one bash session; `python`
blocks are run after them in the same folder. A block below the comment `<!-- not run -->` is left
out, and so are lines that install, need the repository, or serve until they are stopped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
USAGE = ROOT / "docs" / "usage.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
_NOT_RUN = "<!-- not run -->"
_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n`]*\n(.*?)^\1\2`*[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?:src|href)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(
    r"^(make\b|git clone\b|cd quoth\b|(python3? -m )?pip3? install\b|quoth serve\b)"
)
_NOTES = {  # what README.md calls one's own files
    "passport.md": "# Passport\n\nPassport renewal takes six weeks. Bring two photographs.\n",
    "garden.txt": "Prune the apple tree in February, before the buds open.\n",
}


@dataclass(frozen=True)
class Block:
    """A fenced block and the line it starts on."""

    language: str
    line: int
    text: str


def find_blocks(page: str) -> list[Block]:
    """List the fenced blocks of a page that are to be run."""
    blocks = []
    for match in _FENCE.finditer(page):
        if not page[: match.start()].rstrip().endswith(_NOT_RUN):
            indent = len(match[1])
            text = "\n".join(line[indent:] for line in match[4].splitlines())
            blocks.append(Block(match[3], page.count("\n", 0, match.start()) + 1, text))
    return blocks


def find_commands(block: Block) -> str:
    """Take what is typed from a block: all of `sh`, of `console` what follows a `$ `."""
    lines = block.text.splitlines()
    has_prompts = block.language == "console" or any(line.startswith("$ ") for line in lines)
    if has_prompts:
        kept, continues = [], False
        for line in lines:
            if line.startswith("$ ") or continues:
                kept.append(line.removeprefix("$ "))
                continues = line.endswith("\\")
        lines = kept
    return "\n".join(line for line in lines if not _ELSEWHERE.match(line.strip()))


@pytest.fixture
def caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the language model converted, which takes long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
    }


def _run(script: Path, *command: str, folder: Path) -> None:
    done = subprocess.run(
        [*command, str(script)],
        cwd=folder,
        env=_environment(script.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,  # only a command that hangs takes so long
        check=False,
    )
    assert done.returncode == 0, f"{script.read_text()}\n{done.stdout}\n{done.stderr}"


def _write_notes(home: Path) -> None:
    (home / "notes").mkdir(parents=True)
    for name, text in _NOTES.items():
        (home / "notes" / name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("caches")
@pytest.mark.parametrize("page", [README, USAGE], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_works(page: Path, tmp_path: Path) -> None:
    blocks = find_blocks(page.read_text(encoding="utf-8"))
    shell = [block for block in blocks if block.language in ("sh", "console")]
    python = [block for block in blocks if block.language == "python"]
    assert shell, f"{page.name} shows no commands"
    folder = tmp_path / "work"
    folder.mkdir()
    _write_notes(tmp_path / "home")
    session = tmp_path / "session.sh"
    steps = "\n".join(f"# {page.name}:{block.line}\n{find_commands(block)}" for block in shell)
    session.write_text(f"set -e -o pipefail\n{steps}\n", encoding="utf-8")
    _run(session, "bash", "-x", folder=folder)
    for block in python:
        script = tmp_path / f"page_{block.line}.py"
        script.write_text(block.text, encoding="utf-8")
        _run(script, sys.executable, "-W", "error", folder=folder)


def test_the_readme_shows_five_commands_and_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    shown = [block.text for block in find_blocks(text) if block.language == "sh"]
    assert [line.split()[1] for block in shown for line in block.splitlines()] == [
        *("add", "search", "encode", "ask", "serve")
    ]
    assert {"make demo", "make test"} <= {
        line.partition("#")[0].strip() for line in text.split("\n")
    }
    assert len(text.splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = []
    for match in _LINK.finditer(text):
        target = unquote((match[1] or match[2]).partition("#")[0])
        is_elsewhere = re.match(r"[a-z][a-z0-9+.-]*:", target)
        if target and not is_elsewhere and not (page.parent / target).exists():
            missing.append(target)
    assert not missing


# The guard itself ------------------------------------------------------------------------------

_PAGE = """
```sh
$ quoth add c.quoth \\
    notes/
added 3
pip install quoth
```
text `a` and
<!-- not run -->

```sh
rm -rf nothing
```
- in a list

  ```console
  $ echo one
  one
  ```
```python
print(1)
```
```sh
make demo
quoth demo  # comment
quoth serve c.quoth
```
```
plain
```
"""


def test_blocks_and_commands_are_found() -> None:
    blocks = find_blocks(_PAGE)
    assert [(block.language, block.line) for block in blocks] == [
        ("sh", 2),
        ("console", 16),
        ("python", 20),
        ("sh", 23),
        ("", 28),
    ]
    assert find_commands(blocks[0]) == "quoth add c.quoth \\\n    notes/"
    assert find_commands(blocks[1]) == "echo one"
    assert find_commands(blocks[3]) == "quoth demo  # comment"


def test_a_failing_command_fails(tmp_path: Path) -> None:
    script = tmp_path / "session.sh"
    script.write_text("set -e -o pipefail\nfalse\ntrue\n")
    with pytest.raises(AssertionError, match="false"):
        _run(script, "bash", folder=tmp_path)
