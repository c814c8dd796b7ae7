"""Time encode, shortlist and score of single queries over a head of millions of rows.

    python -m benchmarks.pixar_latency.run [--rows 5000000] [--device cpu] [--methods centroids svd]

Every method runs in turns with the baseline (a plain bf16 product with all rows and its top 100 in
torch), so that a slow minute of the machine hits both. The encoder is a BERT of base size with
untrained weights in bf16, on 16 subwords: it runs before every query, and its own time is what the
rest is compared with. Rows are untrained: latency depends on shapes. On 5 million rows of 768 the
head takes 7.7 GB and the whole run about 14. Writes results/latency-<device>-<rows>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.pixar_latency import gpu, systems
from benchmarks.pixar_latency.report import format_table
from benchmarks.pixar_latency.rivals.config import RIVALS
from benchmarks.pixar_latency.synthetic import World, draw_queries, make_world
from benchmarks.pixar_latency.systems import Sizes, System
from quoth import __version__

RESULTS = Path(__file__).parent / "results"
METHODS = ("full", *RIVALS, "centroids")
NUM_SLOTS = 10
NUM_SUBWORDS = 16
WARM_UP = 3
BASELINE_EVERY = 10
SLOW_QUERIES = 20

Stage = Callable[[], Any]
Decode = Callable[[Any], Any]


def main() -> None:
    """Build each method, time it, and write one JSON file."""
    given = parse_arguments()
    torch.set_num_threads(given.threads)
    sizes = Sizes(
        given.centroids, given.list_length, given.lists, given.samples, given.cells, given.threads
    )
    world = make_world(
        given.rows, width=given.width, num_topics=given.centroids, seed=0, device=given.device
    )
    module = gpu if given.device == "cuda" else systems
    names = [name for name in given.methods if given.device == "cpu" or name in gpu.NAMES]
    content: dict[str, Any] = {
        "quoth": __version__,
        "torch": torch.__version__,
        "machine": describe_machine(given.device, given.threads),
        "shape": [given.rows, given.width],
        "slots": NUM_SLOTS,
        "m, r, k": [given.centroids, given.list_length, given.lists],
        "load before": os.getloadavg()[0],
        "methods": [],
    }
    encode = make_encoder(given.width, given.device)
    out = given.out or RESULTS / f"latency-{given.device}-{given.rows}.json"
    out.parent.mkdir(exist_ok=True)
    for group in module.build_systems(world, sizes, names):
        content["methods"] += time_group(
            group, module.torch_full(world), world, encode=encode, num_queries=given.queries
        )
        out.write_text(json.dumps(content, indent=1) + "\n")
    print(format_table(content))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--centroids", type=int, default=4096, help="the paper's m")
    parser.add_argument("--list-length", type=int, default=20_000, help="the paper's r")
    parser.add_argument("--lists", type=int, default=5, help="the paper's k")
    parser.add_argument("--samples", type=int, default=200, help="queries that rivals learn from")
    parser.add_argument("--cells", type=int, default=256, help="of the rivals with cells")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


def make_encoder(width: int, device: str) -> Stage:
    """Return a call that encodes one query of 16 subwords with a network of base size."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=width, num_attention_heads=width // 64, intermediate_size=4 * width
    )
    network = BertModel(config, add_pooling_layer=False).to(device, torch.bfloat16).eval()
    subword_ids = torch.arange(1000, 1000 + NUM_SUBWORDS, device=device)[None]

    @torch.inference_mode()
    def encode() -> Any:
        return network(input_ids=subword_ids).last_hidden_state

    return encode


def time_group(
    group: Sequence[System],
    baseline: System,
    world: World,
    *,
    encode: Stage,
    num_queries: int,
    decode: Decode | None = None,
) -> list[dict[str, Any]]:
    """Time some methods and the baseline in turns; `decode` may follow, on what was scored."""
    total = WARM_UP + num_queries
    pooled, slots = draw_queries(world, total, num_slots=NUM_SLOTS, seed=2)
    vectors: Any = list(zip(pooled, slots, strict=True))
    if not world.head.is_cuda:
        vectors = [(first.numpy(), second.numpy()) for first, second in vectors]
    found: dict[str, list[dict[str, float]]] = {each.name: [] for each in (*group, baseline)}
    for at, query in enumerate(vectors):
        for system in group:
            if not (system.is_slow and at >= WARM_UP + SLOW_QUERIES):
                found[system.name].append(time_query(system, query, encode, decode=decode))
        if at < WARM_UP or at % BASELINE_EVERY == 0:
            found[baseline.name].append(time_query(baseline, query, encode, decode=None))
    slow = [each["shortlist"] for each in found[baseline.name][WARM_UP:]]
    return [summarise(name, times[WARM_UP:], baseline=slow) for name, times in found.items()]


def time_query(
    system: System, query: tuple[Any, Any], encode: Stage, *, decode: Decode | None
) -> dict[str, float]:
    """Run one query through all stages; milliseconds of each, and how many rows were chosen."""
    times: dict[str, float] = {}

    def stage(name: str, work: Stage) -> Any:
        begin = time.perf_counter()
        result = work()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        times[name] = 1000 * (time.perf_counter() - begin)
        return result

    stage("encode", encode)
    places = stage("shortlist", lambda: system.choose(*query))
    scored = stage("score", lambda: system.score(places, *query))
    if decode is not None:
        stage("decode", lambda: decode(scored))
    times["whole"] = sum(times.values())
    times["rows"] = float(system.count(places))
    return times


def summarise(
    name: str, times: Sequence[dict[str, float]], *, baseline: Sequence[float]
) -> dict[str, Any]:
    """Return mean and 99th percentile of each stage, and the two ratios that are aimed at."""
    stages = {
        stage: {
            "mean": float(np.mean([each[stage] for each in times])),
            "least": float(np.min([each[stage] for each in times])),
            "p50": float(np.median([each[stage] for each in times])),
            "p99": float(np.percentile([each[stage] for each in times], 99)),
        }
        for stage in times[0]
    }
    own = [each["shortlist"] + each["score"] for each in times]
    return {
        "method": name,
        "queries": len(times),
        "stages": stages,
        "times_faster_than_full_torch": float(np.mean(baseline) / np.mean(own)),
        "times_faster_p50": float(np.median(baseline) / np.median(own)),
        "times_faster_least": float(np.min(baseline) / np.min(own)),
        "whole_over_encode": stages["whole"]["mean"] / stages["encode"]["mean"],
        "whole_over_encode_p50": stages["whole"]["p50"] / stages["encode"]["p50"],
        "whole_over_encode_least": stages["whole"]["least"] / stages["encode"]["least"],
    }


def describe_machine(device: str, threads: int) -> str:
    """Name what the run ran on."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {threads} threads"


if __name__ == "__main__":
    main()
