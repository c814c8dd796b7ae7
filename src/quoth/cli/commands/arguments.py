"""Arguments that several commands share, and opening the engine they work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show

if TYPE_CHECKING:
    from quoth.jobs.ray import ClusterHelp
    from quoth.settings.config import Values
    from quoth.shards.opening import OpenedEngine

Collection = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="The collection, a folder such as notes.quoth.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.", metavar="")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings.", metavar="FILE")
]
NoEncode = Annotated[
    bool,
    typer.Option(
        "--no-encode",
        help="Compute no vectors now, even if that would take less than a minute; quoth encode"
        " computes them later.",
        metavar="",
    ),
]
Depth = Annotated[int, typer.Option("-k", min=1, max=10_000, help="Hits per query.", metavar="N")]
Where = Annotated[
    str,
    typer.Option(
        help='Only documents whose metadata match: year >= 2020 and lang in ("en", "de").',
        metavar="CONDITION",
    ),
]
With = Annotated[
    str,
    typer.Option(
        "--with",
        help="lexical, dense, hybrid or generative; auto is hybrid with reranking if there are"
        " vectors, otherwise lexical.",
        metavar="SEARCHER",
    ),
]
Rerank = Annotated[
    bool | None,
    typer.Option(
        "--rerank/--no-rerank",
        help="Rerank the top hits with a cross-encoder, or not; by default, auto reranks if"
        " there are vectors.",
        metavar="",
        show_default=False,
    ),
]
Syntax = Annotated[
    bool,
    typer.Option(
        "--syntax", help='Interpret +must, -not, "phrases" and field:word in queries.', metavar=""
    ),
]
Measures = Annotated[
    str,
    typer.Option(
        help="Measures separated by commas: names of ir-measures, NCG@k, Hits@k.",
        metavar="NAMES",
    ),
]
QrelsFile = Annotated[
    Path,
    typer.Option(
        help="Relevance judgements in BEIR's TSV or TREC format, optionally gzipped.",
        metavar="FILE",
    ),
]
RayAddress = Annotated[
    str,
    typer.Option(
        "--ray",
        help="Run the heavy work on a Ray cluster: HOST:PORT of its head node, auto for the"
        " cluster this machine belongs to, or local to start one here.",
        metavar="ADDRESS",
        show_default=False,
    ),
]


def joining(address: str) -> AbstractContextManager[None]:
    """Join a cluster for as long as a command works; without an address, do nothing."""
    if not address:
        return nullcontext()
    from quoth.cluster.connecting import joined

    return joined(address)


def helping(address: str, workers: int) -> ClusterHelp | None:
    """Let a cluster write queries and train; without an address, None."""
    if not address:
        return None
    from quoth.jobs.ray import ClusterHelp

    return ClusterHelp(workers)


def read_layers(config: Path | None, settings: Mapping[str, str]) -> list[Values]:
    """Read the settings of a file and of the command line; later ones override earlier ones."""
    from quoth.settings.parsing import overrides_from_text, read_toml

    layers = [] if config is None else [read_toml(config)]
    return [*layers, overrides_from_text(settings)]


@contextmanager
def open_engine(
    collection: Path, config: Path | None, settings: Mapping[str, str]
) -> Iterator[OpenedEngine]:
    """Open the engine with the settings of a file and of the command line, showing progress."""
    from quoth.shards import opening

    with show.progress_bar() as progress:
        layers = read_layers(config, settings)
        with opening.open_engine(collection, settings=layers, progress=progress) as engine:
            yield engine


def note_coverage(collection: Path, incomplete: str) -> None:
    """Say how much was searched by vectors, where some are missing."""
    if incomplete:
        show.note(f'{incomplete}; "quoth encode {collection}" finishes them')


def split_names(names: str) -> list[str]:
    """Read names separated by commas.

    >>> split_names("nDCG@10, AP")
    ['nDCG@10', 'AP']
    """
    return [name.strip() for name in names.split(",") if name.strip()]
