"""Train phrase vocabularies and subword rivals on the same short texts, and cut the texts again.

    python -m benchmarks.phrases.train [--sizes 10000,100000,500000,5000000] [--rivals 10000]
    python -m benchmarks.phrases.train --generated 10000000 --sizes 1000000
    python -m benchmarks.phrases.train --generated 25000000 --sizes 5000000

Every vocabulary is trained in a process of its own, so that peak memory is its own, on one core
unless --threads says otherwise; the rivals (Hugging Face tokenizers) are held to one core too.
Cutting is measured on one core, on every fourth text, the middle of three rounds, text in and ids
out, normalising included. Speeds go by processor time, which a busy machine distorts less than the
clock; both are kept. A size that the texts do not support at the minimum count gives the largest
vocabulary that they do. Rows of earlier runs are replaced one by one. Writes results/phrases.json.

Generated identifiers: the first words of one short text and the last words of another, both drawn
and cut at random (seeded); so words and most phrases are real and repeat as often as they do. The
last line takes 25 million, about 40 draws of each text, as ten million do not support the size
at the minimum count; it needs 7 GB of memory and half an hour of processor time.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from quoth import __version__

RESULTS = Path(__file__).parent / "results" / "phrases.json"
SYSTEMS = ("phrases", "bpe", "unigram")
ROUNDS = 3
GENERATED_MIN_COUNT = 5


def main() -> None:
    """Measure what was asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data/text/short_texts.tsv.zst")
    )
    parser.add_argument("--sizes", default="10000,100000,500000,5000000")
    parser.add_argument("--rivals", default="10000,100000", help="sizes of BPE and Unigram")
    parser.add_argument("--generated", type=int, default=0, help="identifiers to generate instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    jobs = [("phrases", int(size)) for size in given.sizes.split(",") if size]
    if not given.generated:
        sizes = [int(size) for size in given.rivals.split(",") if size]
        jobs += [(system, size) for size in sizes for system in SYSTEMS[1:]]
    for system, size in jobs:
        row = measure_apart(
            system, size, data=given.data, generated=given.generated, threads=given.threads
        )
        logging.info("%s", json.dumps(row))
        write_row(given.out, row)


def write_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the results, in place of an earlier one for the same."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    same = ("system", "asked_size", "generated", "threads")
    rows = [each for each in rows if any(each[name] != row[name] for name in same)]
    rows = sorted([*rows, row], key=lambda each: [each[name] for name in ("generated", *same)])
    content = {
        "quoth": __version__,
        "machine": f"{platform.machine()}, {multiprocessing.cpu_count()} cores",
        "rows": rows,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def measure_apart(
    system: str, size: int, *, data: Path, generated: int, threads: int
) -> dict[str, Any]:
    """Train and cut in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(send, system, size, data, generated, threads))
    process.start()
    send.close()
    row: dict[str, Any] = receive.recv()
    process.join()
    return row


def _measure(  # type: ignore[no-untyped-def]
    send, system: str, size: int, data: Path, generated: int, threads: int
) -> None:
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = read_texts(data)
    warm_up(texts[:500], system)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    before = peak_megabytes()
    clock, work = time.perf_counter(), time.process_time()
    source = recombine(texts, generated) if generated else texts
    vocabulary = train(system, source, size=size, generated=generated, threads=threads)
    seconds, work = time.perf_counter() - clock, time.process_time() - work
    row = {
        "system": system,
        "asked_size": size,
        "size": len(vocabulary),
        "generated": generated,
        "threads": threads,
        "texts": generated or len(texts),
        "train_seconds": round(seconds, 1),
        "train_processor_seconds": round(work, 1),
        "peak_mb": round(peak_megabytes()),
        "peak_mb_before_training": round(before),
    }
    if not generated:
        row["train_mb_per_second"] = round(megabytes / work, 3)
    row |= measure_cutting(vocabulary, texts[::4])
    if system == "phrases" and not generated:
        from quoth.vocabulary.phrases.report import report_phrases

        row["report"] = asdict(report_phrases(vocabulary, texts))
    send.send(row)


def train(system: str, texts, *, size: int, generated: int, threads: int):  # type: ignore[no-untyped-def]
    """Train one kind of vocabulary."""
    from benchmarks.phrases.rival_tokenizers import train_bpe, train_unigram
    from quoth.vocabulary.phrases.config import PhraseConfig
    from quoth.vocabulary.phrases.training import train_phrases
    from quoth.vocabulary.phrases.workers import Threads

    if system == "bpe":
        return train_bpe(texts, size=size)
    if system == "unigram":
        return train_unigram(texts, size=size)
    config = PhraseConfig(size=size, min_count=GENERATED_MIN_COUNT if generated else 2)
    return train_phrases(texts, config, workers=Threads(threads), progress=tell)


def tell(stage: str, done: int, total: int) -> None:
    """Log progress."""
    logging.getLogger(__name__).debug("%s %s of %s", stage, done, total)


def warm_up(texts: list[str], system: str) -> None:
    """Have everything compiled and loaded before the clock starts."""
    vocabulary = train(system, texts, size=1000, generated=0, threads=1)
    vocabulary.segment(texts)


def measure_cutting(vocabulary, texts: list[str]) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    """Cut texts in rounds; gives the speed of the middle round, and the lengths."""
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rounds = []
    for _ in range(ROUNDS):
        clock, work = time.perf_counter(), time.process_time()
        sequences = vocabulary.segment(texts)
        rounds.append((time.process_time() - work, time.perf_counter() - clock))
    work, clock = sorted(rounds)[ROUNDS // 2]
    lengths = np.diff(sequences.offsets)
    return {
        "cut_mb_per_second": round(megabytes / work, 2),
        "cut_mb_per_second_by_clock": round(megabytes / clock, 2),
        "mean_length": round(float(lengths.mean()), 3),
        "p99_length": float(np.percentile(lengths, 99)),
    }


def read_texts(path: Path) -> list[str]:
    """Read the texts of a compressed file of source and text."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\n")
    return [line.split("\t", 1)[1] for line in lines if line]


def recombine(texts: list[str], number: int, *, seed: int = 0) -> Iterator[str]:
    """Make identifiers of the first words of one text and the last words of another."""
    words = [text.split() for text in texts]
    chance = np.random.default_rng(seed)
    for start in range(0, number, 100_000):
        block = min(100_000, number - start)
        pairs = chance.integers(0, len(words), size=(block, 2)).tolist()
        shares = chance.random(size=(block, 2)).tolist()
        for (first, second), (head, tail) in zip(pairs, shares, strict=True):
            before, after = words[first], words[second]
            cut = round(head * len(before))
            yield " ".join([*before[:cut], *after[round(tail * len(after)) :]])


def peak_megabytes() -> float:
    """Read the largest resident size of this process, its parent's not counted."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
