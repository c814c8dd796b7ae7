"""Every job, interrupted around and inside each of its stages, ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from learning_worlds import copy_words, make_collection, make_documents, save_models
from tests.unit.jobs.quoting.test_settings import layers
from tiny_encoder import WORDS, save_tiny_encoder
from tiny_language_model import TEXTS, save_language_model

from quoth.engine.engine import Engine
from quoth.jobs.glow.job import train_encoder
from quoth.jobs.glow.report import GlowRequest
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn.job import learn
from quoth.jobs.learn.plan import LearnRequest
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.jobs.quoting.job import DynamicRequest, train_language_model
from quoth.jobs.quoting.settings import read_settings
from quoth.models.glow.config import GlowConfig
from quoth.models.query_generator.generator import QueryGenerator
from quoth.records import Document
from quoth.search.searcher import Progress, ignore_progress
from quoth.settings.pixar import PixarBuildConfig
from quoth.training.recipes.glow_config import GlowRecipe, encoder_config

VARYING = {"seconds", "peak_megabytes", "collection", "model", "out"}
Run = Callable[[Path, Progress], Any]


@dataclass
class Interrupter:
    """Raises KeyboardInterrupt once at every moment it is told of."""

    moments: list[tuple[str, str]] = field(default_factory=list)

    def at(self, *moment: str) -> None:
        when, what = moment
        if (when, what) not in self.moments:
            self.moments.append((when, what))
            raise KeyboardInterrupt

    def progress(self, what: str, done: int, total: int) -> None:
        """Interrupt each stage once, and training past the checkpoint in its middle."""
        finished = sum(when == "after" for when, _what in self.moments)
        if 3 * done >= 2 * total:
            self.at("inside", "training" if what.startswith("training") else str(finished))


@dataclass(frozen=True)
class World:
    """A collection and models small enough to learn in a test."""

    collection: Path
    encoder: Path
    generator: Path
    language_model: Path
    pairs: Path

    def copy(self, place: Path) -> Path:
        folder = place / "birds.quoth"
        return folder if folder.exists() else Path(shutil.copytree(self.collection, folder))

    def learn(self, place: Path, progress: Progress) -> Any:
        config = {
            "generator": str(self.generator),
            "method": "none",
            "queries_per_passage": 3,
            "corpus_queries": 3,
            "warm_up_steps": 40,
            "warm_up_batch": 16,
            "learning_rate": 2e-3,
            "held_out": 0.3,
            "judged_queries": 40,
            "device": "cpu",
        }
        settings = {"dense": {"encoder": str(self.encoder)}, "learn": config}
        with Engine.open(self.copy(place), settings=[settings], progress=progress) as engine:
            return learn(engine, LearnRequest()).report

    def pixar(self, place: Path, progress: Progress) -> Any:
        settings = {
            "dense": {"encoder": str(self.encoder)},
            "generative": {"generator": str(self.generator)},
        }
        config = PixarBuildConfig(
            steps=12, batch_size=16, checkpoint_every=4, size=600, looks=2, device="cpu"
        )
        with Engine.open(self.copy(place), settings=[settings], progress=progress) as engine:
            return train_generative(engine, PixarRequest(config))

    def glow(self, place: Path, progress: Progress, *, loss: str) -> Any:
        recipe = GlowRecipe(
            steps=4, batch_size=4, num_layers=1, weighting="row", learning_rate=1e-2, loss=loss
        )
        request = GlowRequest(
            self.pairs,
            place / "encoder",
            recipe,
            encoder_config(recipe, GlowConfig(max_subwords=48)),
            base=str(self.encoder),
            device="cpu",
            checkpoint_every=2,
        )
        return train_encoder(request, progress=progress)

    def dynamic_lm(self, place: Path, progress: Progress) -> Any:
        given = ("training.sentences=12", "training.judged=4", "recipe.checkpoint_every=2")
        settings = read_settings(*layers(given, steps=4, device="cpu"))
        answer = {"answer": {"model": str(self.language_model)}}
        with Engine.open(self.copy(place), settings=[answer]) as engine:
            request = DynamicRequest(place / "model", settings)
            return train_language_model(engine, request, progress=progress)


def make_pairs(path: Path, count: int = 24) -> Path:
    """Write pairs whose passages hold the words of their queries, and a negative for each."""
    chance = random.Random(0)
    lines = []
    for at in range(count):
        words = chance.sample(WORDS, 4)
        passage = {"title": words[0], "text": " ".join(words)}
        record = {"query": f"{words[0]} {words[1]} {at}", "passage": passage}
        lines.append(json.dumps(record | {"negatives": [" ".join(chance.sample(WORDS, 4))]}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    encoder, generator = save_models(folder)
    collection = make_collection(folder / "birds.quoth", make_documents())
    base = save_language_model(folder / "language-model")
    return World(collection, encoder, generator, base, make_pairs(folder / "pairs.jsonl"))


@pytest.fixture(scope="module")
def quoting_world(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same models with documents in words that the language model knows."""
    documents = [
        Document(f"bird-{at}", {"text": (f"{TEXTS[at % 3]} That was day {at} of the year.",)})
        for at in range(9)
    ]
    folder = tmp_path_factory.mktemp("quoting")
    encoder = save_tiny_encoder(folder / "tiny")
    collection = make_collection(folder / "birds.quoth", documents)
    return World(collection, encoder, world.generator, world.language_model, world.pairs)


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the order of sums stay the same, and let queries tell something."""
    monkeypatch.setattr(QueryGenerator, "generate", copy_words)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def without_varying(value: Any) -> Any:
    """Leave out times, memory and places."""
    if isinstance(value, dict):
        return {name: without_varying(own) for name, own in value.items() if name not in VARYING}
    return [without_varying(each) for each in value] if isinstance(value, list) else value


def files_of(place: Path, *folders: str) -> dict[str, bytes]:
    """Read what the job made, but reports, which tell times, and how often search got a model."""
    left_out = ("quoth_training.json", "artifact.json", "seals.json")
    return {
        str(path.relative_to(place)): path.read_bytes()
        for folder in folders
        for path in sorted((place / folder).rglob("*"))
        if path.is_file() and path.name not in left_out
    }


JOBS: dict[str, tuple[Callable[[World], Run], tuple[str, ...], int]] = {
    "learn": (lambda world: world.learn, ("birds.quoth/models",), 9),
    "pixar": (lambda world: world.pixar, ("birds.quoth/generative",), 7),
    "glow, info_nce": (
        lambda world: lambda *given: world.glow(*given, loss="info_nce"),
        ("encoder",),
        6,
    ),
    "glow, bce": (lambda world: lambda *given: world.glow(*given, loss="bce"), ("encoder",), 6),
    "dynamic-lm": (lambda world: world.dynamic_lm, ("model",), 6),
}
"""By name: how it is run, which folders hold what it makes, and how many stages it has."""


@pytest.mark.parametrize("name", list(JOBS))
def test_interrupted_anywhere_a_job_ends_as_an_uninterrupted_one(
    name: str,
    world: World,
    quoting_world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, folders, num_stages = JOBS[name]
    run = make(world if name in ("learn", "pixar") else quoting_world)
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    expected = run(whole, ignore_progress)

    interrupter, finish = Interrupter(), JobFolder.finish

    def interrupted_finish(self: JobFolder, stage: str, found: Any) -> Any:
        interrupter.at("before", stage)
        noted = finish(self, stage, found)
        interrupter.at("after", stage)
        return noted

    monkeypatch.setattr(JobFolder, "finish", interrupted_finish)
    report, went_on = None, False
    while report is None:
        try:
            report = run(parted, interrupter.progress)
        except KeyboardInterrupt:
            if interrupter.moments[-1] == ("inside", "training"):
                went_on = bool(list(parted.rglob("step-*")))
    around = [stage for when, stage in interrupter.moments if when == "after"]
    assert len(around) == num_stages and went_on, interrupter.moments
    assert without_varying(report.to_record()) == without_varying(expected.to_record())
    assert files_of(parted, *folders) == files_of(whole, *folders) != {}
    again = run(parted, interrupter.progress)  # the finished job is only read
    assert without_varying(again.to_record() | {"is_old": False}) == without_varying(
        report.to_record() | {"is_old": False}
    )
