"""`quoth run`, `quoth evaluate` and `quoth compare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    Depth,
    Measures,
    QrelsFile,
    Rerank,
    Syntax,
    Where,
    With,
    open_engine,
    split_names,
)
from quoth.cli.options import with_settings
from quoth.text import display


@with_settings("lexical", "dense", "generative", "fusion", "rerank", "collection")
def run(
    collection: Collection,
    queries: Annotated[
        Path, typer.Argument(help="Queries in JSONL or TSV, optionally gzipped.", metavar="QUERIES")
    ],
    *,
    out: Annotated[Path, typer.Option(help="File to write the TREC run to.", metavar="RUN")],
    k: Depth = 1000,
    where: Where = "",
    searcher: With = "auto",
    rerank: Rerank = None,
    syntax: Syntax = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Search many queries and write a TREC run."""
    from quoth.evaluation.files import read_queries, write_run

    asked = read_queries(queries)
    with open_engine(collection, config, settings) as engine:
        found = engine.run(asked, k=k, where=where, searcher=searcher, syntax=syntax, rerank=rerank)
    write_run(found, out)
    hits = sum(len(each) for each in found.hits.values())
    if as_json:
        show.print_json({"queries": len(asked), "hits": hits, "run": str(out)})
    else:
        queries_found = display.count(len(asked), "query", "queries")
        show.note(f"{queries_found}, {display.count(hits, 'hit')} → {out}")


@with_settings("lexical", "dense", "generative", "fusion", "rerank", "collection")
def evaluate(
    collection: Collection,
    *,
    queries: Annotated[
        Path, typer.Option(help="Queries in JSONL or TSV, optionally gzipped.", metavar="FILE")
    ],
    qrels: QrelsFile,
    searcher: With = "auto",
    rerank: Rerank = None,
    measures: Measures = "nDCG@10,RR@10,R@100",
    k: Depth = 1000,
    syntax: Syntax = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Evaluate search against relevance judgements, with confidence intervals and latency."""
    from quoth.cli.evaluating import measure

    with open_engine(collection, config, settings) as engine:
        measured = measure(
            engine,
            queries=queries,
            qrels=qrels,
            searcher=searcher,
            measures=split_names(measures),
            k=k,
            syntax=syntax,
            rerank=rerank,
        )
    if as_json:
        show.print_json(measured.as_record())
        return
    rows = [
        [row.measure, f"{row.mean:.4f}", f"{row.low:.4f} to {row.high:.4f}"]
        for row in measured.rows
    ]
    title = f"{collection}, {display.count(measured.num_queries, 'query', 'queries')}"
    show.out().print(show.table(title, ["measure", "mean", "95% interval"], rows))
    show.note(measured.latency_line())


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="TREC runs; the first is the baseline.")
    ],
    *,
    qrels: QrelsFile,
    measures: Measures = "nDCG@10,RR@10,R@100",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write comparison.json, .csv and .tex to.", metavar="FOLDER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs with a baseline: means, confidence intervals, corrected significance tests."""
    from quoth.cli.evaluating import compare_runs

    compared = compare_runs(runs, qrels=qrels, measures=split_names(measures), out=out)
    if as_json:
        show.print_json(compared.record)
    else:
        show.out().print(show.table("comparison", compared.table[0], compared.table[1:]))
