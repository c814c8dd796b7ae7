"""kill -9 during a sync: nothing acknowledged is lost, and the next sync brings the rest."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from quoth import Engine
from quoth.engine.sync.sync import SyncOptions

CODE = """
import sys
from quoth import Engine
from quoth.engine.sync.sync import SyncOptions
small = {"collection": {"batch_documents": 3}}
with Engine.open("c.quoth", settings=[small]) as engine:
    print("ready", flush=True)
    engine.sync(["notes"], options=SyncOptions(confirmed=10**6))
"""


def _change(folder: Path, chance: random.Random, stamp: int) -> None:
    """Write, rewrite, rename and delete some files."""
    names = [f"{number}.txt" for number in range(60)]
    for name in chance.sample(names, 30):
        path = folder / name
        if path.exists() and chance.random() < 0.3:
            path.unlink()
        elif path.exists() and chance.random() < 0.3:
            path.rename(folder / f"moved-{chance.randrange(20)}.txt")
        else:
            path.write_text(f"note {name} {chance.random()}")
            os.utime(path, (1_000_000_000 + stamp, 1_000_000_000 + stamp))


def test_killed_syncs_are_finished_by_the_next(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    folder, chance = tmp_path / "notes", random.Random(5)
    folder.mkdir()
    for cycle in range(6):
        _change(folder, chance, cycle)
        with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.0, 0.6))
            process.send_signal(signal.SIGKILL)
    with Engine.open("c.quoth") as engine:
        engine.sync(["notes"], options=SyncOptions(confirmed=10**6))
        stored = {each: engine.document(each).fields["text"][0] for each in engine.docids()}
        assert stored == {f"notes/{each.name}": each.read_text() for each in folder.iterdir()}
        assert engine.verify().is_clean
