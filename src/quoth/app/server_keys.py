"""Keys to a server: random, shown once, and kept as hashes in a file.

A key has 256 random bits, so a plain SHA-256 of it cannot be searched for; there is nothing to slow
a guesser down for. Reading and writing have keys apart; a key to write may read, too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quoth.errors import ConfigError

Right = Literal["read", "write"]
RIGHTS: tuple[Right, ...] = ("read", "write")
_PREFIX = "quoth_"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Entry:
    right: Right
    digest: bytes


class Keys:
    """The keys that a server knows; it knows their hashes only."""

    def __init__(self, entries: tuple[_Entry, ...]) -> None:
        self._entries = entries

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read a file of keys, which must hold one at least."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            entries = tuple(_read_entry(line) for line in lines if line.strip())
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read ({error.strerror}); make a key with"
                f' "quoth serve --new-key read --keys {path}"'
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is no file of keys: every line must be as --new-key writes it"
            ) from error
        if not entries:
            raise ConfigError(
                f'{path} holds no keys; make one with "quoth serve --new-key read --keys {path}"'
            )
        return cls(entries)

    def right_of(self, key: str) -> Right | None:
        """Say what a key allows, None for an unknown one.

        Every known key is compared, each in constant time, so that time tells nothing.
        """
        digest = _hash(key)
        right: Right | None = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                right = entry.right
        return right


def add_key(path: Path, right: Right) -> str:
    """Make a key and keep its hash in a file that only its owner can read; returns the key."""
    key = _PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    line = json.dumps({"right": right, "sha256": _hash(key).hex()}) + "\n"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(handle, "a", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror})") from error
    return key


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _read_entry(line: str) -> _Entry:
    found = json.loads(line)
    right, digest = found["right"], bytes.fromhex(found["sha256"])
    if right not in RIGHTS or len(digest) != hashlib.sha256().digest_size:
        raise ValueError(line)
    return _Entry(right, digest)
