"""Train PIXAR on packed identifiers and search for the test queries, on a GPU.

    python3 -m benchmarks.pixar_quality.run_gpu --encoder FOLDER --out OUT --set squad
        --vocabularies phrases-30522,unigram --steps 2000 [--losses all,no_pooled]

Needs torch, transformers, tokenizers, safetensors, numba and what `pack` wrote. A vocabulary (and
each choice of losses: all, or one removed) is trained for the same steps from the same start, and
judged before, at points on the way, and at the end: scores of all phrases (full softmax), every
decoding order, every aggregation, and PIXAR's own shortlists of some lengths beside all phrases.
Checkpoints are kept, so that a later call goes on. Writes
OUT/<set>.<vocabulary>.<losses>.npz (the best documents of each test query) and .json (curves).
Judgements are not here: `report` has them.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.pixar_quality.trained import MOST_SLOTS, restore, start_model
from quoth.index.trie.build import build_trie
from quoth.index.trie.trie import Sequences, Trie
from quoth.jobs.pixar.shortlist import learn_centroids, list_phrases
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.search.generative.aggregate import Owners, aggregate, gather_evidence
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.search.generative.decode.config import DecodeConfig
from quoth.search.generative.decode.decoder import Decoder
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores, uses_end
from quoth.training.identifiers.pairs import IdentifierPairs, phrase_counts
from quoth.training.recipes.pixar import train_pixar
from quoth.training.recipes.pixar_config import PixarRecipe
from quoth.vocabulary.phrases.rarity import rarities

PACKED = Path("benchmarks/.cache/pixar")
K = 100
SCORED = "bag_cos.max"  # the ranking whose scores may be kept, for fusing
ORDERS = {
    "ordered": DecodeConfig(order="ordered", length="mean"),
    "ordered_sum": DecodeConfig(order="ordered", length="none"),
    "ordered_end": DecodeConfig(order="ordered", length="end"),
    "perm_slots": DecodeConfig(order="perm_slots", length="mean"),
    "bag": DecodeConfig(order="bag", length="mean"),
    "pooled": DecodeConfig(order="pooled", length="mean"),
    "bag_cos": DecodeConfig(order="bag_cos"),
    "bag_cos_deep": DecodeConfig(order="bag_cos", depth=2000),
    "ordered_deep": DecodeConfig(order="ordered", length="mean", depth=2000),
}
AGGREGATIONS = {
    "max": AggregateConfig(),
    "max_divide": AggregateConfig(posting="divide"),
    "logsumexp": AggregateConfig(method="logsumexp"),
    "logsumexp_half": AggregateConfig(method="logsumexp", temperature=0.5),
    "logsumexp_2": AggregateConfig(method="logsumexp", temperature=2.0),
    "logsumexp_4": AggregateConfig(method="logsumexp", temperature=4.0),
    "seal": AggregateConfig(method="seal"),
    "rank": AggregateConfig(method="rank"),
}
LOSSES: dict[str, dict[str, float]] = {
    "all": {},
    "no_pooled": {"pooled_weight": 0.0},
    "no_normaliser": {"normaliser_weight": 0.0},
    "no_slots": {"slot_weight": 0.0},
    "bags": {"bag_weight": 1.0},
}


def main() -> None:
    """Train and judge every vocabulary and arm that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, default=Path("benchmarks/.cache/pixar-runs"))
    parser.add_argument("--set", dest="name", default="squad")
    parser.add_argument("--vocabularies", default="phrases-30522")
    parser.add_argument("--losses", default="all")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--looks", type=int, default=4, help="points at which a run is judged")
    parser.add_argument("--checkpoint-every", type=int, default=0, help="0: at each look")
    parser.add_argument("--no-start", action="store_true", help="do not judge the untrained one")
    parser.add_argument("--test-queries", type=int, default=1000)
    parser.add_argument("--shortlists", default="", help="lengths of centroids' lists, at the end")
    parser.add_argument("--threads", type=int, default=4, help="of decoding")
    parser.add_argument("--orders", default=",".join(ORDERS), help="judged at the end")
    parser.add_argument(
        "--weights", type=Path, help="tensors of a checkpoint after --steps: judge, do not train"
    )
    parser.add_argument("--scores", action="store_true", help="keep scores too, of bag_cos.max")
    parser.add_argument("--rows", default="encoder", choices=("encoder", "random"))
    parser.add_argument("--most-slots", type=int, default=MOST_SLOTS)
    parser.add_argument("--network", default="{}", help="other settings of the model, as JSON")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for vocabulary in given.vocabularies.split(","):
        for losses in given.losses.split(","):
            Trial(given, vocabulary, losses).run()


