"""Pack identifiers under several vocabularies, for training PIXAR on a machine with a GPU.

    python -m benchmarks.pixar_quality.pack [--sets squad,scifact] [--sizes 30522,100000]

Identifiers are what `benchmarks.learn.generate` wrote (benchmarks/.cache/identifiers); those that
BM25 over the passages does not find their own passage by among its best 20 are left out, as
`quoth learn` does. *squad* joins the passages of squad-dev and squad-train-slice; test questions
are squad-dev's and are packed as text only. At the size of the encoder's WordPiece vocabulary BPE,
Unigram and phrases are trained on the same identifiers; phrases at further sizes too. Also judges
BM25 over the identifiers and over the passages. Writes benchmarks/.cache/pixar/.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid.encode import read_units
from benchmarks.hybrid.quality import sample
from benchmarks.learn.generate import unit_text
from benchmarks.lexical.quality import splits
from benchmarks.phrases.rival_tokenizers import (
    IdentifierVocabulary,
    open_wordpiece,
    train_bpe,
    train_unigram,
)
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.records import Document, Query
from quoth.training.identifiers.pairs import (
    make_identifier_pairs,
    save_identifier_pairs,
)
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases

CACHE = Path("benchmarks/.cache")
JOINED = {"squad": ("squad-dev", "squad-train-slice")}
ROUND_TRIP, MAX_TEST_QUERIES = 20, 1000


def main() -> None:
    """Pack the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="squad,scifact,msmarco-dl1920")
    parser.add_argument("--sizes", default="10000,30522,60000,100000")
    parser.add_argument("--rivals", default="bpe,unigram,wordpiece")
    parser.add_argument("--out", type=Path, default=CACHE / "pixar")
    parser.add_argument("--processes", type=int, default=1, help="that search for identifiers")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name in given.sets.split(","):
        pack(name, given)


@dataclass(frozen=True)
class Corpus:
    """Passages, the documents they belong to, and what names them."""

    texts: list[str]
    documents: list[str]  # the docid of each passage's document
    identifiers: list[list[str]]


def pack(name: str, given: argparse.Namespace) -> None:
    """Write one set under every vocabulary."""
    out = given.out / name
    out.mkdir(parents=True, exist_ok=True)
    corpus = filtered(name, read_corpus(name, given.data), out, processes=given.processes)
    tests = test_queries(parts_of(name)[0], given.data)
    (out / "tests.json").write_text(json.dumps(tests, ensure_ascii=False))
    (out / "documents.json").write_text(json.dumps(corpus.documents))
    texts = [text for own in corpus.identifiers for text in own]
    tokeniser = load_tokenizer(find_folder(DEFAULT_NAME))
    inputs = PixarInputs(tokeniser, PixarConfig())
    for label, vocabulary in vocabularies(texts, given):
        found = vocabulary.segment(texts)
        lengths = np.diff(found.offsets)
        about = {
            "set": name,
            "vocabulary": label,
            "size": len(vocabulary),
            "identifiers": len(texts),
            "mean_length": float(lengths.mean()),
            "p99_length": float(np.percentile(lengths, 99)),
        }
        pairs = make_identifier_pairs(
            corpus.identifiers,
            tokenise=inputs.queries,
            segment=vocabulary.segment,
            num_phrases=len(vocabulary),
            about=about,
        )
        save_identifier_pairs(out / f"{label}.bin", pairs)
        spelled = [vocabulary.text_of(at) for at in range(len(vocabulary))]
        with gzip.open(out / f"{label}.texts.gz", "wt", compresslevel=9) as stream:
            json.dump(spelled, stream, ensure_ascii=False)
        logging.info("%s", about)


def vocabularies(
    texts: Sequence[str], given: argparse.Namespace
) -> Iterator[tuple[str, IdentifierVocabulary]]:
    """Train the vocabularies on the same identifiers."""
    wordpiece = open_wordpiece(find_folder(DEFAULT_NAME) / "tokenizer.json")
    rivals = given.rivals.split(",")
    if "wordpiece" in rivals:
        yield "wordpiece", wordpiece
    if "bpe" in rivals:
        yield "bpe", train_bpe(texts, size=len(wordpiece))
    if "unigram" in rivals:
        yield "unigram", train_unigram(texts, size=len(wordpiece))
    for size in map(int, given.sizes.split(",")):
        yield f"phrases-{size}", train_phrases(texts, PhraseConfig(size=size))


def parts_of(name: str) -> tuple[str, ...]:
    """Name the sets that a packed set joins; the first has the test queries."""
    return JOINED.get(name, (name,))


def read_corpus(name: str, data: Path) -> Corpus:
    """Join the units of the sets and the identifiers that were written for them."""
    corpus = Corpus([], [], [])
    for each in parts_of(name):
        docids = [json.loads(line)["_id"] for line in _lines(data / each / "corpus.jsonl.gz")]
        with gzip.open(CACHE / "identifiers" / f"{each}.jsonl.gz", "rt") as stream:
            written = {(row, unit): queries for row, unit, queries in map(json.loads, stream)}
        for row, unit, fields in read_units(CACHE / "units" / f"{each}.jsonl.gz"):
            corpus.texts.append(unit_text(fields))
            corpus.documents.append(f"{each}/{docids[row - 1]}")
            corpus.identifiers.append(written.get((row, unit), []))
    return corpus


def filtered(name: str, corpus: Corpus, out: Path, *, processes: int = 1) -> Corpus:
    """Keep the identifiers by which BM25 finds their passage; kept on disk, as it takes minutes."""
    path = out / "kept.json.gz"
    if not path.exists():
        shares = [range(at, len(corpus.texts), processes) for at in range(processes)]
        kept: list[list[str]] = [[] for _ in corpus.texts]
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for own, found in zip(
                shares, pool.map(partial(find_kept, corpus), shares), strict=True
            ):
                for at, texts in zip(own, found, strict=True):
                    kept[at] = texts
        with gzip.open(path, "wt") as stream:
            json.dump(kept, stream, ensure_ascii=False)
    with gzip.open(path, "rt") as stream:
        kept = json.load(stream)
    written, left = (sum(map(len, each)) for each in (corpus.identifiers, kept))
    logging.info("%s: %s identifiers written, %s find their passage", name, written, left)
    return Corpus(corpus.texts, corpus.documents, kept)


def find_kept(corpus: Corpus, share: Sequence[int]) -> list[list[str]]:
    """Search for every identifier of some passages, and keep those that find their own."""
    kept = []
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(
            Document(str(at), {"text": (text,)}) for at, text in enumerate(corpus.texts)
        )
        for start in range(0, len(share), 200):
            queries = {
                at: _queries(at, corpus.identifiers[at]) for at in share[start : start + 200]
            }
            flat = [query for each in queries.values() for query in each]
            hits = engine.run(flat, k=ROUND_TRIP, searcher="lexical").hits if flat else {}
            for at, own in queries.items():
                docid = str(at)
                kept.append([q.text for q in own if any(hit.docid == docid for hit in hits[q.qid])])
    return kept


def _queries(at: int, texts: Iterable[str]) -> list[Query]:
    return [Query(f"{at}:{number}", text) for number, text in enumerate(texts)]


def test_queries(name: str, data: Path) -> list[list[Any]]:
    """List split, qid and text of test queries, of each split at most so many."""
    queries = read_queries(data / name / "queries.jsonl.gz")
    return [
        [split, query.qid, query.text]
        for split, qrels in splits(data / name)
        for query in sample(queries, qrels)[:MAX_TEST_QUERIES]
    ]


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt") as stream:
        yield from stream


if __name__ == "__main__":
    main()
