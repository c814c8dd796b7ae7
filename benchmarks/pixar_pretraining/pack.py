"""Pack what a PIXAR is pretrained on, and the collections that it is judged on, for a GPU.

    python -m benchmarks.pixar_pretraining.pack OUT [--text ../shared/data/text]
        [--data ../shared/data/ir] [--most-words 1]

Pairs are natural ones (titles, headings and questions with the text they head), questions with
the passage that answers them, and squad-train-slice, but for the 1,000 questions of it that are
judged. A passage is named by its title and by sentences and clauses of at most 24 words, at most
eight in all, evenly spread. Phrases are chosen by a sample of these names and of queries. Test
queries of the collections are packed as text, with their judgements, and not trained on.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import splits
from benchmarks.pixar_pretraining.data import LONGEST
from quoth.evaluation.files import read_queries
from quoth.text.clauses import cut_clauses
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases

WORDS, MOST_NAMES, JUDGED = 24, 8, 1_000
SIZE, SAMPLED_NAMES, SAMPLED_QUERIES = 65_000, 240_000, 40_000


class Pair(NamedTuple):
    """A query, and the passage it belongs to."""

    source: str
    query: str
    title: str
    passage: str


def main() -> None:
    """Pack pairs and collections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--text", type=Path, default=Path("../shared/data/text"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--most-words", type=int, default=1, help="of a phrase")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pairs = [*read_pairs(given.text), *read_squad(given.data / "squad-train-slice")]
    pack_pairs(pairs, given.out, most_words=given.most_words)
    sets = {each.name: read_set(each) for each in sorted(given.data.iterdir())}
    _write(given.out / "eval.json.xz", json.dumps(sets, ensure_ascii=False).encode())


def read_pairs(folder: Path) -> Iterator[Pair]:
    """Read natural pairs, then questions with their passages."""
    for row in _lines(folder / "pairs.jsonl.zst"):
        yield Pair(row["source"], row["query"], "", row["passage"])
    for path in sorted((folder / "reading").glob("*.zst")):
        for row in _lines(path):
            title = row.get("title") or ""
            yield Pair(path.name.split(".")[0], row["question"], title, row["passage"])


def read_squad(folder: Path) -> Iterator[Pair]:
    """Read the questions of a collection, but for those that it is judged by."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as stream:
        documents = {row["_id"]: row for row in map(json.loads, stream)}
    queries = read_queries(folder / "queries.jsonl.gz")
    for _split, qrels in splits(folder):
        held = {query.qid for query in sample(queries, qrels)[:JUDGED]}
        for query in queries:
            for docid in qrels.grades.get(query.qid, {}) if query.qid not in held else ():
                row = documents[docid]
                yield Pair("squad", query.text, row.get("title") or "", row["text"])


def pack_pairs(pairs: list[Pair], out: Path, *, most_words: int) -> None:
    """Name passages, choose phrases, cut the names, and write all."""
    rows = {key: at for at, key in enumerate(dict.fromkeys((p.title, p.passage) for p in pairs))}
    texts, owners, kinds = [], [], []
    for at, (title, passage) in enumerate(rows):
        pieces = list(dict.fromkeys(cut_clauses(passage, most_words=WORDS)))
        named = ([title.replace("_", " ")] if title else []) + pieces
        most = min(MOST_NAMES, len(named))
        for place in (each * len(named) // most for each in range(most)):
            texts.append(named[place])
            owners.append(at)
            kinds.append(int(bool(title) and place == 0))
    chance = random.Random(0)
    names = chance.sample(texts, min(SAMPLED_NAMES, len(texts)))
    asked = chance.sample([each.query for each in pairs], min(SAMPLED_QUERIES, len(pairs)))
    vocabulary = train_phrases(names + asked, PhraseConfig(size=SIZE, max_words=most_words))
    cut = vocabulary.segment(texts)
    lengths = np.minimum(np.diff(cut.offsets), LONGEST)
    within = np.arange(len(cut.ids)) - np.repeat(cut.offsets[:-1], np.diff(cut.offsets))
    sources = sorted({each.source for each in pairs})
    content = io.BytesIO()
    np.savez(
        content,
        ids=cut.ids[within < LONGEST].astype(np.uint16),
        lens=lengths.astype(np.uint8),
        owner=np.array(owners, np.int32),
        is_title=np.array(kinds, np.uint8),
        pair_passage=np.array([rows[each.title, each.passage] for each in pairs], np.int32),
        pair_source=np.array([sources.index(each.source) for each in pairs], np.uint8),
        uses=np.bincount(cut.ids, minlength=len(vocabulary)),
    )
    _write(out / "train.npz.xz", content.getvalue())
    spelled = {
        "sources": sources,
        "queries": [" ".join(each.query.split()) for each in pairs],
        "phrases": [vocabulary.text_of(each) for each in range(len(vocabulary))],
    }
    _write(out / "train.json.xz", json.dumps(spelled, ensure_ascii=False).encode())


def read_set(folder: Path) -> dict[str, Any]:
    """Read title and text of documents, and the queries to judge by with what they want."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as stream:
        documents = [json.loads(line) for line in stream]
    place = {row["_id"]: at for at, row in enumerate(documents)}
    queries = read_queries(folder / "queries.jsonl.gz")
    tests = []
    for split, qrels in splits(folder):
        for query in sample(queries, qrels)[:JUDGED]:
            grades = {d: grade for d, grade in qrels.grades[query.qid].items() if grade > 0}
            wanted = {place[d]: grade for d, grade in grades.items() if d in place}
            tests.append((split, query.qid, query.text, wanted, len(grades)))
    return {
        "docs": [(row.get("title") or "", row.get("text") or "") for row in documents],
        "tests": tests,
    }


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    done = subprocess.run(["zstd", "-dc", "--long=27", str(path)], capture_output=True, check=True)
    yield from map(json.loads, done.stdout.decode().splitlines())


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(lzma.compress(content, preset=4))


if __name__ == "__main__":
    main()
