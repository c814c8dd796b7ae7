"""What people get before `quoth learn` and after it, by the product's own path.

    python -m benchmarks.learn.ranking.measure [--data ../shared/data/ir] [--sets …] --out FOLDER

As `benchmarks.learn.after`, but that nothing is forced: `learn` decides by itself whether the
reranker is fine-tuned and used, and lets search look at its best hits a second time. *once* is
search after learning without that look, *before, twice* search before learning with it. Where there
is a GPU, networks read and train on it. Writes one JSON file per collection;
`benchmarks.learn.ranking.study` joins them.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.learn.after import MEASURE, _sample
from benchmarks.learn.voices import judge
from benchmarks.lexical.quality import read
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.jobs.learn.job import learn
from quoth.jobs.learn.plan import LearnRequest
from quoth.search.rerank_config import SECOND_LOOK
from quoth.search.searcher import ignore_progress

ONCE = dict.fromkeys(SECOND_LOOK, 0.0)

_Settings = dict[str, dict[str, Any]]


def main() -> None:
    """Measure the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--most", type=int, default=0, help="Documents of a set, for trials.")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    given.out.mkdir(parents=True, exist_ok=True)
    models = GpuModels() if read_on_gpu() else LoadedModels()
    for name in given.sets.split(",") if given.sets else sorted(map(_name, given.data.iterdir())):
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(given.data / name, Path(scratch), models, most=given.queries)
            trial.begin(given.most)
            trial.write(given.out)
            for seed in given.seeds.split(","):
                trial.learn(int(seed))
                trial.write(given.out)


class Trial:
    """One collection that learns."""

    def __init__(self, data: Path, scratch: Path, models: LoadedModels, *, most: int) -> None:
        self._data, self._scratch, self._models = data, scratch, models
        self._asked = dict(_sample(data, most))
        self._found: dict[str, dict[str, list[float]]] = {split: {} for split in self._asked}
        self._about: dict[str, Any] = {}

    def begin(self, most: int) -> None:
        """Add, encode and search before learning."""
        documents = read(self._data)
        kept = [each for at, each in enumerate(documents) if not most or at < most]
        with self._open(self._path) as engine:
            engine.add_documents(kept)
            engine.encode()
            self._about["documents"] = engine.status()["documents"]
        twice = {"rerank": SECOND_LOOK}
        self._search(self._path, {"before": {}, "before, twice": twice})

    def learn(self, seed: int) -> None:
        """Learn, and search as it is then."""
        own = Path(shutil.copytree(self._path, self._scratch / f"learned-{seed}.quoth"))
        with self._open(own, {"learn": {"seed": seed}}) as engine:
            report = learn(engine, LearnRequest(), note=logging.info).report
        assert report is not None
        self._about[f"learned {seed}"] = {
            "fine-tuned": report.reranker_fitted,
            "reason": report.reranker_reason,
        }
        states = {f"learned {seed}": {}, f"learned {seed}, once": {"rerank": ONCE}}
        if not report.reranker_fitted:  # search is as it was before, but for the second look
            states.pop(f"learned {seed}, once")
        self._search(own, states)
        shutil.rmtree(own)

    def write(self, folder: Path) -> None:
        """Write what is known so far."""
        sizes = {split: len(asked) for split, (asked, _qrels) in self._asked.items()}
        row = {"set": self._data.name, "queries": sizes, **self._about, "by_query": self._found}
        (folder / f"{self._data.name}.json").write_text(json.dumps(row))

    @property
    def _path(self) -> Path:
        return self._scratch / "c.quoth"

    def _open(self, path: Path, settings: Mapping[str, Any] | None = None) -> Engine:
        nameless = {"generative": {"generator": "none"}}
        return Engine(path, [nameless, settings or {}], ignore_progress, models=self._models)

    def _search(self, path: Path, states: Mapping[str, _Settings]) -> None:
        for name, settings in states.items():
            with self._open(path, settings) as engine:
                for split, (asked, qrels) in self._asked.items():
                    run = replace(engine.run(asked, k=100), name=name)
                    found: Sequence[float] = judge(run, asked, qrels)[MEASURE]
                    self._found[split][name] = list(found)
                    mean = statistics.fmean(found)
                    logging.info("%s %s %s %.4f", self._data.name, split, name, mean)


def _name(path: Path) -> str:
    return path.name


if __name__ == "__main__":
    main()
