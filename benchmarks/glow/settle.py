"""Train GLOW as the paper has it, far longer, with weights in its regime: the one that settles it.

    python -m benchmarks.glow.texts
    python3 -m benchmarks.glow.settle prepare --encoder FOLDER --generator FOLDER --to FOLDER
    python3 -m benchmarks.glow.settle train --encoder FOLDER --from FOLDER --out FILE
    python -m benchmarks.glow.report FILE …

Three fields: title, text, and three queries that the generator wrote for the document, as clicked
queries are in the paper; other queries that it wrote for the same passage are trained on. Inputs
and weights are those of the product (`GlowInputs`), with N = 31 times the documents and the mean
length of the training queries. Two towers of three layers, those numbered 0, 2 and 5 of the
encoder's; the paper's loss. `prepare` needs the stemmer beside torch and tokenizers.

`train --whole --loss info_nce --towers shared` trains all layers instead, as `quoth learn` would
if it started from GLOW.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.glow import run_gpu
from benchmarks.glow.run_gpu import Judged, Variant, describe, judge_untrained, train_and_judge
from benchmarks.glow.texts import OUT as TEXTS
from benchmarks.glow.writing import NUM_FIELD_QUERIES, NUM_TRAINED, write_all
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import load_base
from quoth.models.glow.inputs import GlowInputs, SubwordSequence
from quoth.models.glow.network import keep_layers
from quoth.models.pretrained import load_tokenizer
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.retriever.training_set import TrainingSet
from quoth.training.sequences import SequenceTable, find_offsets
from quoth.vocabulary.counting import CountedTerms
from quoth.vocabulary.term_counts import EVERYTHING

FIELDS = ("title", "text", "queries")
WEIGHTINGS = ("none", "row", "add_log")
LAYERS = (0, 2, 5)  # spread: after the lowest three, [CLS] of MiniLM hardly tells texts apart
_BLOCK = 500

Document = dict[str, list[str]]
Arrays = dict[str, NDArray[Any]]


def main() -> None:
    """Prepare, or train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    prepared = commands.add_parser("prepare")
    prepared.add_argument("--texts", type=Path, default=TEXTS)
    prepared.add_argument("--encoder", type=Path, required=True)
    prepared.add_argument("--generator", type=Path, required=True)
    prepared.add_argument("--to", type=Path, required=True)
    prepared.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    prepared.add_argument("--writers", type=int, default=1, help="processes that write queries")
    prepared.add_argument("--write-seconds", type=float, default=240.0, help="for training queries")
    trained = commands.add_parser("train")
    trained.add_argument("--encoder", type=Path, required=True)
    trained.add_argument("--from", dest="folder", type=Path, required=True)
    trained.add_argument("--weightings", default=",".join(WEIGHTINGS))
    trained.add_argument("--whole", action="store_true", help="all layers, as `learn` starts from")
    run_gpu.add_arguments(trained)
    trained.set_defaults(steps=4_500, loss="bce", towers="separate")
    given = parser.parse_args()
    if given.command == "prepare":
        prepare(given)
    else:
        given.layout, given.idf = "fields", "scaled"
        given.layers = "all" if given.whole else ",".join(map(str, LAYERS))
        train(given, time.perf_counter() + 60 * given.minutes)


# ------------------------------------------------------------------------------------- preparing
def prepare(given: argparse.Namespace) -> None:
    """Write queries, count words, and lay everything out."""
    content = json.loads(lzma.decompress(given.texts.read_bytes()))
    given.to.mkdir(parents=True, exist_ok=True)
    passages, sets = content["passages"], content["sets"]
    began = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    of_sets, written = write_all(sets, passages, given, context)
    seconds = time.perf_counter() - began
    count = sum(map(len, written)) + sum(len(own) for each in of_sets for own in each)
    print(
        f"{count:,} queries written in {seconds:.0f} s, {count / seconds:,.0f} a second", flush=True
    )
    start = (str(given.encoder),)
    with ProcessPoolExecutor(given.processes, context, _start, start) as pool:
        facts = lay_out_training(passages[: len(written)], written, given.to, pool)
        facts["sets"] = [
            lay_out_set(own, each, given.to, pool, query_length=facts["query_length"])
            for own, each in zip(sets, of_sets, strict=True)
        ]
    (given.to / "facts.json").write_text(json.dumps(facts))
    print(f"laid out in {time.perf_counter() - began - seconds:.0f} s", flush=True)


