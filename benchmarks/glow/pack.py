"""Pack what a GPU machine needs to train and judge GLOW: one file, without texts.

    python -m benchmarks.glow.pack [--data ../shared/data] [--pairs 60000] [--documents 6000]

Training pairs are natural ones (headings, titles and questions with the passage they stand over);
the first sentence of a passage, where it is short, stands as its first field, so that layouts with
fields are trained too. Evaluation sets keep at most 300 of their test queries, all documents judged
relevant to those, and others drawn by seed. Word statistics are each collection's own. The base is
MiniLM's embeddings and lowest three layers; its table of words is carried as one byte per number.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from benchmarks.glow.factors import Factors, encode_df, factors_to_arrays, save_pack
from quoth.models.pretrained import DEFAULT_NAME, find_folder
from quoth.text.words import Analyser, AnalyserConfig

OUT = Path("benchmarks/.cache/glow/pack.bin")
SETS = (
    ("cacm", "test"),
    ("cisi", "test"),
    ("cosqa", "test"),
    ("cranfield", "test"),
    ("medquad", "test"),
    ("msmarco-dl1920", "dl19"),
    ("msmarco-dl1920", "dl20"),
    ("nfcorpus-tok", "test"),
    ("nq-mini", "test"),
    ("obliqa", "test"),
    ("scifact", "test"),
    ("squad-dev", "test"),
    ("tmdb", "test"),
    ("wikiqa", "test"),
)
MAX_QUERY, MAX_DOCUMENT, NUM_LAYERS = 30, 125, 3  # subwords without the special ones
_FIRST_SENTENCE = re.compile(r"\S.{10,160}?[.!?](?=\s)", re.DOTALL)
_BLOCK = 2_000
MOST_QUERIES = 300

Text = tuple[str, str]  # the two fields of a document


class Counting:
    """Tokenises texts and counts their words; document frequencies are filled in at the end."""

    def __init__(self, tokenizer: Tokenizer, analyser: Analyser) -> None:
        self._tokenizer = tokenizer
        self._analyser = analyser
        self._ids: dict[str, int] = {}
        self._df: Counter[int] = Counter()

    def read(self, texts: Iterable[Text], *, cap: int, count: bool) -> dict[str, list[Any]]:
        """Tokenise and align; `count` says whether the texts belong to the collection."""
        out: dict[str, list[Any]] = {name: [] for name in ("ids", "terms", "tf", "kept", "words")}
        for block in _blocks(texts):
            flat = [field for text in block for field in text]
            encodings = self._tokenizer.encode_batch(flat, add_special_tokens=False)
            for at, text in enumerate(block):
                self._add(out, text, encodings[2 * at : 2 * at + 2], cap=cap, count=count)
        return out

    def finish(self, read: dict[str, list[Any]]) -> Factors:
        """Return the factors, now that every document of the collection was counted."""
        df = np.zeros(len(self._ids) + 1, dtype=np.int64)
        for term, number in self._df.items():
            df[term] = number
        terms = np.array(read["terms"], dtype=np.int64)
        return Factors(
            np.array(read["ids"], dtype=np.uint16),
            np.where(terms < 0, 0, encode_df(df)[terms]).astype(np.uint8),
            np.minimum(np.array(read["tf"]).reshape(-1, 2), 255).astype(np.uint8),
            np.array(read["kept"], dtype=np.uint8),
            np.minimum(np.array(read["words"]), 65535).astype(np.uint16),
        )

    def _add(
        self,
        out: dict[str, list[Any]],
        text: Text,
        encodings: Sequence[Any],
        *,
        cap: int,
        count: bool,
    ) -> None:
        words = [list(self._analyser.words(field)) for field in text]
        numbers = [[self._ids.setdefault(w.term, len(self._ids)) for w in own] for own in words]
        tfs = [Counter(own) for own in numbers]
        if count:
            self._df.update(tfs[0].keys() | tfs[1].keys())
        kept: list[int] = []
        for own, ids, encoding in zip(words, numbers, encodings, strict=True):
            room = cap - sum(kept)
            kept.append(min(room, len(encoding.ids)))
            out["ids"] += encoding.ids[:room]
            at = 0
            for start, end in encoding.offsets[:room]:
                while at < len(own) and own[at].end <= start:
                    at += 1
                term = ids[at] if at < len(own) and own[at].start < end else -1
                out["terms"].append(term)
                out["tf"].append((tfs[0][term], tfs[1][term]))
        out["kept"].append(kept)
        out["words"].append([len(own) for own in words])


def main() -> None:
    """Pack training pairs, evaluation sets and the base encoder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    folder = find_folder(DEFAULT_NAME)
    assert folder is not None
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    analyser = Analyser(AnalyserConfig())
    arrays, facts = pack_training(given.data / "text", given.pairs, tokenizer, analyser)
    facts["sets"] = []
    for name, split in SETS:
        more, about = pack_set(
            given.data / "ir" / name, split, given.documents, tokenizer, analyser
        )
        arrays |= more
        facts["sets"].append(about)
    arrays |= pack_base(folder, facts)
    save_pack(given.out, arrays, facts)
    print(f"{given.out}: {given.out.stat().st_size / 2**20:.1f} MiB")


