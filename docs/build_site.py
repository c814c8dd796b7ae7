"""Build the documentation site: the pages as they are, and a reference made from the code.

    python docs/build_site.py build/site          (make site)

The pages are laid out as in the repository, so that their links need no change; MkDocs follows
every link and anchor inside the site, and a broken one fails the build. Nothing comes from the
network, neither here nor in the browser.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
FOLDERS = ("docs", "examples", "packaging", "weights")
KEPT = {".md", ".png", ".svg", ".ipynb", ".toml", ".service", ".1", ".py", ".sh", ".cast", ""}
NAVIGATION = """
  - Start: README.md
  - Tutorial: docs/usage.md
  - How to:
      - Install: docs/install.md
      - Serve: docs/serving.md
      - Use the page: docs/page.md
      - Use with other libraries: docs/integrations.md
      - Use more than one machine: docs/scale.md
      - What Quoth survives: docs/reliability.md
      - Come from elsewhere: docs/coming_from.md
  - Reference:
      - Commands: reference/commands.md
      - Settings: reference/settings.md
      - Python: reference/python.md
      - HTTP: reference/http.md
      - Data model: docs/data_model.md
  - How it works:
      - Architecture: docs/architecture.md
      - Learning without labels: docs/learning.md
      - Weighted attention: docs/glow.md
      - Generated identifiers: docs/pixar.md
      - Answers: docs/answers.md
      - The papers: docs/papers.md
  - Evidence:
      - Benchmarks: docs/benchmarks.md
      - Peers: docs/peers.md
  - Project:
      - Changelog: CHANGELOG.md
      - Contributing: CONTRIBUTING.md
      - Security: SECURITY.md
"""
CONFIG = """site_name: Quoth
site_description: Search your own documents without a single label
docs_dir: {source}
site_dir: {target}
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.top, content.code.copy]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      toggle: {{icon: material/brightness-7, name: Dark}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      toggle: {{icon: material/brightness-4, name: Light}}
plugins: [search, offline]
markdown_extensions: [tables, fenced_code, attr_list, toc]
exclude_docs: |
  docs/templates/
validation:
  nav: {{omitted_files: info, not_found: warn, absolute_links: warn}}
  links: {{not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}}
nav:{navigation}"""


def main() -> None:
    """Build the site into the folder that is named."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    sys.exit(build(target))


def build(target: Path) -> int:
    """Build the site; the exit code is that of MkDocs, which fails on a broken link."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pages"
        lay_out(source)
        config = Path(folder) / "mkdocs.yml"
        text = CONFIG.format(source=source, target=target, navigation=NAVIGATION)
        config.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f"]
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run([*command, str(config)], check=False, env=quiet).returncode


def lay_out(source: Path) -> None:
    """Copy the pages as the repository has them, and write the reference beside them."""
    source.mkdir(parents=True)
    for name in PAGES:
        shutil.copy(ROOT / name, source / name)
    for name in FOLDERS:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and path.suffix in KEPT and "__pycache__" not in path.parts:
                copied = source / path.relative_to(ROOT)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copied)
    _copy_linked(source)
    (source / "reference").mkdir()
    for name, lines in reference().items():
        (source / "reference" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _copy_linked(source: Path) -> None:
    """Copy the files of the repository that pages link to, such as modules."""
    for page in sorted(source.rglob("*.md")):
        for link in re.findall(r"\]\(([^)#\s:]+)\)", page.read_text(encoding="utf-8")):
            found = (ROOT / page.relative_to(source).parent / link).resolve()
            if found.is_file() and found.is_relative_to(ROOT):
                copied = source / found.relative_to(ROOT)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, copied)


def reference() -> dict[str, list[str]]:
    """Return the pages that are made from the code."""
    return {
        "commands.md": list(_commands()),
        "settings.md": list(_settings()),
        "python.md": list(_python()),
        "http.md": list(_http()),
    }


def cell(text: object) -> str:
    """Make a text fit for a cell of a table.

    >>> cell("a | b\\n<c>")
    'a \\\\| b &lt;c>'
    """
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _commands() -> Iterator[str]:
    import typer

    from quoth.cli.main import make_app

    yield "# Commands\n\n`quoth COMMAND --help-all` shows every setting as well."
    root: Any = typer.main.get_command(make_app())
    yield from _group(root, "quoth")


def _group(group: Any, before: str) -> Iterator[str]:
    for name, command in group.commands.items():
        path = f"{before} {name}"
        if hasattr(command, "commands"):
            yield from _group(command, path)
            continue
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        shown = [each for each in command.params if each not in arguments and not each.hidden]
        usage = " ".join(each.metavar or each.name.upper() for each in arguments)
        yield f"\n## {path}\n\n`{path} {usage}`\n\n{inspect.cleandoc(command.help or '')}\n"
        yield "| option | meaning |\n|---|---|"
        for each in [*arguments, *shown]:
            names = ", ".join(each.opts) if each not in arguments else (each.metavar or each.name)
            if each.help:
                yield f"| `{cell(names)}` | {cell(each.help)} |"


def _settings() -> Iterator[str]:
    from quoth.settings.config import sections
    from quoth.settings.describe import describe_section

    yield "# Settings\n\nIn a TOML file given by `--config`, or `--set section.field=value`."
    for section in sections():
        yield f"\n## {section}\n\n| setting | default | allowed | meaning |\n|---|---|---|---|"
        for each in describe_section(section):
            texts = (each.default_text, each.allowed, each.meaning)
            yield f"| `{each.name}` | " + " | ".join(map(cell, texts)) + " |"


def _python() -> Iterator[str]:
    from quoth import records
    from quoth.client.client import Client
    from quoth.engine.engine import Engine

    yield "# Python\n\n`from quoth import Engine, Client`; records are in `quoth.records`."
    own = [each for each in vars(records).values() if inspect.isclass(each)]
    for kind in (Engine, Client, *(each for each in own if each.__module__ == records.__name__)):
        yield f"\n## {kind.__name__}\n\n{_fenced(kind)}"
        for name, value in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_") and (value.__doc__ or "").strip():
                signature = re.sub(r"quoth\.[a-z_.]+\.", "", str(inspect.signature(value)))
                yield f"\n### {kind.__name__}.{name}\n\n`{name}{signature}`\n\n{_fenced(value)}"


def _fenced(value: Any) -> str:
    """Return a docstring; examples of the interpreter become a block of code."""
    text = inspect.getdoc(value) or ""
    before, found, example = text.partition(">>>")
    return f"{before.strip()}\n\n```python\n>>>{example.rstrip()}\n```" if found else text


def _http() -> Iterator[str]:
    from quoth.engine.engine import Engine
    from quoth.server.openapi import describe
    from quoth.server.routes import create_app

    with Engine.open("reference.quoth") as engine:  # named, never made
        described = describe(create_app(engine))
    yield "# HTTP\n\nA running server shows the same at `/docs` and `/openapi.json`."
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield f"\n## {method.upper()} {path}\n\n{operation.get('description', '')}\n"
            content = operation.get("requestBody", {}).get("content", {}).values()
            names = [each["schema"].get("$ref", "").rpartition("/")[2] for each in content]
            for name in names:
                yield "| field | type | meaning |\n|---|---|---|"
                schema = described["components"]["schemas"].get(name, {})
                for field, about in schema.get("properties", {}).items():
                    kind = about.get("type", "")
                    yield f"| `{field}` | {kind} | {cell(about.get('description', ''))} |"


if __name__ == "__main__":
    main()
