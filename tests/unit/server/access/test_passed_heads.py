"""What decides whether a head may pass, and how much is remembered."""

from __future__ import annotations

import pytest

from quoth.server.access import passed_heads
from quoth.server.access.passed_heads import PassedHeads, header_by_name, key_of_head

SCOPE = {"method": "POST", "path": "/search"}
HEADERS = {b"host": b"a", b"content-type": b"application/json", b"content-length": b"12"}


@pytest.mark.parametrize("name", [b"host", b"content-type"])
def test_what_is_judged_tells_heads_apart(name: bytes) -> None:
    assert key_of_head(SCOPE, HEADERS) != key_of_head(SCOPE, {**HEADERS, name: b"other"})
    assert key_of_head(SCOPE, HEADERS) != key_of_head({**SCOPE, "path": "/answer"}, HEADERS)
    assert key_of_head(SCOPE, HEADERS) != key_of_head({**SCOPE, "method": "PUT"}, HEADERS)


def test_all_else_does_not() -> None:
    others = {**HEADERS, b"content-length": b"999999", b"user-agent": b"owl"}
    assert key_of_head(SCOPE, HEADERS) == key_of_head(SCOPE, others)


@pytest.mark.parametrize("length", [b"", b"1000000", b"+1", b"-1", b"1_0", b" 1", "\xb2".encode()])
def test_an_unusual_length_is_judged_by_itself(length: bytes) -> None:
    assert key_of_head(SCOPE, {**HEADERS, b"content-length": length}) is None


def test_long_values_are_judged_by_themselves() -> None:
    assert key_of_head(SCOPE, {**HEADERS, b"host": b"a" * 300}) is None


def test_the_first_header_of_a_name_counts() -> None:
    scope = {"headers": [(b"host", b"a"), (b"x", b"y"), (b"host", b"b")]}
    assert header_by_name(scope) == {b"host": b"a", b"x": b"y"}


def test_heads_that_passed_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_heads, "_MOST", 3)
    passed = PassedHeads()
    passed.add(None)
    assert not passed.has(None)
    for number in range(10):
        key = "POST", "/search", b"%d" % number, b""
        passed.add(key)
        assert passed.has(key)
    assert sum(passed.has(("POST", "/search", b"%d" % each, b"")) for each in range(10)) <= 3
