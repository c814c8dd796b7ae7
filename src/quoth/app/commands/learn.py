"""`quoth encode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from quoth.app import show
from quoth.app.commands.arguments import AsJson, Collection, ConfigFile, open_engine
from quoth.app.options import with_settings


@with_settings("dense", "fusion", "collection")
def encode(
    collection: Collection,
    *,
    seed: Annotated[int, typer.Option(help="Seed of the trial queries for fusion.")] = 0,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Give every document its vectors, and find out how to fuse them with BM25.

    Interrupted, it resumes where it stopped; afterwards add and remove keep the vectors in step.
    """
    with open_engine(collection, config, settings) as engine:
        calibration = engine.encode(seed=seed)
        status = engine.status()["indexes"]["dense"]
    if as_json:
        show.print_json({"dense": status, "calibration": calibration.to_record()})
        return
    names = ("lexical", "dense", "fused")
    rows = [
        [
            name,
            f"{calibration.weights.get(name, 0.0):.1f}" if name != "fused" else "",
            f"{calibration.scores[name]:.3f}" if name in calibration.scores else "",
        ]
        for name in names
        if name in calibration.scores or name in calibration.weights
    ]
    show.out().print(
        show.table(
            f"{collection}: {status['vectors']:,} vectors; {calibration.num_queries:,} trial"
            " queries made from the documents",
            ["searcher", "weight in hybrid", "RR@10 on held-out stretches"],
            rows,
        )
    )
    if status["subwords_cut"]:
        total = status["subwords"] + status["subwords_cut"]
        show.note(
            f"{status['subwords_cut'] / total:.1%} of the text found no room in the vectors, from"
            f" {show.count(status['documents_cut'], 'document')}; smaller passages lose less"
        )
    show.note(calibration.reason)
