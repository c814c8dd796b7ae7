"""`quoth train glow`, `quoth train pixar` and `quoth train dynamic-lm`."""

from __future__ import annotations

from collections.abc import Mapping
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
from quoth.search.generative.config import NO_GENERATOR
from quoth.settings.dynamic_lm import TRAINING_SECTIONS
from quoth.text import display
from quoth.training.recipes.glow_config import SHARED

if TYPE_CHECKING:
    from quoth.jobs.glow.report import GlowReport

train = typer.Typer(name="train", no_args_is_help=True)

Pairs = Annotated[
    Path,
    typer.Option(
        help="Queries and passages that answer them: JSON Lines with query, passage (text, or"
        " an object of fields) and optionally negatives, or query<TAB>passage; optionally"
        " gzipped.",
        metavar="FILE",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder to save the encoder in; by default, glow- and the name of the pairs.",
        metavar="FOLDER",
        show_default=False,
    ),
]
CountedIn = Annotated[
    Path | None,
    typer.Option(
        help="Take word statistics from this collection instead of the passages.",
        metavar="COLLECTION",
        show_default=False,
    ),
]
Base = Annotated[
    str, typer.Option(help="Encoder to start from, by name or folder.", metavar="ENCODER")
]
HeldOut = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=0.9,
        help="Share of the queries held out for evaluation.",
        metavar="SHARE",
    ),
]
LabelledPairs = Annotated[
    Path | None,
    typer.Option(
        help="Labelled queries to train and evaluate on as well: JSON Lines with query and"
        ' passage (text, an object of fields, or {"docid": "…"}), or query<TAB>passage.',
        metavar="FILE",
        show_default=False,
    ),
]
NoGenerator = Annotated[
    bool,
    typer.Option(
        "--no-generator",
        help="Write no identifiers: documents, including later ones, have only their titles"
        " and the queries that quoth learn wrote. For documents that are mere keywords;"
        " --generative.generator query-generator undoes it.",
        metavar="",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        min=1,
        help="With --ray: number of processes that train together; they share the queries of"
        " each step, and each holds part of the phrases.",
        metavar="N",
        hidden=True,
    ),
]
LabelledQuestions = Annotated[
    Path | None,
    typer.Option(
        help="Labelled questions to train on as well: JSON Lines with question, answers"
        " (verbatim from the passage) and passage or docid.",
        metavar="FILE",
        show_default=False,
    ),
]
ModelOut = Annotated[
    Path | None,
    typer.Option(
        help="Folder to save the model in; by default, dynamic-lm- and the name of the collection.",
        metavar="FOLDER",
        show_default=False,
    ),
]
Install = Annotated[
    bool,
    typer.Option(
        "--install", help="Use the model for this collection's answers from now on.", metavar=""
    ),
]
Device = Annotated[
    str, typer.Option(help="Device to train on: auto, cpu, cuda or cuda:N.", metavar="DEVICE")
]
CheckpointEvery = Annotated[
    int, typer.Option(min=1, help="Steps between checkpoints.", metavar="STEPS", hidden=True)
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume/--restart", help="Resume from the last checkpoint, or start over.", metavar=""
    ),
]


@train.callback()
def describe() -> None:
    """Train a model of your own, for search or for answers.

    An encoder is a folder: quoth encode COLLECTION --dense.encoder FOLDER computes the documents'
    vectors with it. A model for generative search belongs to the collection it was trained on. A
    language model is a folder: quoth ask COLLECTION QUESTION --answer.model FOLDER answers with it.
    """


