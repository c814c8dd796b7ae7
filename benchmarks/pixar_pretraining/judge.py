"""Search collections that a pretrained PIXAR never saw, on a GPU; nothing is trained on them.

    python3 -m benchmarks.pixar_pretraining.judge cut --sets eval.json.xz --cut FOLDER
    python3 -m benchmarks.pixar_pretraining.judge search --sets eval.json.xz --cut FOLDER
        --encoder FOLDER [--weights pixar.safetensors] --out OUT

*cut* names documents by their title and their sentences and clauses, chooses the phrases of each
collection and cuts the names into them (on cores, beside a training). *search* scores every
identifier of every document, so that decoding is exact, by `bag_cos` and in the order of slots, and
makes documents of identifiers in several ways. Writes OUT/NAME.json, and per query the best
documents with their scores in OUT/NAME.npz.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np

from quoth.text.clauses import cut_clauses
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.rarity import rarities
from quoth.vocabulary.phrases.training import train_phrases

WORDS, SENTENCES, PER_DOCUMENT = 24, 20, 60
PASSAGE = 180  # words
SIZE, MOST_MINED = 30_522, 60_000
K = 100
HALF = ".half"
HALVED = ("cranfield", "nfcorpus-tok", "nq-mini", "scifact", "squad-dev", "wikiqa")
KEPT = (
    "bag_cos plain logsumexp 1.0",
    "bag_cos titled logsumexp 1.0",
    "bag_cos titled top3",
    "bag_max titled max",
    "bag_max titled max+mean/2",
    "bag_max titled logsumexp 1.0",
)


# --- names and phrases, on cores ------------------------------------------------------------------


def name_documents(documents: list[list[str]]) -> tuple[list[str], list[int], list[int]]:
    """List the names of documents, the document of each, and how many are titles."""
    texts, owners, kinds = [], [], []
    for at, (title, text) in enumerate(documents):
        own = cut_clauses(text, most_words=WORDS)
        most = min(PER_DOCUMENT, SENTENCES * max(1, -(-len(text.split()) // PASSAGE)))
        if len(own) > most:
            own = [own[i * len(own) // most] for i in range(most)]
        clean = " ".join(title.replace("_", " ").split())
        named = [(clean, 1)] if clean else []
        for each, kind in dict(named + [(x, 0) for x in own if x != clean]).items():
            texts.append(each)
            owners.append(at)
            kinds.append(kind)
    return texts, owners, kinds


def cut_set(name: str, content: dict[str, Any], folder: Path, config: PhraseConfig) -> str:
    """Name, choose phrases and cut, for one collection.

    With HALF, phrases are chosen by every other document: the rest are new ones.
    """
    begin = time.perf_counter()
    texts, owners, kinds = name_documents(content["docs"])
    step = 2 if name.endswith(HALF) else 1
    distinct = sorted(
        {text for text, owner in zip(texts, owners, strict=True) if owner % step == 0}
    )
    mined = random.Random(0).sample(distinct, min(MOST_MINED, len(distinct)))
    vocabulary = train_phrases(mined, config)
    cut = vocabulary.segment(texts)
    np.savez(
        folder / f"{name}.npz",
        ids=cut.ids.astype(np.int32),
        offsets=cut.offsets,
        owners=np.array(owners),
        kinds=np.array(kinds),
        uses=np.bincount(cut.ids, minlength=len(vocabulary)),
    )
    spelled = [vocabulary.text_of(each) for each in range(len(vocabulary))]
    (folder / f"{name}.json").write_text(json.dumps(spelled, ensure_ascii=False))
    seconds = time.perf_counter() - begin
    return f"{name}: {len(texts):,} names, {len(spelled):,} phrases, {seconds:.0f} s"


def cut_all(sets: dict[str, Any], folder: Path, workers: int, config: PhraseConfig) -> None:
    """Cut all collections, the largest first."""
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(sets, key=lambda name: -len(sets[name]["docs"]))
    with ProcessPoolExecutor(workers) as pool:
        cut = partial(cut_set, folder=folder, config=config)
        for told in pool.map(cut, order, [sets[each] for each in order]):
            print(told, flush=True)


# --- search, on a GPU -----------------------------------------------------------------------------


def search_all(given: argparse.Namespace, sets: dict[str, Any]) -> None:
    """Search every collection that was cut, and judge."""
    import torch

    from benchmarks.pixar_pretraining.train import restore, start

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, inputs = start(given.encoder, device, seed=0)
    if given.weights:
        restore(network, given.weights)
    network.eval()
    given.out.mkdir(parents=True, exist_ok=True)
    results, arrays = {}, {}
    for name in given.names.split(",") if given.names else sorted(sets):
        if not (given.cut / f"{name}.json").exists():
            print(f"{name}: not cut", flush=True)
            continue
        began = time.perf_counter()
        with torch.inference_mode():
            results[name], own = search_set(name, sets[name], given.cut, network, inputs)
        if not name.endswith(HALF):
            arrays |= {f"{name}.{key}": value for key, value in own.items()}
        results[name]["seconds"] = round(time.perf_counter() - began, 1)
        shown = {
            way: round(float(np.mean(each)), 4) for way, each in results[name]["RR@10"].items()
        }
        print(name, shown, results[name]["seconds"], flush=True)
        (given.out / f"{given.label}.json").write_text(json.dumps(results))
    np.savez_compressed(given.out / f"{given.label}.npz", **arrays)
    ways = next(iter(results.values()))["RR@10"]
    for way in ways:
        whole = [own for name, own in results.items() if not name.endswith(HALF)]
        means = [float(np.mean(own["RR@10"][way])) for own in whole]
        print(f"mean of {len(means)}: {way} {np.mean(means):.4f}", flush=True)


def search_set(
    name: str, content: dict[str, Any], folder: Path, network: Any, inputs: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Search one collection in every way."""
    import torch
    from torch.nn import functional

    from benchmarks.pixar_pretraining.data import Padded, _pad, encode_all
    from benchmarks.pixar_pretraining.losses import match_words

    device = next(network.parameters()).device
    with np.load(folder / f"{name}.npz") as packed:
        ids, offsets, owners, uses, kinds = (
            packed[x] for x in ("ids", "offsets", "owners", "uses", "kinds")
        )
    phrases = json.loads((folder / f"{name}.json").read_text())
    table = encode_all(network, _pad(inputs.queries(phrases), 20, device, inputs.pad_id), rows=True)
    table = table.float()
    weights = torch.from_numpy(rarities(uses)).to(device)
    asked: Padded = _pad(
        inputs.queries([t[2] for t in content["tests"]]), 64, device, inputs.pad_id
    )
    pooled, slots, gains = [], [], []
    for some in torch.arange(len(asked.ids), device=device).split(256):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            made = network(asked.batch(some))
        pooled.append(functional.normalize(made.pooled, dim=1))
        slots.append(made.slots)
        by_word = match_words(made.words, table, at_once=16)
        gains.append(((pooled[-1] @ table.T + by_word) * weights).T.contiguous())  # (V, B)
    lengths = np.diff(offsets)
    room = slots[0].shape[1]
    grid = _grid(owners, len(content["docs"]))
    flat = torch.from_numpy(ids).to(device).long()
    sums = functional.embedding_bag(
        flat,
        table,
        torch.from_numpy(offsets[:-1]).to(device),
        mode="sum",
        per_sample_weights=weights[flat],
    )
    holds = torch.sparse_csr_tensor(  # identifiers and the phrases they hold
        torch.from_numpy(offsets).to(device).long(),
        flat,
        torch.ones(len(flat), device=device),
        (len(lengths), len(phrases)),
    )
    ranked = Ranked(content["tests"], grid, device)
    titles = _titles(owners, kinds, len(content["docs"]))
    is_shared = _shared(ids, offsets, kinds)
    chunks = torch.arange(len(asked.ids)).split(256)
    for variant, made in (("plain", sums), ("titled", _prefix(sums, titles[owners], kinds))):
        bags = functional.normalize(made, dim=1)
        legal = ~is_shared if variant == "titled" else None
        for at, some in zip(chunks, pooled, strict=True):
            ranked.add(f"bag_cos {variant}", at.tolist(), some @ bags.T, legal=legal)
        norms = made.norm(dim=1)
        for at, some in zip(chunks, gains, strict=True):
            found = (
                _prefix(holds @ some, titles[owners], kinds) if legal is not None else holds @ some
            )
            sheet = (found / norms[:, None]).T
            ranked.add(f"bag_max {variant}", at.tolist(), sheet, legal=legal)
    short = np.flatnonzero(lengths <= room)
    padded = np.full((len(lengths), room), -1)
    within = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)
    inside = within < room
    padded[np.repeat(np.arange(len(lengths)), lengths)[inside], within[inside]] = ids[inside]
    grid_ids, kind = torch.from_numpy(padded).to(device), torch.bfloat16
    for at, some in zip(torch.arange(len(asked.ids)).split(256), slots, strict=True):
        sheet = torch.full((len(at), len(lengths)), -torch.inf, device=device)
        for places in torch.from_numpy(short).to(device).split(16_384):
            own = grid_ids[places]
            there = own >= 0
            rows = (table[own.clamp_min(0)] * there[..., None]).flatten(1).to(kind)
            bias = (-weights[own.clamp_min(0)] * there).sum(1)
            sheet[:, places] = ((some.flatten(1).to(kind) @ rows.T).float() + bias) / there.sum(1)
        ranked.add("ordered plain", at.tolist(), sheet, legal=(lengths <= room) & ~is_shared)
    facts = {
        "documents": len(content["docs"]),
        "queries": len(content["tests"]),
        "identifiers": len(lengths),
        "phrases": len(phrases),
        "mean_length": float(lengths.mean()),
        "within_slots": float((lengths <= room).mean()),
        "RR@10": ranked.scores,
    }
    return facts, {key: np.concatenate(each) for key, each in ranked.kept.items()}


