"""What the shipped PIXAR, untrained on a collection, adds to the hybrid of two on all sets.

    python -m benchmarks.pixar_quality.third search [--data ../shared/data/ir] [--sets cacm,cisi]
    python -m benchmarks.pixar_quality.third judge
    python -m benchmarks.pixar_quality.third rerank [--queries 100]

*search* adds, encodes (which calibrates the fusion) and names each collection through `Engine`, as
`quoth encode` and `quoth train pixar --no-generator --pixar.train false` do, and keeps what each
side finds and how far its scores usually reach (benchmarks/.cache/third/): of the test queries, and
of training queries, which may choose. *judge* fuses them as search by `hybrid` does, with several
shares of the generative side, whose documents count by their best identifier (*best*) or by half
the mean of all as well (*mean*), and which takes its share from all weights (*all*) or from that of
vectors alone (*dense*). What has the best mean over the training queries is chosen; test queries
choose nothing. *rerank* searches the kept collections by `auto`, which reranks, with what *judge*
chose and without. Differences are paired by query. Writes results/third.json.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learn.product import Remembering
from benchmarks.learn.voices import contrast, name_documents
from benchmarks.lexical.quality import read, splits
from benchmarks.on_gpu import read_on_gpu
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_qrels, read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.context import open_context
from quoth.jobs.pixar.judging import range_scores
from quoth.records import Hit, Qrels, Query, Run
from quoth.search.generative.config import NO_GENERATOR
from quoth.search.hybrid.fusion import UsualRanges, fuse
from quoth.search.hybrid.fusion_config import FusionConfig
from quoth.search.searcher import ignore_progress

RESULTS = Path(__file__).parent / "results" / "third.json"
CACHE = Path("benchmarks/.cache/third")
MEASURE = "nDCG@10"
CHOOSING = {
    "medquad": "train",
    "nfcorpus-tok": "train",
    "obliqa": "dev",
    "scifact": "train",
    "wikiqa": "dev",
}
"""Splits whose queries may choose."""

WAYS = {"mean": 0.5, "best": 0.0}
"""How a document counts: `generative.mean_share`."""

GIVING = ("all", "dense")
"""Whose weights make room for the generative side."""

SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
GENERATIVE = "generative"


def main() -> None:
    """Search the sets, or judge what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    search = kinds.add_parser("search")
    search.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    search.add_argument("--sets", default="")
    search.add_argument("--queries", type=int, default=400, help="Most queries of a split.")
    search.add_argument("--out", type=Path, default=CACHE)
    judge = kinds.add_parser("judge")
    judge.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    judge.add_argument("--found", type=Path, default=CACHE)
    judge.add_argument("--out", type=Path, default=RESULTS)
    rerank = kinds.add_parser("rerank")
    rerank.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    rerank.add_argument("--found", type=Path, default=CACHE)
    rerank.add_argument("--queries", type=int, default=100, help="Most test queries of a set.")
    rerank.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if given.kind == "judge":
        judge_all(given.data, given.found, given.out)
        return
    read_on_gpu()
    if given.kind == "rerank":
        rerank_all(given.data, given.found, given.out, most=given.queries)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    for name in names:
        path = given.out / f"{name}.json.gz"
        if not path.exists():
            content = search_set(given.data / name, given.out, most=given.queries)
            with gzip.open(path, "wt") as stream:
                json.dump(content, stream)


# --- searching ------------------------------------------------------------------------------------


