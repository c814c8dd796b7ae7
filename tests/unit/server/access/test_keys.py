"""Keys of a server: what they allow and for how long, and a file that changes while it serves."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quoth.errors import ConfigError
from quoth.server.access import key_file
from quoth.server.access import keys as server_keys
from quoth.server.access.keys import (
    SCOPES,
    Key,
    Keys,
    Scope,
    add_key,
    add_numbered_key,
    allows,
    list_keys,
    revoke_key,
    rotate_key,
)

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


@pytest.fixture
def secrets(path: Path) -> dict[Scope, str]:
    """A key of each scope, named like it."""
    return {scope: add_key(path, scope, scope) for scope in SCOPES}


def _old_line(right: str, secret: str) -> str:
    """A line as the first version of the file has it."""
    return json.dumps({"right": right, "sha256": hashlib.sha256(secret.encode()).hexdigest()})


def _name(keys: Keys, secret: str) -> str | None:
    found = keys.find(secret)
    return None if found is None else found.name


# What a key is ---------------------------------------------------------------------------------


def test_scopes_include_those_before_them() -> None:
    allowed = {(scope, needed) for scope in SCOPES for needed in SCOPES if allows(scope, needed)}
    assert allowed == {
        ("observe", "observe"),
        ("read", "observe"),
        ("read", "read"),
        ("write", "observe"),
        ("write", "read"),
        ("write", "write"),
    }


def test_only_hashes_are_kept_and_only_for_the_owner(path: Path, secrets: dict[Scope, str]) -> None:
    kept = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for secret in secrets.values():
        assert secret not in kept and len(secret) == len("quoth_") + 43  # 256 bits
        assert hashlib.sha256(secret.encode()).hexdigest() in kept
    assert len(set(secrets.values())) == 3


def test_a_key_is_found_by_its_secret(path: Path, secrets: dict[Scope, str]) -> None:
    known = Keys.read(path)
    for scope, secret in secrets.items():
        key = known.find(secret)
        assert key is not None and key.name == key.scope == scope
        assert key.expires is None and key.per_minute is None
        made = datetime.fromisoformat(key.created)
        assert abs(datetime.now(UTC) - made) < timedelta(minutes=10)
    for wrong in ("", "quoth_", secrets["read"][:-1], secrets["read"] + "a", "\udcff", "ключ"):
        assert known.find(wrong) is None


def test_every_key_is_compared_in_constant_time(
    path: Path, secrets: dict[Scope, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, digests_are_equal = [], hmac.compare_digest

    def compare(kept: bytes, given: bytes) -> bool:
        compared.append((kept, given))
        return digests_are_equal(kept, given)

    known = Keys.read(path)
    monkeypatch.setattr(server_keys.hmac, "compare_digest", compare)
    for secret in (*secrets.values(), "wrong"):
        compared.clear()
        known.find(secret)
        assert len(compared) == 3  # all of them, even after one has matched
        assert {given for _kept, given in compared} == {hashlib.sha256(secret.encode()).digest()}


def test_an_expired_key_is_still_found_and_says_so(path: Path) -> None:
    secret = add_key(path, "guest", "read", expires="2027-01-01T02:00:00+02:00", per_minute=5)
    key = Keys.read(path).find(secret)
    assert key is not None and key.expires == "2027-01-01T00:00:00Z" and key.per_minute == 5
    assert not key.is_expired(NOW - timedelta(seconds=1)) and key.is_expired(NOW)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "a b"}, "name is 'a b'"),
        ({"name": ""}, "name is ''"),
        ({"name": "a\n"}, "letters, digits"),
        ({"name": "x" * 65}, "up to 64"),
        ({"scope": "admin"}, "scope is 'admin', expected observe, read or write"),
        ({"expires": "tomorrow"}, "expires is 'tomorrow'"),
        ({"expires": ""}, "expires is ''"),
        ({"per_minute": 0}, "per_minute is 0"),
        ({"per_minute": True}, "per_minute is True"),
    ],
)
def test_what_is_no_key_is_refused_before_anything_is_written(
    path: Path, given: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        add_key(path, **{"name": "a", "scope": "read", **given})
    assert not path.exists()


def test_names_are_given_once(path: Path, secrets: dict[Scope, str]) -> None:
    before = path.read_text()
    with pytest.raises(ConfigError, match=r"has a key named 'read' already; .*quoth keys rotate"):
        add_key(path, "read", "write")
    assert path.read_text() == before
    assert [add_numbered_key(path, "read").name for _ in range(2)] == ["read-1", "read-2"]
    revoke_key(path, "read-1")
    assert add_numbered_key(path, "read").name == "read-1"


# The file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "{}",
        "[]",
        "5",
        "nonsense",
        '["read"]',
        '{"right": "admin", "sha256": "00"}',
        '{"name": "a", "scope": "read", "sha256": "00", "created": ""}',
        '{"name": "a", "scope": "read", "sha256": 7, "created": ""}',
        '{"name": "a", "scope": "read", "created": ""}',
    ],
)
def test_a_file_without_keys_is_refused(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"keys\.jsonl"):
        Keys.read(path)
    with pytest.raises(ConfigError, match="quoth keys new"):
        Keys.read(path.with_name("none.jsonl"))


def test_a_field_that_nobody_knows_is_refused(path: Path, secrets: dict[Scope, str]) -> None:
    """It might be there to allow less."""
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps({**line, "only": "/search"}) + "\n")
    with pytest.raises(ConfigError, match=r"keys\.jsonl:1 is no key \(unknown: only\)"):
        Keys.read(path)
    assert secrets


def test_what_is_no_file_of_keys_is_not_written_over(path: Path) -> None:
    path.write_bytes(b"a photo \xff\xd8")
    with pytest.raises(ConfigError, match="not UTF-8"):
        add_key(path, "a", "read")
    assert path.read_bytes() == b"a photo \xff\xd8"


def test_a_file_without_a_final_line_break_takes_another_key(path: Path) -> None:
    """The new line was once put behind the last one, and neither could be read."""
    first = add_key(path, "first", "read")
    path.write_text(path.read_text().rstrip("\n"))
    second = add_key(path, "second", "write")
    known = Keys.read(path)
    assert (_name(known, first), _name(known, second)) == ("first", "second")


def test_files_of_the_first_version_are_read_and_kept(path: Path) -> None:
    path.write_text("\n".join([_old_line("read", "one"), "", _old_line("write", "two")]))
    old = list_keys(path)
    assert [(key.name, key.scope, key.created) for key in old] == [
        ("key-1", "read", ""),
        ("key-2", "write", ""),
    ]
    add_key(path, "new", "observe")
    revoke_key(path, "key-1")
    known = Keys.read(path)
    assert (_name(known, "one"), _name(known, "two")) == (None, "key-2")


def test_a_key_survives_the_file_unchanged(path: Path) -> None:
    secret = add_key(path, "a.b-c_1", "write", expires="2030-01-01", per_minute=7)
    (key,) = list_keys(path)
    digest = hashlib.sha256(secret.encode()).digest()
    made = key.created
    assert key == Key("a.b-c_1", "write", digest, made, "2030-01-01T00:00:00Z", 7)


def test_two_commands_at_once_lose_nothing(path: Path) -> None:
    names = [f"key{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: add_key(path, name, "read"), names))
    known = Keys.read(path)
    assert [_name(known, secret) for secret in made] == names
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: revoke_key(path, name), names[::2]))
    assert sorted(key.name for key in list_keys(path)) == sorted(names[1::2])


def test_a_rewrite_that_fails_leaves_the_old_file(
    path: Path, secrets: dict[Scope, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_text()

    def fail(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(key_file.os, "replace", fail)
    with pytest.raises(ConfigError, match=r"cannot be written \(No space left"):
        revoke_key(path, "read")
    assert path.read_text() == before
    assert sorted(os.listdir(path.parent)) == ["keys.jsonl", "keys.jsonl.lock"]
    assert secrets


def test_a_link_to_the_file_stays_a_link(path: Path, secrets: dict[Scope, str]) -> None:
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    revoke_key(link, "read")
    assert link.is_symlink() and _name(Keys.read(path), secrets["read"]) is None


# A server that runs meanwhile ------------------------------------------------------------------


def test_a_running_server_follows_the_file(path: Path, secrets: dict[Scope, str]) -> None:
    known = Keys.read(path)
    added = add_key(path, "later", "read")
    assert _name(known, added) == "later"
    revoke_key(path, "later")
    assert known.find(added) is None and _name(known, secrets["read"]) == "read"
    rotated = rotate_key(path, "read")
    assert known.find(secrets["read"]) is None and _name(known, rotated) == "read"


def test_it_is_read_only_when_it_changed(
    path: Path, secrets: dict[Scope, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, reads = Keys.read(path), []
    read_state = server_keys.read_state

    def note(asked: Path) -> key_file.FileState:
        reads.append(asked)
        return read_state(asked)

    monkeypatch.setattr(server_keys, "read_state", note)
    for _ in range(3):
        known.find(secrets["read"])
    assert reads == []
    revoke_key(path, "write")
    reads.clear()
    for _ in range(3):
        known.find(secrets["read"])
    assert reads == [path]


def test_a_file_that_became_unreadable_is_told_once_and_the_keys_stay(
    path: Path, secrets: dict[Scope, str], caplog: pytest.LogCaptureFixture
) -> None:
    known, good = Keys.read(path), path.read_text()
    path.write_text(good + '{"name": "half')
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert _name(known, secrets["read"]) == "read"
    (told,) = caplog.messages
    assert "keys.jsonl:4 is no key" in told and "as they were before" in told
    path.write_text(good)
    revoke_key(path, "read")
    assert known.find(secrets["read"]) is None


@pytest.mark.parametrize("way", ["deleted", "emptied", "last revoked"])
def test_without_a_file_no_key_is_valid(
    path: Path, secrets: dict[Scope, str], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    known, good = Keys.read(path), path.read_text()
    if way == "deleted":
        path.unlink()
    elif way == "emptied":
        path.write_text("")
    else:
        for scope in SCOPES:
            revoke_key(path, scope)
    with caplog.at_level(logging.WARNING):
        for secret in (*secrets.values(), *secrets.values()):
            assert known.find(secret) is None
    assert len(caplog.messages) == 1 and "no key is valid" in caplog.messages[0]
    path.write_text(good)
    assert _name(known, secrets["read"]) == "read"


def test_many_threads_may_ask_while_the_file_changes(path: Path, secrets: dict[Scope, str]) -> None:
    known = Keys.read(path)

    def ask(_number: int) -> bool:
        return _name(known, secrets["read"]) == "read" and known.find("wrong") is None

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, number) for number in range(200)]
        for _ in range(5):
            rotate_key(path, "write")
        assert all(each.result() for each in asked)


# Rotation --------------------------------------------------------------------------------------


def test_rotation_changes_the_secret_only(path: Path) -> None:
    old = add_key(path, "phone", "write", expires="2040-01-01", per_minute=9)
    new = rotate_key(path, "phone")
    (key,) = list_keys(path)
    assert (key.name, key.scope, key.per_minute) == ("phone", "write", 9)
    assert key.expires == "2040-01-01T00:00:00Z"
    known = Keys.read(path)
    assert known.find(old) is None and known.find(new) == key


def test_with_a_grace_the_old_secret_works_on_for_a_while(path: Path) -> None:
    first, begun = add_key(path, "phone", "read"), datetime.now(UTC)
    second = rotate_key(path, "phone", grace_seconds=3_600)
    known = Keys.read(path)
    old, new = known.find(first), known.find(second)
    assert old is not None and new is not None and new.expires is None
    assert not old.is_expired(begun + timedelta(minutes=59))
    assert old.is_expired(datetime.now(UTC) + timedelta(minutes=61))
    third = rotate_key(path, "phone", grace_seconds=60)
    for secret in (first, second):
        old = known.find(secret)
        assert old is not None and old.is_expired(datetime.now(UTC) + timedelta(minutes=2))
    fourth = rotate_key(path, "phone")
    assert [known.find(secret) for secret in (first, second, third)] == [None, None, None]
    assert _name(known, fourth) == "phone"


def test_a_grace_makes_no_secret_last_longer(path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=30)
    old = add_key(path, "phone", "read", expires=soon.isoformat())
    rotate_key(path, "phone", grace_seconds=86_400, expires="2040-01-01")
    key = Keys.read(path).find(old)
    assert key is not None and key.is_expired(soon)


def test_an_expired_key_is_rotated_only_with_a_new_expiry(path: Path) -> None:
    old = add_key(path, "phone", "read", expires="2020-01-01")
    with pytest.raises(ConfigError, match=r"expired at 2020-01-01T00:00:00Z.*--expires"):
        rotate_key(path, "phone")
    new = rotate_key(path, "phone", grace_seconds=60, expires="2040-01-01")
    known = Keys.read(path)
    assert known.find(old) is None and _name(known, new) == "phone"


@pytest.mark.parametrize("grace", [-1, 1e12, float("nan")])
def test_a_grace_has_bounds(path: Path, secrets: dict[Scope, str], grace: float) -> None:
    with pytest.raises(ConfigError, match="the grace is"):
        rotate_key(path, "read", grace_seconds=grace)
    assert _name(Keys.read(path), secrets["read"]) == "read"


def test_unknown_names_are_answered_with_the_known(path: Path, secrets: dict[Scope, str]) -> None:
    for change in (revoke_key, rotate_key):
        with pytest.raises(ConfigError, match="no key named 'raed'; keys in it: observe, read, wr"):
            change(path, "raed")
    with pytest.raises(ConfigError, match="cannot be read"):
        revoke_key(path.with_name("none.jsonl"), "read")
    assert not path.with_name("none.jsonl.lock").exists() and secrets
