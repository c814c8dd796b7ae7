"""Keys to a server: random, shown once, and kept as hashes in a file, one JSON object a line.

A key has 256 random bits, so a plain SHA-256 of it cannot be searched for; there is nothing to slow
a guesser down for. Scopes say what a key is good for: to observe, to read, or to write, each with
all that comes before it.

A server reads the file again when it changed, so keys come, go and change while it runs. Where the
new content cannot be read or understood, it goes on with the keys that it knows and says so in its
log. Where the file is gone or empty, no key is valid any more: whoever took it away meant that.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from quoth.errors import ConfigError
from quoth.server.access.key_file import (
    FileState,
    Stamp,
    find_stamp,
    lock_file,
    read_state,
    replace_text,
)
from quoth.text.moments import find_moment, to_utc, write_moment, write_now

Scope = Literal["observe", "read", "write"]
SCOPES: tuple[Scope, ...] = ("observe", "read", "write")
"""From the least powerful to the most: each includes those before it."""


_CHOICES = "observe, read or write"
_MOMENT = "expected a moment such as 2027-01-31T00:00:00Z"
_PREFIX = "quoth_"
_KEY_BYTES = 32
_MAX_GRACE = 366 * 86_400
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIELDS = {"name", "scope", "sha256", "created", "expires", "per_minute"}
_OLD_FIELDS = {"right", "sha256"}
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the server knows it: everything but the secret."""

    name: str
    """What it is called; a key that was rotated with a grace period is there twice meanwhile."""

    scope: Scope
    digest: bytes
    """SHA-256 of the secret."""

    created: str
    """When it was made (ISO 8601, UTC); empty for keys of files that did not keep it."""

    expires: str | None = None
    """When it stops being valid (ISO 8601, UTC)."""

    per_minute: int | None = None
    """Requests a minute; None leaves that to the server's settings."""

    def __post_init__(self) -> None:
        problems = []
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            problems.append(
                f"name is {self.name!r}, expected up to 64 letters, digits, dots, hyphens and"
                " underscores, a letter or digit first"
            )
        if self.scope not in SCOPES:
            problems.append(f"scope is {self.scope!r}, expected {_CHOICES}")
        if len(self.digest) != _DIGEST_BYTES:
            problems.append(f"sha256 has {len(self.digest)} bytes, expected {_DIGEST_BYTES}")
        if self.created != "" and find_moment(self.created) is None:
            problems.append(f"created is {self.created!r}, {_MOMENT}")
        if self.expires is not None and find_moment(self.expires) is None:
            problems.append(f"expires is {self.expires!r}, {_MOMENT}")
        limit = self.per_minute
        if limit is not None and (type(limit) is not int or limit < 1):
            problems.append(f"per_minute is {limit!r}, expected a whole number from 1 on")
        if problems:
            raise ConfigError("key: " + "; ".join(problems))

    def is_expired(self, now: datetime) -> bool:
        """Whether the key has stopped being valid.

        >>> key = Key("a", "read", bytes(32), "", expires="2027-01-31T00:00:00Z")
        >>> moments = (datetime(2027, 1, 30, tzinfo=UTC), datetime(2027, 1, 31, tzinfo=UTC))
        >>> [key.is_expired(each) for each in moments]
        [False, True]
        """
        end = find_moment(self.expires)
        return end is not None and now >= end


@dataclass(frozen=True, slots=True)
class Issued:
    """A key that was just made: its name, and the secret, which is nowhere kept."""

    name: str
    secret: str


