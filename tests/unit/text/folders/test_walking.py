"""Which files of a folder are read: ignore rules as git has them, links, limits, what is locked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from quoth.errors import ConfigError
from quoth.text.folders.config import FolderConfig
from quoth.text.folders.walking import Listing, list_folder


def _list(folder: Path, **settings: object) -> Listing:
    return list_folder(str(folder), FolderConfig(**settings), shown="top")  # type: ignore[arg-type]


def _make(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("text")
    return folder


RULES = {
    ".gitignore": "*.log.txt\n!keep.log.txt\nbuild/\n/top.txt\na/**/z.txt\n\\#odd.txt\nsp.txt \n",
    "sub/.gitignore": "!again.log.txt\n*.md\n",
    "sub/deep/.gitignore": "!brought.md\n",
}
FILES = (
    *("one.log.txt", "keep.log.txt", "sub/again.log.txt", "sub/other.log.txt", "top.txt"),
    *("sub/top.txt", "build/x.txt", "sub/build/y.txt", "a/z.txt", "a/b/c/z.txt", "sub/m.md"),
    *("sub/deep/brought.md", "sub/deep/n.md", "#odd.txt", "sp.txt", "m.md", "build.txt"),
)


def test_ignore_rules_are_those_of_git(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    _make(tmp_path, *FILES)
    for path, text in RULES.items():
        (tmp_path / path).write_text(text)
    git = ("git", "-C", str(tmp_path))
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], capture_output=True, check=True
    )
    expected = {each for each in listed.stdout.decode().split("\0") if each}
    assert set(_list(tmp_path).files) == expected - RULES.keys()
    assert set(_list(tmp_path, gitignore=False).files) == set(FILES)
    below = {each.removeprefix("sub/") for each in expected if each.startswith("sub/")}
    assert set(_list(tmp_path / "sub").files) == below - {".gitignore", "deep/.gitignore"}


def test_quothignore_goes_before_gitignore(tmp_path: Path) -> None:
    _make(tmp_path, "a.txt", "b.txt", "c.txt")
    (tmp_path / ".gitignore").write_text("a.txt\nb.txt\n")
    (tmp_path / ".quothignore").write_text("!a.txt\nc.txt\n")
    assert list(_list(tmp_path).files) == ["a.txt"]
    assert list(_list(tmp_path, ignore=("a.txt", "!b.txt")).files) == ["b.txt"]


def test_a_pattern_that_cannot_be_read_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="ignore has an invalid pattern"):
        FolderConfig(ignore=("!",))


def test_hidden_files_are_read_only_if_wanted(tmp_path: Path) -> None:
    _make(tmp_path, ".a.txt", ".b/c.txt", ".git/d.txt", "e.txt")
    listing = _list(tmp_path)
    assert (list(listing.files), listing.ignored) == (["e.txt"], 3)
    assert list(_list(tmp_path, hidden=True).files) == [".a.txt", ".b/c.txt", "e.txt"]


def test_links_lead_neither_in_circles_nor_to_second_names(tmp_path: Path) -> None:
    top = _make(tmp_path / "top", "real/a.txt", "z.txt")
    outside = _make(tmp_path / "outside", "o.txt")
    (top / "a-link").symlink_to(top / "real")
    (top / "real" / "loop").symlink_to(top)
    (top / "real" / "again.txt").symlink_to(top / "z.txt")
    (top / "elsewhere").symlink_to(outside)
    (top / "alone.txt").symlink_to(outside / "o.txt")
    assert list(_list(top).files) == ["alone.txt", "real/a.txt", "z.txt"]
    (top / "alone.txt").unlink()
    assert list(_list(top).files) == ["elsewhere/o.txt", "real/a.txt", "z.txt"]
    assert list(_list(top, follow_links=False).files) == ["real/a.txt", "z.txt"]


def test_a_broken_link_is_reported_and_not_taken_for_gone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").symlink_to(tmp_path / "unmounted" / "note.txt")
    listing = _list(tmp_path)
    assert str(listing.problems[0]) == "top/note.txt: cannot be opened: No such file or directory"
    assert listing.is_out_of_sight("note.txt") and not listing.is_out_of_sight("note.txt.bak")


def test_files_that_are_too_large_are_reported(tmp_path: Path) -> None:
    _make(tmp_path, "a.txt", "b.txt")
    (tmp_path / "b.txt").write_text("x" * 100)
    listing = _list(tmp_path, max_file_bytes=99)
    assert list(listing.files) == ["a.txt"]
    assert "100 bytes, but sync.max_file_bytes is 99" in str(listing.problems[0])


def test_other_formats_are_counted(tmp_path: Path) -> None:
    _make(tmp_path, "a.PNG", "b.png", "Makefile", "c.txt")
    assert _list(tmp_path).unread == {".png": 2, "(none)": 1}


def test_a_folder_that_may_not_be_listed_hides_what_is_below(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look into every folder")
    _make(tmp_path, "locked/a.txt", "b.txt")
    (tmp_path / "locked").chmod(0)
    try:
        listing = _list(tmp_path)
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert list(listing.files) == ["b.txt"]
    assert listing.is_out_of_sight("locked/a.txt") and not listing.is_lost


def test_what_cannot_be_listed_hides_what_is_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path, "locked/a.txt", "b.txt")
    original = os.scandir

    def scandir(path: str) -> object:
        if str(path).rstrip("/").endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = _list(tmp_path)
    assert listing.is_out_of_sight("locked/a.txt") and not listing.is_out_of_sight("b.txt")
    assert "folder cannot be listed: Permission denied" in str(listing.problems[0])


def test_collections_inside_a_folder_are_passed_over(tmp_path: Path) -> None:
    _make(tmp_path, "a.txt", "c.quoth/collection.db", "c.quoth/models/card.md")
    assert list(_list(tmp_path).files) == ["a.txt"]
