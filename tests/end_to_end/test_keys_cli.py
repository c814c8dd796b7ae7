"""`quoth keys`, as an administrator of a server meets it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands import Quoth, make_runner

from quoth.server.access.keys import Keys


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def test_a_key_is_made_listed_rotated_and_revoked(quoth: Quoth, path: Path) -> None:
    made = quoth("keys", "new", "phone", "--keys", path, "--per-minute", 600)
    first = made.out.strip()
    assert made.code == 0 and made.out == f"{first}\n" and first.startswith("quoth_")
    assert first not in made.err and "'phone' to read" in made.err
    known = Keys.read(path)  # a server that goes on running
    key = known.find(first)
    assert key is not None and (key.scope, key.per_minute) == ("read", 600)

    rotated = quoth("keys", "rotate", "phone", "--keys", path)
    second = rotated.out.strip()
    assert rotated.code == 0 and "the old one has stopped working" in rotated.err
    assert known.find(first) is None and known.find(second) is not None

    revoked = quoth("keys", "revoke", "phone", "--keys", path)
    assert revoked.code == 0 and revoked.out == "" and "no longer valid" in revoked.err
    assert known.find(second) is None


def test_lists_show_everything_but_secrets(quoth: Quoth, path: Path) -> None:
    secrets = [
        quoth("keys", "new", name, "--keys", path, *options).out.strip()
        for name, options in (
            ("watcher", ("--scope", "observe")),
            ("phone", ("--expires", "90d", "--per-minute", 1200)),
        )
    ]
    secrets.append(quoth("keys", "rotate", "phone", "--keys", path, "--grace", "1h").out.strip())
    listed = quoth("keys", "list", "--keys", path)
    found = quoth("keys", "list", "--keys", path, "--json").json()
    assert [(each["name"], each["scope"], each["state"]) for each in found] == [
        ("watcher", "observe", "valid"),
        ("phone", "read", "replaced"),
        ("phone", "read", "valid"),
    ]
    assert [each["per_minute"] for each in found] == [None, 1200, 1200]
    grace, lasting = (datetime.fromisoformat(each["expires"]) for each in found[1:])
    now = datetime.now(UTC)
    assert timedelta(minutes=45) < grace - now <= timedelta(hours=1)
    assert timedelta(days=89) < lasting - now <= timedelta(days=90)
    assert "watcher" in listed.out and "never" in listed.out and "1,200" in listed.out
    for secret in secrets:
        assert secret not in listed.out + str(found) + path.read_text()


def test_the_short_form_names_its_keys(quoth: Quoth, path: Path) -> None:
    for name in ("read-1", "read-2"):
        made = quoth("serve", "--new-key", "read", "--keys", path)
        assert made.code == 0 and f"key {name!r} to read" in made.err
        key = Keys.read(path).find(made.out.strip())
        assert key is not None and key.name == name


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["new", "phone"], "has a key named 'phone' already"),
        (["new", "other", "--scope", "admin"], "--scope is 'admin', expected observe, read or"),
        (["new", "other", "--expires", "2020-01-01"], "which is past"),
        (["new", "other", "--expires", "soon"], "expected a date such as 2027-01-31"),
        (["new", "other", "--expires", "999999999w"], "beyond the year 9999"),
        (["new", "my phone"], "name is 'my phone'"),
        (["revoke", "phoen"], "no key named 'phoen'; keys in it: phone"),
        (["rotate", "phoen"], "no key named 'phoen'; keys in it: phone"),
        (["rotate", "phone", "--grace", "soon"], "--grace is 'soon', expected a number with s, m"),
        (["rotate", "phone", "--grace", "999999999w"], "the grace is"),
    ],
)
def test_what_cannot_be_done_is_explained(
    quoth: Quoth, path: Path, arguments: list[str], expected: str
) -> None:
    assert quoth("keys", "new", "phone", "--keys", path).code == 0
    before = path.read_text()
    quoth("keys", *arguments, "--keys", path).assert_fails(2, expected)
    assert path.read_text() == before


def test_a_missing_file_is_named_with_what_makes_one(quoth: Quoth, path: Path) -> None:
    for arguments in (["list"], ["revoke", "phone"], ["rotate", "phone"]):
        quoth("keys", *arguments, "--keys", path).assert_fails(2, "quoth keys new NAME")
    assert list(path.parent.iterdir()) == []
