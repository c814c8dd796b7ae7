"""Note of many queries' hits every sign that ranking could go by, so that ideas take seconds.

    python -m benchmarks.learn.ranking.table --out FOLDER [--data ../shared/data/ir] [--sets …]

Collections are added, encoded and calibrated through `Engine`, as `benchmarks.learn.after` does.
For each query, the first 60 hits of the hybrid are noted, and up to 20 documents besides that are
near the best hits: how they score by BM25, vectors and their fusion, what the reader says of the
passage that it reads and of up to two others, late interaction, the likelihood of the query, how
alike the hits are to each other, and what documents have in common with queries that are not about
them. `--learn` adds what the reader says once `quoth learn` has fine-tuned it, for each seed.

Splits that choose have more queries here than in `after`; those that judge have the same. Where
there is a GPU, networks read on it. Writes one .npz file per collection.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.after import CHOSEN_ON, MEASURE, _sample
from benchmarks.learn.ranking.pool import BESIDE, FIRST, VOICED, Pool
from benchmarks.learn.ranking.signs import (
    Pair,
    compare_late,
    likelihoods,
    read_relevance,
    read_signs,
)
from benchmarks.learn.voices import judge
from benchmarks.lexical.quality import read
from benchmarks.on_gpu import GpuModels, read_on_gpu
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.engine.searchers import Searchers
from quoth.evaluation.files import read_qrels, read_queries
from quoth.jobs.learn import reranker
from quoth.jobs.learn.job import learn
from quoth.jobs.learn.plan import LearnRequest
from quoth.records import Qrels, Query
from quoth.search.searcher import ignore_progress

NUM_READ = 4
MORE = {
    "medquad": ("train", 600),
    "nfcorpus-tok": ("train", 600),
    "nfcorpus-tok dev": ("dev", 300),
    "obliqa": ("dev", 600),
    "scifact": ("train", 600),
    "wikiqa": ("train", 300),
    "squad-train-slice": ("train", 300),
}
"""Splits whose queries may choose, and how many; of squad-train-slice, those that do not judge."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """Queries of one split, those with which `after` judges or chooses first."""

    name: str
    queries: list[Query]
    qrels: Qrels


def main() -> None:
    """Make the tables of the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--queries", type=int, default=200, help="Most queries of a split.")
    parser.add_argument("--more", type=float, default=1.0, help="Share of the further queries.")
    parser.add_argument("--learn", default="", help="Seeds of `quoth learn`.")
    parser.add_argument(
        "--most", type=int, default=0, help="Documents of a collection, for trials."
    )
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    models = GpuModels() if read_on_gpu() else LoadedModels()
    kept = Path(tempfile.mkdtemp())
    made = {}
    for name in names:
        asked = choose(given.data / name, given.queries, given.more)
        made[name] = Table(given.data / name, kept / name, models, asked)
        made[name].index(given.most)
        made[name].note()
        made[name].write(given.out / f"{name}.npz")
    for name, table in made.items():
        for seed in filter(None, given.learn.split(",")):
            table.learn(int(seed))
            table.write(given.out / f"{name}.npz")
    shutil.rmtree(kept)


def choose(folder: Path, most: int, more: float) -> list[Asked]:
    """Return the queries of each split; the splits that choose have further ones."""
    found = {split: Asked(split, *own) for split, own in _sample(folder, most)}
    queries = list(read_queries(folder / "queries.jsonl.gz"))
    for key, (split, count) in MORE.items():
        if key.split()[0] != folder.name:
            continue
        qrels = read_qrels(folder / "qrels" / f"{split}.tsv.gz")
        known = {q.qid for own in found.values() for q in own.queries}
        rest = [q for q in queries if q.qid in qrels.grades and q.qid not in known]
        wanted = round(count * more) - (most if CHOSEN_ON.get(folder.name) == split else 0)
        further = random.Random(1).sample(rest, min(len(rest), max(0, wanted)))
        start = found[split].queries if CHOSEN_ON.get(folder.name) == split else []
        name = split if start or split not in found else f"{split} rest"
        asked = [*start, *further]
        grades = {query.qid: qrels.grades[query.qid] for query in asked}
        found[name] = Asked(name, asked, Qrels(grades))
    return list(found.values())


