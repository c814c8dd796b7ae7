"""For which access requests are authorised, noted as they come."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from quoth.server.access.policy import Access, AccessPolicy


def noting_access(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note for which access requests are authorised."""
    asked: list[str] = []
    authorise = AccessPolicy.authorise

    def note(policy: AccessPolicy, access: Access, headers: Headers) -> str:
        asked.append(access)
        return authorise(policy, access, headers)

    monkeypatch.setattr(AccessPolicy, "authorise", note)
    return asked
