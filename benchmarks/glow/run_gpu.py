"""Train and judge the variants of GLOW, on the GPU or (tiny) on the CPU.

    python3 -m benchmarks.glow.run_gpu --out glow.json --minutes 9
    python -m benchmarks.glow.run_gpu --tiny --out /tmp/glow.json

Needs torch, transformers and the file that `pack` wrote. Every run trains a three-layer dual
encoder from the same base on the same pairs in the same order per seed; only the weighting differs.
Results are written after every run, so that stopping loses at most one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from benchmarks.glow.factors import Factors, Laid, factors_from_arrays, lay_out, load_pack
from quoth.models.attention import register_attention
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.network import GlowNetwork
from quoth.training.loop import Progress
from quoth.training.recipes.glow import GlowRecipe, build_network, train_glow
from quoth.training.retriever.training_set import TrainingSet
from quoth.training.sequences import SequenceTable

PACK = Path("benchmarks/.cache/glow/pack.bin")
CUT = 10


@dataclass(frozen=True)
class Variant:
    """One way to weigh, and whether it is brought in slowly."""

    name: str
    config: GlowConfig
    ramped: bool = False


def variants() -> list[list[Variant]]:
    """List the variants in groups of falling importance."""
    plain = GlowConfig()
    row, column = replace(plain, weighting="row"), replace(plain, weighting="column")
    add_log = replace(plain, weighting="add_log")
    fields = replace(plain, layout="fields")
    return [
        [
            Variant("none", plain),
            Variant("row", row),
            Variant("column", column),
            Variant("add_log", add_log),
            Variant("row_mean_one", replace(row, mean_one=True)),
            Variant("add_log_mean_one", replace(add_log, mean_one=True)),
        ],
        [
            Variant("row_mild", replace(row, strength=0.25)),
            Variant("row_ramped", row, ramped=True),
            Variant("add_log_ramped", add_log, ramped=True),
            Variant("fields_none", fields),
            Variant("fields_row", replace(fields, weighting="row")),
            Variant("fields_add_log", replace(fields, weighting="add_log")),
        ],
        [
            Variant("row_idf", replace(row, weights="idf")),
            Variant("row_code", replace(row, preset="code")),
            Variant("row_subwords", replace(row, statistics="subwords")),
            Variant("merge", replace(plain, weighting="merge")),
            Variant("fields_row_us", replace(fields, weighting="row", field_embeddings="one")),
        ],
        [
            Variant("column_mean_one", replace(column, mean_one=True)),
            Variant("add_log_idf", replace(add_log, weights="idf")),
            Variant("add_log_code", replace(add_log, preset="code")),
            Variant("add_log_subwords", replace(add_log, statistics="subwords")),
        ],
    ]


@dataclass(frozen=True)
class Judged:
    """An evaluation set under one variant."""

    name: str
    queries: SequenceTable
    documents: SequenceTable
    grades: Tensor  # (Q, N)


class Data:
    """The packed collections, laid out per variant ahead of need."""

    def __init__(self, path: Path, *, tiny: bool, device: torch.device) -> None:
        self.arrays, self.facts = load_pack(path)
        self._device = device
        self._tiny = tiny
        self._rows = self.arrays["train.rows"].astype(np.int64)
        self._query_keys = _equal_rows(factors_from_arrays("train.queries", self.arrays))
        if tiny:
            self.facts["sets"] = sorted(self.facts["sets"], key=lambda s: s["documents"])[:2]
            self._rows = self._rows[:200]
        self._pool = ThreadPoolExecutor(1 if tiny else 4)
        self._tables: dict[str, Future[tuple[TrainingSet, list[Judged]]]] = {}

    def prepare(self, config: GlowConfig) -> None:
        """Start laying out for a configuration."""
        key = _key(config)
        if key not in self._tables:
            self._tables[key] = self._pool.submit(self._lay_out, config)

    def get(self, config: GlowConfig) -> tuple[TrainingSet, list[Judged]]:
        """Return the tables of a configuration."""
        self.prepare(config)
        return self._tables[_key(config)].result()

    def _lay_out(self, config: GlowConfig) -> tuple[TrainingSet, list[Judged]]:
        averages = tuple(self.facts["averages"])
        documents = self._table("train.documents", config, averages, queries=False)
        queries = self._table("train.queries", config, averages, queries=True)
        count = len(self._rows)
        sources = np.zeros(count, dtype=np.uint8)
        training_set = TrainingSet(
            queries, documents, self._query_keys[:count], self._rows, sources
        )
        return training_set, [self._judged(about, config) for about in self.facts["sets"]]

    def _judged(self, about: dict[str, Any], config: GlowConfig) -> Judged:
        name, averages = about["name"], tuple(about["averages"])
        documents = self._table(f"{name}.documents", config, averages, queries=False)
        queries = self._table(f"{name}.queries", config, averages, queries=True)
        query, row, grade = torch.from_numpy(self.arrays[f"{name}.judged"]).long().T
        grades = torch.zeros(len(queries), len(documents))
        grades[query, row] = grade.float()
        return Judged(name, queries, documents, grades.to(self._device))

    def _table(
        self, name: str, config: GlowConfig, averages: Any, *, queries: bool
    ) -> SequenceTable:
        factors = factors_from_arrays(name, self.arrays)
        laid = lay_out(factors, config, averages=averages, queries=queries)
        return as_table(laid, weighted=config.weighting != "none").to(self._device)


def main() -> None:
    """Run what fits into the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", type=Path, default=PACK)
    parser.add_argument("--variants", default="", help="names, by commas; all unless given")
    add_arguments(parser)
    given = parser.parse_args()
    run(given, time.perf_counter() + 60 * given.minutes)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what says how long and how to train, and where the results go."""
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=8e-5)
    parser.add_argument("--loss", default="info_nce", choices=("info_nce", "bce"))
    parser.add_argument("--start", default="pretrained", choices=("pretrained", "random"))
    parser.add_argument("--towers", default="shared", choices=("shared", "separate"))
    parser.add_argument("--pooling", default="mean", choices=("mean", "cls"))
    parser.add_argument("--temperature", type=float, default=1000.0, help="of bce's negatives")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tiny", action="store_true", help="a few steps on the CPU, to debug")


def run(given: argparse.Namespace, deadline: float) -> None:
    """Train and judge one variant after the other until the deadline nears."""
    device = torch.device("cuda" if torch.cuda.is_available() and not given.tiny else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    began = time.perf_counter()
    data = Data(given.pack, tiny=given.tiny, device=device)
    plan = list(plan_runs(given))
    for variant, _seed in plan:
        data.prepare(variant.config)
    base = load_base(data)
    print(f"{len(plan)} runs planned; loaded in {time.perf_counter() - began:.1f} s", flush=True)
    out: dict[str, Any] = describe(given, data, device)
    out["runs"].append(judge_untrained(base, data, given, device))
    longest = 0.0
    for variant, seed in plan:
        if time.perf_counter() + 1.15 * longest > deadline:
            print("out of time: stopping", flush=True)
            break
        one = time.perf_counter()
        out["runs"].append(train_and_judge(base, data, given, variant, seed, device))
        longest = max(longest, time.perf_counter() - one)
        write(given.out, out)
    write(given.out, out)


def plan_runs(given: argparse.Namespace) -> Iterator[tuple[Variant, int]]:
    """Order runs by the importance of the variant, then by seed."""
    wanted = set(given.variants.split(",")) if given.variants else None
    for group in variants():
        for seed in map(int, given.seeds.split(",")):
            for variant in group:
                if wanted is None or variant.name in wanted:
                    yield variant, seed


def train_and_judge(
    base: nn.Module,
    data: Data,
    given: argparse.Namespace,
    variant: Variant,
    seed: int,
    device: torch.device,
) -> dict[str, Any]:
    """Train one encoder and score it on every set."""
    training_set, sets = data.get(variant.config)
    began = time.perf_counter()
    recipe = recipe_for(given, variant, seed)
    network, report = train_glow(
        base, training_set, recipe, device=device, progress=_print_progress if given.tiny else None
    )
    _wait(device)
    trained = time.perf_counter()
    scores = {each.name: judge(network, each, device) for each in sets}
    done = time.perf_counter()
    mean = float(np.mean([np.mean(own["ndcg"]) for own in scores.values()]))
    print(
        f"{variant.name:18} seed {seed}: nDCG@10 {mean:.4f}, loss {report.losses[-1][1]:.3f}, "
        f"trained {trained - began:.1f} s, judged {done - trained:.1f} s",
        flush=True,
    )
    return {
        "variant": variant.name,
        "seed": seed,
        "steps": report.steps,
        "seconds": round(trained - began, 2),
        "losses": [(step, round(loss, 4)) for step, loss in report.losses],
        "scores": scores,
    }


def recipe_for(given: argparse.Namespace, variant: Variant, seed: int) -> GlowRecipe:
    """Say how a variant is trained."""
    steps = 4 if given.tiny else given.steps
    return GlowRecipe(
        loss=given.loss,
        start=given.start,
        towers=given.towers,
        pooling=given.pooling,
        weighting=variant.config.weighting,
        layout=variant.config.layout,
        steps=steps,
        batch_size=8 if given.tiny else given.batch_size,
        learning_rate=given.learning_rate,
        ramp_steps=steps // 2 if variant.ramped else 0,
        centre_queries=given.loss == "bce",  # [CLS] is untrained: no query would have a negative
        temperature=given.temperature,
        num_layers=0,  # those of the base
        seed=seed,
    )


def judge_untrained(
    base: nn.Module,
    data: Data,
    given: argparse.Namespace,
    device: torch.device,
    config: GlowConfig | None = None,
) -> dict[str, Any]:
    """Score the base as it is."""
    chosen = config or GlowConfig()
    _, sets = data.get(chosen)
    recipe = GlowRecipe(
        num_layers=0, start="pretrained", pooling=given.pooling, layout=chosen.layout
    )
    network = build_network(base, recipe).to(device)
    scores = {each.name: judge(network, each, device) for each in sets}
    mean = float(np.mean([np.mean(own["ndcg"]) for own in scores.values()]))
    print(f"{'untrained':18} nDCG@10 {mean:.4f}", flush=True)
    return {"variant": "untrained", "seed": 0, "steps": 0, "scores": scores}


@torch.inference_mode()
def judge(network: GlowNetwork, judged: Judged, device: torch.device) -> dict[str, list[float]]:
    """Rank all documents for every query by cosine, and score each query."""
    network.eval()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        queries = _encode(network.encode_queries, judged.queries)
        documents = _encode(network.encode_documents, judged.documents)
    cosines = queries @ documents.T
    found = judged.grades.gather(1, cosines.topk(CUT, dim=1).indices).cpu().numpy()
    ideal = judged.grades.topk(CUT, dim=1).values.cpu().numpy()
    return {
        "ndcg": [round(float(x), 4) for x in ndcg(found, ideal)],
        "mrr": [round(float(x), 4) for x in reciprocal_rank(found)],
    }


def ndcg(found: NDArray[Any], ideal: NDArray[Any]) -> NDArray[Any]:
    """Relate the discounted gain of the found grades to the best one; (Q, K) grades, rank by rank.

    >>> ndcg(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])).round(4).tolist()  # 1 / log2(3)
    [0.6309]
    """
    discount = 1 / np.log2(np.arange(2, found.shape[1] + 2))
    return np.asarray((found * discount).sum(1) / np.maximum((ideal * discount).sum(1), 1e-9))


def reciprocal_rank(found: NDArray[Any]) -> NDArray[Any]:
    """Return one over the rank of the first relevant document, 0 where there is none.

    >>> reciprocal_rank(np.array([[0, 2, 1], [0, 0, 0]])).tolist()
    [0.5, 0.0]
    """
    first = (found > 0).argmax(1)
    return np.where((found > 0).any(1), 1 / (first + 1), 0.0)


def load_base(data: Data) -> nn.Module:
    """Rebuild the base encoder from the pack."""
    arrays = data.arrays
    config = BertConfig(**{k: v for k, v in data.facts["base"].items() if k != "architectures"})
    config.num_hidden_layers = 3
    config._attn_implementation = register_attention()
    base = BertModel(config)
    state = {
        name.removeprefix("base/"): torch.from_numpy(array.astype(np.float32))
        for name, array in arrays.items()
        if name.startswith("base/")
    }
    words = arrays["base.words"].astype(np.float32) * arrays["base.scale"]
    state["embeddings.word_embeddings.weight"] = torch.from_numpy(words)
    missing, unexpected = base.load_state_dict(state, strict=False)
    assert not unexpected and all(name.startswith("pooler") for name in missing), missing
    return base


def as_table(laid: Laid, *, weighted: bool) -> SequenceTable:
    """Make a table of laid-out sequences."""
    return SequenceTable.from_arrays(
        laid.ids,
        laid.offsets,
        field_ids=laid.field_ids,
        weights=laid.weights.astype(np.float16) if weighted else None,
    )


def describe(given: argparse.Namespace, data: Data, device: torch.device) -> dict[str, Any]:
    """Say what the results rest on."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    settings = {key: str(value) for key, value in vars(given).items()}
    sets = [{k: v for k, v in about.items() if k != "averages"} for about in data.facts["sets"]]
    return {
        "device": name,
        "torch": torch.__version__,
        "settings": settings,
        "pairs": data.facts["pairs"],
        "sets": sets,
        "runs": [],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace the results file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, separators=(",", ":")))
    os.replace(temporary, path)


def _encode(run: Any, table: SequenceTable, size: int = 2048) -> Tensor:
    """Encode a table, sequences of like length together."""
    order = np.argsort(-table.lengths, kind="stable")
    parts = [run(table.batch(order[at : at + size])) for at in range(0, len(order), size)]
    vectors = torch.cat(parts).float()
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(vectors.device)
    return vectors[back]


def _equal_rows(factors: Factors) -> NDArray[np.int64]:
    """Map each sequence to the first that is equal to it."""
    ends = np.cumsum(factors.kept.sum(1, dtype=np.int64))
    first: dict[bytes, int] = {}
    starts = np.concatenate(([0], ends[:-1]))
    keys = (factors.ids[a:b].tobytes() for a, b in zip(starts, ends, strict=True))
    return np.array([first.setdefault(key, at) for at, key in enumerate(keys)])


def _key(config: GlowConfig) -> str:
    return repr(config)


def _print_progress(progress: Progress) -> None:
    print(f"  step {progress.step}: loss {progress.loss:.4f}", flush=True)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