def pack_training(
    folder: Path, count: int, tokenizer: Tokenizer, analyser: Analyser
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Pack natural pairs, drawn by seed; those of an evaluation set's own site stay out."""
    began = time.perf_counter()
    pairs = [pair for pair in read_pairs(folder / "pairs.jsonl.zst") if pair["source"] != "medquad"]
    chosen = np.random.default_rng(0).permutation(len(pairs))[:count]
    pairs = [pairs[at] for at in chosen]
    row_by_passage: dict[str, int] = {}
    rows = [row_by_passage.setdefault(pair["passage"], len(row_by_passage)) for pair in pairs]
    counting = Counting(tokenizer, analyser)
    documents = counting.read(map(split_lead, row_by_passage), cap=MAX_DOCUMENT, count=True)
    queries = counting.read((("", pair["query"]) for pair in pairs), cap=MAX_QUERY, count=False)
    documents_done = counting.finish(documents)
    arrays = factors_to_arrays("train.documents", documents_done)
    arrays |= factors_to_arrays("train.queries", counting.finish(queries))
    arrays["train.rows"] = np.array(rows, dtype=np.uint32)
    print(
        f"training: {len(pairs):,} pairs, {len(documents_done.ids):,} subwords, "
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return arrays, {"averages": averages(documents_done), "pairs": len(pairs)}


def choose_set(folder: Path, split: str, limit: int) -> dict[str, Any]:
    """Choose at most 300 queries of a set, what is relevant to them, and others by seed."""
    grades = read_grades(folder / "qrels" / f"{split}.tsv.gz")
    chance = np.random.default_rng(0)
    asked = [(row["_id"], row["text"]) for row in read_lines(folder / "queries.jsonl.gz")]
    asked = [(qid, text) for qid, text in asked if qid in grades]
    if len(asked) > MOST_QUERIES:
        asked = [asked[at] for at in sorted(chance.permutation(len(asked))[:MOST_QUERIES])]
    needed = {docid for qid, _ in asked for docid in grades[qid]}
    texts = {
        row["_id"]: (str(row.get("title") or ""), str(row.get("text") or ""))
        for row in read_lines(folder / "corpus.jsonl.gz")
    }
    others = [docid for docid in texts if docid not in needed]
    drawn = [others[at] for at in chance.permutation(len(others))]
    docids = [docid for docid in texts if docid in needed]
    docids += drawn[: max(0, limit - len(docids))]
    row_by_docid = {docid: row for row, docid in enumerate(docids)}
    return {
        "name": f"{folder.name}-{split}" if split != "test" else folder.name,
        "documents": [texts[docid] for docid in docids],
        "queries": asked,
        "judged": [
            (at, row_by_docid[docid], grade)
            for at, (qid, _) in enumerate(asked)
            for docid, grade in grades[qid].items()
            if docid in row_by_docid
        ],
    }


def pack_set(
    folder: Path, split: str, limit: int, tokenizer: Tokenizer, analyser: Analyser
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Pack one evaluation set: documents, queries and grades."""
    chosen = choose_set(folder, split, limit)
    name, texts, asked, judged = (chosen[key] for key in ("name", "documents", "queries", "judged"))
    counting = Counting(tokenizer, analyser)
    documents = counting.read(texts, cap=MAX_DOCUMENT, count=True)
    queries = counting.read((("", text) for _, text in asked), cap=MAX_QUERY, count=False)
    done = counting.finish(documents)
    arrays = factors_to_arrays(f"{name}.documents", done)
    arrays |= factors_to_arrays(f"{name}.queries", counting.finish(queries))
    arrays[f"{name}.judged"] = np.array(judged, dtype=np.int32)
    titled = float(np.mean(done.words[:, 0] > 0))
    print(
        f"{name}: {len(texts):,} documents ({titled:.0%} titled), {len(asked)} queries, "
        f"{len(judged)} judged",
        flush=True,
    )
    about = {"name": name, "averages": averages(done), "titled": titled}
    return arrays, about | {"documents": len(texts), "queries": [qid for qid, _ in asked]}


def pack_base(folder: Path, facts: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Pack the embeddings and the lowest layers; `pooler` is left out."""
    facts["base"] = json.loads((folder / "config.json").read_text())
    layers = tuple(f"encoder.layer.{at}." for at in range(NUM_LAYERS))
    arrays: dict[str, NDArray[Any]] = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name == "embeddings.word_embeddings.weight":
            scale = np.abs(tensor).max(1, keepdims=True) / 127
            arrays["base.words"] = np.round(tensor / scale).astype(np.int8)
            arrays["base.scale"] = scale.astype(np.float32)
        elif name.startswith((*layers, "embeddings.")) and "position_ids" not in name:
            arrays[f"base/{name}"] = tensor.astype(np.float16)
    return arrays


def split_lead(passage: str) -> Text:
    """Take the first sentence, where it is short, as the first field.

    >>> split_lead("Owls hunt at night. They eat mice.")
    ('Owls hunt at night.', ' They eat mice.')
    """
    found = _FIRST_SENTENCE.match(passage)
    return (passage[: found.end()], passage[found.end() :]) if found else ("", passage)


def averages(factors: Factors) -> tuple[float, float]:
    """Return the mean words per field, documents without it counted as empty."""
    return float(factors.words[:, 0].mean()), float(factors.words[:, 1].mean())


def read_pairs(path: Path) -> list[dict[str, str]]:
    """Read the natural pairs."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    return [json.loads(line) for line in found.splitlines()]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read compressed JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def read_grades(path: Path) -> dict[str, dict[str, int]]:
    """Read positive grades by qid and docid."""
    grades: dict[str, dict[str, int]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        next(stream)
        for line in stream:
            qid, docid, grade = line.rstrip("\n").split("\t")
            if int(grade) > 0:
                grades.setdefault(qid, {})[docid] = int(grade)
    return grades


def _blocks(texts: Iterable[Text]) -> Iterator[list[Text]]:
    block: list[Text] = []
    for text in texts:
        block.append(text)
        if len(block) == _BLOCK:
            yield block
            block = []
    if block:
        yield block


if __name__ == "__main__":
    main()