def search_set(folder: Path, out: Path, *, most: int) -> dict[str, Any]:
    """Index, calibrate and name one collection, which is kept, and ask each side on its own."""
    asked = {split: queries for split, (queries, _qrels) in sample(folder, most).items()}
    path = out / f"{folder.name}.quoth"
    shutil.rmtree(path, ignore_errors=True)
    with Engine.open(path, settings=[_settings(0.0)]) as engine:
        engine.add_documents(read(folder))
        calibration = engine.encode()
        naming = name_documents(engine)
        documents = engine.status()["documents"]
    logging.info("%s: %s documents named, %s", folder.name, documents, naming)
    runs: dict[str, dict[str, Any]] = {split: {} for split in asked}
    widths: dict[str, float | None] = {**calibration.ranges}
    for way, share in WAYS.items():
        with Engine.open(path, settings=[_settings(share)]) as engine:
            widths[way] = measure_width(engine)
            for split, queries in asked.items():
                runs[split][way] = _rows(engine.run(queries, k=100, searcher=GENERATIVE))
    with Engine.open(path, settings=[_settings(0.0)]) as engine:
        for split, queries in asked.items():
            for side in ("lexical", "dense"):
                runs[split][side] = _rows(engine.run(queries, k=100, searcher=side))
    logging.info("%s: searched", folder.name)
    return {
        "set": folder.name,
        "documents": documents,
        "naming": naming,
        "weights": dict(calibration.weights),
        "depth": calibration.usual_ranges().depth,
        "widths": widths,
        "runs": runs,
    }


def measure_width(engine: Engine) -> float | None:
    """Measure anew how far scores of generated identifiers reach, as they count now, if known."""
    with open_context(engine, logging.info) as own:
        with closing(own.make_searchers(own.store, own.config)) as searchers:
            known = searchers.calibration
            assert known is not None
            rest = {name: width for name, width in known.ranges.items() if name != GENERATIVE}
            searchers.keep_calibration(replace(known, ranges=rest))
        range_scores(own, seed=0)
        with closing(own.make_searchers(own.store, own.config)) as searchers:
            found = searchers.calibration
            assert found is not None
            return found.ranges.get(GENERATIVE)


def sample(folder: Path, most: int) -> dict[str, tuple[list[Query], Qrels]]:
    """Take queries that judge and, where there are some, others that may choose."""
    judging, qrels = next(splits(folder))
    found = {judging: qrels}
    if folder.name in CHOOSING:
        split = CHOOSING[folder.name]
        found[split] = read_qrels(folder / "qrels" / f"{split}.tsv.gz")
    queries = list(read_queries(folder / "queries.jsonl.gz"))
    taken = {}
    for split, own in found.items():
        judged = [query for query in queries if query.qid in own.grades]
        order = np.random.default_rng(0).permutation(len(judged))[:most]
        kept = [judged[at] for at in sorted(order)]
        taken[split] = (kept, Qrels({query.qid: own.grades[query.qid] for query in kept}))
    return taken


