"""Judge arms of learning on packed collections, with or without an accelerator.

    python -m benchmarks.learn.lab.run PACKED OUT.json --encoder FOLDER --reader FOLDER
        --generator FOLDER [--sets …] [--arms residual,distilled] [--shares 0.5,1] [--seconds 240]

Needs torch, transformers, tokenizers, numpy and what `benchmarks.learn.lab.pack` wrote. Each state
of the encoder is judged as the product would use it: vectors of all passages, weights of fusion and
the share of reranking calibrated anew. Per query, for the test queries, for generated queries of
held-out documents and for known items. Writes OUT.json after each collection. doc2query is tried
where every document could be written for (--expand).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))  # not installed there

import torch

from benchmarks.learn.lab.arms import (
    ARMS,
    REPLAYING,
    Material,
    Settings,
    adapt_reader,
    prepare,
    train,
    write,
)
from benchmarks.learn.lab.collection import Collection, Judged
from benchmarks.learn.lab.fusion import Side
from benchmarks.learn.lab.models import Models
from quoth.training.retriever.curriculum import blend

SHARES = {"rumbart": ("0.5", "1"), "plain": ("1",), "gpl": ("1",), "tsdae": ("1",)}
"""Shares of what was learned: rivals as they were published, RUMBArt as it is installed too."""


def main() -> None:
    """Judge arms until the time is over."""
    given = arguments()
    bench = Bench(given)
    paths = sorted(given.packed.glob("*.json.gz"), key=lambda path: path.stat().st_size)
    wanted = given.sets.split(",") if given.sets else None
    kept = [path for path in paths if wanted is None or path.name.split(".")[0] in wanted]
    begun = [each for path in kept if (each := bench.begin(path)) is not None]
    for arm in filter(None, given.arms.split(",")):
        for collection, material in begun:
            bench.learn(arm, collection, material)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=Path)
    parser.add_argument("out", type=Path)
    for name in ("encoder", "reader", "generator"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sets", default="")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--shares", default="0.5,1")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--passages", type=int, default=1200)
    parser.add_argument("--documents", type=int, default=8000, help="most of a collection")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--held-out", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--expand", type=int, default=0, help="documents up to which doc2query")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Bench:
    """The models, the clock and what was judged so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.began = time.perf_counter()
        self.models = Models(given.encoder, given.reader, given.generator)
        self.settings = Settings(
            steps=given.steps,
            passages=given.passages,
            batch=given.batch,
            held_out=given.held_out,
            seed=given.seed,
        )
        self.rows: list[dict[str, Any]] = []
        self.voices: dict[str, Any] = {}
        self.say("models are loaded")

    def say(self, text: str) -> None:
        """Print with the time."""
        print(f"{time.perf_counter() - self.began:6.1f} s  {text}", flush=True)

    @property
    def content(self) -> dict[str, Any]:
        """All that was judged so far."""
        about = {
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "settings": asdict(self.settings),
        }
        return about | {"rows": self.rows, "voices": self.voices}

    def is_late(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() - self.began > self.given.seconds

    def begin(self, path: Path) -> tuple[Collection, Material] | None:
        """Open a collection, judge the encoder as it is, and prepare what arms are trained on."""
        if self.is_late():
            return None
        given, settings = self.given, self.settings
        collection = Collection(
            path, self.models, most=given.documents, queries=given.queries, seed=given.seed
        )
        self.say(f"{collection.name}: {len(collection.units)} passages are encoded")
        is_small = collection.num_documents <= given.expand
        if is_small:
            settings = replace(settings, passages=len(collection.units))
        written = write(collection, settings)
        self.say(f"{sum(map(len, written.values()))} queries are written")
        before = collection.judge(self.models.encoder, collection.base)
        self.keep(collection, "before", before)
        if is_small:
            self.expand(collection, written)
        material = prepare(collection, written, before.weighing, self.settings)
        self.say(f"{len(material.texts)} queries are kept and read")
        self.hear(collection, material, before)
        return collection, material

    def hear(self, collection: Collection, material: Material, before: Judged) -> None:
        """Keep what several voices say of the test queries' first hits, to be mixed later."""
        test = collection.groups["test"]
        fused, rows, units = collection.first_hits(before.weighing)
        every = torch.arange(len(rows), device=rows.device)[:, None].expand_as(units)
        pairs = torch.stack([every, units, units], 2).reshape(-1, 3)
        parts = (test.texts, collection.title, collection.text)
        adapted = adapt_reader(collection, material, self.settings)
        half: Any = blend(self.models.reader, adapted, share=0.5)  # type: ignore[arg-type]
        voices = {
            "fused": fused,
            "read": self.models.read(parts, pairs).reshape(units.shape),
            "adapted": self.models.read(parts, pairs, adapted).reshape(units.shape),
            "half adapted": self.models.read(parts, pairs, half.eval()).reshape(units.shape),
            "likelihood": self.models.likelihoods(
                test.texts, [collection.title, collection.text], units
            ),
        }
        grades = [
            [own.get(r, 0) for r in ranked]
            for own, ranked in zip(test.grades, rows.tolist(), strict=True)
        ]
        self.voices[collection.name] = {
            name: [[round(x, 3) for x in own] for own in each.tolist()]
            for name, each in voices.items()
        } | {"grades": grades, "ideal": test.ideal, "share": before.weighing.share}
        self.save()

    def learn(self, arm: str, collection: Collection, material: Material) -> None:
        """Train one arm on one collection, and judge it."""
        if self.is_late():
            return
        network = train(arm, collection, material, self.settings)
        shares = self.given.shares.split(",") if arm in REPLAYING else SHARES[arm]
        for share in map(float, shares):
            mixed = network if share == 1 else blend(self.models.encoder, network, share=share)
            self.keep(collection, f"{arm}~{share:g}", collection.judge(mixed.eval()))

    def expand(self, collection: Collection, written: dict[int, list[str]]) -> None:
        """Give documents their pseudo-queries as a field of BM25, with several weights."""
        own: list[list[str]] = [[] for _ in range(collection.num_documents)]
        for unit, texts in written.items():
            own[collection.units[unit][0]] += texts
        test = collection.groups["test"]
        asked = test.lexical.scores
        plain = collection.score_words(test.strings)
        for weight in (0.1, 0.2, 0.3, 0.5):
            collection.bm25.add_field(own, weight=weight)
            more = collection.score_words(test.strings)
            collection.bm25.drop_field()
            test.lexical = Side(asked + more - plain, is_lexical=True)
            judged = collection.judge(self.models.encoder, collection.base)
            self.keep(collection, f"doc2query {weight:g}", judged)
        test.lexical = Side(asked, is_lexical=True)

    def keep(self, collection: Collection, state: str, judged: Judged) -> None:
        """Keep what a state scores, and write everything so far."""
        row = {"set": collection.name, "state": state, "weighing": asdict(judged.weighing)}
        self.rows.append(row | {"documents": collection.num_documents, "quality": judged.quality})
        means = {name: sum(own) / len(own) for name, own in judged.quality.items() if own}
        told = " ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        self.say(f"{collection.name} {state}: {told}")
        self.save()

    def save(self) -> None:
        """Write everything so far."""
        self.given.out.write_text(json.dumps(self.content))


if __name__ == "__main__":
    main()
