"""`quoth phrases build`, `inspect` and `segment`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import AsJson, RayAddress, joining
from quoth.errors import ConfigError, MissingExtra
from quoth.text import display
from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES, PhraseConfig

if TYPE_CHECKING:
    from quoth.vocabulary.phrases.report import PhraseReport
    from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary
    from quoth.vocabulary.phrases.workers import Workers

phrases = typer.Typer(name="phrases", no_args_is_help=True)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="COLLECTION|FILE",
        help="A collection, whose identifiers and titles are read, or a file with one text per"
        " line.",
    ),
]
Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A vocabulary that quoth phrases build saved.")
]
Out = Annotated[Path, typer.Option(help="Folder to save the vocabulary in.", metavar="FOLDER")]
Size = Annotated[
    int,
    typer.Option(
        min=NUM_BYTES,
        help=f"Maximum number of phrases, including the {NUM_BYTES} single bytes.",
        metavar="N",
    ),
]
MinCount = Annotated[
    int, typer.Option(min=1, help="Occurrences required of a candidate phrase.", metavar="N")
]
Cutter = Annotated[
    str, typer.Option(help=f"Segmentation method: {', '.join(CUTTERS)}.", metavar="NAME")
]
Most = Annotated[
    int, typer.Option(min=1, help="Number of phrases to show of each kind.", metavar="N")
]
Texts = Annotated[
    Path | None,
    typer.Option(
        help="Check the vocabulary on a collection, or on a file with one text per line.",
        metavar="COLLECTION|FILE",
        show_default=False,
    ),
]

_USUAL = PhraseConfig()


@phrases.callback()
def about_phrases() -> None:
    """Build and inspect a vocabulary of phrases, the units of generated identifiers.

    quoth train pixar builds its own vocabulary; these commands show what it does.
    """


@phrases.command()
def build(
    source: Source,
    *,
    out: Out,
    size: Size = _USUAL.size,
    min_count: MinCount = _USUAL.min_count,
    cutter: Cutter = _USUAL.cutter,
    ray: RayAddress = "",
    as_json: AsJson = False,
) -> None:
    """Build the vocabulary of phrases that covers a set of texts best.

    If interrupted, run the same command again to resume at the last finished stage.
    """
    config = PhraseConfig(size=size, min_count=min_count, cutter=cutter)
    _require_free(out)
    try:
        from quoth.jobs.phrases import build_phrases
    except ImportError as error:
        raise _missing(error) from error
    with show.progress_bar() as progress, joining(ray):
        made, report = build_phrases(
            source, config, out=out, progress=progress, workers=_workers(ray)
        )
    _show(out, made, report, most=10, as_json=as_json)


@phrases.command()
def inspect(
    folder: Folder, *, texts: Texts = None, most: Most = 20, as_json: AsJson = False
) -> None:
    """Show the size of a vocabulary, its longest and most frequent phrases, and any problems.

    Lengths and checks refer to the texts it was built from, or to other --texts.
    """
    try:
        from quoth.jobs.phrases import check_phrases, open_checked
    except ImportError as error:
        raise _missing(error) from error
    made, report = open_checked(folder)
    if texts is not None:
        report = check_phrases(made, texts)
    _show(folder, made, report, most=most, as_json=as_json)


@phrases.command()
def segment(
    folder: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to segment.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show how a text is segmented into phrases."""
    try:
        from quoth.jobs.phrases import open_checked
    except ImportError as error:
        raise _missing(error) from error
    vocabulary, _report = open_checked(folder)
    ids = [int(each) for each in vocabulary.segment([text]).ids]
    cut = [vocabulary.text_of(each) for each in ids]
    if as_json:
        show.print_json({"phrases": cut, "ids": ids})
        return
    show.out().print(
        "|".join(display.make_safe(each) for each in cut), markup=False, soft_wrap=True
    )
    show.note(f"{display.count(len(ids), 'phrase')}: {', '.join(map(str, ids))}")


def _workers(ray: str) -> Workers:
    """Return who counts: the cluster that is joined, or threads here."""
    if ray:
        from quoth.cluster.counting import ClusterWorkers

        return ClusterWorkers()
    from quoth.jobs.phrases import THREADS

    return THREADS


def _show(
    folder: Path,
    vocabulary: PhraseVocabulary,
    report: PhraseReport | None,
    *,
    most: int,
    as_json: bool,
) -> None:
    from quoth.jobs.phrases import describe_phrases

    found = describe_phrases(vocabulary, report, most=most)
    if as_json:
        show.print_json(found)
        return
    numbers = [[name, str(value)] for name, value in found["numbers"].items()]
    show.out().print(show.table(str(folder), ["phrase vocabulary", "value"], numbers))
    for name in ("longest", "most used"):
        rows = [[each["phrase"], f"{each['uses']:,}"] for each in found[name]]
        show.out().print(show.table(name, ["phrase", "uses"], rows))
    if found["problems"]:
        for problem in found["problems"]:
            show.note(problem)
        raise typer.Exit(1)


def _require_free(out: Path) -> None:
    """Refuse, before any work, to save over something that is no vocabulary."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; choose a new folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / "phrase_content.npy").exists():
        raise ConfigError(f"{out} contains no vocabulary but other files; choose a new --out")


def _missing(error: ImportError) -> MissingExtra:
    return MissingExtra(f'phrases need {error.name}; run pip install "quoth[neural]"')
