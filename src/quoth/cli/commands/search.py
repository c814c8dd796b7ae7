"""`quoth search` and `quoth demo`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    Depth,
    Rerank,
    Where,
    With,
    open_engine,
)
from quoth.cli.options import with_settings
from quoth.records import SearchRequest, ShownHits


@with_settings(
    *("lexical", "dense", "generative", "fusion", "rerank", "duplicates", "collection"),
    shown=["lexical.boosts"],
)
def search(
    collection: Collection,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help='Free text; also "exact phrase", +must, -not, field:word.'
        ),
    ],
    *,
    k: Depth = 10,
    where: Where = "",
    searcher: With = "auto",
    rerank: Rerank = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show how each score adds up; with vectors, also which words got the most"
            " attention.",
            metavar="",
        ),
    ] = False,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Correct words that no document contains, and search for the correction.",
            metavar="",
        ),
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Find documents, best first, and show the matching passages."""
    request = SearchRequest(
        query,
        k=k,
        where=where,
        searcher=searcher,
        rerank=rerank,
        explain=explain,
        attention=explain,
    )
    with open_engine(collection, config, settings) as engine:
        found = engine.find(request)
        if fix and found.suggestion:
            show.note(f"searching for: {found.suggestion}")
            request = replace(request, query=found.suggestion)
            found = engine.find(request)
    _print_found(request, found, as_json=as_json)


def _print_found(request: SearchRequest, found: ShownHits, *, as_json: bool) -> None:
    """Print hits, and what to do where there are none or a word is unknown."""
    for shard in found.unreachable:
        show.note(str(shard))
    if as_json:
        from quoth.wire.writing import search_response

        show.print_json(search_response(request, found).model_dump())
        return
    console = show.out()
    for each in found.hits:
        show.print_hit(each, console)
    if not found.hits:
        show.note(_advise_on_nothing(request.query, request.where))
    if found.suggestion:
        show.note(f"did you mean: {found.suggestion} (--fix searches for it)")


def demo(
    collection: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="Folder for the demo's collection; by default, in your cache.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Search the docstrings of the Python standard library, step by step."""
    from quoth.cli.demo import play

    play(collection)


def _advise_on_nothing(query: str, where: str) -> str:
    if not query.strip():
        return "nothing found; the query is empty"
    if where.strip():
        return f"nothing found where {where}; try other words, or drop --where"
    return "nothing found; try other words"