def _titles(owners: np.ndarray, kinds: np.ndarray, count: int) -> np.ndarray:
    """Find the title among the identifiers of each document, -1 where it has none."""
    titles = np.full(count, -1)
    titles[owners[kinds == 1]] = np.flatnonzero(kinds == 1)
    return titles


def _shared(ids: np.ndarray, offsets: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Say which identifiers are titles that name several documents: they tell none apart."""
    spelled = [ids[lo:hi].tobytes() for lo, hi in pairwise(offsets.tolist())]
    seen: dict[bytes, int] = {}
    for kind, each in zip(kinds.tolist(), spelled, strict=True):
        if kind:
            seen[each] = seen.get(each, 0) + 1
    return np.array([kind == 1 and seen[x] > 1 for kind, x in zip(kinds, spelled, strict=True)])


def _prefix(sums: Any, titles: np.ndarray, kinds: np.ndarray) -> Any:
    """Put the title of its document before each sentence: bags are sums, so they are added."""
    import torch

    own = torch.from_numpy(np.where(kinds == 1, -1, titles)).to(sums.device)
    return sums + sums[own.clamp_min(0)] * (own >= 0)[:, None]


def _grid(owners: np.ndarray, count: int) -> np.ndarray:
    """Lay out the identifiers of each document in a row, -1 where there are no more."""
    counts = np.bincount(owners, minlength=count)
    grid = np.full((count, max(1, counts.max())), -1)
    starts = np.cumsum(counts) - counts
    grid[owners, np.arange(len(owners)) - starts[owners]] = np.arange(len(owners))
    return grid


class Ranked:
    """Makes documents of identifiers in several ways, and judges each."""

    def __init__(self, tests: list[Any], grid: np.ndarray, device: Any) -> None:
        import torch

        self.tests, self.device = tests, device
        self.grid = torch.from_numpy(grid).to(device)
        self.scores: dict[str, list[float]] = {}
        self.kept: dict[str, list[np.ndarray]] = {}

    def add(
        self, order: str, at: list[int], sheet: Any, *, legal: np.ndarray | None = None
    ) -> None:
        """Judge the scores (queries, identifiers) of some queries."""
        import torch

        step = max(1, int(4e8 // max(1, self.grid.numel())))
        scale = 20.0 if order.startswith("bag_") else 1.0
        there = self.grid >= 0
        if legal is not None:
            there = there & torch.from_numpy(legal).to(sheet.device)[self.grid.clamp_min(0)]
        counts = there.sum(1).clamp_min(1)
        for some in torch.arange(len(at)).split(step):
            found = sheet[some.to(sheet.device)][:, self.grid.clamp_min(0)]
            found = found.masked_fill(~there, -torch.inf)
            best = found.amax(2)
            floor = found.masked_fill(~there, torch.inf).amin(2)
            mean = found.masked_fill(~there, 0.0).sum(2) / counts
            top = found.topk(min(3, found.shape[2]), 2).values
            top = torch.where(torch.isinf(top), floor[..., None], top)
            top5 = found.topk(min(5, found.shape[2]), 2).values
            top5 = torch.where(torch.isinf(top5), floor[..., None], top5)
            ways = {
                "max": best,
                "max+mean": best + mean,
                "max+mean/2": best + mean / 2,
                "top2": top[:, :, :2].mean(2),
                "top3": top.mean(2),
                "top5": top5.mean(2),
            }
            for heat in (0.5, 1.0, 2.0):
                ways[f"logsumexp {heat}"] = (found * scale / heat).logsumexp(2) * heat / scale
            for way, final in ways.items():
                final = final.nan_to_num(-1e4, neginf=-1e4)
                scores, rows = final.topk(min(K, final.shape[1]), 1)
                self._judge(f"{order} {way}", [at[i] for i in some.tolist()], rows.cpu().numpy())
                if f"{order} {way}" in KEPT:
                    key = f"{order}.{way}"
                    self.kept.setdefault(f"{key}.rows", []).append(
                        rows.cpu().numpy().astype(np.int32)
                    )
                    self.kept.setdefault(f"{key}.scores", []).append(
                        scores.cpu().numpy().astype(np.float16)
                    )

    def _judge(self, way: str, at: list[int], rows: np.ndarray) -> None:
        for test, own in zip(at, rows, strict=True):
            wanted = self.tests[test][3]
            ranks = [rank for rank, row in enumerate(own[:10], 1) if str(row) in wanted]
            self.scores.setdefault(way, []).append(1.0 / ranks[0] if ranks else 0.0)


def main() -> None:
    """Cut, or search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("cut", "search"))
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--cut", type=Path, required=True)
    parser.add_argument("--names", default="")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--size", type=int, default=SIZE, help="phrases of a collection, at most")
    parser.add_argument("--most-words", type=int, default=8, help="of a phrase")
    parser.add_argument("--min-count", type=int, default=2, help="of a phrase")
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--label", default="judged")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sets = json.loads(lzma.decompress(given.sets.read_bytes()))
    sets |= {name + HALF: sets[name] for name in HALVED if name in sets}
    if given.kind == "cut":
        chosen = {x: sets[x] for x in given.names.split(",")} if given.names else sets
        rare = {"min_count": given.min_count, "min_use": given.min_count}
        config = PhraseConfig(size=given.size, max_words=given.most_words, **rare)
        cut_all(chosen, given.cut, given.workers, config)
    else:
        search_all(given, sets)


if __name__ == "__main__":
    main()
