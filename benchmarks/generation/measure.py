"""Continue prefixes with every system, by the same code, and time them in turns.

    python3 -m benchmarks.generation.measure --base FOLDER --prompts A.bin,B.bin --out OUT \\
        [--plain FOLDER] [--mwt FOLDER] [--arm quoth=FOLDER …] [--knn] [--growth quoth] [--limit 3]

Systems: *base* is the untouched language model, *tuned* the one fine-tuned without phrases, *mwt*
has 10,000 static phrases (`baselines`), *knn* the base with a datastore of the retrieved documents;
an arm is a dynamic language model with the phrases of the retrieved documents. An arm that was
trained to read phrases written out is the output-only system. Growth repeats an arm with 70 % of
the phrases, and with 70 % and 5 % more every ten tokens.

Writes OUT/continuations.jsonl.gz, which `report` judges, and OUT/facts.json: latency one text at a
time, systems in turns, with and without encoding phrases; and perplexity of the references under
every system's model with no phrases. Needs torch, transformers, tokenizers and safetensors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import torch
from torch import Tensor

from benchmarks.generation.baselines import (
    MODEL_FOLDER,
    StaticPhrases,
    make_datastore,
    open_static,
)
from benchmarks.generation.decoding import (
    Adjust,
    Continuation,
    Method,
    Offer,
    decode,
    encode,
    find_phrases,
    make_offer,
)
from benchmarks.generation.prompts import CONTINUATION, PromptSet, open_prompts
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm

GROWTHS = {"70": (0.7, 0.0), "70+5": (0.7, 0.05)}


@dataclass(frozen=True)
class System:
    """A model, and what it is offered beside subwords."""

    name: str
    model: DynamicLM
    offers: str  # nothing, static, documents, datastore
    static: StaticPhrases | None = None
    first_share: float = 1.0
    growth_share: float = 0.0
    bonus: float = 0.0

    def prepare(
        self, prompts: PromptSet, rows: Sequence[int]
    ) -> tuple[Offer | None, Adjust | None]:
        """Make what a batch is offered."""
        device = self.model.device
        if self.static is not None:
            return self.static.offer(len(rows)), None
        if self.offers == "datastore":
            texts = [prompts.own_documents(row) for row in rows]
            return None, make_datastore(self.model.network, texts, device=device).adjust()
        if self.offers == "documents":
            found = [find_phrases(prompts.own_documents(row), seed=row) for row in rows]
            encoded = [encode(self.model.network, each, device=device) for each in found]
            return make_offer(list(zip(found, encoded, strict=True)), device=device), None
        return None, None

    def write(
        self,
        prefixes: Tensor,
        method: Method,
        prepared: tuple[Offer | None, Adjust | None],
    ) -> list[Continuation]:
        """Continue a batch."""
        inputs = self.model.inputs
        own = replace(
            method,
            first_share=self.first_share,
            growth_share=self.growth_share,
            bonus=self.bonus,
            unfold=self.model.config.phrase_input == "unfold",
        )
        opening = torch.tensor([inputs.opening] * len(prefixes), dtype=torch.long)
        return decode(
            self.model.network,
            torch.cat([opening.to(prefixes.device), prefixes], dim=1),
            method=own,
            num_subwords=CONTINUATION,
            offer=prepared[0],
            forbidden_ids=sorted(inputs.special_ids),
            adjust=prepared[1],
        )


def main() -> None:
    """Generate, time, write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    systems = make_systems(given, device)
    facts: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "dtype": given.dtype,
        "latency": {},
        "plain_perplexity": {},
        "phrases_per_prompt": {},
    }
    with gzip.open(given.out / "continuations.jsonl.gz", "wt") as stream:
        for path in given.prompts.split(","):
            prompts = open_prompts(Path(path))
            if given.documents:
                kept = prompts.document_rows[:, : given.documents]
                prompts = replace(prompts, document_rows=kept)
            rows = list(range(min(len(prompts), given.limit or len(prompts))))
            for record in continue_all(systems, prompts, rows, given):
                stream.write(json.dumps(record) + "\n")
            facts["plain_perplexity"][prompts.domain] = {
                system.name: plain_perplexity(system.model, prompts, rows, batch=given.batch)
                for system in systems
                if not system.growth_share and system.first_share == 1.0
            }
            facts["phrases_per_prompt"][prompts.domain] = fmean(
                len(find_phrases(prompts.own_documents(row)).at) for row in rows[:50]
            )
            timed = rows[: given.timed]
            facts["latency"][prompts.domain] = time_systems(systems, prompts, timed)
            (given.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--prompts", required=True, help="files that prompts.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--plain", type=Path, help="what train_gpu.py or baselines.py wrote without phrases"
    )
    parser.add_argument("--mwt", type=Path, help="folder that baselines.py wrote")
    parser.add_argument("--arm", action="append", default=[], help="name=folder")
    parser.add_argument("--knn", action="store_true")
    parser.add_argument("--growth", default="", help="arm to repeat with growing vocabularies")
    parser.add_argument(
        "--bonuses", default="", help="repeat arms with these added to phrases' scores"
    )
    parser.add_argument("--no-base", action="store_true", help="leave the untouched model out")
    parser.add_argument("--methods", default="greedy,nucleus")
    parser.add_argument("--limit", type=int, default=0, help="prompts of each file; 0 for all")
    parser.add_argument("--documents", type=int, default=0, help="of each prompt; 0 for all")
    parser.add_argument("--timed", type=int, default=20, help="prompts timed one at a time")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def make_systems(given: argparse.Namespace, device: torch.device) -> list[System]:
    """Open the models, each once."""
    dtype = getattr(torch, given.dtype)
    systems = []
    if not given.no_base or given.knn:
        config = DynamicLMConfig(template="plain")
        base = DynamicLM.start(given.base, config=config, device=device, dtype=dtype)
        base.network.merge()
        if not given.no_base:
            systems.append(System("base", base, "nothing"))
        if given.knn:
            systems.append(System("knn", base, "datastore"))
    if given.plain:
        systems.append(System("tuned", _open(given.plain, given, device), "nothing"))
    if given.mwt:
        model = _open(given.mwt, given, device)
        static = open_static(given.mwt, device=device, dtype=dtype)
        systems.append(System("mwt", model, "static", static))
    for arm in given.arm:
        name, _, folder = arm.partition("=")
        system = System(name, _open(Path(folder), given, device), "documents")
        systems.append(system)
        systems += [
            replace(system, name=f"{name} +{bonus}", bonus=float(bonus))
            for bonus in given.bonuses.split(",")
            if bonus
        ]
        if name == given.growth:
            for label, (first, growth) in GROWTHS.items():
                systems.append(
                    replace(system, name=f"{name} {label}", first_share=first, growth_share=growth)
                )
    return systems


