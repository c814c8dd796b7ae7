"""Training a language model on a collection: steps, interruption, files, reports and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.jobs.quoting.test_settings import layers
from tiny_language_model import make_dynamic_lm, save_language_model

from quoth.answer.abstain import (
    FILE_NAME,
    REFUSAL_ALONE,
    Abstention,
    open_abstention,
    save_abstention,
)
from quoth.engine.engine import Engine
from quoth.errors import CollectionError, ConfigError
from quoth.jobs.job_folder import MODEL_REPORT_FILE
from quoth.jobs.quoting import job
from quoth.jobs.quoting.job import DynamicRequest, train_language_model
from quoth.jobs.quoting.report import DynamicReport
from quoth.jobs.quoting.settings import read_settings
from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.records import Document
from quoth.search.searcher import ignore_progress
from quoth.settings.dynamic_lm import DynamicTrainingConfig

pytestmark = pytest.mark.usefixtures("one_thread")

BIRDS = ("barn owl", "raven", "hen", "swift", "heron", "crane")
PLACES = ("in the old barn", "near the river bank", "on the tall tree", "by the mill")
SMALL = ("training.sentences=12", "training.judged=4", "recipe.checkpoint_every=2")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture
def engine(tmp_path: Path, base: Path) -> Iterator[Engine]:
    given = {"answer": {"model": str(base)}}
    with Engine.open(tmp_path / "birds.quoth", settings=[given]) as opened:
        opened.add_documents(
            Document(f"bird-{at}", {"title": (f"Bird {at}",), "text": (text_of(at),)})
            for at in range(12)
        )
        yield opened


def text_of(at: int) -> str:
    bird, place, other = BIRDS[at % 6], PLACES[at % 4], PLACES[(at + 1) % 4]
    return (
        f"The {bird} number {at} sleeps {place} at night. It eats small flies {other} by day, and"
        f" then the {bird} rests {place}."
    )


def make_plan(out: Path, *texts: str, pairs: Path | None = None, **training: Any) -> DynamicRequest:
    given = {"steps": 4, "device": "cpu", **training}
    return DynamicRequest(out, read_settings(*layers([*SMALL, *texts], **given)), pairs)


def train(engine: Engine, plan: DynamicRequest, **others: Any) -> DynamicReport:
    return train_language_model(engine, plan, progress=ignore_progress, **others)


def stop_while_training(engine: Engine, plan: DynamicRequest, *, step: int) -> None:
    """Interrupt a training when it tells of a step."""

    def stop(what: str, done: int, _total: int) -> None:
        if (what, done) == ("training", step):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_language_model(engine, plan, progress=stop)


def write_pairs(path: Path, numbers: range = range(12)) -> Path:
    rows = [
        {
            "question": f"Where does the {BIRDS[at % 6]} number {at} sleep?",
            "answers": [f"number {at} sleeps {PLACES[at % 4]}"],
            "docid": f"bird-{at}",
        }
        for at in numbers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- training ------------------------------------------------------------------------------------


def test_a_report_says_what_was_trained_and_is_kept(engine: Engine, tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "out", "recipe.learning_rate=1e-2", steps=6)
    report = train(engine, plan)
    assert report.steps == 6 and report.after.perplexity < report.before.perplexity
    assert set(report.after.scores) == {"texts", "quotations"}
    for name, scores in report.after.scores.items():
        assert scores.num_samples > 0
        assert scores.mixed_loss < report.before.scores[name].mixed_loss
        assert 0 <= scores.phrase_recall <= 1 and 0 <= scores.phrase_precision <= 1
    assert report.seconds.keys() == {
        *("samples", "judge before", "plan", "training", "judge after", "save")
    }
    assert report.peak_megabytes > 0 and not report.is_old and not report.is_installed
    saved = json.loads((plan.out / MODEL_REPORT_FILE).read_text())
    assert saved["report"] == json.loads(json.dumps(report.to_record()))
    again = train(engine, plan)
    assert again.is_old and again.after == report.after
    changed = replace(plan, settings=read_settings(*layers(SMALL, steps=2, device="cpu")))
    assert train(engine, changed).steps == 2  # over the older model


def test_a_training_goes_on_from_a_model_that_quotes(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    made = make_dynamic_lm(tmp_path / "own base")
    made.save(tmp_path / "quoting", dtype="fp32")
    save_abstention(tmp_path / "quoting", Abstention((0.5, 0.0, 0.0, 0.0), 0.25))
    given = {"answer": {"model": str(tmp_path / "quoting")}}
    with Engine.open(engine.folder, settings=[given]) as opened:
        report = train(opened, make_plan(tmp_path / "out", steps=1))
        assert report.start == str(tmp_path / "quoting") and report.abstention.startswith("as in")
        assert open_abstention(tmp_path / "out") == open_abstention(tmp_path / "quoting")
        wrong = make_plan(tmp_path / "other", "model.lora_rank=4", "model.template=chat")
        with pytest.raises(ConfigError, match=r"where model\.lora_rank is 8, not 4; leave that"):
            train(opened, wrong)
        anew = make_plan(tmp_path / "anew", "model.lora_rank=4", f"model.base={base}", steps=1)
        assert train(opened, anew).start == str(base)
    started = open_dynamic_lm(tmp_path / "anew", base=None, device=torch.device("cpu"))
    assert started.config.lora_rank == 4 and started.config.template == "chat"


def test_steps_follow_from_the_time(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, float]] = []

    def fit(_config: DynamicTrainingConfig, **given: float) -> int:
        asked.append(given)
        return 3

    monkeypatch.setattr(job, "fit_steps", fit)
    plan = make_plan(tmp_path / "out", steps=0)
    stop_while_training(engine, plan, step=2)
    assert train(engine, plan).steps == 3
    assert len(asked) == 1 and asked[0]["seconds_per_step"] > 0  # planned once, then kept
    assert asked[0]["epoch_steps"] > 0


def test_abstention_is_fitted_to_held_out_questions(engine: Engine, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.jsonl")
    plan = make_plan(
        tmp_path / "out", "training.judged=12", "training.held_out=0.7", pairs=pairs, steps=1
    )
    report = train(engine, plan)
    assert report.abstention == "fitted to 8 held-out questions, with and without answer"
    assert (plan.out / FILE_NAME).exists() and open_abstention(plan.out) != REFUSAL_ALONE
    assert report.counts["labelled questions"] == 12
    few = train(engine, make_plan(tmp_path / "few", pairs=pairs, steps=1))
    assert "fewer than 8" in few.abstention and not (tmp_path / "few" / FILE_NAME).exists()


# --- errors --------------------------------------------------------------------------------------


def test_too_few_passages_are_refused(tmp_path: Path, base: Path) -> None:
    given = {"answer": {"model": str(base)}}
    with Engine.open(tmp_path / "few.quoth", settings=[given]) as engine:
        engine.add_documents([Document("a", {"text": (text_of(0),)})])
        with pytest.raises(CollectionError, match="holds 1 documents; training needs"):
            train(engine, make_plan(tmp_path / "out"))
        engine.add_documents([Document(f"b{at}", {"text": ("owl",)}) for at in range(9)])
        with pytest.raises(CollectionError, match=r"or more to train on and .* add documents"):
            train(engine, make_plan(tmp_path / "out"))


def test_other_settings_are_not_mixed_with_an_unfinished_training(
    engine: Engine, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path / "out")
    stop_while_training(engine, plan, step=1)
    other = make_plan(tmp_path / "out", "negatives.prefixes=false", "recipe.warm-up=0.5")
    with pytest.raises(ConfigError) as refused:
        train(engine, other)
    assert "recipe.warm_up was 0.05, is 0.5" in str(refused.value)
    assert "recipe.negatives.prefixes was True, is False" in str(refused.value)
    engine.add_documents([Document("new", {"text": (text_of(30),)})])
    with pytest.raises(ConfigError, match=r"other settings \(documents\)"):
        train(engine, plan)
    assert train(engine, replace(other, resume=False)).steps == 4


def test_a_folder_that_holds_something_else_is_refused(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file; name a new folder"):
        train(engine, make_plan(tmp_path / "file"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else than a model"):
        train(engine, make_plan(tmp_path / "notes"))
    other = save_language_model(tmp_path / "other", kind="gpt2")
    train(engine, make_plan(tmp_path / "gpt", f"model.base={other}", steps=1))
    with pytest.raises(ConfigError, match="holds a model over another language model"):
        train(engine, make_plan(tmp_path / "gpt"))
    own = {"answer": {"model": str(tmp_path / "gpt")}}
    with (
        Engine.open(engine.folder, settings=[own]) as opened,
        pytest.raises(ConfigError, match="cannot be trained in place; name a new folder"),
    ):
        train(opened, make_plan(tmp_path / "gpt"))


def test_quotations_that_were_asked_for_must_be_there(engine: Engine, tmp_path: Path) -> None:
    none = make_plan(tmp_path / "none", "training.sentences=0", steps=1)
    assert set(train(engine, none).after.scores) == {"texts"}
    asked = make_plan(tmp_path / "asked", "training.sentences=0", "recipe.quote_share=0.5")
    with pytest.raises(ConfigError, match=r"holds no quotations, but quote_share is 0\.5"):
        train(engine, asked)
