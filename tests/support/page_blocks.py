"""The fenced blocks of a page, what is typed in them, and how to run that.

A block is run unless it stands below a comment that says why not: `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n`]*\n(.*?)^\1\2`*[ ]*$", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- not run: ([^>]+?) -->\s*\Z")
_ELSEWHERE = re.compile(
    r"^(make\b|git clone\b|cd quoth\b|(python3? -m )?pip3? install\b|quoth serve\b)"
)
_JOINED = {"&&", "||", ";", "|"}


@dataclass(frozen=True)
class Block:
    """A fenced block, the line it starts on, and why it is not run, if it is not."""

    language: str
    line: int
    text: str
    reason: str = ""


def find_blocks(page: str) -> list[Block]:
    """List the fenced blocks of a page."""
    blocks = []
    for match in FENCE.finditer(page):
        told = _REASON.search(page[: match.start()])
        indent = len(match[1])
        text = "\n".join(line[indent:] for line in match[4].splitlines())
        line = page.count("\n", 0, match.start()) + 1
        blocks.append(Block(match[3], line, text, told[1] if told else ""))
    return blocks


def blocks_to_run(page: str) -> list[Block]:
    """List the fenced blocks of a page that are to be run."""
    return [block for block in find_blocks(page) if not block.reason]


def typed_lines(block: Block) -> list[str]:
    """Take what is typed from a block: all of `sh`, of `console` what follows a `$ `."""
    lines = block.text.splitlines()
    has_prompts = block.language == "console" or any(line.startswith("$ ") for line in lines)
    if not has_prompts:
        return lines
    kept, continues = [], False
    for line in lines:
        if line.startswith("$ ") or continues:
            kept.append(line.removeprefix("$ "))
            continues = line.endswith("\\")
    return kept


def find_commands(block: Block) -> str:
    """Leave out lines that install, need the repository, or serve until they are stopped."""
    return "\n".join(line for line in typed_lines(block) if not _ELSEWHERE.match(line.strip()))


def split_commands(block: Block) -> list[list[str]]:
    r"""List every command of a block as words, without comments and redirections.

    >>> split_commands(Block("sh", 1, "cd a && quoth add b \\\n  c  # new\nquoth man | man -l -"))
    [['cd', 'a'], ['quoth', 'add', 'b', 'c'], ['quoth', 'man'], ['man', '-l', '-']]
    """
    commands: list[list[str]] = []
    for line in "\n".join(typed_lines(block)).replace("\\\n", " ").splitlines():
        reader = shlex.shlex(line, posix=True, punctuation_chars="&|;")
        reader.whitespace_split, reader.commenters = True, "#"
        command: list[str] = []
        for word in [*reader, ";"]:
            if word in _JOINED:
                commands += [command] if command else []
                command = []
            else:
                command.append(word)
    return [_without_redirections(each) for each in commands]


def _without_redirections(words: list[str]) -> list[str]:
    for place, word in enumerate(words):
        if word in (">", ">>", "2>>"):
            return words[:place]
    return words


def run_script(script: Path, *command: str, folder: Path) -> str:
    """Run a script as a reader of the page would, with home beside it; return what it prints."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(script.parent / "home"),
    }
    done = subprocess.run(
        [*command, str(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,  # only a command that hangs takes so long
        check=False,
    )
    assert done.returncode == 0, f"{script.read_text()}\n{done.stdout}\n{done.stderr}"
    return done.stdout