def lay_out_training(
    passages: Sequence[Sequence[str]],
    written: Sequence[Sequence[str]],
    folder: Path,
    pool: ProcessPoolExecutor,
) -> dict[str, Any]:
    """Lay out passages with their queries as a field, and the pairs to train on."""
    documents = [
        as_document(row[0], row[1], own) for row, own in zip(passages, written, strict=True)
    ]
    queries: dict[str, int] = {}
    pairs = [
        (queries.setdefault(query, len(queries)), at)
        for at, (row, own) in enumerate(zip(passages, written, strict=True))
        for query in trained_queries(row[2], own)
    ]
    counts = count_words(documents, pool)
    query_length = float(np.mean(list(pool.map(_count_words, queries, chunksize=5_000))))
    config = weighted(query_length)
    arrays = lay_out("documents", documents, config, counts, pool)
    arrays |= lay_out("queries", list(queries), config, counts, pool)
    arrays["pairs"] = np.array(pairs, dtype=np.int64)
    np.savez(folder / "train.npz", **arrays)  # type: ignore[arg-type]
    facts = {
        "pairs": len(pairs),
        "passages": len(passages),
        "queries": len(queries),
        "natural": sum(bool(row[2]) for row in passages),
        "query_length": query_length,
        "mean_weight": mean_weights(arrays),
    }
    print(facts, flush=True)
    return facts


def lay_out_set(
    chosen: dict[str, Any],
    written: Sequence[Sequence[str]],
    folder: Path,
    pool: ProcessPoolExecutor,
    *,
    query_length: float,
) -> dict[str, Any]:
    """Lay out a set that is judged, by its own statistics."""
    rows = chosen["documents"]
    documents = [as_document(*row, own) for row, own in zip(rows, written, strict=True)]
    counts, config = count_words(documents, pool), weighted(query_length)
    arrays = lay_out("documents", documents, config, counts, pool)
    arrays |= lay_out("queries", [text for _qid, text in chosen["queries"]], config, counts, pool)
    arrays["judged"] = np.array(chosen["judged"], dtype=np.int64)
    np.savez(folder / f"{chosen['name']}.npz", **arrays)  # type: ignore[arg-type]
    return {
        "name": chosen["name"],
        "documents": len(documents),
        "queries": [qid for qid, _text in chosen["queries"]],
        "mean_weight": mean_weights(arrays),
    }


def as_document(title: str, text: str, written: Sequence[str]) -> Document:
    """Name the fields of a document; of what was written, the first few stand in it."""
    return {"title": [title], "text": [text], "queries": list(written[:NUM_FIELD_QUERIES])}


def trained_queries(natural: str, written: Sequence[str]) -> list[str]:
    """Return what is trained on: the natural query, and what was written and is no field.

    >>> trained_queries("barn owls", ["a", "b", "c", "d", "e", "f", "g"])
    ['barn owls', 'd', 'e', 'f']
    """
    own = [natural] if natural else []
    return (own + list(written[NUM_FIELD_QUERIES:]))[:NUM_TRAINED]


def weighted(query_length: float) -> GlowConfig:
    """Say how sequences are made; weights do not depend on how they act."""
    return GlowConfig(
        weighting="row",
        layout="fields",
        fields=FIELDS,
        field_caps={"title": 20, "text": 72, "queries": 36},
        idf="scaled",
        query_length=query_length,
        max_subwords=132,
        max_query_subwords=32,
    )


def count_words(documents: Sequence[Document], pool: ProcessPoolExecutor) -> CountedTerms:
    """Count the words of documents, all fields together and each by itself."""
    frequencies: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for own, each in pool.map(_count_block, _blocks(documents)):
        frequencies.update(own)
        lengths.update(each)
    return CountedTerms(len(documents), {EVERYTHING: frequencies}, lengths)


