"""Write the pages that are made from templates, docs/layers.toml, benchmark results and the help.

Templates are Markdown, or a drawing, with jinja2. Those of whole pages are in docs/templates; what
is told of a benchmark is in `report.md.j2` beside its results.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for `python docs/generate.py`

from benchmarks.cluster.capacity import Capacity  # noqa: E402
from benchmarks.papers.manifest import read_papers  # noqa: E402

from quoth.cli.main import make_app  # noqa: E402
from quoth.cli.man import man_page  # noqa: E402
from quoth.index.dense.ivfpq import num_lists  # noqa: E402

TEMPLATES = {
    "README.md": "docs/templates/README.md.j2",
    "docs/architecture.md": "docs/templates/architecture.md.j2",
    "docs/benchmarks.md": "docs/templates/benchmarks.md.j2",
    "docs/papers.md": "docs/templates/papers.md.j2",
    "docs/scale.md": "docs/templates/scale.md.j2",
    "docs/clients.svg": "benchmarks/serve/clients.svg.j2",
    "docs/cost.svg": "benchmarks/learn/cost.svg.j2",
    "docs/fusion.svg": "benchmarks/hybrid/fusion.svg.j2",
    "docs/growth.svg": "benchmarks/lexical/growth.svg.j2",
    "docs/reliability.md": "docs/templates/reliability.md.j2",
    "docs/reliability.svg": "benchmarks/citations/reliability.svg.j2",
    "docs/soak.svg": "benchmarks/soak/soak.svg.j2",
    "weights/query-generator.md": "benchmarks/query_generator/card.md.j2",
}
NOTICE = "<!-- made by docs/generate.py from {} and benchmarks/*/results -->\n"
MANUAL = ROOT / "docs" / "quoth.1"
MANUAL_NOTICE = '.\\" made by docs/generate.py from the help of every command\n'
MISSING = "–"
Row = Mapping[str, Any]


def main() -> None:
    """Write all pages."""
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Return every generated page with its content."""
    environment = _environment()
    filled = {
        ROOT / page: NOTICE.format(template) + _fill(environment.get_template(template))
        for page, template in TEMPLATES.items()
    }
    return {**filled, MANUAL: MANUAL_NOTICE + man_page(make_app())}


def _fill(template: Template) -> str:
    """Fill a template; several empty lines become one."""
    return re.sub(r"\n{3,}", "\n\n", template.render()).strip() + "\n"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(ROOT),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(f=number, contrast=contrast, percent=percent, bytes=size, rate=rate)
    environment.filters.update(find=find, value=value, at=at, changes=changes, latest=latest)
    environment.filters.update(complete=complete, mean=fmean, split=str.split, log=math.log10)
    environment.filters["lists"] = num_lists
    environment.tests["starting"] = str.startswith
    environment.globals.update(results=results, head=head, capacity=Capacity.fit(results))
    environment.globals["predicted"] = Capacity.fit_small(results)
    environment.globals["papers"] = read_papers()
    environment.globals["layers"] = tomllib.loads((ROOT / "docs" / "layers.toml").read_text())
    return environment


def results(name: str) -> Any:
    """Read a committed result file: `lexical/speed` is benchmarks/lexical/results/speed.json."""
    folder, _, file = name.partition("/")
    return json.loads((ROOT / "benchmarks" / folder / "results" / f"{file}.json").read_text())


# Tables ----------------------------------------------------------------------------------------


def head(*names: str) -> str:
    """Draw the first two lines of a table.

    >>> print(head("set", "nDCG@10"))
    | set | nDCG@10 |
    |---|---|
    """
    return f"{line(names)}\n|{'---|' * len(names)}"


def line(cells: Iterable[str]) -> str:
    """Draw one line of a table."""
    return "| " + " | ".join(cells) + " |"


# Filters: numbers ------------------------------------------------------------------------------


def number(value: float | None, form: str = ".3f") -> str:
    """Write a number in Python's format, or a dash where there is none.

    >>> number(0.12345), number(1234, ","), number(None)
    ('0.123', '1,234', '–')
    """
    return MISSING if value is None else format(value, form)


def contrast(found: Row | None, digits: int = 3) -> str:
    """Write a difference with its interval.

    >>> contrast({"difference": 0.01, "interval": {"low": -0.02, "high": 0.04}}, 2)
    '+0.01 [-0.02, +0.04]'
    """
    if found is None:
        return MISSING
    ends = found.get("interval", found)
    shown = [format(each, f"+.{digits}f") for each in (ends["low"], ends["high"])]
    return f"{found['difference']:+.{digits}f} [{', '.join(shown)}]"


def percent(score: Mapping[str, float] | None) -> str:
    """Write a mean share with its interval, in hundredths."""
    if score is None:
        return MISSING
    mean, low, high = (100 * score[name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def size(count: float) -> str:
    """Write a number of bytes in its own unit.

    >>> size(3.2e9), size(5e13)
    ('3.2 GB', '50.0 TB')
    """
    units = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9))
    unit, scale = next((each for each in units if count >= each[1]), ("MB", 1e6))
    return f"{count / scale:,.1f} {unit}"


def rate(seconds: float) -> str:
    """Say how often something fits into a second; a fit may find that it takes no time.

    >>> rate(0.4), rate(0.0)
    ('2.50', 'more than measured')
    """
    return f"{1 / seconds:,.2f}" if seconds > 0 else "more than measured"


# Filters: results ------------------------------------------------------------------------------


def find(rows: Iterable[Row], run: str, measure: str = "nDCG@10") -> Any:
    """Return the judgement of a run by a measure, or None."""
    return next((row for row in rows if (row["run_name"], row["measure"]) == (run, measure)), None)


def value(row: Row, run: str, measure: str = "nDCG@10") -> float | None:
    """Return the mean of a run of one split by a measure, or None."""
    found = find(row["results"], run, measure)
    return None if found is None else float(found["mean"])


def at(found: Any, *keys: str) -> Any:
    """Return what is below these keys, which may hold dots."""
    for key in keys:
        found = found[key]
    return found


def changes(rows: Iterable[Row], run: str, other: str) -> list[float]:
    """List by how much nDCG@10 of a run exceeds that of another, on the splits that have both."""
    pairs = [(value(row, run), value(row, other)) for row in rows]
    return [a - b for a, b in pairs if a is not None and b is not None]


def complete(rows: Iterable[Row], runs: Iterable[str], suffix: str = "") -> list[Row]:
    """Keep the splits that have all these runs, each named with the suffix."""
    return [row for row in rows if all(find(row["results"], run + suffix) for run in runs)]


def latest(rows: Iterable[Row], *keys: str) -> list[Row]:
    """Keep the row of the last step for each combination of these keys' values."""
    ordered: Sequence[Row] = sorted(rows, key=lambda row: row["step"])
    return list({tuple(row[key] for key in keys): row for row in ordered}.values())


if __name__ == "__main__":
    main()
