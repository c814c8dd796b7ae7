"""Save and open a built thing: a directory with `artifact.json` beside its files.

`artifact.json` holds the kind, the format version, the configuration it was built with, the number
of the last change it contains, and a checksum per file. It is written last and renamed into place,
so a directory without a valid one was never finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quoth.errors import Damaged, FormatMismatch
from quoth.open_files import out_of_files, says_out_of_files
from quoth.storage_failures import says_storage_failed, storage_failed

FILE_NAME = "artifact.json"
SEALS = "seals.json"
TEMPORARY = ".tmp"
"""Ends the name of a file that is being written; one that is left was never finished."""

_SEALED, _SEALED_VERSION = "sealed folder", 1
_BLOCK = 1 << 20
_SMALL = 4 << 20


@dataclass(frozen=True, slots=True)
class FileSeal:
    """Size and checksum of one file, as it was when it was written."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """What `artifact.json` says about the directory it stands in."""

    kind: str
    version: int
    change: int
    config: Mapping[str, Any]
    files: Mapping[str, FileSeal] = field(default_factory=dict)


def seal_file(path: Path) -> FileSeal:
    """Measure and hash a file, in blocks, so that large files need no memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return FileSeal(path.stat().st_size, digest.hexdigest())


@contextlib.contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write to, which takes the place of an older one once it is complete."""
    unfinished = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def write_text_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: a crash leaves the old or the new content, never a mixture."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new names and renames durable, where the platform lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:  # Windows cannot open folders; its renames are durable without this
        if says_out_of_files(error):
            raise
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_artifact(folder: Path, artifact: Artifact, *, name: str = FILE_NAME) -> None:
    """Write `artifact.json`, or what it is to be called, into a folder whose files are complete."""
    content = {
        "kind": artifact.kind,
        "version": artifact.version,
        "change": artifact.change,
        "config": artifact.config,
        "files": {
            name: {"size": seal.size, "sha256": seal.sha256}
            for name, seal in sorted(artifact.files.items())
        },
    }
    content["seal"] = _seal_content(content)
    write_text_atomically(folder / name, json.dumps(content, indent=1, sort_keys=True) + "\n")


def open_artifact(
    folder: Path,
    *,
    kind: str,
    version: int,
    name: str = FILE_NAME,
    others: Collection[int] = (),
) -> Artifact | None:
    """Read `artifact.json`; None where there is none, an error where it cannot be trusted.

    `others` are further versions that are read.
    """
    path = folder / name
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        seal = content.pop("seal")
        files = {name: FileSeal(**entry) for name, entry in content["files"].items()}
        found = Artifact(
            content["kind"], content["version"], content["change"], content["config"], files
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if says_out_of_files(error):
            raise out_of_files(path) from error
        if says_storage_failed(error):
            raise storage_failed(path, error) from error
        raise Damaged(f"{path} cannot be read as an artifact description ({error})") from error
    if seal != _seal_content(content):
        raise Damaged(f"{path} was altered: its content does not match its own checksum")
    if found.kind != kind or found.version not in (version, *others):
        raise FormatMismatch(
            f"{path} describes a {found.kind} of format {found.version}, "
            f"but this Quoth reads a {kind} of format {version}"
        )
    return found


def find_damage(folder: Path, artifact: Artifact, *, deep: bool) -> tuple[str, ...]:
    """Say what is wrong with the files of an artifact; sizes only, unless `deep` re-hashes them."""
    return tuple(
        problem
        for name, seal in sorted(artifact.files.items())
        if (problem := _check_file(folder / name, seal, deep=deep))
    )


def seal_folder(folder: Path) -> None:
    """Record size and checksum of every file below a folder that will not change any more."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    files = {
        name: seal_file(folder / name)
        for name in names
        if name not in (SEALS, SEALS + TEMPORARY) and (folder / name).is_file()
    }
    save_artifact(folder, Artifact(_SEALED, _SEALED_VERSION, 0, {}, files), name=SEALS)


def find_sealed_damage(folder: Path) -> tuple[str, ...]:
    """Hash every file of a sealed folder and say what is wrong; nothing where none was sealed."""
    try:
        sealed = _read_seals(folder)
    except Damaged as error:
        return (str(error),)
    return () if sealed is None else find_damage(folder, sealed, deep=True)


def require_sealed(folder: Path) -> None:
    """Refuse a sealed folder that was damaged, before a library reads its files.

    Large files are hashed only if they were written to after they were sealed.
    """
    sealed = _read_seals(folder)
    if sealed is None:
        return
    when = (folder / SEALS).stat().st_mtime_ns
    for name, seal in sorted(sealed.files.items()):
        path = folder / name
        deep = seal.size <= _SMALL or (path.exists() and path.stat().st_mtime_ns > when)
        if problem := _check_file(path, seal, deep=deep):
            raise Damaged(f"{problem}; restore {folder} from a backup, or train the model again")


def _read_seals(folder: Path) -> Artifact | None:
    return open_artifact(folder, kind=_SEALED, version=_SEALED_VERSION, name=SEALS)


def require_uncut(folder: Path, files: Mapping[str, FileSeal]) -> None:
    """Notice a file that became shorter after it was mapped: reading it would end the process.

    One that is gone was replaced by a writer, and stays mapped.
    """
    base = str(folder)  # joined as text: every search comes by here
    for name, seal in files.items():
        try:
            size = os.stat(f"{base}/{name}").st_size
        except OSError:
            continue
        if size < seal.size:
            raise Damaged(
                f"{folder / name} has {size:,} bytes, but {seal.size:,} were written;"
                " look after the collection with quoth verify --repair"
            )


def _check_file(path: Path, seal: FileSeal, *, deep: bool) -> str:
    try:
        size = path.stat().st_size
        if size != seal.size:
            return f"{path} has {size:,} bytes, but {seal.size:,} were written"
        if deep and seal_file(path) != seal:
            return f"{path} was altered: its checksum differs from the one recorded"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        if says_out_of_files(error):
            raise out_of_files(path) from error
        return f"{path} cannot be read ({error.strerror})"
    return ""


def _seal_content(content: Mapping[str, Any]) -> str:
    """Hash the description itself, so that a flipped bit in it is noticed too."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