class Table:
    """One collection: its queries, and what is known of their hits."""

    def __init__(
        self, data: Path, path: Path, models: LoadedModels, asked: Sequence[Asked]
    ) -> None:
        self._data, self._path, self._models, self._asked = data, path, models, asked
        self._queries = [
            Query(f"{own.name}/{query.qid}", query.text) for own in asked for query in own.queries
        ]
        self._grades = {
            f"{own.name}/{query.qid}": own.qrels.grades[query.qid]
            for own in asked
            for query in own.queries
        }
        self._columns: dict[str, NDArray[Any]] = {}
        self._about: dict[str, Any] = {"set": data.name}
        self._pairs: dict[tuple[int, int], Pair] = {}

    def index(self, most: int) -> None:
        """Add, encode and calibrate; note what `auto` ranks."""
        documents = list(read(self._data))
        if most:
            judged = {docid for own in self._grades.values() for docid in own}
            documents = [d for at, d in enumerate(documents) if at < most or d.docid in judged]
        with self._open(self._path) as engine:
            engine.add_documents(documents)
            calibration = engine.encode()
            self._about["documents"] = engine.status()["documents"]
            rerank = calibration.rerank
            self._about["weights"] = dict(calibration.weights)
            self._about["ranges"] = dict(calibration.ranges)
            self._about["share"] = engine.config.rerank.weight if rerank is None else rerank.share
        self._note_auto("auto", self._path)

    def note(self) -> None:
        """Note every sign."""
        with self._open(self._path) as engine:
            engine._read(lambda store: self._note(store, engine._searchers), "hybrid")

    def learn(self, seed: int) -> None:
        """Let the collection learn, and note what its reader says then."""
        own = Path(shutil.copytree(self._path, self._path.with_name(f"{self._data.name}-{seed}")))
        decide, verdicts = reranker.decide_reader, []

        def use(*scores: Any) -> tuple[bool, str]:
            verdicts.append(decide(*scores))
            return True, verdicts[-1][1]

        settings = {"learn": {"seed": seed, "second_look": False}}
        with mock.patch.object(reranker, "decide_reader", use), self._open(own, settings) as engine:
            report = learn(engine, LearnRequest(), note=logging.info).report
        assert report is not None
        self._about[f"learned {seed}"] = {
            "fitted": bool(verdicts),
            "used": bool(verdicts) and verdicts[0][0],
            "reason": report.reranker_reason,
        }
        self._note_auto(f"learned {seed}", own)
        if verdicts:
            with self._open(own) as engine:
                reader = self._models.reader(engine.config.rerank.reader)
                share = engine._read(lambda _: engine._searchers.rerank_share, "hybrid")
                self._about[f"learned {seed}"]["share"] = share
            found = read_relevance(reader, list(self._pairs.values()))
            self._columns[f"relevance {seed}"] = self._spread(found)
        logging.info("%s learned %s %s", self._data.name, seed, self._about[f"learned {seed}"])

    def write(self, path: Path) -> None:
        """Write what is known so far."""
        about = json.dumps(self._about)
        columns: dict[str, Any] = {"about": np.array(about), **self._columns}
        np.savez_compressed(path, **columns)

    def _open(self, path: Path, settings: Mapping[str, Any] | None = None) -> Engine:
        nameless = {"generative": {"generator": "none"}}
        return Engine(path, [nameless, settings or {}], ignore_progress, models=self._models)

    def _note_auto(self, state: str, path: Path) -> None:
        with self._open(path) as engine:
            for own in self._asked:
                run = replace(engine.run(own.queries, k=100), name=state)
                found = judge(run, own.queries, own.qrels)[MEASURE]
                self._columns[f"{state}: {own.name}"] = np.array(found, np.float32)
                logging.info("%s %s %s %.4f", self._data.name, own.name, state, np.mean(found))

    def _note(self, store: Store, searchers: Searchers) -> None:
        began = time.perf_counter()

        def tell(what: str) -> None:
            logging.info("%s %s %.0f s", self._data.name, what, time.perf_counter() - began)

        pool = Pool(store, searchers, self._queries)
        tell("searched")
        self._pairs = dict(pool.pairs(range(FIRST)))
        reader = self._models.reader("reader")
        signs = read_signs(reader, list(self._pairs.values()))
        tell("read")
        pool.go_beside(self._spread(signs["relevance"])[:, :FIRST], self._about["share"])
        beside = dict(pool.pairs(range(FIRST, FIRST + BESIDE)))
        more = read_signs(reader, list(beside.values()))
        self._pairs |= beside
        self._columns |= {
            name: self._spread(np.concatenate([signs[name], more[name]])) for name in signs
        }
        tell("read beside")
        self._columns |= pool.columns(self._grades)
        voiced = {key: pair for key, pair in self._pairs.items() if key[1] < VOICED}
        generator = self._models.generator("query-generator")
        own = likelihoods(generator, list(voiced.values()))
        self._columns |= {name: self._spread(each, voiced) for name, each in own.items()}
        tell("likelihood")
        encoder = searchers._load_encoder(searchers._config)
        late = compare_late(
            encoder,
            voiced,
            weights=[searchers.lexical(syntax=False).term_weights(q) for q in self._queries],
            analyser=searchers.analyser,
        )
        self._columns["late"] = self._spread(late, voiced)
        tell("late")
        others = pool.other_passages(voiced)
        for at in (0, 1):
            chosen = {key: own[at] for key, own in others.items() if len(own) > at}
            found = read_relevance(reader, list(chosen.values()))
            self._columns[f"relevance of other {at}"] = self._spread(found, chosen)
        tell("others")
        bank = pool.bank(generator)
        vectors = searchers.dense().query_vectors([Query("", text) for text in bank])
        self._columns |= pool.hubness(vectors)
        for at in range(NUM_READ):
            pairs = [
                Pair(bank[(7 + 61 * at) % len(bank)], each.passage) for each in voiced.values()
            ]
            self._columns[f"relevance for bank {at}"] = self._spread(
                read_relevance(reader, pairs), voiced
            )
        tell("bank")

    def _spread(self, found: Floats, keys: Mapping[tuple[int, int], Any] | None = None) -> Floats:
        """Put what was found of pairs where they stand; NaN elsewhere."""
        spread = np.full((len(self._queries), FIRST + BESIDE), np.nan, np.float32)
        for (query, place), each in zip(keys or self._pairs, found, strict=False):
            spread[query, place] = each
        return spread


if __name__ == "__main__":
    main()
