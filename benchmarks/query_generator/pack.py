"""Pack the pairs that the query generator is trained on: one small file of subwords, no texts.

    python -m benchmarks.query_generator.pack [--data ../shared/data]

Natural pairs (titles, headings and questions with the text they head), squad-train-slice's and
medquad's training questions with their passages; nothing of any dev or test split. Pairs whose
query is too long to be written whole, or holds unknown symbols, stay out. Two in a hundred
documents are held out with all their pairs. Ids are kept in two bytes each, compressed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.query_generator.recipe import (
    QueryGeneratorRecipe,
    QueryPair,
    capped_rows,
    tokenise_pairs,
)
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.training.retriever.training_set import TrainingSet
from quoth.training.sequences import SequenceTable

OUT = Path("benchmarks/.cache/query-generator/pack.bin")
HELD_OUT = 0.02
FILTER = {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 1, "pb": 1}  # made for two bytes
SETS = ("squad-train-slice", "medquad")


def main() -> None:
    """Read, tokenise and pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    config = QueryGeneratorConfig()
    inputs = QueryGeneratorInputs(load_tokenizer(find_folder(DEFAULT_NAME)), config)
    pairs = every_pair(given.data)
    kept = writable(pairs, inputs, config)
    tokenised, texts = cap(kept, inputs)
    held_out = np.array([is_held_out(text) for text in texts])
    facts = {
        "config": asdict(config),
        "sources": list(tokenised.sources),
        "read": dict(Counter(pair.source for pair in pairs)),
        "dropped": len(pairs) - len(kept),
    }
    save_pack(given.out, tokenised, held_out[tokenised.document_rows], facts)
    report(tokenised, held_out[tokenised.document_rows], facts)
    print(f"{given.out}: {given.out.stat().st_size / 2**20:.1f} MiB")


def natural_pairs(path: Path) -> Iterator[QueryPair]:
    """Read the natural pairs."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    for line in found.splitlines():
        row = json.loads(line)
        yield QueryPair(row["passage"], row["query"], row["source"])


def set_pairs(folder: Path) -> Iterator[QueryPair]:
    """Read the training questions of a collection with the passages that answer them."""
    text_by_docid = {
        row["_id"]: passage_text(row) for row in read_lines(folder / "corpus.jsonl.gz")
    }
    text_by_qid = {row["_id"]: row["text"] for row in read_lines(folder / "queries.jsonl.gz")}
    with gzip.open(folder / "qrels" / "train.tsv.gz", "rt", encoding="utf-8") as stream:
        next(stream)
        for line in stream:
            qid, docid, grade = line.rstrip("\n").split("\t")
            if int(grade) > 0:
                yield QueryPair(text_by_docid[docid], text_by_qid[qid], folder.name)


def passage_text(row: dict[str, Any]) -> str:
    """Join title and text, as they are given to the generator later on.

    >>> passage_text({"title": "Barn owl", "text": "It hunts."})
    'Barn owl It hunts.'
    """
    return " ".join(each for each in (row.get("title"), row.get("text")) if each)


def every_pair(data: Path) -> list[QueryPair]:
    """Read the natural pairs, and those of the sets whose training questions may be used."""
    pairs = list(natural_pairs(data / "text" / "pairs.jsonl.zst"))
    for name in SETS:
        pairs += set_pairs(data / "ir" / name)
    return pairs


def writable(
    pairs: list[QueryPair], inputs: QueryGeneratorInputs, config: QueryGeneratorConfig
) -> list[QueryPair]:
    """Leave out pairs whose query is empty, cut, or holds symbols that are never written."""
    banned = set(inputs.symbols.banned)
    kept = []
    for start in range(0, len(pairs), 5_000):
        block = pairs[start : start + 5_000]
        for pair, ids in zip(block, inputs.queries([p.query for p in block]), strict=True):
            whole = 1 < len(ids) < config.max_query_subwords
            if whole and banned.isdisjoint(ids) and pair.passage.strip():
                kept.append(pair)
    return kept


def cap(pairs: list[QueryPair], inputs: QueryGeneratorInputs) -> tuple[TrainingSet, list[str]]:
    """Tokenise what the recipe's caps allow of each source; also gives the passages."""
    chosen = capped_pairs(pairs)
    return tokenise_pairs(chosen, inputs), list(dict.fromkeys(pair.passage for pair in chosen))