@dataclass
class Trial:
    """One vocabulary, trained with some losses."""

    given: argparse.Namespace
    vocabulary: str
    losses: str

    def run(self) -> None:
        """Train in stretches, judging after each; the last is judged in every way."""
        given, folder = self.given, self.given.packed / self.given.name
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model, pairs = start_model(
            folder,
            self.vocabulary,
            encoder=given.encoder,
            rows=given.rows,
            device=device,
            seed=given.seed,
            most_slots=given.most_slots,
            network=json.loads(given.network),
        )
        slots = model.config.num_slots
        desk = Desk.open(folder, pairs, most=given.test_queries, threads=given.threads)
        curve = []
        if not given.no_start:
            curve.append(self.look(desk, model, 0, ("bag_cos", "pooled", "ordered"), ("max",)))
        recipe = replace(
            PixarRecipe(steps=given.steps, batch_size=given.batch, seed=given.seed),
            **LOSSES[self.losses],  # type: ignore[arg-type]
        )
        if given.weights:
            trained = restore(model, given.weights, recipe)
            orders, ways = tuple(given.orders.split(",")), tuple(AGGREGATIONS)
            curve.append(self.look(desk, trained, given.steps, orders, ways))
            self.finish(curve, desk, trained, pairs, recipe, slots)
            return
        place = given.checkpoints / f"{given.name}.{self.vocabulary}.{self.losses}"
        seconds, every = 0.0, given.checkpoint_every or max(1, given.steps // given.looks)
        for number in range(1, given.looks + 1):
            until = given.steps * number // given.looks
            began = time.perf_counter()
            trained, report = train_pixar(
                model,
                pairs,
                recipe=replace(recipe, checkpoint_every=every),
                device=device,
                name=self.vocabulary,
                checkpoint=place,
                until=until if until < given.steps else None,
            )
            seconds += time.perf_counter() - began
            trained.network.to(device)
            is_last = number == given.looks
            orders = tuple(given.orders.split(",")) if is_last else ("bag_cos", "pooled", "ordered")
            ways = tuple(AGGREGATIONS) if is_last else ("max",)
            curve.append(self.look(desk, trained, until, orders, ways))
            curve[-1] |= {"seconds": round(seconds, 1), "last_losses": report.losses[-5:]}
            self.keep(curve, pairs, recipe, slots)
            if is_last:
                self.finish(curve, desk, trained, pairs, recipe, slots)

    def finish(
        self,
        curve: list[dict[str, Any]],
        desk: Desk,
        model: Pixar,
        pairs: IdentifierPairs,
        recipe: PixarRecipe,
        slots: int,
    ) -> None:
        """Judge shortlists too, where they were asked for; each is kept as soon as it is judged."""
        self.keep(curve, pairs, recipe, slots)
        if self.given.shortlists:
            curve[-1]["shortlists"] = []
            for found in self.shortlists(desk, model, pairs, curve[-1]["step"]):
                curve[-1]["shortlists"].append(found)
                self.keep(curve, pairs, recipe, slots)

    def look(
        self,
        desk: Desk,
        model: Pixar,
        step: int,
        orders: tuple[str, ...],
        ways: tuple[str, ...],
    ) -> dict[str, Any]:
        """Search for the test queries; the rankings go to disk, the facts are given back."""
        began = time.perf_counter()
        found, health = desk.search(model, orders, ways, scored=SCORED if self.given.scores else "")
        name = f"{self.given.name}.{self.vocabulary}.{self.losses}.{step:06}"
        np.savez_compressed(self.given.out / f"{name}.npz", **found)
        taken = time.perf_counter() - began
        print(f"{name}: {health}, searched in {taken:.1f} s", flush=True)
        return {"step": step, "file": f"{name}.npz", "mean_log_normaliser": health}

    def shortlists(
        self, desk: Desk, model: Pixar, pairs: IdentifierPairs, step: int
    ) -> Iterator[dict[str, Any]]:
        """Search with centroids' shortlists instead of all phrases."""
        began = time.perf_counter()
        config = ShortlistConfig(seed=self.given.seed)
        centroids = learn_centroids(model, pairs, config=config, device=model.device)
        model.network.to(centroids.device)
        built = time.perf_counter() - began
        print(f"{len(centroids)} centroids, {built:.1f} s", flush=True)
        for length in map(int, self.given.shortlists.split(",")):
            shortlist = list_phrases(model, centroids, config=replace(config, list_length=length))
            name = f"{self.given.name}.{self.vocabulary}.{self.losses}.{step:06}.lists-{length}"
            arrays, kept = desk.search(
                model, ("ordered", "pooled", "bag_cos"), ("max", "logsumexp"), shortlist=shortlist
            )
            np.savez_compressed(self.given.out / f"{name}.npz", **arrays)
            print(f"{name}: {kept:.0f} phrases kept", flush=True)
            yield {
                "file": f"{name}.npz",
                "list_length": shortlist.config.list_length,
                "num_centroids": shortlist.config.num_centroids,
                "num_lists": shortlist.config.num_lists,
                "phrases_kept": kept,
            }

    def keep(
        self, curve: list[dict[str, Any]], pairs: IdentifierPairs, recipe: PixarRecipe, slots: int
    ) -> None:
        """Write the curve and all settings."""
        content = {
            "set": self.given.name,
            "vocabulary": self.vocabulary,
            "losses": self.losses,
            "about": dict(pairs.about),
            "recipe": asdict(recipe),
            "slots": slots,
            "rows": self.given.rows,
            "network": json.loads(self.given.network),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "curve": curve,
        }
        path = self.given.out / f"{self.given.name}.{self.vocabulary}.{self.losses}.json"
        path.write_text(json.dumps(content, default=str))


@dataclass(frozen=True)
class Desk:
    """The trie over documents and the test queries."""

    trie: Trie
    weights: NDArray[np.float32]
    texts: list[str]
    threads: int

    @classmethod
    def open(cls, folder: Path, pairs: IdentifierPairs, *, most: int, threads: int) -> Desk:
        """Build the trie of all identifiers, owned by documents."""
        names = json.loads((folder / "documents.json").read_text())
        row_by_name = {name: row for row, name in enumerate(dict.fromkeys(names))}
        documents = np.array([row_by_name[name] for name in names], dtype=np.int64)
        offsets = pairs.passage_offsets.numpy()
        targets = pairs.passage_targets.numpy()
        owners = np.repeat(documents, np.diff(offsets))
        ids, starts = pairs.phrase_ids.numpy(), pairs.identifier_offsets.numpy()
        lengths = np.diff(starts)[targets]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) + np.repeat(starts[targets] - (ends - lengths), lengths)
        sequences = Sequences(
            ids[places].astype(np.int32), np.concatenate((np.zeros(1, dtype=np.int64), ends))
        )
        trie = build_trie(sequences, owners=owners, num_phrases=pairs.num_phrases)
        counts = phrase_counts(pairs)[: pairs.num_phrases]
        weights = rarities(counts)
        tests = json.loads((folder / "tests.json").read_text())[:most]
        return cls(trie, weights, [text for _split, _qid, text in tests], threads)

    def search(
        self,
        model: Pixar,
        orders: tuple[str, ...],
        ways: tuple[str, ...],
        *,
        shortlist: Shortlist | None = None,
        scored: str = "",
    ) -> tuple[dict[str, Any], float]:
        """Find the best documents under each order and aggregation.

        Scores of the ranking *scored* are added under its name and ".scores". The number is the
        mean log-normaliser of slots, or with a shortlist the phrases it kept.
        """
        count = self.trie.num_phrases
        rows = torch.from_numpy(np.asarray(model.head.rows[:count], dtype=np.float32))
        bias = torch.from_numpy(np.asarray(model.head.bias[:count], dtype=np.float32))
        rows, bias = rows.to(model.device), bias.to(model.device)
        norms = BagNorms(self.weights, bag_norms(self.trie, rows, self.weights))
        end = model.head.eos_id
        end_row = np.asarray(model.head.rows[end], dtype=np.float32)
        end_bias = np.float32(model.head.bias[end])
        reader = Reader(self.trie, norms, orders, ways)
        found: dict[str, list[Any]] = {f"{o}.{w}": [] for o in orders for w in ways}
        if scored in found:
            found[f"{scored}.scores"] = []
        facts = []
        with ThreadPoolExecutor(self.threads) as pool:
            for start in range(0, len(self.texts), 64):
                encoded = model.encode_queries(self.texts[start : start + 64])
                pooled = torch.from_numpy(encoded.pooled).to(model.device) @ rows.T
                slots = torch.from_numpy(encoded.slots).to(model.device) @ rows.T + bias
                ends = encoded.slots @ end_row + end_bias
                ends = np.pad(ends, ((0, 0), (0, 1)))  # after the last slot nothing goes on
                scores = Scores(pooled.cpu().numpy(), slots.cpu().numpy(), bias.cpu().numpy(), ends)
                if shortlist is None:
                    kept = [np.arange(count, dtype=np.int32)] * len(pooled)
                    facts.append(slots.logsumexp(-1).abs().mean().item())
                else:
                    vectors = zip(encoded.pooled, encoded.slots, strict=True)
                    kept = [shortlist.shortlist(*each).phrase_ids for each in vectors]
                    facts.append(float(np.mean([len(ids) for ids in kept])))
                jobs = [(scores, at, ids) for at, ids in enumerate(kept)]
                for one in pool.map(lambda job: reader.read(*job), jobs):
                    for name, best in one.items():
                        found[name].append(pad_rows(best.rows))
                    if scored in one:
                        found[f"{scored}.scores"].append(_fill(one[scored].scores))
        return {name: np.stack(each) for name, each in found.items()}, float(np.mean(facts))


