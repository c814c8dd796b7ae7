"""`quoth ask` and `quoth generate`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    Where,
    With,
    note_coverage,
    open_engine,
)
from quoth.cli.options import with_settings

if TYPE_CHECKING:
    from quoth.engine.answering import AnswerInProgress

_SECTIONS = (
    "answer",
    "candidates",
    "decoding",
    "lexical",
    "dense",
    "generative",
    "fusion",
    "rerank",
    "duplicates",
)

NoPhrases = Annotated[
    bool,
    typer.Option("--no-phrases", help="Quote nothing; use only the model's own words.", metavar=""),
]
Passages = Annotated[
    int, typer.Option("-k", min=1, max=100, help="Number of documents to read.", metavar="N")
]


@with_settings(
    *(*_SECTIONS, "collection"),
    shown=["answer.model", "decoding.max_subwords"],
    short={"answer.threshold": "--threshold"},
)
def ask(
    collection: Collection,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="A question in plain language.")
    ],
    *,
    k: Passages = 5,
    where: Where = "",
    searcher: With = "auto",
    no_phrases: NoPhrases = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Answer a question in the documents' own words, citing the source of each quotation."""
    _wait_patiently()
    with open_engine(collection, config, settings) as engine:
        asked = engine.ask(
            question,
            k=k,
            where=where,
            searcher=searcher,
            phrases=not no_phrases,
        )
    _show(collection, asked, as_json=as_json)


@with_settings(
    *(*_SECTIONS, "collection"),
    shown=["answer.model"],
    short={"decoding.max_subwords": "--tokens", "decoding.seed": "--seed"},
)
def generate(
    collection: Collection,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The text to continue.")],
    *,
    k: Passages = 32,
    where: Where = "",
    searcher: With = "auto",
    no_phrases: NoPhrases = False,
    nucleus: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Sample from this probability mass (nucleus sampling) instead of taking the best"
            " token.",
            metavar="P",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Continue a text, with phrases from a collection's documents as additional vocabulary."""
    given = dict(settings)
    if nucleus is not None:
        given |= {"decoding.nucleus": str(nucleus), "decoding.method": "nucleus"}
    if no_phrases:
        given["decoding.phrases"] = "false"
    _wait_patiently()
    with open_engine(collection, config, given) as engine:
        asked = engine.generate(prefix, k=k, where=where, searcher=searcher)
    _show(collection, asked, as_json=as_json, before=prefix)


def _show(collection: Path, asked: AnswerInProgress, *, as_json: bool, before: str = "") -> None:
    """Show an answer, or a text that continues another, while it is written or as JSON."""
    if asked.notice:
        show.note(asked.notice)
    note_coverage(collection, asked.incomplete)
    if as_json:
        from quoth.wire.schemas import ContinuationResponse
        from quoth.wire.writing import answer_response

        record = answer_response(asked.shown())
        if before:
            record = ContinuationResponse(**dict(record), prefix=before)
        show.print_json(record.model_dump())
        return
    from quoth.cli.answers import answer_text, follow

    if asked.suggestion:
        show.note(f"did you mean: {asked.suggestion}")
    follow(asked, show.out(), before=before.rstrip())
    show.out().print(answer_text(asked.answer(), before=before.rstrip()))


def _wait_patiently() -> None:
    """Let torch's threads sleep while they wait for each other, unless the user has decided.

    By default they spin: where other programs keep the processor busy, answers took thrice as long.
    Read once, when torch is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