def _open(folder: Path, given: argparse.Namespace, device: torch.device) -> DynamicLM:
    inner = folder / MODEL_FOLDER  # where baselines.py puts it
    model = open_dynamic_lm(
        inner if inner.is_dir() else folder,
        base=given.base,
        device=device,
        dtype=getattr(torch, given.dtype),
    )
    model.network.merge()
    return model


def continue_all(
    systems: Sequence[System], prompts: PromptSet, rows: Sequence[int], given: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield a record for every continuation; what one model is offered is made once."""
    for _model, group in groupby(systems, key=lambda each: (id(each.model), each.offers)):
        alike = list(group)
        began = time.perf_counter()
        for start in range(0, len(rows), given.batch):
            own = rows[start : start + given.batch]
            prefixes = torch.from_numpy(prompts.prefixes[own]).to(alike[0].model.device)
            prepared = alike[0].prepare(prompts, own)
            for system, name in product(alike, given.methods.split(",")):
                method = Method(name, seed=given.seed + start)
                written = system.write(prefixes, method, prepared)
                for row, each in zip(own, written, strict=True):
                    yield {
                        "domain": prompts.domain,
                        "system": system.name,
                        "method": name,
                        "row": row,
                        "ids": each.subword_ids,
                        "units": each.unit_lengths,
                    }
        names = ", ".join(system.name for system in alike)
        seconds = time.perf_counter() - began
        print(f"{prompts.domain} {names}: {len(rows)} prompts, {seconds:.1f} s", flush=True)


@torch.inference_mode()
def plain_perplexity(
    model: DynamicLM, prompts: PromptSet, rows: Sequence[int], *, batch: int
) -> float:
    """Measure the references, given their prefixes, without any phrases; over all subwords."""
    network, device = model.network, model.device
    total, count = 0.0, 0
    for start in range(0, len(rows), batch):
        own = rows[start : start + batch]
        references = torch.from_numpy(prompts.references[own]).to(device)
        prefixes = torch.from_numpy(prompts.prefixes[own]).to(device)
        ids = torch.cat([prefixes, references], dim=1)
        none = torch.zeros(0, network.phrase_width, device=device)
        embedded = network.embed(ids, phrase_vectors=none)
        states = network.states(embedded, mask=torch.ones_like(ids, dtype=torch.bool))
        before = states[:, prefixes.shape[1] - 1 : -1]
        logs = network.subword_scores(before).float().log_softmax(-1)
        total += float(logs.gather(2, references[..., None]).double().sum())
        count += references.numel()
    return math.exp(-total / count)


def time_systems(
    systems: Sequence[System], prompts: PromptSet, rows: Sequence[int]
) -> dict[str, Any]:
    """Time greedy continuations one at a time, the systems in turns; the first prompt warms up."""
    seconds: dict[str, list[tuple[float, float]]] = {system.name: [] for system in systems}
    for row in [*rows[:1], *rows]:
        for system in systems:
            prefix = torch.from_numpy(prompts.prefixes[[row]]).to(system.model.device)
            began = _now()
            prepared = system.prepare(prompts, [row])
            ready = _now()
            system.write(prefix, Method(), prepared)
            seconds[system.name].append((ready - began, _now() - ready))
    return {
        name: {
            "prompts": len(rows),
            "prepare_median": median(first for first, _second in own[1:]),
            "decode_median": median(second for _first, second in own[1:]),
            "decode_mean": fmean(second for _first, second in own[1:]),
        }
        for name, own in seconds.items()
        if len(own) > 1
    }


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
