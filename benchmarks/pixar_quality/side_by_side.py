"""Take single queries through PIXAR and through the autoregressive control, in turns.

From the text of a query to its documents: PIXAR encodes once, shortlists and scores phrases, and
decodes over the trie; the control encodes once and then writes subword by subword. All networks are
on one device and in fp32; PIXAR's decoding and both aggregations run on the processor, in one
thread. Since each query goes through every system before the next one comes, a slow moment of the
machine hits all.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_quality.run_gpu import AGGREGATIONS, ORDERS, Desk, K, bag_norms
from benchmarks.pixar_quality.shortlist_rivals import JUDGES, encode, fit, head_of
from benchmarks.pixar_quality.trained import latest_checkpoint, restore, start_model
from quoth.jobs.pixar.shortlist import learn_centroids, list_phrases
from quoth.models.pixar.pixar import Pixar
from quoth.models.pixar.shortlist.config import ShortlistConfig
from quoth.models.pixar.shortlist.interface import Shortlist
from quoth.search.generative.aggregate import Owners, aggregate, gather_evidence
from quoth.search.generative.decode.decoder import Decoder
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores
from quoth.training.identifiers.pairs import IdentifierPairs
from quoth.training.recipes.pixar_config import PixarRecipe

if TYPE_CHECKING:
    from benchmarks.pixar_quality.autoregressive import Control

WARM_UP = 10
ENCODE, PIXAR = "encode", "pixar"
_DRAWS = 2000

Answer = Callable[[str], Any]
"""What answers one query, from its text to its documents."""


def time_both(control: Control, given: argparse.Namespace) -> None:
    """Write OUT/autoregressive.<start>.latency.json."""
    folder = given.packed / given.name
    start, pairs = start_model(
        folder, given.vocabulary, encoder=given.encoder, device=control.device
    )
    model = restore(start, latest_checkpoint(given.checkpoint), PixarRecipe())
    desk = Desk.open(folder, pairs, most=given.test_queries, threads=1)
    systems: dict[str, Answer] = {
        ENCODE: lambda text: model.encode_queries([text]),
        **pixar_systems(model, pairs, desk, wanted=given.wanted),
    }
    for width in map(int, given.widths.split(",")):
        systems[f"beam-{width}"] = _writer(control, width)
    times = time_in_turns(systems, desk.texts[: WARM_UP + given.timed])
    content = {
        "queries": len(next(iter(times.values()))),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "wanted": given.wanted,
        "pixar_parameters": sum(each.numel() for each in model.network.parameters())
        + model.head.rows.size,
        "systems": [summarise(name, times) for name in times],
    }
    path = given.out / f"autoregressive.{control.name}.latency.json"
    path.write_text(json.dumps(content))
    print({each["system"]: round(each["mean"], 2) for each in content["systems"]}, flush=True)


def pixar_systems(
    model: Pixar, pairs: IdentifierPairs, desk: Desk, *, wanted: int
) -> dict[str, Answer]:
    """Return PIXAR with its own shortlist, and with all phrases."""
    rows, bias = head_of(model)
    norms = BagNorms(desk.weights, bag_norms(desk.trie, rows, desk.weights))
    decoder = Decoder(desk.trie, ORDERS["bag_cos"], norms=norms)
    shortlist = fit_centroids(model, pairs, wanted=wanted)
    every, biases = np.arange(len(rows), dtype=np.int32), bias.cpu().numpy()

    def answer(ids: NDArray[np.int32], scores: NDArray[np.float32]) -> Owners:
        decoded = decoder.decode([PhraseScores(ids, pooled_scores=scores)])[0]
        evidence = gather_evidence(desk.trie, decoded, scale=1.0)
        return aggregate(evidence, AGGREGATIONS["max"], k=K)

    def with_shortlist(text: str) -> Owners:
        encoded = model.encode_queries([text])
        found = shortlist.shortlist(encoded.pooled[0], encoded.slots[0][:0])  # slots are not used
        return answer(found.phrase_ids, found.pooled_scores - biases[found.phrase_ids])

    def with_all(text: str) -> Owners:
        pooled = torch.from_numpy(model.encode_queries([text]).pooled[0]).to(rows.device)
        return answer(every, (rows @ pooled).cpu().numpy())

    return {PIXAR: with_shortlist, "pixar_full": with_all}


def fit_centroids(model: Pixar, pairs: IdentifierPairs, *, wanted: int) -> Shortlist:
    """Learn PIXAR's centroids, and list as many phrases as make queries keep `wanted` of them."""
    device, config = model.device, ShortlistConfig()
    centroids: Tensor = learn_centroids(model, pairs, config=config, device=device)
    model.network.to(device)
    held_out = pairs.held_out_rows if len(pairs.held_out_rows) else pairs.training_rows
    judges: Samples = encode(model, pairs, held_out[:JUDGES])

    def build(length: int) -> Shortlist:
        return list_phrases(model, centroids, config=replace(config, list_length=length))

    size = model.head.num_phrases
    return fit(build, judges, wanted=wanted, first=max(1, wanted // 5), most=size).shortlist


def time_in_turns(
    systems: Mapping[str, Answer], texts: Sequence[str], *, warm_up: int = WARM_UP
) -> dict[str, NDArray[np.float64]]:
    """Give each text to every system before the next; milliseconds of each, in order."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for text in texts:
        for name, answer in systems.items():
            _wait()
            began = time.perf_counter()
            answer(text)
            _wait()
            times[name].append(1000 * (time.perf_counter() - began))
    return {name: np.array(each[warm_up:]) for name, each in times.items()}


def summarise(name: str, times: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Return the mean of a system, and how many times as long as others it takes."""
    own = times[name]
    return {
        "system": name,
        "mean": float(own.mean()),
        "p50": float(np.median(own)),
        "p99": float(np.percentile(own, 99)),
        "times_encode": ratio(own, times[ENCODE]),
        "times_pixar": ratio(own, times[PIXAR]),
    }


def ratio(
    own: NDArray[np.float64], other: NDArray[np.float64], *, seed: int = 0
) -> dict[str, float]:
    """Divide mean by mean, of the same queries; the interval draws queries again and again.

    >>> ratio(np.array([4.0, 6.0]), np.array([1.0, 1.5]))
    {'mean': 4.0, 'low': 4.0, 'high': 4.0}
    """
    drawn = np.random.default_rng(seed).integers(0, len(own), (_DRAWS, len(own)))
    ratios = own[drawn].mean(axis=1) / other[drawn].mean(axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5)).tolist()
    return {"mean": float(own.mean() / other.mean()), "low": low, "high": high}


def _writer(control: Control, width: int) -> Answer:
    from benchmarks.pixar_quality.autoregressive import rank

    def answer(text: str) -> Owners:
        written = control.write([text], width=width)[0]
        return rank(control.desk.trie, written.rows, written.scores, AGGREGATIONS["max"])

    return answer


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
