"""`quoth encode` and `quoth learn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    RayAddress,
    helping,
    joining,
    open_engine,
    read_layers,
)
from quoth.cli.options import with_settings
from quoth.jobs.learn.plan import LearnRequest
from quoth.text import display

if TYPE_CHECKING:
    from quoth.settings.config import Values
    from quoth.shards.opening import OpenedEngine

LabelledPairs = Annotated[
    Path | None,
    typer.Option(
        help="Fine-tune the current model on labelled pairs: JSON Lines with query and passage"
        ' (text, an object of fields, or {"docid": "…"}), or query<TAB>passage.',
        metavar="FILE",
        show_default=False,
    ),
]
QueryLogFile = Annotated[
    Path | None,
    typer.Option(
        help="Also learn from queries that people asked, without answers: one per line, or"
        " JSON Lines with query, as quoth serve --log-queries writes them.",
        metavar="FILE",
        show_default=False,
    ),
]
Pack = Annotated[
    Path | None,
    typer.Option(
        help="Stop before training and write everything it needs into one file for a machine"
        " with a GPU; there, run python -m quoth.training.retriever.run_packed FILE --out"
        " FOLDER.",
        metavar="FILE",
        show_default=False,
        hidden=True,
    ),
]
Unpack = Annotated[
    Path | None,
    typer.Option(
        help="Continue with the model trained there: evaluate it, and install it if it is better.",
        metavar="FOLDER",
        show_default=False,
        hidden=True,
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Also write the HTML report to this file; the collection always keeps it as"
        " learning/report.html.",
        metavar="FILE",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume/--restart", help="Resume an interrupted run, or start over.", metavar=""
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=1,
        help="With --ray: number of processes that train together, each with a batch of its"
        " own per step.",
        metavar="N",
        hidden=True,
    ),
]


def _say_how_long(engine: OpenedEngine) -> None:
    """Say beforehand how long encoding will take, where that is worth saying."""
    from quoth.engine.quick_encoding import MOST_SECONDS, passages_per_second, remaining_seconds

    seconds = remaining_seconds(engine.status(), rate=passages_per_second())
    if seconds > MOST_SECONDS:
        show.note(
            f"about {display.duration(seconds)} on this computer's processor, the opening of every"
            " document first; you can interrupt and resume it at any time, and search uses the"
            " vectors computed so far"
        )


@with_settings("dense", "fusion", "collection", shown=["dense.encoder", "dense.storage"])
def encode(
    collection: Collection,
    *,
    seed: Annotated[int, typer.Option(help="Seed of the queries that calibrate fusion.")] = 0,
    ray: RayAddress = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Compute vectors for every document, and calibrate how they are fused with BM25.

    The opening of every document comes first, and search uses the vectors that are there. If
    interrupted, run the same command again to resume. From then on, add and remove keep the vectors
    up to date.
    """
    if ray:
        _fill_on_cluster(collection, ray, read_layers(config, settings))
    with open_engine(collection, config, settings) as engine:
        _say_how_long(engine)
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
            f"{collection}: {status['vectors']:,} vectors; {calibration.num_queries:,} queries"
            " made from the documents",
            ["searcher", "weight in hybrid", "RR@10 on those queries"],
            rows,
        )
    )
    if status["subwords_cut"]:
        total = status["subwords"] + status["subwords_cut"]
        show.note(
            f"{status['subwords_cut'] / total:.1%} of the text did not fit into the vectors, from"
            f" {display.count(status['documents_cut'], 'document')}; smaller passages lose"
            " less (passages.max_words)"
        )
    show.note(calibration.reason)
    if calibration.rerank is not None:
        share, reason = calibration.rerank.share, calibration.rerank.reason
        show.note(f"weight of reranking {share:.2f}: {reason}")


@with_settings(
    *("learn", "dense", "fusion", "generative", "collection"),
    shown=["learn.generative"],
    short={"learn.minutes": "--minutes", "learn.device": "--device", "learn.seed": "--seed"},
)
def learn(
    collection: Collection,
    *,
    pairs: LabelledPairs = None,
    queries: QueryLogFile = None,
    pack: Pack = None,
    unpack: Unpack = None,
    report: ReportFile = None,
    resume: Resume = True,
    ray: RayAddress = "",
    workers: Workers = 1,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Learn to search these documents better, from the documents alone.

    It writes queries for passages, fine-tunes the reranker on them, and evaluates it on queries
    from held-out documents. The new model is installed only if it is better; otherwise search stays
    as it was. --learn.method also trains the encoder, and --learn.generative true generative
    search, which takes about ten more minutes. If interrupted, run the same command again to
    resume. It ends with a report.
    """
    from quoth.cli.train_reports import render_report
    from quoth.engine.models import missing_neural
    from quoth.jobs.report.page import write_page

    request = LearnRequest(
        pairs=pairs,
        queries=queries,
        pack=pack,
        unpack=unpack,
        restart=not resume,
        remote=helping(ray, workers),
    )
    with joining(ray), open_engine(collection, config, settings) as engine:
        try:
            from quoth.jobs.learn.sharded import learn_any

            outcome = learn_any(engine, request, note=show.note)
        except ImportError as error:
            raise missing_neural(error) from error
    if outcome.packed is not None:
        _show_packed(collection, outcome.packed, as_json=as_json)
        return
    assert outcome.report is not None
    if report is not None:
        write_page(outcome.report, report)
    if as_json:
        show.print_json(outcome.report.to_record())
        return
    show.out().print(render_report(outcome.report))
    if outcome.is_old:
        show.note("already learned with these settings; --restart learns again")
    show.note(f"report with plots: {report or outcome.page}")


def _fill_on_cluster(collection: Path, ray: str, layers: Sequence[Values]) -> None:
    """Make the vectors elsewhere; what follows finds them there."""
    from quoth.engine.models import missing_neural

    try:
        from quoth.shards.ray_encode import fill_vectors
    except ImportError as error:
        raise missing_neural(error) from error
    with show.progress_bar() as progress, joining(ray):
        fill_vectors(collection, settings=layers, progress=progress, note=show.note)


def _show_packed(collection: Path, packed: Path, *, as_json: bool) -> None:
    if as_json:
        show.print_json({"packed": str(packed)})
        return
    show.note(
        f"packed {packed}; on a machine with a GPU run"
        f" python -m quoth.training.retriever.run_packed {packed.name} --out FOLDER, then here"
        f" quoth learn {collection} --unpack FOLDER"
    )
