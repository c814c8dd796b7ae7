"""Processor and wall time of BERT by several libraries, and how far what they say agrees.

    python -m benchmarks.inference.run [--rounds 5] [--passages 250] [--threads 2]

In turns, over several rounds: one query in a fresh process (imports and loading included), one in a
process that has read before, the first 30 hits of a query read by the reader, and passages encoded.
Passages and hits are Python's docstrings. Medians. Writes results/inference.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.inference.rivals import ENGINES, open_encoder, open_engine
from quoth import Engine, __version__
from quoth.models.glow.plain import PlainEncoder
from quoth.models.pretrained import find_shipped, load_tokenizer
from quoth.models.reader.files import load_tensors, read_saved
from quoth.models.reader.inputs import ReaderInputs, TitledText
from quoth.models.reader.reader import Reader

RESULTS = Path(__file__).parent / "results" / "inference.json"
QUERIES = (
    "walk a directory tree and list all files in it",
    "parse the arguments of a command line with options",
    "wait until a thread has finished or time is over",
    "run another program and capture what it prints",
    "read and write JSON with dates and other own types",
    "parse an XML document without loading all of it",
)
DEPTH, MOST = 30, 192
_COLD = (
    "import sys; from benchmarks.inference.rivals import open_encoder;"
    " open_encoder(sys.argv[1]).encode_queries(['walk a directory tree and list all files in it'])"
)

COMPARED = 3  # queries whose hits are read by all
Timing = dict[str, float]
Array = NDArray[Any]


def open_reader(name: str) -> Reader:
    """Open the shipped reader, read by one of the libraries."""
    folder = find_shipped("reader")
    saved = read_saved(folder)
    base = saved.encoder.find(folder)
    tensors, shape = load_tensors(folder, saved, base=base)
    heads = {
        each: tensors.pop(each) for each in list(tensors) if each.startswith(("places", "relev"))
    }
    inputs = ReaderInputs(load_tokenizer(base), saved.config)
    return Reader(open_engine(name, tensors, shape), heads, inputs)


def main() -> None:
    """Measure everything and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passages", type=int, default=250)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != str(given.threads):  # read when numpy is loaded
        os.environ["OMP_NUM_THREADS"] = str(given.threads)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.inference.run", *sys.argv[1:]])
    import torch

    torch.set_num_threads(given.threads)
    hits, passages = find_texts(given.passages)
    encoders = {name: open_encoder(name) for name in ENGINES}
    readers = {name: open_reader(name) for name in ENGINES}
    tasks: dict[str, Callable[[str], Any]] = {
        "cold": cold,
        "query": lambda name: encoders[name].encode_queries([QUERIES[0]]).vectors,
        "rerank": lambda name: readers[name].score([QUERIES[0]] * len(hits[0]), hits[0], most=MOST),
        "passages": lambda name: encoders[name]._encode(
            encoders[name].inputs.documents(passages, None), ""
        ),
    }
    timings: dict[str, dict[str, list[Timing]]] = {
        name: {task: [] for task in tasks} for name in ENGINES
    }
    load = []
    for _round in range(given.rounds):
        load.append(os.getloadavg()[0])
        for task, work in tasks.items():
            for name in ENGINES:
                timings[name][task].append(measure(lambda w=work, n=name: w(n)))
    said = {name: listen(encoders[name], readers[name], hits, passages) for name in ENGINES}
    content = {
        "quoth": __version__,
        "rounds": given.rounds,
        "threads": given.threads,
        "passages": len(passages),
        "load": [round(each, 1) for each in load],
        "hit_subwords": round(mean_subwords(readers[ENGINES[0]], hits[0]), 1),
        "engines": {
            name: {task: middle(each) for task, each in own.items()}
            | {"agreement": agreement(said[ENGINES[0]], said[name])}
            for name, own in timings.items()
        },
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def find_texts(count: int) -> tuple[list[list[TitledText]], list[dict[str, list[str]]]]:
    """Return the first hits of each query, and passages to encode."""
    with (
        tempfile.TemporaryDirectory(prefix="quoth-inference-") as scratch,
        Engine.open(Path(scratch) / "python.quoth") as engine,
    ):
        engine.add(["python:stdlib"])
        runs = [
            engine.search(query, k=DEPTH, searcher="lexical", syntax=False) for query in QUERIES
        ]
        docids = engine.docids()
        documents = [engine.document(each) for each in docids[:: len(docids) // count]]
    hits = [[TitledText(hit.docid, hit.passage.text) for hit in run] for run in runs]
    fields = [{name: list(texts) for name, texts in each.fields.items()} for each in documents]
    return hits, fields[:count]


def cold(name: str) -> None:
    """Encode one query in a fresh process."""
    subprocess.run([sys.executable, "-c", _COLD, name], check=True)


def measure(work: Callable[[], Any]) -> Timing:
    """Take the time of one piece of work, that of its processes included."""
    cpu, wall = processor_seconds(), time.perf_counter()
    work()
    return {"cpu": processor_seconds() - cpu, "wall": time.perf_counter() - wall}


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def middle(timings: Sequence[Timing]) -> Timing:
    """Return the medians."""
    return {key: round(median(each[key] for each in timings), 5) for key in ("cpu", "wall")}


def mean_subwords(reader: Reader, hits: Sequence[TitledText]) -> float:
    """Return how long what is read is."""
    pairs = reader._inputs.pairs([QUERIES[0]] * len(hits), hits, most=MOST)
    return float(np.mean([len(each.subword_ids) for each in pairs]))


class Said(NamedTuple):
    """What a library says: vectors of passages and queries, and scores of each query's hits."""

    passages: Array
    queries: Array
    scores: list[Array]


def listen(
    encoder: PlainEncoder,
    reader: Reader,
    hits: Sequence[Sequence[TitledText]],
    passages: Sequence[dict[str, list[str]]],
) -> Said:
    """Read what is compared."""
    return Said(
        encoder._encode(encoder.inputs.documents(passages, None), "").vectors,
        encoder.encode_queries(QUERIES).vectors,
        [
            np.array(reader.score([query] * len(found), found, most=MOST))
            for query, found in zip(QUERIES[:COMPARED], hits, strict=False)
        ],
    )


def agreement(exact: Said, own: Said) -> dict[str, float]:
    """Compare cosines of vectors, ranks of hits, and the first ten of both."""
    cosines = (exact.passages * own.passages).sum(1)
    read = list(zip(exact.scores, own.scores, strict=True))
    near = zip(exact.queries @ exact.passages.T, own.queries @ own.passages.T, strict=True)
    return {
        "cosine_least": round(float(cosines.min()), 6),
        "cosine_mean": round(float(cosines.mean()), 6),
        "vectors_first_ten": round(float(np.mean([shared(*each) for each in near])), 4),
        "rank_correlation": round(float(np.mean([correlate(*each) for each in read])), 4),
        "reranked_first_ten": round(float(np.mean([shared(*each) for each in read])), 4),
    }


def shared(one: Array, other: Array, count: int = 10) -> float:
    """Return the share of the best that two lists of scores have in common.

    >>> shared(np.array([3, 2, 1]), np.array([3, 1, 2]), count=2)
    0.5
    """
    best = [set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (one, other)]
    return len(best[0] & best[1]) / count


def correlate(one: Array, other: Array) -> float:
    """Return the correlation of ranks (Spearman).

    >>> round(correlate(np.array([1, 2, 3]), np.array([10, 20, 30])), 6)
    1.0
    """
    ranks = [np.argsort(np.argsort(each)) for each in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    main()
