"""Ignore rules: `.gitignore` and `.quothignore`, read as git reads them.

The rules of a folder hold for everything below it. Rules of a deeper folder go before those of the
folders above, a later line before an earlier one, and `.quothignore` before the `.gitignore` beside
it, so that `!notes.log` there brings back what git ignores. What stands in an ignored folder cannot
be brought back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

from quoth.records import Place, Problem
from quoth.text.folders.config import FolderConfig
from quoth.text.readers.files import show_path

RULE_FILES = GITIGNORE, QUOTHIGNORE = ".gitignore", ".quothignore"
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one folder, as long as its path from the top is."""

    depth: int
    """How many leading characters of a path are the folder's own."""

    spec: GitIgnoreSpec

    def decide(self, path: str) -> bool | None:
        """Whether a path is ignored; None where no rule of this folder says."""
        return self.spec.check_file(path[self.depth :]).include


RuleStack = tuple[Rules, ...]
"""The rules that hold in a folder, its own last."""


def is_ignored(path: str, stack: RuleStack) -> bool:
    """Whether a path, below the top and with a slash at its end for a folder, is ignored.

    >>> rules = Rules(0, GitIgnoreSpec.from_lines(["*.log", "!keep.log", "build/"]))
    >>> [is_ignored(each, (rules,)) for each in ("a/b.log", "keep.log", "a/build/", "build")]
    [True, False, True, False]
    """
    for rules in reversed(stack):
        decision = rules.decide(path)
        if decision is not None:
            return decision
    return False


def read_rules(folder: str, prefix: str, config: FolderConfig) -> Rules | Problem | None:
    """Read the rules that stand in a folder; None where there are none.

    `prefix` is the folder's path from the top, with a slash at its end, empty for the top itself.
    """
    names = (GITIGNORE, QUOTHIGNORE) if config.gitignore else (QUOTHIGNORE,)
    lines: list[str] = []
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                lines += stream.read(_MAX_BYTES).splitlines()
        except FileNotFoundError:
            continue
        except OSError as error:
            return Problem(Place(show_path(path)), f"cannot be opened: {error.strerror}")
    spec = _parse(lines)
    if isinstance(spec, str):
        return Problem(Place(show_path(folder)), f"invalid ignore rule: {spec}")
    return Rules(len(prefix), spec) if lines else None


def rules_above(top: str, config: FolderConfig) -> RuleStack:
    """Read the `.gitignore` files above a folder, up to the root of its git repository."""
    if not config.gitignore:
        return ()
    found = []
    for folder, inner in _parents(top):
        path = os.path.join(folder, GITIGNORE)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                spec = _parse(stream.read(_MAX_BYTES).splitlines())
        except OSError:
            continue
        if not isinstance(spec, str):
            found.append(_Above(0, spec, inner))
    return tuple(reversed(found))


def given_rules(config: FolderConfig) -> RuleStack:
    """Return the rules of the settings; they are asked first."""
    return (Rules(0, GitIgnoreSpec.from_lines(config.ignore)),) if config.ignore else ()


@dataclass(frozen=True, slots=True)
class _Above(Rules):
    """Rules of a folder above the top; a path begins with what lies between."""

    inner: str = ""

    def decide(self, path: str) -> bool | None:
        """Whether a path below the top is ignored by a folder above it."""
        return self.spec.check_file(self.inner + path).include


def _parents(top: str) -> Iterator[tuple[str, str]]:
    """List the folders above one, up to its repository's root, with the path back from each."""
    found, folder, inner = [], os.path.realpath(top), ""
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, name = os.path.split(folder)
        if not name:
            return
        inner = f"{name}/{inner}"
        found.append((folder, inner))
    yield from found


def _parse(lines: Sequence[str]) -> GitIgnoreSpec | str:
    """Read rules; where one cannot be, say why."""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        return str(error)
