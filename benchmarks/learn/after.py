"""What a user sees before and after `quoth learn`, on whole collections, and what each part adds.

    python -m benchmarks.learn.after [--data ../shared/data/ir] [--sets cisi,scifact] [--seeds 0,1]
    python -m benchmarks.learn.after --generator FOLDER --arms "learned;learned, SmolLM2's queries"

Everything runs through `Engine`: add, encode (which calibrates), `learn`, and search by `auto`.
*before* is the default of a collection that has not learned, *learned* the default once it has, but
for the second look at the best hits, which `benchmarks.learn.ranking` measures.
Other arms fine-tune the reranker otherwise (`learn.reranker_*`), train the encoder instead, or add
a voice to what a collection has before it learns: the likelihood of the query generator, or
generated identifiers, named by the shipped PIXAR without training. `--generator` names a causal
query generator, and adds an arm that learns from its queries, and its likelihood before learning,
with several factors. An arm that fine-tunes the reranker is judged twice: as it is, and as `learn`
uses it, only where held-out queries show a gain.
Training queries, where a set has some, choose among the arms; test queries only judge.

Where there is a GPU, networks read and train on it (`benchmarks.on_gpu`), as two cores would need
days for this. Sets that were measured before are kept. Writes results/after.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.learn.voices import contrast, judge, name_documents
from benchmarks.lexical.quality import read, splits
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.engine.reranking import identify_reranker
from quoth.evaluation.files import read_qrels, read_queries
from quoth.jobs.learn import reranker
from quoth.jobs.learn.job import learn
from quoth.jobs.learn.plan import LearnRequest
from quoth.models.pretrained import find_shipped
from quoth.records import Qrels, Query
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parent / "results" / "after.json"
CHOSEN_ON = {"medquad": "train", "nfcorpus-tok": "train", "obliqa": "dev", "scifact": "train"}
"""Splits that may choose settings; all others only judge."""
MEASURE = "nDCG@10"

_Settings = dict[str, dict[str, Any]]
BEFORE: Mapping[str, _Settings] = {
    "before": {},
    "before, no feedback": {"rerank": {"feedback": 0.0}},
    "before, likelihood": {"rerank": {"by": "both"}},
}
VOICES: Mapping[str, _Settings] = {
    f"PIXAR {share}": {"fusion": {"generative": share}} for share in (0.1, 0.2, 0.3)
}
ENCODER = "encoder by RUMBArt"
ARMS: Mapping[str, dict[str, Any]] = {
    "learned": {},
    ENCODER: {"method": "rumbart", "reranker": False},
    "reranker 60 steps, 2e-05, half": {"reranker_learning_rate": 2e-5},
    "reranker 60 steps, 2e-05, whole": {"reranker_learning_rate": 2e-5, "reranker_share": 1.0},
    "reranker 240 steps, 2e-05, half": {"reranker_learning_rate": 2e-5, "reranker_steps": 240},
    "reranker 60 steps, 6e-05, quarter": {"reranker_share": 0.25},
    "reranker 60 steps, 6e-05, whole": {"reranker_share": 1.0},
    "reranker 240 steps, 6e-05, half": {"reranker_steps": 240},
}
"""What is learned: settings of `learn` beside its defaults."""
CAUSAL = "learned, SmolLM2's queries"
"""The arm whose queries are written by the generator that `--generator` names."""
FACTORS = (0.1, 0.2, 0.4, 0.8)
"""How much that generator's likelihood counts beside the reranker's score."""
KEPT = {"device", "note", "int8_difference"}
"""What stands in the results about the run that began them."""


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--arms", default="", help="Names, with semicolons between; else all.")
    parser.add_argument("--generator", default="", help="Folder of a causal query generator.")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--voices", action="store_true", help="Add voices before learning, too.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    arms = choose_arms(given.arms, given.generator)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    content = json.loads(given.out.read_text()) if given.out.exists() else {}
    rows, notes = content.get("rows", []), {name: content[name] for name in KEPT & content.keys()}
    models = GpuModels() if read_on_gpu() else LoadedModels()
    for name in names:
        known = [row for row in rows if row["set"] != name]
        with tempfile.TemporaryDirectory() as scratch:
            trial = Trial(given.data / name, Path(scratch), models, most=given.queries)
            befores = {**BEFORE, **choose_befores(given.generator)}
            for row in trial.measure(befores, arms, given.seeds.split(","), voices=given.voices):
                rows = [*known, row]
                write(sorted(rows, key=lambda each: each["set"]), given.out, **notes)


def choose_arms(named: str, generator: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the arms that were named, all where none was."""
    known = {**ARMS, CAUSAL: {"generator": generator}} if generator else dict(ARMS)
    names = named.split(";") if named else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(
            f"no arm {', '.join(map(repr, unknown))}; name some of {'; '.join(known)}"
            f" (--generator FOLDER adds {CAUSAL!r})"
        )
    return {name: known[name] for name in names}


def choose_befores(generator: str) -> dict[str, _Settings]:
    """Return what is added to a collection that has not learned, by the generator's likelihood."""
    if not generator:
        return {}
    return {
        f"before, SmolLM2's likelihood {factor}": {
            "rerank": {"by": "both", "generator": generator, "likelihood_factor": factor}
        }
        for factor in FACTORS
    }


