"""Judge continuations: MAUVE, repetition, diversity, perplexity, units; write results.

    python3 -m benchmarks.generation.report OUT --base FOLDER --prompts A.bin,B.bin
    python3 -m benchmarks.generation.report --joined A.json B.json --results C.json

The second joins what was judged in several runs, in the order given.

Texts are prefix and continuation, the latter cut to 128 subwords. MAUVE: features are the untouched
base model's final states, averaged over the text; factor 2, the mean over five seeds of k-means,
and the spread of those. Perplexity: the continuation under the base model, averaged over texts.
Repetition counts words of the text, cut to as many as the reference has. Intervals are bootstrapped
over prompts. Runs on a CPU too, in about a minute for a hundred texts; needs no tantivy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.generation.mauve import MauveConfig, mauve
from benchmarks.generation.prompts import CONTINUATION, PREFIX, PromptSet, open_prompts
from benchmarks.generation.scores import (
    bytes_per_unit,
    cut_to_shorter,
    cut_words,
    diversity,
    mean_repetition,
    perplexity,
)
from quoth.evaluation.significance import mean_interval
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM

RESULTS = Path(__file__).parent / "results" / "generation.json"
SEEDS = (25, 26, 27, 28, 29)
_MIN_TEXTS = 20  # fewer have too few cells for MAUVE to mean anything


@dataclass(frozen=True)
class Judged:
    """What the base model says of texts, in their order."""

    features: NDArray[np.float64]  # (N, D)
    perplexities: list[float]


def main() -> None:
    """Judge a folder of continuations and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder that measure.py wrote")
    parser.add_argument("--joined", type=Path, nargs="+", help="results of several runs")
    parser.add_argument("--base", type=Path)
    parser.add_argument("--prompts", default="")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    if given.joined:
        parts = [json.loads(path.read_text()) for path in given.joined]
        given.results.write_text(json.dumps(join(parts), indent=1) + "\n")
        return
    if given.out is None or given.base is None:
        parser.error("give OUT, --base and --prompts, or --joined")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DynamicLM.start(given.base, config=DynamicLMConfig(template="plain"), device=device)
    model.network.merge()
    groups = read_groups(given.out / "continuations.jsonl.gz")
    rows = []
    for path in given.prompts.split(","):
        prompts = open_prompts(Path(path))
        for (domain, system, method), records in groups.items():
            if domain == prompts.domain:
                row = judge_group(model, prompts, records, batch=given.batch)
                rows.append({"domain": domain, "system": system, "method": method, **row})
                print(json.dumps(rows[-1]), flush=True)
    facts = json.loads((given.out / "facts.json").read_text())
    content = {**facts, "judge": "SmolLM2-135M-Instruct, mean of final states", "rows": rows}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(content, indent=1) + "\n")


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the results of several runs together; facts of a domain are added up."""
    joined = dict(parts[0], rows=[row for part in parts for row in part.get("rows", ())])
    joined["device"] = ", ".join(dict.fromkeys(part["device"] for part in parts))
    for name in ("latency", "plain_perplexity"):
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for part in parts:
            for domain, own in part[name].items():
                found[domain] |= {
                    key: each for key, each in own.items() if key not in found[domain]
                }
        joined[name] = dict(found)
    joined["phrases_per_prompt"] = {
        domain: count for part in parts for domain, count in part["phrases_per_prompt"].items()
    }
    return joined


def read_groups(path: Path) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Read continuations by domain, system and method, in the order of their prompts."""
    groups = defaultdict(list)
    with gzip.open(path, "rt") as stream:
        for record in map(json.loads, stream):
            groups[record["domain"], record["system"], record["method"]].append(record)
    return {key: sorted(own, key=lambda each: int(each["row"])) for key, own in groups.items()}


def judge_group(
    model: DynamicLM, prompts: PromptSet, records: Sequence[dict[str, Any]], *, batch: int
) -> dict[str, Any]:
    """Measure the continuations of one system."""
    rows = [record["row"] for record in records]
    prefixes = prompts.prefixes[rows]
    human = np.concatenate([prefixes, prompts.references[rows]], axis=1)
    written = [record["ids"][:CONTINUATION] for record in records]
    texts = np.concatenate([prefixes, np.array(written)], axis=1)
    own, reference = (judge(model, each, batch=batch) for each in (texts, human))
    words = [
        cut_to_shorter(*(cut_words(model.inputs.text(each.tolist())) for each in pair))[0]
        for pair in zip(texts, human, strict=True)
    ]
    units = [float(len(record["units"])) for record in records]
    spelled = [model.inputs.text(record["ids"]) for record in records]
    in_phrases = [sum(n for n in r["units"] if n > 1) / sum(r["units"]) for r in records]
    return {
        "texts": len(records),
        "mauve": _mauve(reference.features, own.features),
        "rep": {n: mean_repetition(words, n=n) for n in (2, 3, 4)},
        "diversity": diversity(words),
        "perplexity": _mean(own.perplexities),
        "reference_perplexity": fmean(reference.perplexities),
        "units": _mean(units),
        "bytes_per_unit": bytes_per_unit(spelled, [int(each) for each in units]),
        "share_in_phrases": fmean(in_phrases),
        "example": model.inputs.text(texts[0].tolist()),
    }


@torch.inference_mode()
def judge(model: DynamicLM, texts: NDArray[np.int64], *, batch: int) -> Judged:
    """Read texts (N, 160) with the base model."""
    network, device = model.network, model.device
    features, perplexities = [], []
    none = torch.zeros(0, network.phrase_width, device=device)
    for start in range(0, len(texts), batch):
        ids = torch.from_numpy(texts[start : start + batch]).to(device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        states = network.states(network.embed(ids, phrase_vectors=none), mask=mask)
        features.append(states.mean(1).double().cpu().numpy())
        scores = network.subword_scores(states[:, PREFIX - 1 : -1]).float()
        logs = scores.log_softmax(-1).gather(2, ids[:, PREFIX:, None])[..., 0]
        perplexities += [perplexity(own) for own in logs.double().cpu().tolist()]
    return Judged(np.concatenate(features), perplexities)


def _mauve(human: NDArray[np.float64], written: NDArray[np.float64]) -> dict[str, float] | None:
    if len(human) < _MIN_TEXTS:
        return None
    scores = [mauve(human, written, MauveConfig(seed=seed)) for seed in SEEDS]
    return {"mean": fmean(scores), "deviation": stdev(scores)}


def _mean(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": fmean(values), **asdict(mean_interval(values, num_resamples=1_000))}


if __name__ == "__main__":
    main()