def lay_out(
    side: str,
    texts: Sequence[Any],
    config: GlowConfig,
    counts: CountedTerms,
    pool: ProcessPoolExecutor,
) -> Arrays:
    """Turn texts into subwords, fields and weights, end to end."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(counts))
        file.flush()
        tasks = [(side, block, config, file.name) for block in _blocks(texts)]
        found = list(pool.map(_lay_out_block, tasks))
    names = ("ids", "field_ids", "weights", "lengths")
    joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    return {f"{side}.{name}": array for name, array in zip(names, joined, strict=True)}


def mean_weights(arrays: Arrays) -> dict[str, float]:
    """Return the mean weight of words; special subwords weigh one and count as well."""
    return {
        side: round(float(arrays[f"{side}.weights"].mean(dtype=np.float64)), 3)
        for side in ("queries", "documents")
    }


_tools: dict[str, Any] = {}


def _start(encoder: str) -> None:
    """Load what every process needs, once."""
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _tools["tokenizer"] = load_tokenizer(Path(encoder))
    _tools["analyser"] = Analyser(AnalyserConfig())


def _count_words(text: str) -> int:
    return sum(1 for _word in _tools["analyser"].words(text))


def _count_block(documents: Sequence[Document]) -> tuple[Counter[str], Counter[str]]:
    frequencies: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for document in documents:
        terms: set[str] = set()
        for name, texts in document.items():
            own = list(_tools["analyser"].terms(" ".join(texts)))
            lengths[name] += len(own)
            terms.update(own)
        frequencies.update(terms)
    return frequencies, lengths


def _lay_out_block(task: tuple[str, Sequence[Any], GlowConfig, str]) -> Any:
    side, texts, config, path = task
    if _tools.get("counted") != path:  # once per collection and side, not once per block
        _tools["counted"], _tools["counts"] = path, pickle.loads(Path(path).read_bytes())
    counts: CountedTerms = _tools["counts"]
    inputs = GlowInputs(_tools["tokenizer"], config, analyser=_tools["analyser"])
    make: Callable[..., list[SubwordSequence]] = getattr(inputs, side)
    found = make(texts, counts)
    return (
        np.array([i for each in found for i in each.subword_ids], dtype=np.uint16),
        np.array([i for each in found for i in each.field_ids], dtype=np.uint8),
        np.array([w for each in found for w in each.weights], dtype=np.float16),
        np.array([len(each.subword_ids) for each in found], dtype=np.int64),
    )


def _blocks(texts: Sequence[Any]) -> list[Sequence[Any]]:
    return [texts[at : at + _BLOCK] for at in range(0, len(texts), _BLOCK)]


# -------------------------------------------------------------------------------------- training
class Prepared:
    """What `prepare` wrote, on the device, with weights or without."""

    def __init__(self, folder: Path, device: torch.device, *, tiny: bool) -> None:
        self.facts = json.loads((folder / "facts.json").read_text())
        if tiny:
            self.facts["sets"] = self.facts["sets"][:2]
        self._folder, self._device, self._tiny = folder, device, tiny
        self._made: dict[bool, tuple[TrainingSet, list[Judged]]] = {}

    def get(self, config: GlowConfig) -> tuple[TrainingSet, list[Judged]]:
        """Return the training set and the sets to judge by."""
        is_weighted = config.weighting != "none"
        if is_weighted not in self._made:
            self._made[is_weighted] = (
                self._training(is_weighted),
                [self._judged(about["name"], is_weighted) for about in self.facts["sets"]],
            )
        return self._made[is_weighted]

    def _training(self, is_weighted: bool) -> TrainingSet:
        arrays = np.load(self._folder / "train.npz")
        pairs = arrays["pairs"][:200] if self._tiny else arrays["pairs"]
        return TrainingSet(
            self._table(arrays, "queries", is_weighted),
            self._table(arrays, "documents", is_weighted),
            pairs[:, 0].copy(),
            pairs[:, 1].copy(),
            np.zeros(len(pairs), dtype=np.uint8),
        )

    def _judged(self, name: str, is_weighted: bool) -> Judged:
        arrays = np.load(self._folder / f"{name}.npz")
        queries = self._table(arrays, "queries", is_weighted)
        documents = self._table(arrays, "documents", is_weighted)
        query, row, grade = torch.from_numpy(arrays["judged"]).T
        grades = torch.zeros(len(queries), len(documents))
        grades[query, row] = grade.float()
        return Judged(name, queries, documents, grades.to(self._device))

    def _table(self, arrays: Any, side: str, is_weighted: bool) -> SequenceTable:
        return SequenceTable.from_arrays(
            arrays[f"{side}.ids"],
            find_offsets(arrays[f"{side}.lengths"]),
            field_ids=arrays[f"{side}.field_ids"],
            weights=arrays[f"{side}.weights"] if is_weighted else None,
        ).to(self._device)


def train(given: argparse.Namespace, deadline: float) -> None:
    """Train and judge one weighting after the other, seed by seed, until the deadline nears."""
    device = torch.device("cuda" if torch.cuda.is_available() and not given.tiny else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    data: Any = Prepared(given.folder, device, tiny=given.tiny)
    base = load_base(str(given.encoder))
    if not given.whole:
        keep_layers(base, len(LAYERS), spread=True)
    out = describe(given, data, device)
    out["facts"] = {key: value for key, value in data.facts.items() if key != "sets"}
    plain = GlowConfig(layout="fields")
    out["runs"].append(judge_untrained(base, data, given, device, config=plain))
    longest = 0.0
    for seed in map(int, given.seeds.split(",")):
        for weighting in given.weightings.split(","):
            if time.perf_counter() + 1.1 * longest > deadline:
                print("out of time: stopping", flush=True)
                return
            one = time.perf_counter()
            config = GlowConfig(layout="fields", weighting=weighting)
            variant = Variant(weighting, config)
            out["runs"].append(train_and_judge(base, data, given, variant, seed, device))
            longest = max(longest, time.perf_counter() - one)
            run_gpu.write(given.out, out)


if __name__ == "__main__":
    main()
