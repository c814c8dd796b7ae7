"""Pack what the laboratory needs of each development collection.

    python -m benchmarks.learn.lab.pack OUT [--data ../shared/data/ir] [--sets cranfield,cisi]

Of each collection: its passages as the product cuts them; up to so many judged queries with what
BM25 finds for them and their judgements; the trial queries that fusion is calibrated with, each
with what BM25 finds while the query's stretch is held out; and the terms of the documents, so that
a machine without an index can search for pseudo-queries. Judgements are for judging alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lexical.quality import read
from benchmarks.reader.rerank import sample_queries
from quoth.engine.calibrating import NUM_QUERIES, search_held_out
from quoth.engine.engine import Engine
from quoth.jobs.context import JobContext, open_context
from quoth.models.glow.config import GlowConfig
from quoth.records import Document, Hit
from quoth.search.searcher import ignore_progress
from quoth.selfsupervision.known_items import hold_out, make_known_items
from quoth.text.passages import PassageConfig, cut_document
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.weighting import quantise_length

DEPTH = 100
FIELDS = GlowConfig().fields


def main() -> None:
    """Pack the collections that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.sets.split(",") if given.sets else sorted(p.name for p in given.data.iterdir())
    for name in names:
        pack(given.data / name, given.out)


def pack(folder: Path, out: Path) -> None:
    """Write one collection: texts and queries as JSON, counts of terms as arrays."""
    documents = list(read(folder))
    row_by_docid = {document.docid: row for row, document in enumerate(documents)}
    asked = sample_queries(folder, documents)
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(documents)
        found = engine.run([query for query, _grades in asked], k=DEPTH, searcher="lexical").hits
        with open_context(engine, lambda _text: None) as context:
            items = make_items(context, documents, row_by_docid)
    queries = [
        {
            "text": query.text,
            "lexical": ranked(found[query.qid], row_by_docid),
            "grades": {row_by_docid[d]: g for d, g in grades.items() if d in row_by_docid},
            "all_grades": sorted(grades.values(), reverse=True)[:10],
        }
        for query, grades in asked
    ]
    parts = list(map(cut, documents))
    content = {
        "documents": parts,
        "queries": queries,
        "items": items,
    }
    text = json.dumps(content, ensure_ascii=False)
    (out / f"{folder.name}.json.gz").write_bytes(gzip.compress(text.encode()))
    np.savez_compressed(out / f"{folder.name}.npz", **count_terms(documents))
    units = sum(max(1, len(bodies)) for _before, bodies in parts)
    print(f"{folder.name}: {len(queries)} queries, {len(items)} items, {units} units", flush=True)


def make_items(
    context: JobContext, documents: Sequence[Document], row_by_docid: dict[str, int]
) -> list[dict[str, Any]]:
    """Make the trial queries of a collection, and search for them as its calibration does."""
    by_docid = {document.docid: document for document in documents}
    items = make_known_items(
        documents, analyser=Analyser(context.config.analyser), count=NUM_QUERIES, seed=0
    )
    searchers = context.make_searchers(context.store, context.config)
    lexical = searchers.lexical(syntax=False)
    run = search_held_out(context.store, lexical, items, depth=DEPTH, progress=ignore_progress)
    searchers.close()
    return [
        {
            "text": item.query.text,
            "row": row_by_docid[item.docid],
            "overlap": item.overlap,
            "lexical": ranked(run.hits[item.query.qid], row_by_docid),
            "left": cut(hold_out(by_docid[item.docid], item)),
        }
        for item in items
    ]


def ranked(hits: Sequence[Hit], row_by_docid: dict[str, int]) -> list[list[float]]:
    """Name hits by row, with their scores."""
    return [[row_by_docid[hit.docid], round(hit.score, 5)] for hit in hits]


def cut(document: Document) -> tuple[list[str], list[str]]:
    """Cut a document into what gets vectors: what stands before each passage, and the passages."""
    before = [text for name in FIELDS[:-1] for text in document.fields.get(name, ())]
    passages = cut_document(document, PassageConfig())
    return before, [each.text for each in passages if each.field == FIELDS[-1]]


def count_terms(documents: Sequence[Document]) -> dict[str, Any]:
    """Count the terms of documents, whole and in their titles, and list the words of each term."""
    analyser = Analyser(AnalyserConfig())
    number_by_term: dict[str, int] = {}
    arrays: dict[str, Any] = {}
    for view in ("whole", "title"):
        starts, terms, counts, lengths = [0], [], [], []
        for document in documents:
            own = document.fields if view == "whole" else {"": document.fields.get("title", ())}
            found = [t for texts in own.values() for text in texts for t in analyser.terms(text)]
            for term, count in Counter(found).items():
                terms.append(number_by_term.setdefault(term, len(number_by_term)))
                counts.append(min(count, 255))
            starts.append(len(terms))
            lengths.append(quantise_length(len(found)))
        total = sum(len(document.fields) > 0 for document in documents)
        arrays |= {
            f"{view}.starts": np.array(starts, np.int32),
            f"{view}.terms": np.array(terms, np.int32),
            f"{view}.counts": np.array(counts, np.uint8),
            f"{view}.lengths": np.array(lengths, np.int32),
            f"{view}.total": np.array(total),
        }
    words = sorted(
        {
            word.lower()
            for d in documents
            for texts in d.fields.values()
            for text in texts
            for word in text.replace("’", "'").split()
        }
    )
    known = {}
    for word in words:
        for each in analyser.words(word):
            surface = word[each.start : each.end]
            if each.term in number_by_term:
                known[surface] = number_by_term[each.term]
    arrays["words"] = np.array("\n".join(known))
    arrays["word_terms"] = np.array(list(known.values()), np.int32)
    return arrays


if __name__ == "__main__":
    main()
