"""A repair that was killed, and what is damaged after it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.verify import REPAIRING
from quoth.records import Document


def test_what_is_damaged_after_a_killed_repair_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents(Document(f"d{at}", {"text": (f"owl {at}",)}) for at in range(5))
        expected = engine.search("owl", k=5)
    with contextlib.closing(Store.create(folder)) as store:
        store.set_setting(REPAIRING, ["lexical"])  # as a kill leaves it
    described = folder / "lexical" / "artifact.json"
    described.write_bytes(described.read_bytes().replace(b"kind", b"k\xc5nd", 1))
    with Engine.open(folder) as engine:
        assert any("cannot be read" in line for line in engine.verify().lines())
        assert engine.verify(repair=True).repaired
        assert engine.verify().lines() == () and engine.search("owl", k=5) == expected
