"""Servers of these tests load no language model, unless the tests are about one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _warm_without_language_model(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "neural" not in request.module.__name__:
        monkeypatch.setattr("quoth.server.service._warm_answer", lambda _engine: None)
