"""Checksums of large files, each computed once for each state of a file.

Hashing an encoder takes longer than a search, so what was computed is kept in the user's cache,
with what the file system says of each file: when one is written again or replaced, it is hashed
anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

_FILE, _MOST = "digests.json", 64
_LARGE = 1 << 24  # bytes; smaller files are hashed as quickly as looked up
_BLOCK = 1 << 20

FileState = tuple[str, int, int, int, int]


def cache_folder() -> Path:
    """Choose where what can be made again is kept: the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "quoth"


def state_of(path: Path) -> FileState:
    """Return what changes when a file is written again or replaced."""
    state = path.stat()
    size, written, changed = state.st_size, state.st_mtime_ns, state.st_ctime_ns
    return str(path.resolve()), state.st_ino, size, written, changed


def digest_files(paths: Sequence[Path]) -> str:
    """Hash files one after another."""
    return _find_digest(tuple(state_of(path) for path in paths))


@functools.lru_cache(maxsize=16)
def _find_digest(files: tuple[FileState, ...]) -> str:
    if sum(size for _path, _inode, size, *_times in files) < _LARGE:
        return _hash(files)
    known, key = _read_known(), json.dumps(files)
    if key not in known:
        known[key] = _hash(files)
        _keep(known)
    return known[key]


def _hash(files: Sequence[FileState]) -> str:
    digest = hashlib.sha256()
    for path, *_state in files:
        with open(path, "rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _read_known() -> dict[str, str]:
    try:
        known = json.loads((cache_folder() / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(known, dict) and all(isinstance(each, str) for each in known.values())
    return known if is_ours else {}


def _keep(known: dict[str, str]) -> None:
    """Keep the newest; where there is no place for them, they are computed every time."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        newest = dict(list(known.items())[-_MOST:])
        number, written = tempfile.mkstemp(dir=cache_folder(), prefix=_FILE)
        with open(number, "w", encoding="utf-8") as stream:
            json.dump(newest, stream, indent=0)
        os.replace(written, cache_folder() / _FILE)
    except OSError:
        return