def _rows(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {qid: [(hit.docid, hit.score) for hit in hits] for qid, hits in run.hits.items()}


def _settings(share: float) -> dict[str, dict[str, Any]]:
    return {"generative": {"generator": NO_GENERATOR, "mean_share": share}}


# --- judging --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Try:
    """How much the generative side counts, how its documents do, and what makes room for it."""

    way: str
    giving: str
    share: float

    @property
    def name(self) -> str:
        """What it is called in the results."""
        return f"{self.way} {self.giving} {self.share}"

    def weigh(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Give the generative side its share.

        >>> Try("best", "dense", 0.5).weigh({"lexical": 0.5, "dense": 0.5})
        {'lexical': 0.5, 'dense': 0.25, 'generative': 0.25}
        """
        config = FusionConfig(generative=self.share, generative_from=self.giving)
        return config.with_generative(weights)


TWO = Try("two", "all", 0.0)


def judge_all(data: Path, found: Path, out: Path) -> None:
    """Fuse and judge every set, choose by training queries, and write one JSON file."""
    tries = [TWO, *(Try(*each) for each in itertools.product(WAYS, GIVING, SHARES))]
    test: dict[str, dict[str, NDArray[np.float64]]] = {}
    training: dict[str, dict[str, NDArray[np.float64]]] = {}
    sets = []
    for path in sorted(found.glob("*.json.gz")):
        with gzip.open(path, "rt") as stream:
            content = json.load(stream)
        name = content["set"]
        judging, _ = next(splits(data / name))
        for split, (queries, qrels) in sample(data / name, _most(content)).items():
            side = test if split == judging else training
            side[name] = {each.name: score(content, split, each, queries, qrels) for each in tries}
        sets.append(
            {key: content[key] for key in ("set", "documents", "naming", "weights", "widths")}
            | {"split": judging, "queries": len(test[name][TWO.name])}
            | {"means": {key: round(float(own.mean()), 4) for key, own in test[name].items()}}
        )
    sums = {
        part: {
            each.name: contrast(
                {name: own[each.name] - own[TWO.name] for name, own in scores.items()}
            )
            for each in tries[1:]
        }
        for part, scores in (("training", training), ("test", test))
    }
    chosen = max(sums["training"], key=lambda key: float(sums["training"][key]["difference"]))
    content = {
        "quoth": __version__,
        "measure": MEASURE,
        "choosing": CHOOSING,
        "chosen": chosen,
        **sums,
        "sets": sets,
    }
    out.write_text(json.dumps(content, indent=1) + "\n")
    for part, own in sums.items():
        for key, each in own.items():
            logging.info(
                "%s %s %+.4f [%+.4f, %+.4f], worst %s %+.4f",
                part,
                key,
                *(each[name] for name in ("difference", "low", "high", "worst")),
                each["worst_difference"],
            )
    logging.info("chosen: %s", chosen)


def score(
    content: Mapping[str, Any], split: str, tried: Try, queries: Sequence[Query], qrels: Qrels
) -> NDArray[np.float64]:
    """Fuse what was found with a share of the generative side, and judge every query."""
    found = content["runs"][split]
    sides = {"lexical": found["lexical"], "dense": found["dense"]}
    config = FusionConfig(generative=tried.share)
    weights, widths = dict(content["weights"]), dict(content["widths"])
    if tried.share:
        sides[GENERATIVE] = found[tried.way]
        weights = tried.weigh(weights)
        widths[GENERATIVE] = content["widths"].get(tried.way)
    runs = [
        Run(side, {qid: tuple(Hit(*hit) for hit in hits) for qid, hits in own.items()})
        for side, own in sides.items()
    ]
    ranges = UsualRanges(
        content["depth"], {side: widths[side] for side in sides if widths.get(side)}
    )
    fused = fuse(runs, config, weights=weights, k=100, ranges=ranges)
    scores = evaluate_run(fused, qrels, (MEASURE,)).scores[MEASURE]
    return np.array([scores[query.qid] for query in queries])


# --- reranking ------------------------------------------------------------------------------------


def rerank_all(data: Path, found: Path, out: Path, *, most: int) -> None:
    """Search all kept collections with and without what was chosen, and add it to the results."""
    content = json.loads(out.read_text())
    tried = Try(*content["chosen"].split()[:2], float(content["chosen"].split()[2]))
    changes = {}
    for folder in sorted(found.glob("*.quoth")):
        changes[folder.stem] = rerank_set(data / folder.stem, folder, tried, most=most)
        logging.info("%s %+.4f", folder.stem, changes[folder.stem].mean())
        content["reranked"] = {"tried": tried.name, **contrast(changes)}
        out.write_text(json.dumps(content, indent=1) + "\n")


def rerank_set(folder: Path, collection: Path, tried: Try, *, most: int) -> NDArray[np.float64]:
    """Return what every test query gains in the product's path; no pair is read twice."""
    judging, _ = next(splits(folder))
    queries, qrels = sample(folder, most)[judging]
    models = Remembering()
    models.is_remembering = True
    scores = []
    for each in (TWO, tried):
        fusion = {"generative": each.share, "generative_from": each.giving}
        settings = _settings(WAYS.get(each.way, 0.0)) | {"fusion": fusion}
        with Engine(collection, [settings], ignore_progress, models=models) as engine:
            run = engine.run(queries, k=10, searcher="auto")
        own = evaluate_run(run, qrels, (MEASURE,)).scores[MEASURE]
        scores.append(np.array([own[query.qid] for query in queries]))
    return np.asarray(scores[1] - scores[0])


def _most(content: Mapping[str, Any]) -> int:
    return max(len(own["lexical"]) for own in content["runs"].values())


if __name__ == "__main__":
    main()