def write(rows: Sequence[Mapping[str, Any]], path: Path, **notes: Any) -> None:
    """Write what was measured and its sums, a row to a line."""
    about = {
        "quoth": __version__,
        "reader": identify_reranker(find_shipped("reader")),
        "chosen_on": CHOSEN_ON,
        **notes,
        "before": {
            row["set"]: round(statistics.fmean(_scores(row, _judging(row), "before")), 4)
            for row in rows
        },
        "training": sum_up(rows, chooses=True),
        "test": sum_up(rows, chooses=False),
    }
    head = json.dumps(about, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def sum_up(rows: Sequence[Mapping[str, Any]], *, chooses: bool) -> list[dict[str, Any]]:
    """Compare every state with the one before, paired by query: means of sets, and an interval."""
    changes: dict[str, dict[str, Any]] = {}
    for row in rows:
        split = CHOSEN_ON.get(row["set"]) if chooses else _judging(row)
        for state in row["by_query"].get(split, {}):
            if state == "before":
                continue
            change = _scores(row, split, state) - _scores(row, split, "before")
            changes.setdefault(state, {})[row["set"]] = change
            if state in row.get("used", {}):
                is_used = row["used"][state]
                changes.setdefault(f"{state}, if better", {})[row["set"]] = change * is_used
    return [{"state": state, **contrast(own)} for state, own in changes.items()]


def _scores(row: Mapping[str, Any], split: str, state: str) -> np.ndarray[Any, Any]:
    return np.array(row["by_query"][split][state])


def _judging(row: Mapping[str, Any]) -> str:
    """Name the split of a row that only judges."""
    return next(split for split in row["by_query"] if split != CHOSEN_ON.get(row["set"]))


class Trial:
    """One collection that learns."""

    def __init__(self, data: Path, scratch: Path, models: LoadedModels, *, most: int) -> None:
        self._data = data
        self._scratch = scratch
        self._models = models
        self._asked = dict(_sample(data, most))
        self._found: dict[str, dict[str, list[float]]] = {split: {} for split in self._asked}
        self._about: dict[str, Any] = {"used": {}}

    def measure(
        self,
        befores: Mapping[str, _Settings],
        arms: Mapping[str, dict[str, Any]],
        seeds: Sequence[str],
        *,
        voices: bool,
        learned: _Settings | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Search before and after learning; yields what is known so far, more each time.

        What was learned is searched with the settings `learned`, or with the defaults.
        """
        path = self._scratch / "c.quoth"
        with self._open(path) as engine:
            engine.add_documents(read(self._data))
            engine.encode()
            self._about["documents"] = engine.status()["documents"]
        self._search(path, {"hybrid": {}}, searcher="hybrid")
        self._search(path, befores)
        yield self._row()
        for seed in seeds:
            for arm, settings in arms.items():
                name = arm if seed == seeds[0] else f"{arm}, seed {seed}"
                number = len(self._about)  # loaded models are known by their folders
                own = Path(shutil.copytree(path, self._scratch / f"learned-{number}.quoth"))
                self._learn(own, name, settings | {"seed": int(seed)})
                self._search(own, {name: learned or {}})
                shutil.rmtree(own)
                yield self._row()
        if voices:
            with self._open(path) as engine:
                self._about["naming"] = name_documents(engine)
            self._search(path, VOICES)
            yield self._row()

    def _open(self, path: Path, settings: _Settings | None = None) -> Engine:
        nameless = {"generative": {"generator": "none"}}
        return Engine(path, [nameless, settings or {}], ignore_progress, models=self._models)

    def _search(
        self, path: Path, states: Mapping[str, _Settings], *, searcher: str = "auto"
    ) -> None:
        for name, settings in states.items():
            with self._open(path, settings) as engine:
                for split, (asked, qrels) in self._asked.items():
                    run = replace(engine.run(asked, k=100, searcher=searcher), name=name)
                    self._found[split][name] = judge(run, asked, qrels)[MEASURE]
                    mean = statistics.fmean(self._found[split][name])
                    logging.info("%s %s %s %.4f", self._data.name, split, name, mean)

    def _learn(self, path: Path, name: str, settings: Mapping[str, Any]) -> None:
        """Learn, and use the reranker whatever held-out queries show; what they show is noted."""
        decide = reranker.decide_reader
        verdicts: list[bool] = []
        held_out: dict[str, list[float]] = {}

        def use(*scores: Any) -> tuple[bool, str]:
            is_better, reason = decide(*scores)
            verdicts.append(is_better)
            for kind in scores[-1]:
                runs = (own[kind]["reranked"] for own in scores)
                held_out[kind] = [round(statistics.fmean(own), 4) for own in runs]
            return True, reason

        forced = mock.patch.object(reranker, "decide_reader", use)
        once = {"second_look": False, **settings}
        with forced, self._open(path, {"learn": once}) as engine:
            report = learn(engine, LearnRequest(), note=logging.info).report
        assert report is not None
        self._about[name] = {
            "installed": report.installed,
            "reasons": [report.reason, report.reranker_reason],
            "held_out": held_out,
            "seconds": report.seconds,
        }
        if verdicts:
            self._about["used"][name] = verdicts[0]

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
