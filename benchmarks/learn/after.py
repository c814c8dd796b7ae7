"""What a user sees before and after `quoth learn`, on whole collections, and what each part adds.

    python -m benchmarks.learn.after [--data ../shared/data/ir] [--sets cisi,scifact] [--seeds 0,1]

Everything runs through `Engine`: add, encode (which calibrates), `learn` as it is by default, and
search by `auto`. `before` is the default of a collection that has not learned. Beside the default:
search without reranking or feedback, the query generator as a second reranker, generated
identifiers as a third voice (named by the shipped PIXAR without training; after learning its
pseudo-queries are names too), and rerankers fitted longer or used in full. Training queries, where
a set has some, choose; test queries only judge.

Where there is a GPU, networks read and train on it (`benchmarks.on_gpu`), as CPUs need days for
this. Sets that were measured before are kept. Writes results/after.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.learn.voices import judge, name_documents
from benchmarks.lexical.quality import read, splits
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.engine.reranking import find_reranker, identify_reranker
from quoth.evaluation.files import read_qrels, read_queries
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn import stages
from quoth.jobs.learn.job import LEARNING, learn
from quoth.jobs.learn.plan import FITTING_SIZES, LearnRequest
from quoth.jobs.learn.reranker import RerankerWork, make_examples
from quoth.jobs.report.summary import order_of
from quoth.models.pretrained import find_shipped
from quoth.records import Qrels, Query
from quoth.search.searcher import ignore_progress
from quoth.training.recipes.fitted_reader import FitRecipe, OpenReader, fit_reader

RESULTS = Path(__file__).parent / "results" / "after.json"
CHOSEN_ON = {
    "medquad": "train",
    "nfcorpus-tok": "train",
    "obliqa": "dev",
    "scifact": "train",
}
"""Splits that may choose settings; all others only judge."""

_Settings = dict[str, dict[str, Any]]
NAMELESS: _Settings = {"generative": {"generator": "none"}}
BOTH = {"rerank": {"by": "both"}}
BEFORE: Mapping[str, _Settings] = {
    "before": {},
    "before, no feedback": {"rerank": {"feedback": 0.0}},
    "before, likelihood": BOTH,
}
VOICES: Mapping[str, _Settings] = {
    f"PIXAR {share}": {"fusion": {"generative": share}} for share in (0.1, 0.2, 0.3)
}
LEARNED: Mapping[str, _Settings] = {
    "learned": {},
    "learned, no feedback": {"rerank": {"feedback": 0.0}},
    "learned, likelihood": BOTH,
}
TOGETHER: Mapping[str, _Settings] = {
    "learned, PIXAR 0.1": {"fusion": {"generative": 0.1}},
    "learned, PIXAR 0.2": {"fusion": {"generative": 0.2}},
    "learned, PIXAR 0.3": {"fusion": {"generative": 0.3}},
    "learned, PIXAR 0.2, likelihood": {"fusion": {"generative": 0.2}} | BOTH,
}
FITS = ((60, (0.5, 1.0)), (240, (0.5, 1.0)))
"""Steps that fit the reranker, and the shares of what was learned that are judged."""


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--minutes", type=float, default=15, help="What learning may take.")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--parts", default="learned,voices,fits", help="What is measured.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    models = GpuModels() if read_on_gpu() else LoadedModels()
    for name in names:
        known = [row for row in rows if row["set"] != name]
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(given.data / name, Path(scratch), models, most=given.queries)
            for row in trial.measure(given.seeds.split(","), given.parts, minutes=given.minutes):
                rows = [*known, row]
                write(sorted(rows, key=lambda each: each["set"]), given.out)


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write what was measured, a row to a line."""
    about = {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "chosen_on": CHOSEN_ON,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    head = json.dumps(about, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


class Trial:
    """One collection that learns."""

    def __init__(self, data: Path, scratch: Path, models: LoadedModels, *, most: int) -> None:
        self._data = data
        self._scratch = scratch
        self._models = models
        self._asked = dict(_sample(data, most))
        self._found: dict[str, dict[str, dict[str, list[float]]]] = {
            split: {} for split in self._asked
        }
        self._about: dict[str, Any] = {}
        self._fitted: dict[str, _Settings] = {}

    def measure(
        self, seeds: Sequence[str], parts: str, *, minutes: float
    ) -> Iterator[dict[str, Any]]:
        """Search before and after learning; yields what is known so far, more each time."""
        path = self._scratch / "c.quoth"
        with self._open(path) as engine:
            engine.add_documents(read(self._data))
            engine.encode()
            self._about["documents"] = engine.status()["documents"]
        self._search(path, "before", {"hybrid": {}}, searcher="hybrid")
        self._search(path, "before", BEFORE)
        yield self._row()
        for seed in seeds:
            own = Path(shutil.copytree(path, self._scratch / f"{seed}.quoth"))
            with self._fitting() if "fits" in parts and seed == seeds[0] else nullcontext():
                self._learn(own, seed, minutes=minutes)
            self._search(own, seed, {"learned, hybrid": {}}, searcher="hybrid")
            self._search(own, seed, LEARNED)
            yield self._row()
        if "voices" in parts:
            self._name(path, "before")
            self._search(path, "before", VOICES)
            own = self._scratch / f"{seeds[0]}.quoth"
            self._name(own, seeds[0])
            self._search(own, seeds[0], TOGETHER)
            yield self._row()
        if "fits" in parts:
            self._search(self._scratch / f"{seeds[0]}.quoth", seeds[0], self._fitted)
            yield self._row()

    def _open(self, path: Path, settings: _Settings | None = None) -> Engine:
        return Engine(path, [NAMELESS, settings or {}], ignore_progress, models=self._models)

    def _search(
        self, path: Path, when: str, states: Mapping[str, _Settings], *, searcher: str = "auto"
    ) -> None:
        for name, settings in states.items():
            with self._open(path, settings) as engine:
                for split, (asked, qrels) in self._asked.items():
                    key = name if when == "before" else f"{name}; seed {when}"
                    run = replace(engine.run(asked, k=100, searcher=searcher), name=key)
                    self._found[split][key] = judge(run, asked, qrels)
        told = {
            split: {key: round(statistics.fmean(own["nDCG@10"]), 4) for key, own in found.items()}
            for split, found in self._found.items()
        }
        logging.info("%s %s", self._data.name, told)

    def _learn(self, path: Path, seed: str, *, minutes: float) -> None:
        began = time.perf_counter()
        with self._open(path, {"learn": {"seed": int(seed), "minutes": minutes}}) as engine:
            outcome = learn(engine, LearnRequest(), note=logging.info)
        report, folder = outcome.report, JobFolder(path / LEARNING)
        assert report is not None
        self._about[f"learning {seed}"] = {
            "installed": report.installed,
            "reason": report.reason,
            "reranker": folder.found("reranker"),
            "seconds": {name: round(folder.seconds(name), 1) for name in order_of(folder)},
            "seconds_in_all": round(time.perf_counter() - began, 1),
        }
        logging.info("%s %s", self._data.name, self._about[f"learning {seed}"])

    def _name(self, path: Path, when: str) -> None:
        with self._open(path) as engine:
            self._about[f"naming {when}"] = name_documents(engine)

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """While a collection learns, fit more rerankers to the same queries as it does."""
        usual = stages.fit_reranker

        def fit(
            work: RerankerWork, folder: Path, *, steps: int, device: torch.device
        ) -> dict[str, Any]:
            start = find_reranker(work.config.rerank)
            assert start is not None
            for count, shares in FITS:
                recipe = FitRecipe(steps=count)
                examples = make_examples(
                    work, FITTING_SIZES[device.type], count=count * recipe.batch_size
                )
                reader = OpenReader(start)
                fit_reader(reader, examples, recipe, device=device)
                for share in shares:
                    own = self._scratch / f"reader-{count}-{share}"
                    reader.save(own, share=share)
                    self._fitted[f"fitted {count}, {share}"] = {"rerank": {"reader": str(own)}}
            return usual(work, folder, steps=steps, device=device)

        stages.fit_reranker = fit
        try:
            yield
        finally:
            stages.fit_reranker = usual

    def _row(self) -> dict[str, Any]:
        return {
            "set": self._data.name,
            "queries": {split: len(asked) for split, (asked, _qrels) in self._asked.items()},
            **self._about,
            "by_query": self._found,
        }


def _sample(folder: Path, most: int) -> Iterator[tuple[str, tuple[list[Query], Qrels]]]:
    """Yield the splits that choose and judge, with at most so many queries of each."""
    judging, qrels = next(splits(folder))
    found = {judging: qrels}
    if folder.name in CHOSEN_ON:
        split = CHOSEN_ON[folder.name]
        found[split] = read_qrels(folder / "qrels" / f"{split}.tsv.gz")
    queries = list(read_queries(folder / "queries.jsonl.gz"))
    for split, own in found.items():
        judged = [query for query in queries if query.qid in own.grades]
        asked = judged if len(judged) <= most else random.Random(0).sample(judged, most)
        yield split, (asked, Qrels({query.qid: own.grades[query.qid] for query in asked}))


if __name__ == "__main__":
    main()
