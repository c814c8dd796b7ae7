"""Guard: the commands of README.md and docs/usage.md run, and the pages' links lead somewhere.

Every fenced block of a page tagged `sh` or `console` is run, all in one bash session; `python`
blocks are run after them in the same folder. A block below `<!-- not run: REASON -->` is left out,
and so are lines that install, need the repository, or serve until they are stopped. The other
pages, and the reasons, are in tests/test_pages.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from page_blocks import FENCE, ROOT, blocks_to_run, find_blocks, find_commands, run_script

README = ROOT / "README.md"
USAGE = ROOT / "docs" / "usage.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?:src|href)=\"([^\"]+)\"")
_NOTES = {  # what README.md calls one's own files
    "passport.md": "# Passport\n\nPassport renewal takes six weeks. Bring two photographs.\n",
    "garden.txt": "Prune the apple tree in February, before the buds open.\n",
}


@pytest.fixture
def caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the language model converted, which takes long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))


def _write_notes(home: Path) -> None:
    (home / "notes").mkdir(parents=True)
    for name, text in _NOTES.items():
        (home / "notes" / name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("caches")
@pytest.mark.parametrize("page", [README, USAGE], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_works(page: Path, tmp_path: Path) -> None:
    blocks = blocks_to_run(page.read_text(encoding="utf-8"))
    shell = [block for block in blocks if block.language in ("sh", "console")]
    python = [block for block in blocks if block.language == "python"]
    assert shell, f"{page.name} shows no commands"
    folder = tmp_path / "work"
    folder.mkdir()
    _write_notes(tmp_path / "home")
    session = tmp_path / "session.sh"
    steps = "\n".join(f"# {page.name}:{block.line}\n{find_commands(block)}" for block in shell)
    session.write_text(f"set -e -o pipefail\n{steps}\n", encoding="utf-8")
    run_script(session, "bash", "-x", folder=folder)
    for block in python:
        script = tmp_path / f"page_{block.line}.py"
        script.write_text(block.text, encoding="utf-8")
        run_script(script, sys.executable, "-W", "error", folder=folder)


def test_the_readme_shows_five_commands_and_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    shown = [block.text for block in blocks_to_run(text) if block.language == "sh"]
    assert [line.split()[1] for block in shown for line in block.splitlines()] == [
        *("add", "search", "encode", "ask", "serve")
    ]
    assert {"make demo", "make test"} <= {
        line.partition("#")[0].strip() for line in text.split("\n")
    }
    assert len(text.splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
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
<!-- not run: harmful -->

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
    assert [each.reason for each in find_blocks(_PAGE)] == ["", "harmful", "", "", "", ""]
    blocks = blocks_to_run(_PAGE)
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
        run_script(script, "bash", folder=tmp_path)
