"""Checksums of large files are kept for as long as the files stay as they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.models import digests
from quoth.models.digests import digest_files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_LARGE", 4)
    digests._find_digest.cache_clear()
    yield tmp_path / "cache" / "quoth" / "digests.json"
    digests._find_digest.cache_clear()


def in_another_process(paths: list[Path]) -> str:
    digests._find_digest.cache_clear()
    return digest_files(paths)


def test_a_file_is_hashed_once_for_each_state_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    paths[0].write_bytes(b"owls ")
    paths[1].write_bytes(b"hunt")
    expected = hashlib.sha256(b"owls hunt").hexdigest()
    assert digest_files(paths) == expected
    hashed: list[object] = []
    hash_files = digests._hash

    def count(files: object) -> str:
        hashed.append(files)
        return hash_files(files)  # type: ignore[arg-type]

    monkeypatch.setattr(digests, "_hash", count)
    assert in_another_process(paths) == expected and not hashed
    before = paths[1].stat()
    paths[1].write_bytes(b"fly!")
    os.utime(paths[1], ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nothing had happened
    assert in_another_process(paths) == hashlib.sha256(b"owls fly!").hexdigest()
    assert len(hashed) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', "{"])
def test_a_damaged_cache_is_not_believed(tmp_path: Path, cache: Path, content: str) -> None:
    path = tmp_path / "owl"
    path.write_bytes(b"night")
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    expected = hashlib.sha256(b"night").hexdigest()
    assert in_another_process([path]) == in_another_process([path]) == expected
    assert expected in cache.read_text()


def test_no_cache_and_small_files_are_no_trouble(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    path = tmp_path / "owl"
    for content in (b"night", b"dusk", b"day"):  # the last is small
        path.write_bytes(content)
        assert in_another_process([path]) == hashlib.sha256(content).hexdigest()
    assert not cache.exists()
