"""Index time, peak memory and query speed of Quoth beside plain tantivy and bm25s, in one run.

    python -m benchmarks.lexical.speed [--passages 100000,300000,1000000] [--sets scifact,medquad]

Each index is built in a process of its own, so that peak memory is its own. Then all systems are
opened in one process and asked the same queries one at a time, in turns, over several rounds; the
ratio is the median over rounds of two neighbouring rounds' throughput, so that a slow minute of the
machine hits both. Writes results/speed.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import platform
import resource
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lexical.corpora import Corpus, real, synthetic
from benchmarks.lexical.latency import measure_latency
from benchmarks.lexical.systems import BUILDERS, OPENERS
from quoth import __version__
from quoth.evaluation.latency import Latency
from quoth.records import Query

RESULTS = Path(__file__).parent / "results" / "speed.json"
ROUNDS = 5


def main() -> None:
    """Measure the corpora that were asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--passages", default="100000,300000,1000000")
    parser.add_argument("--sets", default="scifact,msmarco-dl1920,medquad,squad-dev")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    corpora = [synthetic(int(size)) for size in given.passages.split(",") if size]
    corpora += [real(given.data / name) for name in given.sets.split(",") if name]
    rows = known_rows(given.out)
    for corpus in corpora:
        rows[corpus.name] = measure_corpus(corpus)
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "rounds": ROUNDS,
        "rows": sorted(rows.values(), key=lambda row: -row["passages"]),
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def known_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Read the rows of earlier runs, to be replaced corpus by corpus."""
    if not path.exists():
        return {}
    return {row["corpus"]: row for row in json.loads(path.read_text())["rows"]}


def measure_corpus(corpus: Corpus) -> dict[str, Any]:
    """Build all indexes of one corpus, then time all systems in turns."""
    scratch = Path(tempfile.mkdtemp(prefix="quoth-bench-"))
    try:
        built = {name: build_apart(corpus, name, scratch / name) for name in BUILDERS}
        timed = time_in_turns(corpus, scratch)
    finally:
        shutil.rmtree(scratch)
    row: dict[str, Any] = {
        "corpus": corpus.name,
        "passages": corpus.num_passages,
        "queries": len(corpus.queries),
        "build": built,
        **timed,
    }
    logging.info("%s", json.dumps(row))
    return row


def build_apart(corpus: Corpus, system: str, folder: Path) -> dict[str, float]:
    """Build one index in a fresh process; seconds include making the passages, equal for all."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(corpus, system, folder, send))
    process.start()
    seconds, peak = receive.recv()
    process.join()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    logging.info("%s %s: %.1f s, %.0f MB peak", corpus.name, system, seconds, peak)
    return {"seconds": seconds, "peak_mb": peak, "disk_mb": size / 1e6}


def _build(corpus: Corpus, system: str, folder: Path, send) -> None:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    BUILDERS[system](corpus.passages(), folder)
    seconds = time.perf_counter() - start
    send.send((seconds, peak_megabytes()))


def peak_megabytes() -> float:
    """Read the largest resident size of this process, its parent's not counted."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_in_turns(corpus: Corpus, scratch: Path) -> dict[str, object]:
    """Ask all systems the same queries, round by round, and relate each round to tantivy's."""
    queries = [Query(str(at), text) for at, text in enumerate(corpus.queries)]
    systems = {name: open_one(scratch / name) for name, open_one in OPENERS.items()}
    rounds: dict[str, list[Latency]] = {name: [] for name in systems}
    for _ in range(ROUNDS):
        for name, search in systems.items():
            rounds[name].append(
                measure_latency(lambda query, ask=search: ask(query.text), queries)  # type: ignore[misc]
            )
    throughputs = {
        name: [each.queries_per_second for each in latencies] for name, latencies in rounds.items()
    }
    ratios = {
        name: median(
            mine / theirs for mine, theirs in zip(own, throughputs["tantivy"], strict=True)
        )
        for name, own in throughputs.items()
    }
    middle = {
        name: sorted(latencies, key=lambda each: each.mean_ms)[ROUNDS // 2]
        for name, latencies in rounds.items()
    }
    return {
        "latency": {name: asdict(latency) for name, latency in middle.items()},
        "throughput_over_tantivy": ratios,
        "same_first_hit_as_tantivy": _agreement(systems, queries),
    }


def _agreement(systems, queries: list[Query]) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """Share of queries whose best hit is the same as plain tantivy's: a check, not a measure."""
    best = {name: [search(query.text)[:1] for query in queries] for name, search in systems.items()}
    return {
        name: sum(a == b for a, b in zip(found, best["tantivy"], strict=True)) / len(queries)
        for name, found in best.items()
    }


if __name__ == "__main__":
    main()