@dataclass(frozen=True)
class Scores:
    """What a batch of queries says of every phrase."""

    pooled: NDArray[np.float32]  # (B, P), without bias
    slots: NDArray[np.float32]  # (B, S, P)
    bias: NDArray[np.float32]  # (P,)
    ends: NDArray[np.float32] | None = None  # (B, S + 1)


class Reader:
    """Decodes and aggregates under several orders and ways; each thread has decoders of its own."""

    def __init__(
        self, trie: Trie, norms: BagNorms, orders: tuple[str, ...], ways: tuple[str, ...]
    ) -> None:
        self._trie, self._norms, self._orders, self._ways = trie, norms, orders, ways
        self._local = threading.local()

    def read(self, scores: Scores, at: int, ids: NDArray[np.int32]) -> dict[str, Owners]:
        """Return the best documents of one query, whose identifiers hold these phrases only."""
        if not hasattr(self._local, "decoders"):
            self._local.decoders = {
                order: Decoder(self._trie, ORDERS[order], norms=self._norms)
                for order in self._orders
            }
        own, plain = scores.slots[at][:, ids], scores.pooled[at][ids]
        best = {}
        for order, decoder in self._local.decoders.items():
            is_cosine = order.startswith("bag_cos")  # times the length of the query's vector
            first = plain if is_cosine else plain + scores.bias[ids]
            ends = scores.ends[at] if uses_end(ORDERS[order]) and scores.ends is not None else None
            sheet = PhraseScores(ids, slot_scores=own, pooled_scores=first, end_scores=ends)
            decoded = decoder.decode([sheet])[0]
            evidence = gather_evidence(self._trie, decoded, scale=float(is_cosine))
            for way in self._ways:
                best[f"{order}.{way}"] = aggregate(evidence, AGGREGATIONS[way], k=K)
        return best


def bag_norms(trie: Trie, rows: torch.Tensor, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the length of each identifier's weighted sum of rows."""
    norms = np.empty(len(trie), dtype=np.float32)
    scaled = rows * torch.from_numpy(weights).to(rows.device)[:, None]
    for start in range(0, len(trie), 65536):
        own = np.arange(start, min(start + 65536, len(trie)))
        sequences = trie.sequences(own)
        ids = torch.from_numpy(sequences.ids.astype(np.int64)).to(rows.device)
        offsets = torch.from_numpy(sequences.offsets[:-1]).to(rows.device)
        summed = torch.nn.functional.embedding_bag(ids, scaled, offsets, mode="sum")
        norms[own] = summed.norm(dim=1).clamp_min(1e-6).cpu().numpy()
    return norms


def pad_rows(rows: NDArray[np.int64]) -> NDArray[np.int32]:  # (K,)
    """Fill a ranking up with -1."""
    padded = np.full(K, -1, dtype=np.int32)
    padded[: len(rows)] = rows[:K]
    return padded


def _fill(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    filled = np.full(K, np.nan, dtype=np.float32)
    filled[: len(scores)] = scores[:K]
    return filled


if __name__ == "__main__":
    main()
