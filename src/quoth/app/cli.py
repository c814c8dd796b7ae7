"""The command line: each command is one call on `Engine`, plus formatting.

Exit codes: 0 done; 1 done, but some input was skipped or damage was found; 2 wrong usage or
settings; 3 the collection cannot be used; 4 an input stopped the command (--strict); 5 queries,
judgements or measures are unusable; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from quoth.app import show
from quoth.app.options import with_settings
from quoth.errors import (
    CollectionError,
    ConfigError,
    CorpusError,
    Damaged,
    EvaluationError,
    FilterError,
    MissingExtra,
    QuothError,
)
from quoth.records import Problem

app = typer.Typer(
    name="quoth",
    help="Search your own documents without a single label.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done · 1 done, but some input was skipped or damage found · 2 usage or"
    " settings · 3 collection unusable · 4 stopped by --strict · 5 evaluation input · 130 stopped.",
)

_EXIT_CODES: tuple[tuple[type[QuothError], int], ...] = (
    (ConfigError, 2),
    (FilterError, 2),
    (MissingExtra, 2),
    (CollectionError, 3),
    (CorpusError, 4),
    (EvaluationError, 5),
)

Collection = Annotated[
    Path, typer.Argument(metavar="COLLECTION", help="The collection, a folder such as notes.quoth.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings.", metavar="FILE")
]
Depth = Annotated[int, typer.Option("-k", min=1, max=10_000, help="Hits per query.")]
Where = Annotated[
    str,
    typer.Option(help='Only documents whose metadata fit: year >= 2020 and lang in ("en", "de").'),
]
With = Annotated[str, typer.Option("--with", help="Searcher: lexical.", metavar="SEARCHER")]


def main() -> None:
    """Run the command line; every error of ours becomes a message and an exit code."""
    try:
        app()
    except QuothError as error:
        show.error(_advise(error))
        sys.exit(next(code for kind, code in _EXIT_CODES if isinstance(error, kind)))
    except KeyboardInterrupt:
        show.error(
            "interrupted; what was acknowledged is kept, and running the command again resumes"
        )
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `quoth search … | head` does
        sys.stderr.close()
        sys.exit(0)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quoth {__version__}")
        raise typer.Exit


@app.callback()
def common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Search your own documents without a single label."""


@app.command()
@with_settings("readers", "passages", "analyser", "collection")
def add(
    collection: Collection,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, folders, globs, BEIR folders, python:NAME (docstrings), or - (stdin).",
        ),
    ],
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad input.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Add documents, or update those whose content changed."""
    problems = _Problems(limit=None if as_json else 20)
    with _engine(collection, config, settings) as engine:
        report = engine.add(sources, report=None if strict else problems)
    counts = {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "skipped": report.skipped,
    }
    if as_json:
        show.print_json({**counts, "problems": problems.lines})
    else:
        problems.tell_rest()
        rows = [[name, f"{count:,}"] for name, count in counts.items()]
        show.out().print(show.table(str(collection), ["documents", "count"], rows))
    if report.skipped:
        raise typer.Exit(1)


@app.command()
@with_settings("collection")
def remove(
    collection: Collection,
    docids: Annotated[list[str], typer.Argument(metavar="DOCID", help="Documents to remove.")],
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Remove documents by their docid."""
    with _engine(collection, config, settings) as engine:
        missing = engine.remove(docids)
    removed = len(set(docids)) - len(set(missing))
    if as_json:
        show.print_json({"removed": removed, "missing": list(missing)})
    else:
        show.out().print(f"removed {removed:,} of {len(set(docids)):,} documents", markup=False)
        for docid in missing:
            show.note(f"not in the collection: {docid}")
    if missing:
        raise typer.Exit(1)


