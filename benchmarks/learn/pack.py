"""Pack what learning without labels needs of each collection, for a machine with an accelerator.

    python -m benchmarks.learn.pack [--sets scifact,squad-dev] [--data ../shared/data/ir]

Passages are the units of `benchmarks.hybrid.encode pack`, pseudo-queries those that
`benchmarks.learn.generate` wrote, with titles and sentences of the passages mixed in; BM25 over the
passages labels them. Test queries are packed as text to be searched for at the end: training never
sees them, nor any judgement. Writes benchmarks/.cache/learn/<collection>.bin, tests.json, and what
BM25 finds for the test queries (lexical.npz), for the query generator to read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hybrid.encode import read_units
from benchmarks.hybrid.quality import sample
from benchmarks.lexical.quality import read, splits
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.records import Document, Query
from quoth.selfsupervision.pseudo_pairs import (
    FoundQuery,
    PseudoPairConfig,
    SourceText,
    find_queries,
    label_queries,
)
from quoth.training.retriever.passage_set import make_passage_set, save_passage_set

CACHE = Path("benchmarks/.cache")
MAX_TEST_QUERIES = 500
READ = 50
CONFIG = replace(GlowConfig(), max_query_subwords=33)  # what the query generator can write


def main() -> None:
    """Pack the collections that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    parser.add_argument("--corpus-queries", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=CACHE / "learn")
    parser.add_argument("--only-tests", action="store_true", help="Leave the passages as packed.")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    tests: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for name in names:
        if not given.only_tests:
            pack(name, given)
        tests[name] = test_queries(given.data / name)
        found[name] = lexical_rows(given.data / name, tests[name])
        logging.info("%s: %s test queries", name, len(found[name]))
    np.savez_compressed(given.out / "lexical.npz", **found)
    (given.out / "tests.json").write_text(json.dumps(tests, ensure_ascii=False))


def pack(name: str, given: argparse.Namespace) -> None:
    """Write one collection's passages and labelled pseudo-queries."""
    units = list(read_units(CACHE / "units" / f"{name}.jsonl.gz"))
    passages = [SourceText(_text(fields, "text"), _text(fields, "title")) for *_, fields in units]
    config = PseudoPairConfig(kinds=("title", "sentence"), per_passage=1)
    taken = list(find_queries(passages, config))
    random.Random(0).shuffle(taken)
    found = [*written_queries(name, units), *taken[: given.corpus_queries]]
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(
            Document(str(at), {key: tuple(texts) for key, texts in fields.items()})
            for at, (*_, fields) in enumerate(units)
        )

        def top_k(texts: Sequence[str], k: int) -> list[list[int]]:
            queries = [Query(str(at), text) for at, text in enumerate(texts)]
            run = engine.run(queries, k=k, searcher="lexical")
            return [[int(hit.docid) for hit in run.hits[query.qid]] for query in queries]

        labelled = label_queries(found, passages, top_k=top_k, config=config)
    own = sum(q.source_row in q.lexical_rows for q in labelled if q.kind == "generated")
    generated = sum(query.kind == "generated" for query in labelled)
    about = {
        "set": name,
        "generated": generated,
        "found_by_bm25_in_20": own / max(1, generated),
        "corpus_queries": len(labelled) - generated,
    }
    inputs = GlowInputs(load_tokenizer(find_folder(DEFAULT_NAME)), CONFIG, analyser=None)
    packed = make_passage_set(
        [fields for *_, fields in units],
        labelled,
        inputs=inputs,
        document_rows=[row for row, *_ in units],
        about=about,
    )
    save_passage_set(given.out / f"{name}.bin", packed)
    logging.info("%s: %s passages, %s", name, len(units), about)


def written_queries(name: str, units: Sequence[Any]) -> list[FoundQuery]:
    """Read what the query generator wrote."""
    place = {(row, unit): at for at, (row, unit, _fields) in enumerate(units)}
    with gzip.open(CACHE / "queries" / f"{name}.jsonl.gz", "rt") as stream:
        lines = [json.loads(line) for line in stream]
    return [
        FoundQuery(text, "generated", place[row, unit])
        for row, unit, queries in lines
        for text in queries
    ]


def test_queries(folder: Path) -> dict[str, list[list[str]]]:
    """List qid and text of the judged queries, of each split at most so many."""
    queries = read_queries(folder / "queries.jsonl.gz")
    return {
        split: [[q.qid, q.text] for q in sample(queries, qrels)[:MAX_TEST_QUERIES]]
        for split, qrels in splits(folder)
    }


def lexical_rows(folder: Path, tests: dict[str, list[list[str]]]) -> NDArray[np.int32]:
    """Return the rows of BM25's best documents for the test queries of all splits, in order."""
    documents = list(read(folder))
    row_by_docid = {document.docid: row for row, document in enumerate(documents, start=1)}
    queries = [Query(str(at), own[1]) for at, own in enumerate(chain.from_iterable(tests.values()))]
    rows = np.full((len(queries), READ), -1, dtype=np.int32)
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(documents)
        hits = engine.run(queries, k=READ, searcher="lexical").hits
    for at, query in enumerate(queries):
        own = [row_by_docid[hit.docid] for hit in hits[query.qid]]
        rows[at, : len(own)] = own
    return rows


def _text(fields: dict[str, Any], name: str) -> str:
    return " ".join(fields.get(name, ()))


if __name__ == "__main__":
    main()
