"""Judge a reader as a reranker: what the hybrid finds, put into a new order by its relevance.

    python -m benchmarks.reader.rerank pack OUT [--data ../shared/data/ir]           # here
    python3 -m benchmarks.reader.rerank search PACKED FOUND --encoder FOLDER
    python3 -m benchmarks.reader.rerank read FOUND OUT.npz --encoder FOLDER --reader FOLDER
    python -m benchmarks.reader.rerank table OUT.npz [--width 16]                     # here
    python -m benchmarks.reader.rerank results HELD-OUT.npz OUT.npz RESULTS.json

`pack` keeps, of each development collection, its passages, up to so many judged queries, and what
BM25 finds for them. `search`, on a machine with an accelerator, encodes the passages and fuses both
as the product does (with the weights and ranges in `benchmarks/hybrid/results/quality.json`);
`read` reads the nearest passage of each of the first 50 documents. `table` mixes: score = share ·
relevance + (1 − share) · fused, both from 0 to 1 over the documents that are read, or relevance
in units of its usual range and fused scores as they are.
Of squad-train-slice, which readers are trained on, only held-out questions are asked.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.reader.mixing import READ, Read, print_table, save_read, write_results
from quoth.models.batching import batches_by_length
from quoth.models.pretrained import load_tokenizer
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork, SequenceBatch
from quoth.records import Document, Hit, Run
from quoth.search.hybrid.fusion import UsualRanges, convex
from quoth.text.passages import PassageConfig, cut_document

MAX_QUERIES, FOUND = 200, 100
BUDGET = 262_144  # subwords of a batch
CALIBRATED = Path("benchmarks/hybrid/results/quality.json")


def main() -> None:
    """Pack, read, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("pack", "search", "read", "table", "results"))
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--reader", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--width", type=float, default=0.0, help="usual range of the relevance")
    given = parser.parse_args()
    if given.what == "pack":
        pack(given.data, given.paths[0], given.sets.split(",") if given.sets else [])
    elif given.what == "table":
        print_table(given.paths[0], width=given.width)
    elif given.what == "results":
        write_results(*given.paths)
    else:
        {"search": search, "read": read}[given.what](given)


# --- here: what is searched ----------------------------------------------------------------------


def pack(data: Path, out: Path, names: Sequence[str]) -> None:
    """Write each collection's documents as they are, its queries, judgements and calibration."""
    out.mkdir(parents=True, exist_ok=True)
    rows = json.loads(CALIBRATED.read_text())["rows"]
    calibrations = {row["set"]: row["calibration"] for row in rows}
    for name in names or sorted(calibrations):
        queries = search_set(data / name)
        kept = {key: calibrations[name][key] for key in ("weights", "ranges", "config")}
        content = json.dumps({"calibration": kept, "queries": queries}, ensure_ascii=False)
        (out / f"{name}.json.gz").write_bytes(gzip.compress(content.encode()))
        (out / f"{name}.corpus.gz").write_bytes((data / name / "corpus.jsonl.gz").read_bytes())
        print(f"{name}: {len(queries)} queries", flush=True)


def search_set(folder: Path) -> list[dict[str, Any]]:
    """Search a collection by BM25 for a sample of its judged queries."""
    from benchmarks.lexical.quality import read as read_documents
    from quoth.engine.engine import Engine

    documents = list(read_documents(folder))
    asked = sample_queries(folder, documents)
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(documents)
        found = engine.run([query for query, _grades in asked], k=FOUND, searcher="lexical").hits
    return [
        {
            "text": query.text,
            "lexical": [[hit.docid, round(hit.score, 5)] for hit in found[query.qid]],
            "grades": dict(grades),
        }
        for query, grades in asked
    ]


def sample_queries(folder: Path, documents: Sequence[Any]) -> list[Any]:
    """Draw judged queries of the first test split, or of both years of msmarco."""
    from benchmarks.lexical.quality import splits
    from benchmarks.reader.pack import is_held_out
    from quoth.evaluation.files import read_queries

    found = list(splits(folder))
    grades: dict[str, Mapping[str, int]] = {}
    for _split, qrels in found if folder.name.startswith("msmarco") else found[:1]:
        grades |= qrels.grades
    if folder.name == "squad-train-slice":
        texts = {each.docid: " ".join(each.fields["text"]) for each in documents}
        grades = {
            qid: own
            for qid, own in grades.items()
            if all(is_held_out(texts[docid], texts[docid]) for docid in own)
        }
    judged = [
        (q, grades[q.qid]) for q in read_queries(folder / "queries.jsonl.gz") if q.qid in grades
    ]
    return judged if len(judged) <= MAX_QUERIES else random.Random(0).sample(judged, MAX_QUERIES)