def capped_pairs(pairs: list[QueryPair]) -> list[QueryPair]:
    """Draw what the recipe's caps allow of each source."""
    recipe = QueryGeneratorRecipe()
    ids = {source: at for at, source in enumerate(dict.fromkeys(pair.source for pair in pairs))}
    empty = SequenceTable.from_arrays(
        np.zeros(1, np.int32),
        np.zeros(1, np.int64),
        field_ids=np.zeros(1, np.uint8),
        weights=None,
    )
    whole = TrainingSet(
        empty,
        empty,
        np.arange(len(pairs)),
        np.arange(len(pairs)),
        np.array([ids[pair.source] for pair in pairs], dtype=np.uint8),
        tuple(ids),
    )
    return [pairs[row] for row in capped_rows(whole, np.arange(len(pairs)), recipe)]


def is_held_out(text: str) -> bool:
    """Hold out documents by their text, so that a document is always on the same side."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return number % 10_000 < HELD_OUT * 10_000


def save_pack(
    path: Path, pairs: TrainingSet, held_out: NDArray[np.bool_], facts: dict[str, Any]
) -> None:
    """Write pairs, the split and some facts as one compressed file."""
    arrays: dict[str, NDArray[Any]] = {
        "pairs.documents": pairs.document_rows.astype(np.uint32),
        "pairs.sources": pairs.source_ids,
        "pairs.held_out": held_out,
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
    }
    for side, table in (("queries", pairs.queries), ("documents", pairs.documents)):
        ids = table.subword_ids.numpy().astype("<u2").tobytes()
        small = lzma.compress(ids, lzma.FORMAT_XZ, filters=[FILTER])
        arrays[f"{side}.ids"] = np.frombuffer(small, dtype=np.uint8)
        arrays[f"{side}.lengths"] = table.lengths.astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def load_pack(path: Path) -> tuple[TrainingSet, NDArray[np.bool_], dict[str, Any]]:
    """Read what `save_pack` wrote."""
    with np.load(path) as arrays:
        facts = json.loads(arrays["facts"].tobytes())
        rows = arrays["pairs.documents"].astype(np.int64)
        pairs = TrainingSet(
            queries=_load_table(arrays, "queries"),
            documents=_load_table(arrays, "documents"),
            query_rows=np.arange(len(rows)),
            document_rows=rows,
            source_ids=arrays["pairs.sources"],
            sources=tuple(facts["sources"]),
        )
        return pairs, arrays["pairs.held_out"], facts


def _load_table(arrays: Any, side: str) -> SequenceTable:
    raw = lzma.decompress(arrays[f"{side}.ids"].tobytes())
    ids = np.frombuffer(bytearray(raw), dtype="<u2")  # a bytearray, since torch writes to no bytes
    offsets = np.concatenate(([0], np.cumsum(arrays[f"{side}.lengths"], dtype=np.int64)))
    return SequenceTable.from_arrays(
        ids, offsets, field_ids=np.zeros(len(ids), dtype=np.uint8), weights=None
    )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read compressed JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def report(pairs: TrainingSet, held_out: NDArray[np.bool_], facts: dict[str, Any]) -> None:
    """Print the pairs per source: read, packed, held out."""
    print(f"{'source':20} {'read':>8} {'packed':>8} {'held out':>8}")
    for at, source in enumerate(pairs.sources):
        own = pairs.source_ids == at
        counts = (facts["read"][source], int(own.sum()), int((own & held_out).sum()))
        print(f"{source:20} {counts[0]:8,} {counts[1]:8,} {counts[2]:8,}")
    print(f"{len(pairs):,} pairs, {len(pairs.documents):,} passages; {facts['dropped']:,} dropped")


if __name__ == "__main__":
    main()
