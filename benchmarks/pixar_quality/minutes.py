"""What five minutes of `quoth train pixar` on two cores reach, and what a GPU reaches in them.

    python -m benchmarks.pixar_quality.minutes [--sets cosqa,cranfield] [--minutes 3.2]
    python -m benchmarks.pixar_quality.minutes --device cuda --out FILE      # where there is a GPU
    python -m benchmarks.pixar_quality.minutes --join FILE                   # and put them together
    python -m benchmarks.pixar_quality.minutes --written
    python -m benchmarks.pixar_quality.minutes --held-out [--written]

Everything runs through `Engine` and starts from the shipped network: within its minutes the job
writes pseudo-queries, trains, judges itself by pseudo-queries that it held out, and installs what
they find better, trained or not. Then every test query (of 1,000 at most) is searched for, and the
same with a network that is used as it ships, over sentences alone. `--written` tells what of the
difference the pseudo-queries alone bring. `--held-out` asks training queries, or those of a dev
split, of four sets instead, by which defaults may be chosen (results/minutes_held_out.json); no
field that repeats such a query is indexed. RR@10; differences are paired by query. Sets that were
measured before on the same kind of device are kept. Writes results/minutes.json after each set.

The minutes asked for are those of the job's plan, which goes by the pace of a machine that it was
measured on: 5 took 7.6 on a slower one, where 3.2 come to about four and a half. `seconds` has what
it took.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from benchmarks.pixar_pretraining.report import spread
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_qrels, read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.records import Document, Qrels, Query
from quoth.search.generative.config import NO_GENERATOR
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "minutes.json"
HELD_OUT_RESULTS = RESULTS.with_name("minutes_held_out.json")
SETS = "cosqa,cranfield,nfcorpus-tok,squad-dev,tmdb"
HELD_OUT = "scifact,squad-train-slice,obliqa,medquad"
QUESTION = "question"
"""A field of medquad that training queries repeat."""
MEASURE = "RR@10"
UNTRAINED = "as it ships"


def main() -> None:
    """Measure the sets that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--held-out", action="store_true", help="ask training queries")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--join", type=Path, help="rows measured elsewhere")
    parser.add_argument(
        "--written", action="store_true", help="add to what was measured: written, not trained"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    is_held_out = given.held_out
    given.out = given.out or (HELD_OUT_RESULTS if is_held_out else RESULTS)
    given.sets = given.sets or (HELD_OUT if is_held_out else SETS)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    if given.join is not None:
        joined = json.loads(given.join.read_text())["rows"]
        known = [_key(each) for each in joined]
        write([*(each for each in rows if _key(each) not in known), *joined], given.out)
        return
    if given.written:
        for row in rows:
            if "written" not in row and row["device"] == given.device:
                row |= measure_written(given.data / row["set"], row, is_held_out=is_held_out)
                write(rows, given.out)
        return
    for name in given.sets.split(","):
        if (name, given.device) not in map(_key, rows):
            rows.append(
                measure_set(given.data / name, given.minutes, given.device, is_held_out=is_held_out)
            )
            write(rows, given.out)


def write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write all rows, and how the devices compare where both were measured."""
    rows = sorted(rows, key=_key)
    by_key = {_key(row): row for row in rows}
    both = [
        (by_key[name, "cuda"], row)
        for (name, device), row in by_key.items()
        if device == "cpu" and (name, "cuda") in by_key
    ]
    content: dict[str, Any] = {"quoth": __version__, "measure": MEASURE}
    own = [row for row in rows if row["device"] == "cpu"]
    if own:
        scores = [(np.array(row["scores"]), np.array(row["untrained"])) for row in own]
        content["trained"] = spread([trained for trained, _untrained in scores])
        content["untrained"] = spread([untrained for _trained, untrained in scores])
        content["gain"] = spread([trained - untrained for trained, untrained in scores])
    if parts := [row for row in own if "written" in row]:
        written = [np.array(row["written"]) for row in parts]
        content["by writing"] = spread(
            [each - np.array(row["untrained"]) for each, row in zip(written, parts, strict=True)]
        )
        content["by training"] = spread(
            [np.array(row["scores"]) - each for each, row in zip(written, parts, strict=True)]
        )
    if both:
        scores = [(np.array(gpu["scores"]), np.array(cpu["scores"])) for gpu, cpu in both]
        content["beside"] = {
            "sets": len(both),
            "gpu": spread([gpu for gpu, _cpu in scores]),
            "cpu": spread([cpu for _gpu, cpu in scores]),
            "difference": spread([cpu - gpu for gpu, cpu in scores]),
        }
    head = json.dumps(content, indent=1).removesuffix("\n}")
    body = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n]}}\n')


def measure_set(
    folder: Path, minutes: float, device: str, *, is_held_out: bool = False
) -> dict[str, Any]:
    """Train on one collection, and judge search before and after."""
    queries, qrels = choose_queries(folder, is_held_out=is_held_out)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine.open(path) as engine:
            engine.add_documents(documents(folder))
            began = time.perf_counter()
            config = PixarBuildConfig(minutes=minutes, device=device)
            report = train_generative(engine, PixarRequest(config), note=logging.info)
            seconds = time.perf_counter() - began
        trained = search(path, queries, qrels)
        plain = Path(scratch) / "plain.quoth"
        with Engine.open(plain, settings=[{"generative": {"generator": NO_GENERATOR}}]) as engine:
            engine.add_documents(documents(folder))
            config = PixarBuildConfig(train=False, judged_queries=0, looks=0)
            train_generative(engine, PixarRequest(config), note=logging.info)
        untrained = search(plain, queries, qrels)
    row = {
        "set": folder.name,
        "device": device,
        "cores": os.cpu_count(),
        "queries": len(queries),
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "report": asdict(replace(report, collection=folder.name)),
        "trained": spread([np.array(trained)]),
        UNTRAINED: spread([np.array(untrained)]),
        "gain": spread([np.array(trained) - np.array(untrained)]),
        "scores": trained,
        "untrained": untrained,
    }
    logging.info("%s", {key: row[key] for key in ("set", "seconds", "trained", UNTRAINED, "gain")})
    return row


def measure_written(
    folder: Path, row: dict[str, Any], *, is_held_out: bool = False
) -> dict[str, Any]:
    """Write the same pseudo-queries, train nothing, and search."""
    queries, qrels = choose_queries(folder, is_held_out=is_held_out)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "c.quoth"
        with Engine.open(path) as engine:
            engine.add_documents(documents(folder))
            config = PixarBuildConfig(
                minutes=row["minutes"], device=row["device"], train=False, judged_queries=0, looks=0
            )
            train_generative(engine, PixarRequest(config), note=logging.info)
        scores = search(path, queries, qrels)
    own = np.array(scores)
    found = {
        "by writing": spread([own - np.array(row["untrained"])]),
        "by training": spread([np.array(row["scores"]) - own]),
    }
    logging.info("%s %s", row["set"], found)
    return {"written": scores, **found}


def choose_queries(folder: Path, *, is_held_out: bool) -> tuple[list[Query], Qrels]:
    """Take test queries, or some that are not of a test."""
    _split, qrels = next(splits(folder))
    if is_held_out:
        found = (folder / "qrels" / f"{split}.tsv.gz" for split in ("train", "dev"))
        qrels = read_qrels(next(each for each in found if each.exists()))
    return sample(read_queries(folder / "queries.jsonl.gz"), qrels), qrels


def documents(folder: Path) -> Iterator[Document]:
    """Read a set without the field that repeats training queries."""
    for document in read(folder):
        fields = {name: texts for name, texts in document.fields.items() if name != QUESTION}
        yield replace(document, fields=fields)


def search(path: Path, queries: Sequence[Query], qrels: Qrels) -> list[float]:
    """Score every query by generative search."""
    with Engine.open(path) as engine:
        run = engine.run(queries, k=10, searcher="generative")
    asked = Qrels({query.qid: qrels.grades[query.qid] for query in queries})
    scores = evaluate_run(run, asked, (MEASURE,)).scores[MEASURE]
    return [round(scores[query.qid], 4) for query in queries]


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["set"], row["device"]


if __name__ == "__main__":
    main()
