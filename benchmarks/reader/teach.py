"""Gather what a larger model says of found passages, for the reranker to learn from.

    python -m benchmarks.reader.teach pack FOLDER             here: texts and queries, in buckets
    python3 -m benchmarks.reader.teach score FOLDER --out OUT --generator causal-query-generator

A bucket is a small collection: passages of one source, and natural queries of them (questions of
squad-train-slice and text/reading, titles and headings of pairs) or queries made of them
(`benchmarks.reader.queries`). Each is added, encoded and searched by the product's own `Engine`;
of the hybrid's first 30 hits 16 are read as `search` reads them, by the reader that reranks and by
the query generator over SmolLM2, whose log p(query | passage) puts hits into a better order than
the small one's but takes seconds on two cores. `distil_gpu` trains on the sum of both. No dev or
test question of any set is read, and no label: which passage a query belongs to is not written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import multiprocessing
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.on_gpu import GpuModels, read_on_gpu
from benchmarks.reader.pack import PAIR_WORDS, draw_paragraphs, questions, read_rows
from benchmarks.reader.queries import count_words, make_query
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.records import Document, Query
from quoth.search.rerank import ReadPassage, ScorePairs
from quoth.search.rerank_config import LIKELIHOOD, RerankConfig
from quoth.search.searcher import ignore_progress

PASSAGES, QUERIES = 6_000, 1_500
"""Most passages and queries of a bucket."""
MADE, MADE_BUCKETS = 20_000, 4
"""Paragraphs that queries are made of, and the buckets they go to."""
FIRST, READ, BEST = 30, 16, 10
"""Hits found, those that are read, and the best of them that always are."""
SEED = 0

Bucket = dict[str, Any]


def main() -> None:
    """Pack, or search and score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("pack", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--generator", default="causal-query-generator")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--queries", type=int, default=QUERIES, help="of a bucket, at most")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if given.what == "pack":
        given.folder.mkdir(parents=True, exist_ok=True)
        for name, bucket in buckets(given.data):
            _write(given.folder / f"{name}.json.gz", bucket)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    paths = sorted(given.folder.glob("*.json.gz"), key=lambda each: -each.stat().st_size)
    todo = [(each, given) for each in paths if not (given.out / each.name).exists()]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for line in pool.imap_unordered(score_bucket, todo):
            print(line, flush=True)


def buckets(data: Path) -> Iterator[tuple[str, Bucket]]:
    """Yield each source's passages, with some of the queries that were asked or made of them."""
    asked: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for example in questions(data):
        asked[example.source].append(
            (example.passage.title, _cut(example.passage.text), example.question)
        )
    for row in read_rows(data / "text" / "pairs.jsonl.zst"):
        asked[row["source"]].append(("", _cut(row["passage"]), row["query"]))
    chance = np.random.default_rng(SEED)
    drawn = draw_paragraphs(data, chance, least_words=60, per_article=4, count=MADE)
    counts = count_words(text for _title, text in drawn)
    for at, (title, text) in enumerate(drawn):
        made = make_query(title, text, counts, np.random.default_rng([SEED, at]))
        if made:
            asked[f"made_{at % MADE_BUCKETS}"].append(("", made.passage, made.query))
    for source, rows in sorted(asked.items()):
        chosen = [rows[at] for at in np.random.default_rng(SEED).permutation(len(rows))]
        texts = list(dict.fromkeys((title, text) for title, text, _query in chosen))[:PASSAGES]
        known = set(texts)
        queries = [query for title, text, query in chosen if (title, text) in known]
        yield source, {"texts": texts, "queries": list(dict.fromkeys(queries))[:QUERIES]}


def score_bucket(work: tuple[Path, argparse.Namespace]) -> str:
    """Search one bucket and let both read what is found."""
    path, given = work
    began = time.perf_counter()
    models = GpuModels() if read_on_gpu() else LoadedModels()
    bucket = _read(path)
    asked = [Query(str(at), text) for at, text in enumerate(bucket["queries"][: given.queries])]
    with tempfile.TemporaryDirectory() as scratch:
        groups = list(_find(Path(scratch) / "c.quoth", bucket, asked, models))
    reranking = RerankConfig(reader="reader")
    likely = replace(reranking, by=LIKELIHOOD, generator=given.generator)
    for name, config in (("reader", reranking), ("likelihood", likely)):
        _score(groups, name, models.reranker(config))
    _write(given.out / path.name, {"groups": groups})
    return f"{path.name}: {len(groups)} queries, {time.perf_counter() - began:.0f} s"


def _find(
    path: Path, bucket: Bucket, asked: Sequence[Query], models: LoadedModels
) -> Iterator[dict[str, Any]]:
    """Yield each query with the passages that are read for it."""
    settings = {"generative": {"generator": "none"}, "rerank": {"by": "none"}}
    chance = np.random.default_rng(SEED)
    with Engine(path, [settings], ignore_progress, models=models) as engine:
        engine.add_documents(
            Document(str(at), {"title": (title,), "text": (text,)} if title else {"text": (text,)})
            for at, (title, text) in enumerate(bucket["texts"])
        )
        engine.encode()
        found = engine.run(asked, k=FIRST, searcher="hybrid")
    with (
        Engine(path, [settings], ignore_progress, models=models) as engine,
        engine.writing() as (store, _config),
    ):
        searchers = engine.make_searchers(store)
        for query in asked:
            hits = found.hits[query.qid]
            rest = chance.permutation(np.arange(BEST, len(hits)))[: READ - BEST]
            chosen = [*hits[:BEST], *(hits[at] for at in sorted(rest.tolist()))]
            if len(chosen) < 2:
                continue
            read = searchers.passages.read_hits("hybrid", query, chosen, syntax=False)
            yield {
                "query": query.text,
                "passages": [(each.title, each.text) for each in read],
                "found": [round(hit.score, 4) for hit in chosen],
            }


def _score(groups: Sequence[dict[str, Any]], name: str, score: ScorePairs) -> None:
    """Add what a model says of each passage of each group."""
    pairs = [(own["query"], ReadPassage(*each)) for own in groups for each in own["passages"]]
    scores = iter(score([query for query, _each in pairs], [each for _query, each in pairs]))
    for own in groups:
        own[name] = [round(float(next(scores)), 3) for _each in own["passages"]]


def _cut(text: str) -> str:
    return " ".join(text.split()[:PAIR_WORDS])


def _write(path: Path, content: Bucket) -> None:
    temporary = path.with_suffix(".tmp")
    with gzip.open(temporary, "wt", encoding="utf-8", compresslevel=6) as stream:
        json.dump(content, stream, ensure_ascii=False)
    temporary.rename(path)


def _read(path: Path) -> Bucket:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        content: Bucket = json.load(stream)
    return content


if __name__ == "__main__":
    main()
