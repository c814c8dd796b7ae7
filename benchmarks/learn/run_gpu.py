"""Learn from packed collections without labels, on a GPU, and search for the test queries.

    python3 -m benchmarks.learn.run_gpu --encoder FOLDER --generator FOLDER --out OUT --minutes 7

Needs torch, transformers, tokenizers, safetensors, numba and what `benchmarks.learn.pack` wrote.
For each collection, from the same encoder: warm-up on BM25's labels; from its best state RUMBArt,
ACROBArT, distillation of the frozen query generator, and a control that spends the same steps on
the contrastive loss alone; from the encoder as it was TSDAE and GPL (`rivals`), and warm-ups with
the negatives of the thesis' Table 6.1 (`negatives:in_batch:bm25` and so on) or with the lengths of
vectors of its Figure 6.1 (`width:64`). The mean of the parameters before and after is searched with
too (`rumbart~half`). Early stopping looks at held-out pseudo-queries. `--start random` first
re-initialises the upper half of the encoder's layers, which then has seen no labels to speak of.
Writes OUT/<collection>.npz (the best documents of every test query in every state, and what the
query generator says of the best ones) and OUT/runs.json after each state. Judgements are not here:
`report` has them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.learn.generate import load as load_generator
from benchmarks.learn.rivals import RivalSettings, train_gpl, train_tsdae
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.network import GlowNetwork
from quoth.training.recipes.acrobart import AcrobartRecipe, train_acrobart
from quoth.training.recipes.glow import renew_layers
from quoth.training.recipes.rumbart import RumbartRecipe, train_rumbart
from quoth.training.recipes.warm_up import WarmUpRecipe, train_warm_up
from quoth.training.retriever.curriculum import blend
from quoth.training.retriever.learning import Learned, LearningRun
from quoth.training.retriever.passage_set import PassageSet, as_text, open_passage_set
from quoth.training.retriever.refresh import encode_passages
from quoth.training.retriever.retriever import LayerRetriever, Retriever
from quoth.training.retriever.similarity import score_all
from quoth.training.retriever.validation import held_out_mrr

PACKED = Path("benchmarks/.cache/learn")
DEPTH = 100
ARMS = ("warm-up", "control", "rumbart", "distil", "acrobart")
READ = 50  # best documents of BM25 and of the vectors that the query generator reads
MOST_VALIDATED = 6000  # passages that a held-out query is looked for among


def main() -> None:
    """Learn on each collection until the time is over."""
    given = arguments(__doc__.splitlines()[0]).parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(given)
    names = given.sets.split(",") if given.sets else sorted(bench.tests)
    for name in names:
        bench.learn(name)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return what every training here can be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", default="")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--start", default="pretrained", choices=("pretrained", "random"))
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--steps", type=int, default=300, help="of every arm after the warm-up")
    parser.add_argument("--warm-up-steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-queries", type=int, default=500)
    parser.add_argument("--read", action="store_true", help="let the query generator read")
    return parser


@dataclass(frozen=True)
class Found:
    """The best documents of each test query, by row of the collection."""

    rows: NDArray[np.int32]  # (Q, DEPTH)
    scores: NDArray[np.float16 | np.float32]


class Bench:
    """The models, the clock and what was found so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.deadline = time.perf_counter() + 60 * given.minutes
        config = replace(GlowConfig(), max_query_subwords=64)
        self.encoder = GlowEncoder.load(str(given.encoder), config=config, fast=False)
        self.network = self.encoder.network.to(self.device)
        if given.start == "random":
            torch.manual_seed(given.seed)
            encoder: Any = self.network.query_encoder
            renew_layers(encoder, first=encoder.config.num_hidden_layers // 2)
        self.generator = load_generator(given.generator, given.encoder)
        self.writer: Any = self.generator.network
        self.tests = json.loads((given.packed / "tests.json").read_text())
        self.runs: list[dict[str, Any]] = []

    def learn(self, name: str) -> None:
        """Run all arms on one collection."""
        packed = self.open(name)
        states = {"before": self.search(as_retriever(self.network), packed, name)}
        arrays: dict[str, Any] = {}
        if self.given.read:
            arrays = self.read(packed, name, states["before"])
        start = self.network
        for arm in self.given.arms.split(","):
            if time.perf_counter() > self.deadline:
                print(f"{name}: out of time before {arm}", flush=True)
                break
            began = time.perf_counter()
            learned = self.train(arm, start, packed)
            seconds = time.perf_counter() - began
            if arm == "warm-up":
                start = learned.network
            states[arm] = self.search(learned.retriever, packed, name)
            if can_blend(arm):
                half = blend(self.network, learned.network, share=0.5)
                states[f"{arm}~half"] = self.search(as_retriever(half), packed, name)
            self.note(name, arm, learned, seconds, packed)
            self.keep(name, states, arrays)

    def open(self, name: str) -> PassageSet:
        """Read a packed collection."""
        return open_passage_set(self.given.packed / f"{name}.bin").to(self.device)

    def keep(self, name: str, states: dict[str, Found], read: dict[str, Any]) -> None:
        """Write all that was found so far."""
        arrays = read | {
            f"{arm}.{field}": array
            for arm, found in states.items()
            for field, array in (("rows", found.rows), ("scores", found.scores))
        }
        np.savez_compressed(self.given.out / f"{name}.npz", **arrays)

    def train(self, arm: str, start: GlowNetwork, packed: PassageSet) -> Learned:
        """Train one arm from a state."""
        given = self.given
        generated = packed.only(kinds=("generated",))
        judge = held_out_mrr(generated, most=400, most_passages=MOST_VALIDATED)
        run = LearningRun(self.device, validate=judge)
        if arm == "warm-up":
            recipe = WarmUpRecipe(steps=given.warm_up_steps, seed=given.seed)
            return train_warm_up(start, packed, recipe, run)
        if arm.startswith("negatives:"):
            _, layout, negatives = arm.split(":")
            recipe = WarmUpRecipe(
                steps=given.warm_up_steps, seed=given.seed, layout=layout, negatives=negatives
            )
            return train_warm_up(self.network, packed, recipe, run)
        if arm.startswith("width:"):
            projection = int(arm.removeprefix("width:"))
            recipe = WarmUpRecipe(steps=given.warm_up_steps, seed=given.seed, projection=projection)
            return train_warm_up(self.network, packed, recipe, run)
        if arm in ("gpl", "tsdae"):
            settings = RivalSettings(steps=given.warm_up_steps + given.steps, seed=given.seed)
            if arm == "gpl":
                return train_gpl(self.network, self.writer, generated, settings, run)
            return train_tsdae(self.network, given.encoder, packed, settings, run)
        if arm == "acrobart":
            ours = AcrobartRecipe(steps=given.steps, seed=given.seed)
            return train_acrobart(start, self.writer, packed, ours, run)
        plain = RumbartRecipe(steps=given.steps, seed=given.seed)
        recipes = {
            "rumbart": plain,
            "control": replace(plain, reconstruction=0.0, contrastive=1.0),
            "distil": replace(plain, objective="distil_likelihood", train_query_generator=False),
        }
        return train_rumbart(start, self.writer, packed, recipes[arm], run)

    @torch.inference_mode()
    def search(self, retriever: Retriever | LayerRetriever, packed: PassageSet, name: str) -> Found:
        """Find the best documents of the test queries; a document scores as its best passage."""
        retriever.eval()
        passages = encode_passages(retriever, packed).float()
        rows = torch.from_numpy(packed.document_rows).to(self.device)
        documents, owners = rows.unique(return_inverse=True)
        best_rows, best_scores = [], []
        for texts in self.batches(name):
            batch = self.encoder.inputs.pad(self.encoder.inputs.queries(texts, None))
            vectors = retriever.encode_queries(batch.to(self.device)).float()
            found = score_all(vectors, passages, similarity=retriever.similarity)
            scores = torch.full((len(texts), len(documents)), -torch.inf, device=self.device)
            scores.scatter_reduce_(1, owners.expand(len(texts), -1), found, "amax")
            top = scores.topk(min(DEPTH, len(documents)), dim=1)
            best_rows.append(documents[top.indices].int().cpu().numpy())
            is_cosine = retriever.similarity == "cosine"  # others are too large for fp16
            best_scores.append((top.values.half() if is_cosine else top.values).cpu().numpy())
        return Found(np.concatenate(best_rows), np.concatenate(best_scores))

    @torch.inference_mode()
    def read(self, packed: PassageSet, name: str, found: Found) -> dict[str, Any]:
        """Return log p(query | passage) of the best documents, each read by its best passage."""
        passages = encode_passages(as_retriever(self.network), packed).float()
        rows = torch.from_numpy(packed.document_rows).to(self.device)
        documents, owners = rows.unique(return_inverse=True)
        place = {int(row): at for at, row in enumerate(documents.tolist())}
        lexical = np.load(self.given.packed / "lexical.npz")[name][:, :READ]
        out: dict[str, list[Any]] = {"query": [], "row": [], "score": []}
        at = 0
        for texts in self.batches(name):
            batch = self.encoder.inputs.pad(self.encoder.inputs.queries(texts, None))
            cosines = self.network.encode_queries(batch.to(self.device)).float() @ passages.T
            targets = self.generator.inputs.queries(texts)
            for own, each in enumerate(cosines):
                wanted = {
                    int(row) for row in (*lexical[at], *found.rows[at, :READ]) if row in place
                }
                chosen = sorted(wanted)
                best = best_passages(each, owners, len(documents))
                picked = best[[place[row] for row in chosen]].cpu().numpy()
                out["query"] += [at] * len(chosen)
                out["row"] += chosen
                out["score"] += self.likelihoods(targets[own], picked, packed)
                at += 1
        return {
            "read.query": np.array(out["query"], dtype=np.int32),
            "read.row": np.array(out["row"], dtype=np.int32),
            "read.score": np.array(out["score"], dtype=np.float32),
        }

    def likelihoods(
        self, target: list[int], rows: NDArray[np.int64], packed: PassageSet
    ) -> list[float]:
        """Return log p(query | passage) of one query and many passages."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            batch = packed.passage_batch(rows)
            states = self.writer.encode(as_text(batch))
            queries = self.generator.inputs.pad([target] * len(rows)).to(self.device)
            log_probs = self.writer.log_probs(queries, states, batch.mask)
        return [round(float(each), 3) for each in log_probs.float().sum(1)]

    def batches(self, name: str, size: int = 128) -> Iterator[list[str]]:
        """Return the texts of the test queries of all splits, in their order."""
        most = self.given.test_queries
        texts = [text for split in self.tests[name].values() for _qid, text in split[:most]]
        return (texts[at : at + size] for at in range(0, len(texts), size))

    def note(
        self,
        name: str,
        arm: str,
        learned: Learned,
        seconds: float,
        packed: PassageSet,
        **more: Any,
    ) -> None:
        """Print and keep what a run did."""
        report = learned.report
        self.runs.append(
            {
                "set": name,
                "arm": arm,
                "start": self.given.start,
                "seed": self.given.seed,
                "seconds": round(seconds, 1),
                "steps": report.training.steps,
                "best": report.best,
                "last": report.last,
                "validations": report.training.validations,
                "stopped_because": report.stopped_because,
                "health": [each._asdict() for each in report.health[-1:]],
                "passages": packed.num_passages,
                "queries": len(packed.queries),
                "about": dict(packed.about),
                **more,
            }
        )
        print(
            f"{name:18} {arm:9} {report.training.steps} steps, {seconds:.1f} s, held out"
            f" {report.training.validations[:1]} best {report.best} {report.stopped_because}",
            flush=True,
        )
        about = {
            "device": str(self.device),
            "settings": {k: str(v) for k, v in vars(self.given).items()},
        }
        if self.device.type == "cuda":
            about["device"] = torch.cuda.get_device_name()
        content = about | {"recipes": recipes_used(self.given), "runs": self.runs}
        (self.given.out / "runs.json").write_text(json.dumps(content, default=str))


def as_retriever(network: GlowNetwork) -> Retriever:
    """Return a dual encoder as it is searched with: by cosine."""
    return Retriever(network, similarity="cosine")


def can_blend(arm: str) -> bool:
    """Say whether what an arm trains has the parameters of what it started from, and no more.

    >>> can_blend("rumbart"), can_blend("width:64"), can_blend("width:0")
    (True, False, True)
    """
    return not arm.startswith("width:") or arm == "width:0"


def best_passages(cosines: torch.Tensor, owners: torch.Tensor, count: int) -> torch.Tensor:
    """Return the row of each document's best passage."""
    best = torch.full((count,), -2.0, device=cosines.device)
    best.scatter_reduce_(0, owners, cosines, "amax")
    rows = (cosines == best[owners]).nonzero()[:, 0]
    chosen = torch.zeros(count, dtype=torch.int64, device=cosines.device)
    chosen[owners[rows]] = rows
    return chosen


def recipes_used(given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the arms."""
    return {
        "warm-up": asdict(WarmUpRecipe(steps=given.warm_up_steps, seed=given.seed)),
        "rumbart": asdict(RumbartRecipe(steps=given.steps, seed=given.seed)),
        "acrobart": asdict(AcrobartRecipe(steps=given.steps, seed=given.seed)),
        "rivals": asdict(RivalSettings(steps=given.warm_up_steps + given.steps, seed=given.seed)),
    }


if __name__ == "__main__":
    main()