@with_settings(
    *("glow", "encoder", "analyser"),
    without=[f"encoder.{name}" for name in SHARED],
    shown=["glow.steps"],
)
def glow(
    *,
    pairs: Pairs,
    out: Out = None,
    collection: CountedIn = None,
    base: Base = "all-MiniLM-L6-v2",
    held_out: HeldOut = 0.1,
    device: Device = "auto",
    checkpoint_every: CheckpointEvery = 100,
    resume: Resume = True,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Train a GLOW dual encoder on pairs of queries and passages.

    It trains the lowest three layers of the base encoder unless glow.num_layers says otherwise. It
    evaluates held-out queries before training, with the whole base encoder, and after. If
    interrupted, run the same command again to resume.
    """
    from quoth.engine.models import missing_neural
    from quoth.settings.config import build_config
    from quoth.training.recipes.glow_config import encoder_config

    given = build_config(*read_layers(config, settings))
    try:
        from quoth.jobs.glow.job import train_encoder
        from quoth.jobs.glow.report import GlowRequest
    except ImportError as error:
        raise missing_neural(error) from error
    request = GlowRequest(
        pairs=pairs,
        out=out or Path(f"glow-{pairs.name.split('.')[0]}"),
        collection=collection,
        base=base,
        held_out=held_out,
        device=device,
        checkpoint_every=checkpoint_every,
        resume=resume,
        recipe=given.glow,
        encoder=encoder_config(given.glow, given.encoder),
        analyser=given.analyser,
    )
    with show.progress_bar() as progress:
        trained = train_encoder(request, progress=progress)
    if as_json:
        show.print_json(trained.summary())
    else:
        _show(trained)


@with_settings(
    *("pixar", "generative", "dense", "collection"),
    short={"pixar.minutes": "--minutes", "pixar.device": "--device", "pixar.seed": "--seed"},
)
def pixar(
    collection: Collection,
    *,
    pairs: LabelledPairs = None,
    no_generator: NoGenerator = False,
    resume: Resume = True,
    ray: RayAddress = "",
    workers: Workers = 1,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Train generative search, which generates identifiers of documents from a query.

    A document's identifiers are its sentences, and the queries that quoth learn wrote or, without
    those, pseudo-queries written now. Documents added later need no training. If interrupted, run
    the same command again to resume. It ends with a report on held-out queries. Training starts
    from a model trained across collections; --pixar.train false --no-generator uses that model as
    it is.
    """
    from quoth.cli.train_reports import render_generative
    from quoth.engine.models import missing_neural

    remote = helping(ray, workers)
    silent = {"generative.generator": NO_GENERATOR} if no_generator else {}
    settings = {**settings, **silent}
    with joining(ray), open_engine(collection, config, settings) as engine:
        try:
            from quoth.jobs.pixar.job import PixarRequest
            from quoth.jobs.pixar.sharded import train_generative_any

            request = PixarRequest(engine.config.pixar, pairs, restart=not resume, remote=remote)
            report = train_generative_any(engine, request, note=show.note)
        except ImportError as error:
            raise missing_neural(error, what="generative models") from error
    if as_json:
        show.print_json(report.to_record())
        return
    show.out().print(render_generative(report))
    if report.is_old:
        show.note("already trained with these settings; --restart trains again")


@with_settings(
    *(*TRAINING_SECTIONS, "answer", "candidates", "lexical", "collection"),
    short={f"training.{name}": f"--{name}" for name in ("minutes", "steps", "device", "seed")},
)
def dynamic_lm(
    collection: Collection,
    *,
    pairs: LabelledQuestions = None,
    out: ModelOut = None,
    install: Install = False,
    resume: Resume = True,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Train a language model to quote these documents, starting from the bundled one.

    It learns from their passages, from sentences rebuilt with phrases of other passages, and from
    labelled questions, if given. It is evaluated on held-out documents. If interrupted, run the
    same command again to resume. A GPU helps: on a CPU, each step takes many seconds.
    """
    from quoth.cli.train_reports import render_training
    from quoth.engine.models import missing_neural
    from quoth.shards import opening

    layers = read_layers(config, settings)
    try:
        from quoth.jobs.quoting.job import DynamicRequest, train_language_model
        from quoth.jobs.quoting.settings import read_settings
    except ImportError as error:
        raise missing_neural(error, what="language models") from error
    request = DynamicRequest(
        out=out or Path(f"dynamic-lm-{collection.resolve().stem}"),
        settings=read_settings(*layers),
        pairs=pairs,
        resume=resume,
        install=install,
    )
    with (
        show.progress_bar() as progress,
        opening.open_engine(collection, settings=layers, progress=progress) as engine,
    ):
        report = train_language_model(engine, request, progress=progress, note=show.note)
    if as_json:
        show.print_json(report.to_record())
        return
    show.out().print(render_training(report))
    if report.is_old:
        show.note("already trained with these settings; --restart trains again")


train.command("glow")(glow)
train.command("pixar")(pixar)
train.command("dynamic-lm")(dynamic_lm)


def _show(trained: GlowReport) -> None:
    if trained.before is not None and trained.after is not None:
        title = (
            f"{display.count(trained.num_queries, 'held-out query', 'held-out queries')} among"
            f" {display.count(trained.num_passages, 'passage')}"
        )
        judged = {"the base": trained.before, "at the start": trained.start, "after": trained.after}
        scores = [each for each in judged.values() if each is not None]
        rows = [
            ["RR@10", *(f"{each.mrr:.4f}" for each in scores)],
            ["nDCG@10", *(f"{each.ndcg:.4f}" for each in scores)],
        ]
        show.out().print(show.table(title, ["measure", *judged], rows))
    if trained.num_layers < trained.base_layers:
        show.note(
            f"{trained.num_layers} of the base's {trained.base_layers} layers were kept and"
            " trained; --glow.num_layers 0 keeps all"
        )
    if trained.is_old:
        show.note(f"{trained.out} was already trained with these settings; --restart repeats it")
        return
    steps, pairs = display.count(trained.steps, "step"), display.count(trained.num_pairs, "pair")
    show.note(
        f"{steps} on {pairs} ({trained.device}) → {trained.out}; use it with"
        f" quoth encode COLLECTION --dense.encoder {trained.out}"
    )
