"""List the files of a folder that are to be read, with what tells whether they changed.

Folders are listed in sorted order. What lies behind symbolic links comes last, and every real
folder or file once, so loops end and a link never changes the name of what is there without it.
What cannot be looked into is reported, and named, so that nothing below it is taken for gone.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field

from quoth.records import Place, Problem
from quoth.text.folders.config import FolderConfig
from quoth.text.folders.ignoring import (
    RULE_FILES,
    RuleStack,
    given_rules,
    is_ignored,
    read_rules,
    rules_above,
)
from quoth.text.readers.beir import pick_corpus
from quoth.text.readers.files import find_format, show_path

_OWN = ("collection.db", "shards.json")
"""What stands in a folder that is itself a collection."""

_NEVER = (".git",)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to be read: its path below the top, its size, and when it was last written."""

    path: str
    size: int
    written_ns: int


@dataclass(slots=True)
class Listing:
    """What a folder holds."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    """What is to be read, by path."""

    unread: Counter[str] = field(default_factory=Counter)
    """How many files of formats that are not read, by the end of their names."""

    ignored: int = 0
    """Files and folders that an ignore rule or a dot in their names leaves out."""

    problems: list[Problem] = field(default_factory=list)
    """What cannot be looked at, and why."""

    unreachable: list[str] = field(default_factory=list)
    """Paths that are there but cannot be looked at; a folder's ends in a slash."""

    @property
    def is_lost(self) -> bool:
        """Whether the folder itself cannot be looked into."""
        return "" in self.unreachable

    def is_out_of_sight(self, path: str) -> bool:
        """Whether a path may be there although it is not among the files."""
        return any(
            path.startswith(each) if each.endswith("/") else path == each
            for each in self.unreachable
        )


def list_folder(top: str, config: FolderConfig, *, shown: str) -> Listing:
    """List what is to be read below a folder, which is called `shown` in what is reported."""
    walk = _Walk(top, config, shown)
    walk.enter("", given=given_rules(config), above=rules_above(top, config))
    walk.follow_links()
    walk.listing.files = dict(sorted(walk.listing.files.items()))
    return walk.listing


class _Walk:
    """One way through a folder."""

    def __init__(self, top: str, config: FolderConfig, shown: str) -> None:
        self.listing = Listing()
        self._top, self._config, self._shown = top, config, shown
        self._given: RuleStack = ()
        self._is_following = False
        self._links: list[tuple[str, RuleStack]] = []
        self._folders: set[tuple[int, int]] = set()
        self._files: set[tuple[int, int]] = set()

    def enter(self, path: str, *, given: RuleStack, above: RuleStack) -> None:
        """List a folder, named with a slash at its end, and what is below it."""
        self._given = given
        pending = [(path, above)]
        while pending:
            folder, stack = pending.pop()
            below = self._list_one(folder, stack)
            pending += reversed(below)

    def follow_links(self) -> None:
        """Look at what links lead to, until no new ones are found."""
        self._is_following = True
        while self._links:
            links, self._links = sorted(self._links, key=lambda each: each[0]), []
            for path, stack in links:
                self._follow(path, stack)

    def _list_one(self, folder: str, stack: RuleStack) -> list[tuple[str, RuleStack]]:
        """List one folder; returns the folders in it, with the rules that hold there."""
        place = os.path.join(self._top, folder) if folder else self._top
        try:
            status = os.stat(place)
            identity = (status.st_dev, status.st_ino)
            if identity in self._folders:
                return []
            self._folders.add(identity)
            with os.scandir(place) as entries:
                by_name = {entry.name: entry for entry in entries}
        except OSError as error:
            self._lose(folder, f"folder cannot be listed: {error.strerror}")
            return []
        if any(name in by_name for name in _OWN):
            return []
        rules = read_rules(place, folder, self._config)
        if isinstance(rules, Problem):
            self._lose(folder, f"{rules.message}; the folder was not synced")
            return []
        stack = stack if rules is None else (*stack, rules)
        return self._sort(folder, by_name, stack)

    def _sort(
        self, folder: str, by_name: dict[str, os.DirEntry[str]], stack: RuleStack
    ) -> list[tuple[str, RuleStack]]:
        """Put each entry where it belongs: read, left out, followed later, or entered next."""
        visible = [name for name in sorted(by_name) if self._is_visible(name)]
        self.listing.ignored += len(by_name.keys() - {*visible, *RULE_FILES})
        below = []
        for name in pick_corpus(visible):
            entry, path = by_name[name], folder + name
            try:
                is_link, is_folder = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
            except OSError as error:
                self._lose(path, f"cannot be opened: {error.strerror}")
                continue
            if is_ignored(f"{path}/" if is_folder else path, (*stack, *self._given)):
                self.listing.ignored += 1
            elif is_link:
                self._defer(path, stack)
            elif is_folder:
                below.append((f"{path}/", stack))
            else:
                self._take(path)
        return below

    def _is_visible(self, name: str) -> bool:
        return name not in _NEVER and (self._config.hidden or not name.startswith("."))

    def _defer(self, path: str, stack: RuleStack) -> None:
        if self._config.follow_links:
            self._links.append((path, stack))
        else:
            self.listing.ignored += 1

    def _follow(self, path: str, stack: RuleStack) -> None:
        """Look at what a link leads to."""
        if os.path.isdir(os.path.join(self._top, path)):
            if is_ignored(f"{path}/", (*stack, *self._given)):
                self.listing.ignored += 1
            else:
                self.enter(f"{path}/", given=self._given, above=stack)
        else:
            self._take(path)

    def _take(self, path: str) -> None:
        """Note a file, unless it cannot or should not be read."""
        try:
            path.encode("utf-8")
            status = os.stat(os.path.join(self._top, path))
        except UnicodeEncodeError:
            why = "its name is not valid UTF-8, so it cannot be a docid; rename it"
            self.listing.problems.append(Problem(self._place(path), why))
            return
        except OSError as error:
            self._lose(path, f"cannot be opened: {error.strerror}")
            return
        identity = (status.st_dev, status.st_ino)
        if self._is_following and identity in self._files:
            return
        self._files.add(identity)
        if find_format(path) is None:
            self.listing.unread[_suffix(path)] += 1
        elif not stat.S_ISREG(status.st_mode):
            self._lose(path, "not a regular file")
        elif status.st_size > self._config.max_file_bytes:
            limit = f"sync.max_file_bytes is {self._config.max_file_bytes:,}"
            why = f"too large: {status.st_size:,} bytes, but {limit}; raise it to read this file"
            self._lose(path, why)
        else:
            self.listing.files[path] = FoundFile(path, status.st_size, status.st_mtime_ns)

    def _lose(self, path: str, why: str) -> None:
        self.listing.problems.append(Problem(self._place(path), why))
        self.listing.unreachable.append(path)

    def _place(self, path: str) -> Place:
        return Place(show_path(f"{self._shown}/{path}"))


def _suffix(path: str) -> str:
    """Name the kind of a file that is not read.

    >>> _suffix("a/photo.PNG"), _suffix("Makefile")
    ('.png', '(none)')
    """
    return os.path.splitext(path)[1].lower() or "(none)"