class Keys:
    """The keys that a server knows, as its file has them now; any thread may use it."""

    def __init__(self, path: Path, stamp: Stamp, known: tuple[Key, ...]) -> None:
        self._path = path
        self._stamp: Stamp | None = stamp
        self._known = known
        self._complaint = ""
        self._lock = threading.Lock()

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read a file of keys, which must hold one at least."""
        state, known = _read(path)
        if not known:
            raise ConfigError(f"{path} holds no keys; {_advice(path)}")
        return cls(path, state.stamp, known)

    def find(self, secret: str) -> Key | None:
        """Return the key that has this secret, be it expired or not; None for an unknown one.

        Every known key is compared, each in constant time, so that time tells nothing.
        """
        digest = _hash(secret)
        found: Key | None = None
        for key in self._current():
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def _current(self) -> tuple[Key, ...]:
        with self._lock:
            try:
                self._follow()
            except (ConfigError, OSError) as error:
                self._complain(f"{error}; going on with the keys as they were before")
            return self._known

    def _follow(self) -> None:
        """Read the file again if it changed; where that fails, the next call tries again."""
        stamp = find_stamp(self._path)
        if stamp == self._stamp:
            return
        if stamp is None:
            self._stamp, self._known = None, ()
            self._complain(f"{self._path} is gone; no key is valid until it is back")
            return
        state, known = _read(self._path)
        self._stamp, self._known, self._complaint = state.stamp, known, ""
        if known:
            _logger.info("%s changed; keys in it: %d", self._path, len(known))
        else:
            self._complain(f"{self._path} holds no keys any more; no key is valid")

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            _logger.warning("%s", complaint)
            self._complaint = complaint


def allows(scope: Scope, needed: Scope) -> bool:
    """Whether a key of some scope is good for what needs another.

    >>> allows("write", "read"), allows("read", "read"), allows("observe", "read")
    (True, True, False)
    """
    return SCOPES.index(scope) >= SCOPES.index(needed)


def add_key(
    path: Path,
    name: str,
    scope: Scope,
    *,
    expires: str | None = None,
    per_minute: int | None = None,
) -> str:
    """Make a key and keep its hash in a file that only its owner can read; returns the secret.

    `expires` is a moment in ISO 8601, in UTC unless it says otherwise. The file is made where there
    is none.
    """
    secret = _new_secret()
    made = Key(name, scope, _hash(secret), write_now(), to_utc(expires), per_minute)

    def add(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        if any(each.name == name for each in keys):
            raise ConfigError(
                f"{path} has a key named {name!r} already; choose another name, or replace its"
                f' secret with "quoth keys rotate {name} --keys {path}"'
            )
        return (*keys, made)

    _rewrite(path, add, may_be_missing=True)
    return secret


def add_numbered_key(path: Path, scope: Scope) -> Issued:
    """Make a key that is named by its scope and the first free number, such as read-2."""
    secret, names = _new_secret(), []

    def add(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        names.append(_free_name(scope, keys))
        return (*keys, Key(names[-1], scope, _hash(secret), write_now()))

    _rewrite(path, add, may_be_missing=True)
    return Issued(names[-1], secret)


def list_keys(path: Path) -> tuple[Key, ...]:
    """Return all keys of a file, the expired ones as well."""
    _state, known = _read(path)
    return known


def revoke_key(path: Path, name: str) -> None:
    """Take a key out of the file; running servers refuse it from their next request on."""

    def revoke(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        _newest(path, name, keys)
        return tuple(each for each in keys if each.name != name)

    _rewrite(path, revoke)


def rotate_key(
    path: Path, name: str, *, grace_seconds: float = 0, expires: str | None = None
) -> str:
    """Give a key a new secret, which is returned; scope and limit stay as they were.

    So does the expiry, unless another is given. Older secrets stop working at once, or after the
    grace, but never later than they would have done anyway.
    """
    if not 0 <= grace_seconds <= _MAX_GRACE:
        raise ConfigError(f"the grace is {grace_seconds:g} seconds, expected 0 to {_MAX_GRACE:,}")
    secret, now = _new_secret(), datetime.now(UTC)
    until, later = now + timedelta(seconds=grace_seconds), to_utc(expires)

    def rotate(keys: tuple[Key, ...]) -> tuple[Key, ...]:
        newest = _newest(path, name, keys)
        made = replace(
            newest, digest=_hash(secret), created=write_now(), expires=later or newest.expires
        )
        if made.is_expired(now):
            raise ConfigError(
                f"key {name!r} expired at {made.expires}, and so would a new secret of it; say"
                " until when it is to be valid with --expires, such as --expires 90d"
            )
        ending = (_end(each, until) for each in keys if each.name == name)
        others = (each for each in keys if each.name != name)
        return (*others, *(each for each in ending if not each.is_expired(now)), made)

    _rewrite(path, rotate)
    return secret


def read_scope(text: str, *, option: str) -> Scope:
    """Return the scope that an option names.

    >>> read_scope("read", option="--scope")
    'read'
    """
    for scope in SCOPES:
        if scope == text:
            return scope
    raise ConfigError(f"{option} is {text!r}, expected {_CHOICES}")


def _read(path: Path) -> tuple[FileState, tuple[Key, ...]]:
    try:
        state = read_state(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); {_advice(path)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no file of keys: it is not UTF-8 text") from error
    return state, _parse(state.text, path)


def _rewrite(
    path: Path,
    change: Callable[[tuple[Key, ...]], tuple[Key, ...]],
    *,
    may_be_missing: bool = False,
) -> None:
    """Change the keys of a file while nobody else does."""
    if not may_be_missing:
        list_keys(path)  # complains before a lock is made
    try:
        with lock_file(path):
            is_new = may_be_missing and not path.exists()
            changed = change(() if is_new else list_keys(path))
            replace_text(path, "".join(f"{_line_of(each)}\n" for each in changed))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror})") from error


def _parse(text: str, path: Path) -> tuple[Key, ...]:
    keys: list[Key] = []
    num_old = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            num_old += set(found) == _OLD_FIELDS
            keys.append(_key_of(found, old_name=f"key-{num_old}"))
        except (ValueError, KeyError, TypeError, ConfigError) as error:
            reason = str(error) if isinstance(error, ConfigError) else "it is no line of a key file"
            raise ConfigError(
                f'{path}:{number} is no key ({reason}); every line must be as "quoth keys new"'
                " writes it"
            ) from error
    return tuple(keys)


def _key_of(found: dict[str, Any], *, old_name: str) -> Key:
    """Make a key of a line; one that has fields nobody knows might be meant to allow less."""
    if set(found) == _OLD_FIELDS:
        return Key(old_name, found["right"], bytes.fromhex(found["sha256"]), "")
    if not set(found) <= _FIELDS:
        raise ConfigError(f"unknown: {', '.join(sorted(set(found) - _FIELDS))}")
    return Key(
        found["name"],
        found["scope"],
        bytes.fromhex(found["sha256"]),
        found["created"],
        found.get("expires"),
        found.get("per_minute"),
    )


def _line_of(key: Key) -> str:
    record = {
        "name": key.name,
        "scope": key.scope,
        "sha256": key.digest.hex(),
        "created": key.created,
        "expires": key.expires,
        "per_minute": key.per_minute,
    }
    return json.dumps({name: value for name, value in record.items() if value is not None})


def _advice(path: Path) -> str:
    return f'make a key with "quoth keys new NAME --keys {path}"'


def _newest(path: Path, name: str, keys: tuple[Key, ...]) -> Key:
    """Return the key of a name; of one in its grace period, what replaces it."""
    for key in reversed(keys):
        if key.name == name:
            return key
    known = ", ".join(dict.fromkeys(each.name for each in keys)) or "none"
    raise ConfigError(f"{path} has no key named {name!r}; keys in it: {known}")


def _end(key: Key, until: datetime) -> Key:
    """Let a key expire at some moment, if it does not do so before."""
    return key if key.is_expired(until) else replace(key, expires=write_moment(until))


def _free_name(scope: Scope, keys: tuple[Key, ...]) -> str:
    taken = {each.name for each in keys}
    numbers = range(1, len(taken) + 2)
    return next(name for name in (f"{scope}-{each}" for each in numbers) if name not in taken)


def _new_secret() -> str:
    return _PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
