"""`quoth search` and `quoth demo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    note_coverage,
    open_engine,
)
from quoth.cli.keypress import agrees, is_interactive
from quoth.cli.options import with_settings
from quoth.records import SearchRequest, ShownHits

if TYPE_CHECKING:
    from quoth.shards.opening import OpenedEngine


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
    """Find documents, best first, and show the matching passages.

    On a terminal, a misspelt query is offered a correction: Enter or y searches for it.
    """
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
        answered = _find(engine, request, fix=fix, asks=not as_json and is_interactive())
        is_misled = answered is not None and not answered[1].hits and where.strip() and not as_json
        keys = list(engine.status()["filters"]) if is_misled else []
    if answered is None:
        return
    request, found = answered
    note_coverage(collection, found.incomplete)
    if as_json:
        _print_json(request, found)
    else:
        _print_hits(request, found, keys=keys)
        _note_suggestion(found)


def _find(
    engine: OpenedEngine, request: SearchRequest, *, fix: bool, asks: bool
) -> tuple[SearchRequest, ShownHits] | None:
    """Find hits, those of the corrected query if wanted; None where all is printed already."""
    found = engine.find(request)
    if not found.suggestion or not (fix or asks):
        return request, found
    if not fix and not _offer(engine, request, found):
        return None
    show.note(f"searching for: {found.suggestion}")
    request = replace(request, query=found.suggestion)
    return request, engine.find(request)


def _offer(engine: OpenedEngine, request: SearchRequest, found: ShownHits) -> bool:
    """Print hits, and ask whether the corrected query was meant."""
    with show.without_bar(engine.progress):
        _print_hits(request, found)
        return agrees(f"did you mean: {found.suggestion}?")


def _note_suggestion(found: ShownHits) -> None:
    if found.suggestion:
        show.note(f"did you mean: {found.suggestion} (--fix searches for it)")


def _print_hits(request: SearchRequest, found: ShownHits, *, keys: Sequence[str] = ()) -> None:
    """Print hits, and what to do where there are none; `keys` are some to filter by."""
    _note_unreachable(found)
    console = show.out()
    for each in found.hits:
        show.print_hit(each, console)
    if not found.hits:
        show.note(_advise_on_nothing(request.query, request.where, keys))


def _print_json(request: SearchRequest, found: ShownHits) -> None:
    from quoth.wire.writing import search_response

    _note_unreachable(found)
    show.print_json(search_response(request, found).model_dump())


def _note_unreachable(found: ShownHits) -> None:
    for shard in found.unreachable:
        show.note(str(shard))


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


def _advise_on_nothing(query: str, where: str, keys: Sequence[str]) -> str:
    if not query.strip():
        return "nothing found; the query is empty"
    if where.strip():
        known = f"; some keys to filter by: {', '.join(keys)}" if keys else ""
        return f"nothing found where {where}; try other words, or drop --where{known}"
    return "nothing found; try other words"
