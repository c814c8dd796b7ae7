"""Search with every rival's shortlist of one length, over a PIXAR that was trained, on a GPU.

    python3 -m benchmarks.pixar_quality.shortlist_rivals --encoder FOLDER --out OUT
        --checkpoint FOLDER [--wanted 2000]

Needs what `pack` wrote and a checkpoint of `run_gpu`. Each method's one setting is fitted until
queries that were held out of training keep about `--wanted` phrases on average, 2 % of 100,000 as
in the paper; so all methods meet the same trie with the same number of phrases. The rivals let the
pooled vector and every slot choose, as in the paper; where only the pooled vector is decoded with
(bag_cos) that wastes phrases on slots, so that they are also measured choosing by the pooled vector
alone. Writes OUT/shortlists.json, and OUT/shortlists.<method>.<vectors>.npz with the best documents
of each test query; `contrast_report` judges them. Methods that OUT has already are left alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.pixar_latency.rivals.build import build_rival
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_quality.run_gpu import PACKED, Desk, Reader, Scores, bag_norms, pad_rows
from benchmarks.pixar_quality.trained import latest_checkpoint, restore, start_model
from quoth.jobs.pixar.shortlist import learn_centroids, list_phrases
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.models.pixar.shortlist.rows import Rows, to_floats
from quoth.search.generative.decode.score_table import BagNorms
from quoth.training.identifiers.pairs import IdentifierPairs
from quoth.training.recipes.pixar import query_batch
from quoth.training.recipes.pixar_config import PixarRecipe

METHODS = ("centroids", "svd", "hire_low_rank", "projection", "fast_vocabulary", "l2s")
ORDERS, WAYS = ("bag_cos", "ordered"), ("max", "logsumexp", "seal")
SETTINGS = {"svd": "depth", "hire_low_rank": "depth", "fast_vocabulary": "depth"}
"""What is fitted: phrases taken of each vector; of the other methods the length of lists."""

ROUNDS, CLOSE, JUDGES = 6, 0.02, 200
_AT_ONCE = 64

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A shortlist whose setting makes queries keep about as many phrases as were wanted."""

    shortlist: Shortlist
    setting: int
    kept: float


