"""`quoth train dynamic-lm` as a user meets it: from a collection to a model to ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_language_model import TEXTS, save_language_model

from quoth.cli.main import main
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.jobs.quoting import job
from quoth.records import Document
from quoth.settings.stored import stored_answer

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = (
    *("--steps", "3", "--device", "cpu", "--set", "training.sentences=8"),
    *("--set", "training.judged=4", "--set", "recipe.checkpoint_every=1"),
)
Quoth = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents(
            Document(f"bird-{at}", {"text": (f"{TEXTS[at % 3]} That was day {at} of the year.",)})
            for at in range(9)
        )
    return folder


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    """Run a command in this process; gives its exit code, output and messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def test_from_a_collection_to_an_answer(
    tmp_path: Path, base: Path, collection: Path, quoth: Quoth
) -> None:
    out = tmp_path / "mine"
    given = ("train", "dynamic-lm", collection, "--out", out, "--answer.model", base, *SMALL)
    code, told, err = quoth(*given, "--json")
    assert code == 0 and "the plan: 3 steps on 8 texts" in err, err
    report = json.loads(told)
    assert (report["steps"], report["device"], report["model"]) == (3, "cpu", str(out))
    assert report["counts"]["documents"] == 8 and report["counts"]["held-out documents"] == 1
    for when in ("before", "after"):
        assert report[when]["perplexity"] > 1
        assert report[when]["scores"]["texts"].keys() == {
            *("num_samples", "mixed_loss", "phrase_recall", "phrase_precision")
        }
    assert not (tmp_path / "mine.training").exists()

    code, shown, err = quoth(*given, "--install")
    assert code == 0 and "already trained with these settings" in err
    assert "perplexity without phrases" in shown and "phrase recall, texts" in shown
    assert "Installed: quoth ask" in shown
    store = Store.open(collection)
    assert stored_answer(store, collection) == {"model": str(out)}
    store.close()

    asked = ("ask", collection, "When does the barn owl hunt?", "--answer.model", out, "--json")
    code, told, err = quoth(*asked, "--threshold", 1, "--decoding.max-subwords", 12)
    assert code == 0 and err == "" and json.loads(told)["text"]  # no notice: it may quote


def test_ctrl_c_keeps_the_checkpoint(
    tmp_path: Path,
    base: Path,
    collection: Path,
    quoth: Quoth,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("train", "dynamic-lm", collection, "--answer.model", base, *SMALL)
    told: list[int] = []

    def interrupt(self: Any, done: Any, steps: int) -> None:
        told.append(done.step)
        if told == [1, 2]:
            raise KeyboardInterrupt

    monkeypatch.setattr(job.DynamicJob, "_tell", interrupt)
    code, _out, err = quoth(*given)
    assert code == 130 and "the same command resumes" in err
    code, _out, err = quoth(*given, "--seed", 1)
    assert code == 2 and "training.seed was 0, is 1" in err
    code, out, err = quoth(*given)
    assert code == 0 and told == [1, 2, 2, 3] and "the plan" not in err
    assert "--answer.model dynamic-lm-birds" in " ".join(out.split())
    assert (tmp_path / "dynamic-lm-birds" / "artifact.json").exists()


def test_what_cannot_be_trained_is_said(
    tmp_path: Path,
    base: Path,
    collection: Path,
    quoth: Quoth,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = ("train", "dynamic-lm", collection, "--out", tmp_path / "out", *SMALL)
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"question": "Who?", "answers": ["owl"], "docid": "none"}\n')
    code, out, err = quoth(*given, "--answer.model", base, "--pairs", pairs)
    assert (code, out) == (4, "") and f"{pairs}:1: there is no document 'none'" in err
    code, out, err = quoth(*given, "--answer.model", tmp_path / "nothing")
    assert (code, out) == (2, "") and "there is no language model" in err
    code, out, err = quoth(*given, "--set", "recipe.speed=9")
    assert (code, out) == (2, "") and "recipe has mixed_weight" in err
    code, out, err = quoth("train", "dynamic-lm", tmp_path / "none.quoth", *SMALL)
    assert code == 3 and out == ""
    monkeypatch.setitem(sys.modules, "quoth.jobs.quoting.job", None)
    code, out, err = quoth(*given, "--answer.model", base)
    assert (code, out) == (2, "") and 'pip install "quoth[neural]"' in err
