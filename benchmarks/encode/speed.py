"""Passages per second of Quoth's encoder beside sentence-transformers' default, in one run.

    python -m benchmarks.encode.speed [--passages 2000] [--documents 0]

Both encode the same real passages (scifact and squad-dev, title and text, at most 256 subwords)
with the same weights on the same threads, in turns: a chunk by one, the same chunk by the other,
who goes first alternating. The ratio is the median over chunks, so that a slow minute of the
machine hits both. sentence-transformers runs as it does by default: batches of 32, fp32. Quality is
nDCG@10 on scifact's test queries, each side with its own vectors. Writes results/encode.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.encode.turns import Encode, time_in_turns
from benchmarks.lexical.quality import join, read
from quoth import __version__
from quoth.evaluation.files import read_qrels, read_queries
from quoth.evaluation.measures import evaluate_run
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME, find_folder
from quoth.models.processor import has_fast_bf16
from quoth.records import Hit, Qrels, Query, Run

RESULTS = Path(__file__).parent / "results" / "encode.json"
CHUNK = 256
MEASURE = "nDCG@10"


def main() -> None:
    """Measure speed, then quality, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument(
        "--documents", type=int, default=0, help="of scifact, for quality; 0: all, -1: none"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    systems = {"sentence-transformers": open_sentence_transformers(), "quoth": open_quoth()}
    passages = draw_passages(given.data, given.passages)
    content: dict[str, Any] = {
        "quoth": __version__,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "bf16": has_fast_bf16(),
        "encoder": DEFAULT_NAME,
        "speed": time_in_turns(systems, passages, chunk=CHUNK),
    }
    if given.documents >= 0:
        content["quality"] = measure_quality(
            systems, given.data / "scifact", num_documents=given.documents
        )
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))


def open_quoth() -> Encode:
    """Encode as `quoth encode` does."""
    encoder = GlowEncoder.load(DEFAULT_NAME)
    return lambda texts: encoder.encode_documents([{"text": (text,)} for text in texts]).vectors


def open_sentence_transformers() -> Encode:
    """Encode as sentence-transformers does unless told otherwise."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find_folder(DEFAULT_NAME)), device="cpu")
    return lambda texts: model.encode(list(texts), batch_size=32, show_progress_bar=False)


def draw_passages(data: Path, count: int) -> list[str]:
    """Draw passages of both collections by a fixed seed."""
    texts = [
        join(document).fields["text"][0]
        for name in ("scifact", "squad-dev")
        for document in read(data / name)
    ]
    return random.Random(0).sample(texts, min(count, len(texts)))


def measure_quality(
    systems: dict[str, Encode], folder: Path, *, num_documents: int
) -> dict[str, Any]:
    """Search scifact's test queries by each system's vectors, exactly."""
    qrels = read_qrels(folder / "qrels" / "test.tsv.gz")
    queries = [
        each for each in read_queries(folder / "queries.jsonl.gz") if each.qid in qrels.grades
    ]
    documents = [(each.docid, join(each).fields["text"][0]) for each in read(folder)]
    if num_documents:
        documents = documents[:num_documents]
    scores = {name: evaluate(encode, queries, documents, qrels) for name, encode in systems.items()}
    return {
        "set": folder.name,
        "documents": len(documents),
        "queries": len(queries),
        MEASURE: scores,
        "difference": scores["quoth"] - scores["sentence-transformers"],
    }


def evaluate(
    encode: Encode, queries: Sequence[Query], documents: Sequence[tuple[str, str]], qrels: Qrels
) -> float:
    """Score one system."""
    asked = encode([query.text for query in queries])
    found = asked @ encode([text for _docid, text in documents]).T
    hits = {}
    for query, scores in zip(queries, found, strict=True):
        best = np.argsort(-scores, kind="stable")[:10]
        hits[query.qid] = tuple(Hit(documents[row][0], float(scores[row])) for row in best)
    return evaluate_run(Run("dense", hits), qrels, [MEASURE]).means[MEASURE]


if __name__ == "__main__":
    main()