@app.command()
@with_settings("lexical", "collection")
def search(
    collection: Collection,
    query: Annotated[
        str, typer.Argument(help='Free text; also "exact phrase", +must, -not, field:word.')
    ],
    *,
    k: Depth = 10,
    where: Where = "",
    searcher: With = "lexical",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what scores are made of.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Find documents, best first, with the words that matched."""
    from quoth.app.searching import as_record, look_up

    with _engine(collection, config, settings) as engine:
        found = look_up(engine, query, k=k, where=where, searcher=searcher, explain=explain)
    if as_json:
        show.print_json({"query": query, "hits": [as_record(each) for each in found]})
        return
    console = show.out()
    for rank, each in enumerate(found, start=1):
        console.print(show.hit_text(rank, each.hit, each.document, each.snippet))
        if each.explanation is not None:
            console.print(show.part_tree(each.explanation))
    if not found:
        show.note("nothing found; try fewer or other words, or leave out --where")


@app.command()
@with_settings("lexical", "collection")
def run(
    collection: Collection,
    queries: Annotated[Path, typer.Argument(help="Queries: JSONL or TSV, plain or gz.")],
    *,
    out: Annotated[Path, typer.Option(help="Where to write the TREC run.", metavar="RUN")],
    k: Depth = 1000,
    where: Where = "",
    searcher: With = "lexical",
    syntax: Annotated[
        bool, typer.Option("--syntax", help="Heed + - quotes and field: in queries.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Search many queries and write a TREC run."""
    from quoth.evaluation.files import read_queries, write_run

    asked = read_queries(queries)
    with _engine(collection, config, settings) as engine:
        found = engine.run(asked, k=k, where=where, searcher=searcher, syntax=syntax)
    write_run(found, out)
    hits = sum(len(each) for each in found.hits.values())
    if as_json:
        show.print_json({"queries": len(asked), "hits": hits, "run": str(out)})
    else:
        show.note(f"{len(asked):,} queries, {hits:,} hits → {out}")


@app.command()
@with_settings("lexical", "collection")
def evaluate(
    collection: Collection,
    *,
    queries: Annotated[Path, typer.Option(help="Queries: JSONL or TSV, plain or gz.")],
    qrels: Annotated[Path, typer.Option(help="Judgements: BEIR TSV or TREC, plain or gz.")],
    searcher: With = "lexical",
    measures: Annotated[
        str, typer.Option(help="Measures by their ir-measures names, and NCG@k, Hits@k.")
    ] = "nDCG@10,RR@10,R@100",
    k: Depth = 1000,
    syntax: Annotated[
        bool, typer.Option("--syntax", help="Heed + - quotes and field: in queries.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Measure search against judgements, with confidence intervals and latency."""
    from quoth.app.measuring import measure

    with _engine(collection, config, settings) as engine:
        measured = measure(
            engine,
            queries=queries,
            qrels=qrels,
            searcher=searcher,
            measures=_split(measures),
            k=k,
            syntax=syntax,
        )
    if as_json:
        show.print_json(measured.as_record())
        return
    rows = [
        [row.measure, f"{row.mean:.4f}", f"{row.low:.4f} to {row.high:.4f}"]
        for row in measured.rows
    ]
    title = f"{collection}, {measured.num_queries:,} queries"
    show.out().print(show.table(title, ["measure", "mean", "95 % interval"], rows))
    show.note(measured.latency_line())


@app.command()
def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="TREC runs; the first is the baseline.")
    ],
    *,
    qrels: Annotated[Path, typer.Option(help="Judgements: BEIR TSV or TREC, plain or gz.")],
    measures: Annotated[
        str, typer.Option(help="Measures by their ir-measures names.")
    ] = "nDCG@10,RR@10,R@100",
    out: Annotated[
        Path | None, typer.Option(help="Folder for comparison.json, .csv and .tex.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs with a baseline: means, intervals, corrected significance."""
    from quoth.app.measuring import compare_runs

    compared = compare_runs(runs, qrels=qrels, measures=_split(measures), out=out)
    if as_json:
        show.print_json(compared.record)
    else:
        show.out().print(show.table("comparison", compared.table[0], compared.table[1:]))


@app.command()
@with_settings("collection")
def status(
    collection: Collection,
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Describe a collection: sizes, fields, settings, and how current each index is."""
    with _engine(collection, config, settings) as engine:
        found = engine.status()
    if as_json:
        show.print_json(found)
    else:
        show.out().print("\n".join(show.key_values(found)), markup=False)


@app.command()
@with_settings("passages", "analyser", "collection")
def verify(
    collection: Collection,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild what differs from the store.")
    ] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
    settings: Mapping[str, str],
) -> None:
    """Check every checksum, and every index against the documents."""
    with _engine(collection, config, settings) as engine:
        damage = engine.verify(repair=repair)
    if as_json:
        show.print_json(
            {
                "clean": damage.is_clean,
                "store": list(damage.store),
                "indexes": list(damage.indexes),
                "repaired": damage.repaired,
            }
        )
    else:
        for line in (*damage.store, *damage.indexes):
            show.note(line)
        show.out().print(damage.verdict(), markup=False)
    if not damage.is_clean:
        raise typer.Exit(1)


@app.command()
def demo(
    collection: Annotated[
        Path | None,
        typer.Argument(help="Where to keep the demo's collection; default: your cache."),
    ] = None,
) -> None:
    """Search the docstrings of the Python standard library, step by step."""
    from quoth.app.demo import play

    with show.progress_bar() as progress:
        play(collection, progress=progress)


class _Problems:
    """Shows the first problems as they come and keeps count of the rest."""

    def __init__(self, limit: int | None) -> None:
        self.lines: list[str] = []
        self._limit = limit
        self._count = 0

    def __call__(self, problem: Problem) -> None:
        self._count += 1
        if self._limit is None:
            self.lines.append(str(problem))
        elif self._count <= self._limit:
            show.note(f"skipped {problem}")

    def tell_rest(self) -> None:
        """Say how many problems were not shown."""
        if self._limit is not None and self._count > self._limit:
            show.note(f"… and {self._count - self._limit:,} more (--json lists them all)")


@contextmanager
def _engine(collection: Path, config: Path | None, settings: Mapping[str, str]) -> Iterator[Any]:
    from quoth.app.config import overrides_from_text, read_toml
    from quoth.app.engine import Engine

    layers = [read_toml(config)] if config is not None else []
    with show.progress_bar() as progress:
        layers.append(overrides_from_text(settings))
        with Engine.open(collection, settings=layers, progress=progress) as engine:
            yield engine


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _advise(error: QuothError) -> str:
    text = str(error)
    if isinstance(error, Damaged) and "quoth verify" not in text and "restore" not in text:
        text += '; "quoth verify COLLECTION --repair" rebuilds indexes from the documents'
    return text