# --- there: reading ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """What the hybrid finds for the queries of a collection, ready to be read."""

    name: str
    fused: NDArray[np.float32]  # (Q, READ), NaN where fewer were found
    grades: NDArray[np.int16]  # (Q, READ)
    ideal: NDArray[np.float64]  # (Q,)
    sequences: list[Any]
    """What is read, query by query."""

    @staticmethod
    def empty(name: str, ideal: Sequence[float]) -> Candidates:
        """Return room for so many queries."""
        size = (len(ideal), READ)
        fused, grades = np.full(size, np.nan, np.float32), np.zeros(size, np.int16)
        return Candidates(name, fused, grades, np.array(ideal), [])


Units = tuple[list[str], list[tuple[int, dict[str, list[str]]]]]
"""The ids of documents, and their passages, each with its document's row."""


def search(given: argparse.Namespace) -> None:
    """Search all packed collections, and keep what was found, ready to be read."""
    from benchmarks.reader.pack import spread
    from quoth.models.glow.encoder import GlowEncoder

    paths = sorted(given.paths[0].glob("*.json.gz"))
    cut = spread(lambda at: read_units(paths[at]), len(paths), given.processes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = GlowEncoder.load(str(given.encoder), fast=False)
    inputs = ReaderInputs(load_tokenizer(given.encoder), ReaderConfig())
    found = [
        find_candidates(path, parts, encoder, inputs, device)
        for path, parts in zip(paths, cut, strict=True)
    ]
    given.paths[1].write_bytes(pickle.dumps(found))


def read(given: argparse.Namespace) -> None:
    """Read what was found with one reader."""
    from benchmarks.reader.train_gpu import open_network

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, _inputs = open_network(given.encoder, given.reader)
    found = pickle.loads(given.paths[0].read_bytes())
    save_read(given.paths[1], {each.name: read_candidates(network, each, device) for each in found})
    print_table(given.paths[1])


def find_candidates(
    path: Path, parts: Units, encoder: Any, inputs: ReaderInputs, device: torch.device
) -> Candidates:
    """Search a packed collection as the product does."""
    from benchmarks.hybrid.encode import encode

    content = json.loads(gzip.decompress(path.read_bytes()))
    queries = content["queries"]
    docids, units = parts
    encoder.network.float().to(device)
    vectors = torch.from_numpy(encode(encoder, [fields for _row, fields in units], device))
    asked = encoder.inputs.queries([each["text"] for each in queries], None)
    with torch.inference_mode():
        own = encoder.network.encode_queries(encoder.inputs.pad(asked).to(device)).float()
        cosines = own @ vectors.to(device).T  # (Q, U)
    rows = torch.tensor([row for row, _fields in units], device=device).expand_as(cosines)
    best = torch.full((len(queries), len(docids)), -2.0, device=device)
    best.scatter_reduce_(1, rows, cosines, "amax")
    scores, found = (each.cpu() for each in best.topk(min(FOUND, best.shape[1]), dim=1))
    dense = [
        [(docids[row], score) for row, score in zip(*each, strict=True)]
        for each in zip(found.tolist(), scores.tolist(), strict=True)
    ]
    runs = fuse(content["calibration"], [each["lexical"] for each in queries], dense)
    nearest = nearest_units(docids, units, cosines.cpu().numpy())
    candidates = Candidates.empty(path.name.split(".")[0], [ideal_dcg(each) for each in queries])
    for at, (query, hits) in enumerate(zip(queries, runs, strict=True)):
        for rank, hit in enumerate(hits):
            candidates.fused[at, rank] = hit.score
            candidates.grades[at, rank] = query["grades"].get(hit.docid, 0)
        texts = [units[nearest(at, hit.docid)][1] for hit in hits]
        candidates.sequences.extend(_join(query["text"], texts, inputs))
    return candidates


def read_units(path: Path) -> Units:
    """Cut the documents of a collection into what gets a vector, as the product does."""
    docids, units = [], []
    corpus = path.with_name(path.name.replace(".json.", ".corpus."))
    with gzip.open(corpus, "rt", encoding="utf-8") as stream:
        for row, content in enumerate(map(json.loads, stream)):
            docids.append(str(content["_id"]))
            kept = {name: (str(content[name]),) for name in ("title", "text") if content.get(name)}
            cut = cut_document(Document(docids[-1], kept), PassageConfig())
            body = [each.text for each in cut if each.field == "text"]
            fields = {name: list(texts) for name, texts in kept.items()}
            units += [(row, {**fields, "text": [text]}) for text in body] or [(row, fields)]
    return docids, units


def nearest_units(
    docids: Sequence[str], units: Sequence[tuple[int, Any]], cosines: NDArray[Any]
) -> Callable[[int, str], int]:
    """Return what finds, for a query, the unit of a document that is nearest."""
    table: dict[str, list[int]] = {}
    for at, (row, _fields) in enumerate(units):
        table.setdefault(docids[row], []).append(at)
    return lambda query, docid: max(table[docid], key=lambda unit: cosines[query, unit])


Found = Sequence[Sequence[tuple[str, float]]]
"""Documents with their scores, for each query."""


def fuse(calibration: Mapping[str, Any], lexical: Found, dense: Found) -> list[tuple[Hit, ...]]:
    """Fuse what BM25 and the vectors found as a calibration says."""
    widths = calibration["ranges"]
    ranges = UsualRanges(calibration["config"]["depth"], widths) if widths else None
    runs = [
        Run(name, {str(at): tuple(Hit(*hit) for hit in own) for at, own in enumerate(found)})
        for name, found in (("lexical", lexical), ("dense", dense))
    ]
    run = convex(runs, weights=calibration["weights"], normalise="range", ranges=ranges, k=READ)
    return [run.hits[str(at)] for at in range(len(lexical))]


def ideal_dcg(query: Mapping[str, Any]) -> float:
    """Return the DCG at 10 of the best order that there is."""
    grades = sorted(query["grades"].values(), reverse=True)[:10]
    return float(sum(max(grade, 0) / np.log2(2 + at) for at, grade in enumerate(grades)))


def _join(query: str, texts: Sequence[Mapping[str, Any]], inputs: ReaderInputs) -> Iterator[Any]:
    """Return what is read of each passage: as much as fits, with its title."""
    names = ("title", "text")
    asked, *parts = (
        ids
        for ids, _spans in inputs.tokenise(
            [query, *(" ".join(each.get(name, ())) for each in texts for name in names)]
        )
    )
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        yield inputs.join(asked, title, text) if len(text) else inputs.join(asked, text, title)


@torch.inference_mode()
def read_candidates(network: ReaderNetwork, found: Candidates, device: torch.device) -> Read:
    """Score what was found."""
    network = network.eval().to(device)
    lengths = [len(each.subword_ids) for each in found.sequences]
    scores = np.zeros((len(lengths), 2), np.float32)
    budget = BUDGET if device.type == "cuda" else 4_096
    for rows in batches_by_length(lengths, budget=budget):
        batch = pad_sequences([found.sequences[row] for row in rows], device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            own = network(batch)
        inside = batch.field_ids.bool() & batch.mask
        starts, ends = (each.masked_fill(~inside, -1e4) for each in (own.starts, own.ends))
        margin = starts.amax(1) + ends.amax(1) - own.starts[:, 0] - own.ends[:, 0]
        scores[rows] = torch.stack([own.relevance, margin], dim=1).float().cpu().numpy()
    exists = ~np.isnan(found.fused)
    relevance, margins = (np.full(found.fused.shape, np.nan, np.float32) for _ in range(2))
    relevance[exists], margins[exists] = scores.T
    return {
        "fused": found.fused,
        "relevance": relevance,
        "margins": margins,
        "grades": found.grades,
        "ideal": found.ideal,
    }


def pad_sequences(sequences: Sequence[Any], device: torch.device) -> SequenceBatch:
    """Put sequences of subwords into one batch."""
    longest = max(len(each.subword_ids) for each in sequences)
    ids, fields = (np.zeros((len(sequences), longest), np.int64) for _ in range(2))
    mask = np.zeros((len(sequences), longest), bool)
    for at, each in enumerate(sequences):
        ids[at, : len(each.subword_ids)] = each.subword_ids
        fields[at, each.second : len(each.subword_ids)] = 1
        mask[at, : len(each.subword_ids)] = True
    return SequenceBatch(*(torch.from_numpy(each).to(device) for each in (ids, fields, mask)))


if __name__ == "__main__":
    main()
