"""Arguments that several commands share, and opening the engine they work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.app import show

if TYPE_CHECKING:
    from quoth.app.engine import Engine

Collection = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="The collection, a folder such as notes.quoth.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.", metavar="")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings.", metavar="FILE")
]
Depth = Annotated[int, typer.Option("-k", min=1, max=10_000, help="Hits per query.", metavar="N")]
Where = Annotated[
    str,
    typer.Option(
        help='Only documents whose metadata fit: year >= 2020 and lang in ("en", "de").',
        metavar="CONDITION",
    ),
]
With = Annotated[
    str,
    typer.Option(
        "--with", help="Searcher: lexical, dense, hybrid or generative.", metavar="SEARCHER"
    ),
]
Rerank = Annotated[
    bool,
    typer.Option(
        "--rerank",
        help="Put the best hits into a new order by the query generator's p(query | passage).",
        metavar="",
    ),
]
Syntax = Annotated[
    bool, typer.Option("--syntax", help="Heed + - quotes and field: in queries.", metavar="")
]
Measures = Annotated[
    str,
    typer.Option(
        help="Measures by their ir-measures names, NCG@k, Hits@k, separated by commas.",
        metavar="NAMES",
    ),
]
QrelsFile = Annotated[
    Path, typer.Option(help="Judgements: BEIR TSV or TREC, plain or gz.", metavar="FILE")
]


@contextmanager
def open_engine(
    collection: Path, config: Path | None, settings: Mapping[str, str]
) -> Iterator[Engine]:
    """Open the engine with the settings of a file and of the command line, showing progress."""
    from quoth.app.config import overrides_from_text, read_toml
    from quoth.app.engine import Engine

    layers = [read_toml(config)] if config is not None else []
    with show.progress_bar() as progress:
        layers.append(overrides_from_text(settings))
        with Engine.open(collection, settings=layers, progress=progress) as engine:
            yield engine


def split_names(names: str) -> list[str]:
    """Read names separated by commas.

    >>> split_names("nDCG@10, AP")
    ['nDCG@10', 'AP']
    """
    return [name.strip() for name in names.split(",") if name.strip()]
