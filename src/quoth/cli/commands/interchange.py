"""`quoth export` and `quoth import`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import (
    AsJson,
    Collection,
    ConfigFile,
    NoEncode,
    open_engine,
)
from quoth.cli.options import with_settings
from quoth.errors import ConfigError
from quoth.records import Problem
from quoth.text import display

_MOST_SHOWN = 20


class Format(StrEnum):
    """What documents can be exported as."""

    JSONL = "jsonl"
    BEIR = "beir"
    PARQUET = "parquet"


Output = Annotated[
    Path,
    typer.Argument(
        metavar="OUTPUT", help="A new file, a new folder for beir, or - (stdout) for jsonl."
    ),
]
ExportFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="jsonl, beir or parquet; by default, inferred from the name of the output.",
        metavar="FORMAT",
        show_default=False,
    ),
]
QueriesFile = Annotated[
    Path | None,
    typer.Option(help="With beir: queries to export along with the documents.", metavar="FILE"),
]
QrelsFile = Annotated[
    Path | None,
    typer.Option(
        help="With beir: relevance judgements to export along with the documents.", metavar="FILE"
    ),
]


def export(
    collection: Collection,
    output: Output,
    *,
    format: ExportFormat = None,
    queries: QueriesFile = None,
    qrels: QrelsFile = None,
    as_json: AsJson = False,
) -> None:
    """Export all documents to files that other programs can read.

    jsonl and parquet keep documents, fields, metadata and docids without loss, and quoth import
    reads them back. The output appears only when it is complete.
    """
    from quoth.evaluation.files import read_qrels, read_queries
    from quoth.interchange.exporting import (
        export_beir,
        export_file,
        stream_documents,
        write_jsonl,
    )

    chosen = format or _format_of(output)
    if (queries or qrels) and chosen is not Format.BEIR:
        raise ConfigError("--queries and --qrels need --format beir")
    if str(output) == "-":
        if chosen is not Format.JSONL:
            raise ConfigError(f"standard output takes jsonl, not {chosen}; name a file or folder")
        write_jsonl(stream_documents(collection), sys.stdout.buffer)
        return
    with show.progress_bar() as progress:
        if chosen is Format.BEIR:
            made = export_beir(
                collection,
                output,
                queries=read_queries(queries) if queries else None,
                qrels=read_qrels(qrels) if qrels else None,
                told=progress,
            )
        else:
            made = export_file(collection, output, format=chosen.value, told=progress)
    if as_json:
        found = {"output": str(made.path), "format": made.format, "documents": made.documents}
        show.print_json(found)
    else:
        count = display.count(made.documents, "document")
        show.out().print(f"{made.path}: {count} as {made.format}", markup=False)


@with_settings("passages", "analyser", "lexical", "dense", "generative", "collection")
def import_(
    collection: Collection,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Exported files (.jsonl, .jsonl.gz, .parquet), BEIR folders, or - (stdin).",
        ),
    ],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad record.", metavar="")
    ] = False,
    no_encode: NoEncode = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Import documents that quoth export or another program wrote.

    Docids, fields and metadata stay as they are. Each batch is stored before the next is read; if
    interrupted, run the same command again to resume.
    """
    from quoth.engine.adding import deduplicate, raise_problem
    from quoth.engine.quick_encoding import encode_if_quick
    from quoth.interchange.importing import read_source

    problems: list[Problem] = []
    tell = raise_problem if strict else problems.append
    located = (each for source in sources for each in read_source(source, report=tell))
    seconds = None
    with open_engine(collection, config, settings) as engine:
        written = engine.add_documents(deduplicate(located, tell))
        if not no_encode:
            seconds = encode_if_quick(engine)
    counts = {**asdict(written), "skipped": len(problems)}
    if as_json:
        show.print_json({**counts, "problems": [str(each) for each in problems]})
    else:
        _tell_problems(problems)
        rows = [[name, f"{count:,}"] for name, count in counts.items()]
        show.out().print(show.table(str(collection), ["documents", "count"], rows))
        if seconds is not None:
            command = f'run "quoth encode {collection}" for vectors'
            show.note(f"{command} (about {display.duration(seconds)})")
    if problems:
        raise typer.Exit(1)


def _tell_problems(problems: Sequence[Problem]) -> None:
    for problem in problems[:_MOST_SHOWN]:
        show.note(f"skipped {problem}")
    if len(problems) > _MOST_SHOWN:
        show.note(f"… and {len(problems) - _MOST_SHOWN:,} more (--json lists them all)")


def _format_of(output: Path) -> Format:
    """Tell the format by a name: a folder is for BEIR."""
    name = output.name.lower()
    if name.endswith(".parquet"):
        return Format.PARQUET
    if name == "-" or name.endswith((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")):
        return Format.JSONL
    raise ConfigError(
        f"{output} does not end in .jsonl, .jsonl.gz or .parquet; add --format jsonl, beir or"
        " parquet"
    )
