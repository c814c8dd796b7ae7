"""`verify` as the first thing after a crash: unfinished work is told apart from damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import damaging
import pytest

from quoth.cli.main import main
from quoth.engine.engine import Engine
from quoth.records import Document

CRASHER = Path(__file__).parent.parent / "support" / "crashing_writer.py"
NUM_CHANGES = 3  # what the crashing writer does: an update, an addition, a removal
UNFINISHED_STEPS = [
    "store.after_commit",
    "index.before_commit",
    "index.before_merge",
    "index.before_record",
    "index.after_record",
    "statistics.before_commit",
]
FINISHED_STEPS = ["store.before_commit", "statistics.after_commit", "forget.before"]


def _crash(folder: Path, step: str, *, count: int = 30) -> None:
    with Engine.open(folder) as engine:
        engine.add_documents(
            Document(f"d{number}", {"text": (f"owl barn {number}",)}) for number in range(count)
        )
    code = subprocess.run([sys.executable, str(CRASHER), str(folder), step], check=False)
    assert code.returncode == 137, "the writer did not reach the step"


@pytest.mark.parametrize("step", UNFINISHED_STEPS)
def test_an_index_left_behind_is_no_damage(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, step)
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert found.is_clean and (found.store, found.indexes) == ((), ())
        assert found.behind == {str(folder / "lexical"): NUM_CHANGES}
        assert "nothing is damaged" in found.verdict()
        assert [hit.docid for hit in engine.search("night")] == ["d1"]  # this catches up
        after = engine.verify()
        assert (after.is_clean, after.behind) == (True, {})


@pytest.mark.parametrize("step", FINISHED_STEPS)
def test_a_crash_that_left_nothing_undone_is_not_mentioned(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, step)
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert (found.is_clean, found.indexes, found.behind) == (True, (), {})


@pytest.mark.parametrize("step", UNFINISHED_STEPS)
def test_repair_after_a_crash_catches_up(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, step)
    with Engine.open(folder) as engine:
        assert engine.verify(repair=True).is_clean
        after = engine.verify()
        assert (after.is_clean, after.behind) == (True, {})
        assert [hit.docid for hit in engine.search("night")] == ["d1"]


@pytest.mark.parametrize("step", UNFINISHED_STEPS)
def test_real_damage_after_a_crash_stays_damage(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, step)
    harmed = [
        path
        for path in sorted((folder / "lexical").rglob("*"))
        if path.suffix in (".idx", ".pos", ".term") and path.stat().st_size
    ]
    recorded = json.loads((folder / "lexical" / "artifact.json").read_text())["files"]
    segment = next(path for path in harmed if str(path.relative_to(folder / "lexical")) in recorded)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert not found.is_clean
        assert any(str(segment) in problem for problem in found.indexes), found
        assert engine.verify(repair=True).is_clean
        assert [hit.docid for hit in engine.search("night")] == ["d1"]


@pytest.mark.parametrize("step", ["store.after_commit", "index.before_record"])
def test_damaged_statistics_after_a_crash_stay_damage(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, step)
    damaging.truncate(folder / "lexical" / "statistics.db")
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert not found.is_clean and "statistics.db" in found.indexes[0]


def test_a_crash_before_the_first_index_is_no_damage(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom quoth.engine.engine import Engine\n"
        "from quoth.engine.searchers import Searchers\nfrom quoth.records import Document\n"
        "Searchers.follow_writing = lambda *_args, **_kwargs: os._exit(137)\n"
        "Engine.open(Path(sys.argv[1])).add_documents([Document('a', {'text': ('owl',)})])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert done.returncode == 137
    with Engine.open(folder) as engine:
        found = engine.verify()
        assert found.is_clean and found.behind == {str(folder / "lexical"): 1}
        assert [hit.docid for hit in engine.search("owl")] == ["a"]
        (folder / "lexical" / "artifact.json").unlink()
    with Engine.open(folder) as engine:  # once there was an index, its absence is damage
        found = engine.verify()
        assert not found.is_clean and "artifact.json is missing" in found.indexes[0]


def test_the_command_says_so_and_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c.quoth"
    _crash(folder, "store.after_commit")
    for options in ((), ("--json",)):
        monkeypatch.setattr(sys, "argv", ["quoth", "verify", str(folder), *options])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert not ended.value.code
        if options:
            assert json.loads(told.out)["behind"] == {os.fspath(folder / "lexical"): NUM_CHANGES}
        else:
            assert "behind the documents by 3 changes" in told.err
            assert "the next search or write brings the indexes up to date" in told.out