def main() -> None:
    """Build, fit and search with each method in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True, help="what holds step-… folders")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--set", dest="name", default="squad")
    parser.add_argument("--vocabulary", default="phrases-100000")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--wanted", type=int, default=2000, help="phrases kept for a query")
    parser.add_argument("--samples", type=int, default=16384, help="queries that rivals learn from")
    parser.add_argument("--cells", type=int, default=512, help="of the rivals with cells")
    parser.add_argument("--test-queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bench = Bench.open(given)
    bench.measure("full", "all", {"phrases_kept": bench.desk.trie.num_phrases}, bench.everything())
    for method in given.methods.split(","):
        for vectors in ("all",) if method == "centroids" else ("all", "pooled"):
            if not bench.has(method, vectors):
                bench.fit_and_measure(method, vectors)


def fit(
    build: Callable[[int], Shortlist],
    queries: Samples,
    *,
    wanted: int,
    first: int,
    most: int,
    threads: int = 1,
) -> Fitted:
    """Find the setting with which queries keep about `wanted` phrases on average.

    What is kept grows with the setting, though not in proportion and not without exception: each
    round corrects the last one, within what kept too few and what kept too many.
    """
    tried: dict[int, Fitted] = {}
    low, high, setting = 0, most + 1, max(1, min(first, most))
    while len(tried) < ROUNDS and setting not in tried:
        shortlist = build(setting)
        kept = float(np.mean([len(ids) for ids in choose_phrases(shortlist, queries, threads)]))
        tried[setting] = Fitted(shortlist, setting, kept)
        if abs(kept / wanted - 1.0) <= CLOSE:
            break
        low, high = (setting, high) if kept < wanted else (low, setting)
        guess = round(setting * wanted / max(kept, 1.0))
        setting = guess if low < guess < high else (low + high) // 2
    return min(tried.values(), key=lambda each: abs(np.log(max(each.kept, 1.0) / wanted)))


def choose_phrases(shortlist: Shortlist, queries: Samples, threads: int) -> list[Ids]:
    """Shortlist phrases for each query."""
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(shortlist.shortlist, queries.pooled, queries.slots)
        return [each.phrase_ids for each in found]


def choose_vectors(samples: Samples, vectors: str) -> Samples:
    """Keep all vectors of one query in eight, or the pooled ones of all.

    So cells have about as many vectors to learn from in either case.
    """
    if vectors == "pooled":
        return Samples(samples.pooled, samples.slots[:, :0])
    return Samples(samples.pooled[::8], samples.slots[::8])


@dataclass
class Bench:
    """The trained model, its test queries, and vectors of other queries to learn and fit by."""

    given: argparse.Namespace
    model: Pixar
    pairs: IdentifierPairs
    desk: Desk
    samples: Samples  # of training queries
    judges: Samples  # of queries that were held out
    tests: Samples
    facts: dict[str, Any]
    centroids: Tensor | None = None

    @classmethod
    def open(cls, given: argparse.Namespace) -> Bench:
        """Restore the model and encode all queries that are needed."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        folder, weights = given.packed / given.name, latest_checkpoint(given.checkpoint)
        start, pairs = start_model(folder, given.vocabulary, encoder=given.encoder, device=device)
        model = restore(start, weights, PixarRecipe())
        desk = Desk.open(folder, pairs, most=given.test_queries, threads=given.threads)
        training, held_out = pairs.training_rows, pairs.held_out_rows
        encoded = model.encode_queries(desk.texts)
        path = given.out / "shortlists.json"
        facts = json.loads(path.read_text()) if path.exists() else {"methods": []}
        facts |= {
            "set": given.name,
            "vocabulary": given.vocabulary,
            "about": dict(pairs.about),
            "step": int(weights.parent.name.removeprefix("step-")),
            "wanted": given.wanted,
            "samples": given.samples,
            "cells": given.cells,
            "queries": len(desk.texts),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        }
        return cls(
            given,
            model,
            pairs,
            desk,
            encode(model, pairs, training[:: max(1, len(training) // given.samples)]),
            encode(model, pairs, (held_out if len(held_out) else training)[:JUDGES]),
            Samples(encoded.pooled, encoded.slots),
            facts,
        )

    def has(self, method: str, vectors: str) -> bool:
        """Say whether a method was measured before."""
        found = [(each["method"], each["vectors"]) for each in self.facts["methods"]]
        return (method, vectors) in found

    def everything(self) -> list[Ids]:
        """Keep all phrases for every query."""
        return [np.arange(self.desk.trie.num_phrases, dtype=np.int32)] * len(self.desk.texts)

    def fit_and_measure(self, method: str, vectors: str) -> None:
        """Fit a method, search for the test queries, and keep what was found."""
        began = time.perf_counter()
        given = self.given
        build = self._builder(method, choose_vectors(self.samples, vectors))
        size = self.desk.trie.num_phrases
        # of lists, several are joined; of previews, one for each vector
        first = max(1, given.wanted // (5 if vectors == "all" else 1))
        narrow = slice(0, 0) if vectors == "pooled" else slice(None)
        judges, tests = (
            Samples(each.pooled, each.slots[:, narrow]) for each in (self.judges, self.tests)
        )
        found = fit(
            build, judges, wanted=given.wanted, first=first, most=size, threads=given.threads
        )
        kept = choose_phrases(found.shortlist, tests, given.threads)
        facts = {
            "setting": {SETTINGS.get(method, "list_length"): found.setting},
            "kept_when_fitted": found.kept,
            "phrases_kept": float(np.mean([len(ids) for ids in kept])),
            "phrases_kept_p99": float(np.percentile([len(ids) for ids in kept], 99)),
            "seconds": round(time.perf_counter() - began, 1),
        }
        self.measure(method, vectors, facts, kept)

    def measure(self, method: str, vectors: str, facts: Mapping[str, Any], kept: list[Ids]) -> None:
        """Search with the phrases that were kept for each test query; written at once."""
        name = f"shortlists.{method}.{vectors}.npz"
        if self.has(method, vectors):
            return
        np.savez_compressed(self.given.out / name, **search(self.desk, self.model, kept))
        row = {"method": method, "vectors": vectors, "file": name, **facts}
        self.facts["methods"].append(row)
        (self.given.out / "shortlists.json").write_text(json.dumps(self.facts, default=str))
        print(row, flush=True)

    def _builder(self, method: str, samples: Samples) -> Callable[[int], Shortlist]:
        """Return what builds a method with a setting."""
        if method == "centroids":
            return self._list_centroids
        head, bias = head_of(self.model)
        rows = Rows.store(head, bias, storage="bfloat16")  # threads share queries out, not rows
        config = RivalConfig(
            method=method,
            storage="bfloat16",
            num_centroids=min(self.given.cells, len(samples.flat()) // 4),
            window=head.shape[1] // 8,
            depth=max(1, self.given.wanted // 10),  # what l2s fills its lists from
            iterations=5 if method == "l2s" else 10,  # a fifth as many rounds of its own
        )

        def build(setting: int) -> Shortlist:
            own = replace(config, **{SETTINGS.get(method, "list_length"): setting})
            return build_rival(head, bias, rows=rows, samples=samples, config=own)

        return build

    def _list_centroids(self, length: int) -> Shortlist:
        config = ShortlistConfig()
        if self.centroids is None:
            device = self.model.device
            self.centroids = learn_centroids(self.model, self.pairs, config=config, device=device)
            self.model.network.to(device)
        return list_phrases(self.model, self.centroids, config=replace(config, list_length=length))


def head_of(model: Pixar) -> tuple[Tensor, Tensor]:  # (P, D), (P,)
    """Return rows and biases of the phrases, where the model is."""
    count = model.head.num_phrases
    rows = torch.from_numpy(np.array(model.head.rows[:count], dtype=np.float32))
    bias = torch.from_numpy(np.array(model.head.bias[:count], dtype=np.float32))
    return rows.to(model.device), bias.to(model.device)


@torch.inference_mode()
def encode(model: Pixar, pairs: IdentifierPairs, rows: NDArray[np.int64]) -> Samples:
    """Encode the queries of some inputs."""
    on_device = pairs.to(model.device)
    found = [
        model.network(query_batch(on_device, rows[start : start + _AT_ONCE]))
        for start in range(0, len(rows), _AT_ONCE)
    ]
    pooled = torch.cat([each.pooled for each in found])
    return Samples(to_floats(pooled), to_floats(torch.cat([each.slots for each in found])))


def search(desk: Desk, model: Pixar, kept: list[Ids]) -> dict[str, NDArray[np.int32]]:
    """Find the best documents of each test query, whose identifiers hold the kept phrases only."""
    rows, bias = head_of(model)
    norms = BagNorms(desk.weights, bag_norms(desk.trie, rows, desk.weights))
    reader = Reader(desk.trie, norms, ORDERS, WAYS)
    found: dict[str, list[NDArray[np.int32]]] = {f"{o}.{w}": [] for o in ORDERS for w in WAYS}
    with ThreadPoolExecutor(desk.threads) as pool:
        for start in range(0, len(desk.texts), _AT_ONCE):
            encoded = model.encode_queries(desk.texts[start : start + _AT_ONCE])
            pooled = torch.from_numpy(encoded.pooled).to(model.device) @ rows.T
            slots = torch.from_numpy(encoded.slots).to(model.device) @ rows.T + bias
            scores = Scores(pooled.cpu().numpy(), slots.cpu().numpy(), bias.cpu().numpy())
            jobs = [(scores, at, kept[start + at]) for at in range(len(pooled))]
            for one in pool.map(lambda job: reader.read(*job), jobs):
                for name, best in one.items():
                    found[name].append(pad_rows(best.rows))
    return {name: np.stack(each) for name, each in found.items()}


if __name__ == "__main__":
    main()
