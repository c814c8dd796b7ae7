"""Try every command on a collection in shards, and write which work and which are refused.

    python -m benchmarks.reliability.shards

Writes results/shards.json, from which docs/scale.md has its table. `QUICK` are tried by the tests,
too, and must be as written there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reliability.injecting import apart, preload
from benchmarks.reliability.operations import COLLECTION, OPERATIONS, OUT, prepare, run

_PATIENCE = 3600
RESULTS = Path(__file__).parent / "results" / "shards.json"
QUICK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("add", ("add", "{c}", "{w}/new.jsonl", "--no-encode")),
    ("remove", ("remove", "{c}", "d1")),
    ("search", ("search", "{c}", "owl", "--with", "lexical")),
    ("run", ("run", "{c}", "{w}/queries.tsv", "--out", "{w}/run.trec", "--with", "lexical")),
    ("sync", ("sync", "{c}", "{w}/folder", "--no-encode")),
    ("export", ("export", "{c}", "{w}/all.jsonl")),
    ("import", ("import", "{c}", "{w}/new.jsonl", "--no-encode")),
    ("status", ("status", "{c}")),
    ("verify", ("verify", "{c}")),
    ("verify --repair", ("verify", "{c}", "--repair")),
    ("shard --exchange", ("shard", "{c}", "--exchange")),
    ("merge", ("merge", "{c}", "--out", "{out}")),
    ("shard", ("shard", "{c}", "--shards", "3", "--out", "{w}/again")),
)
"""Commands that need no shipped weights; a name, and what is typed."""

SLOW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("encode", ("encode", "{c}")),
    ("search --rerank", ("search", "{c}", "owl", "--rerank")),
    ("ask", ("ask", "{c}", "What does the owl hunt?")),
    ("generate", ("generate", "{c}", "The owl")),
    ("learn", ()),  # as in operations.py, with models that are small enough
    (
        "train pixar",
        (
            *("train", "pixar", "{c}", "--dense.encoder", "{w}/models/encoder"),
            *("--generative.generator", "{w}/models/generator", "--device", "cpu"),
            *("--set", "pixar.steps=5", "--set", "pixar.batch-size=8"),
        ),
    ),
    (
        "train dynamic-lm",
        (
            *("train", "dynamic-lm", "{c}", "--out", "{w}/model", "--install"),
            *("--answer.model", "{w}/models/language-model", "--steps", "2", "--device", "cpu"),
            *("--set", "training.sentences=8", "--set", "training.judged=4"),
        ),
    ),
    ("phrases build", ("phrases", "build", "{c}", "--out", "{w}/phrases")),
)
"""Commands that use models, or need titles."""

_LEARNABLE = ("learn", "train pixar", "train dynamic-lm", "phrases build")
"""Commands that start from documents which can be learned from, with models of a few kilobytes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Whether a command works on shards; if not, what it says."""

    command: str
    works: bool
    says: str = ""


def main() -> None:
    """Try all commands, or some anew, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", default="", help="some of them, by commas")
    wanted = parser.parse_args().commands.split(",")
    rows: dict[str, dict[str, object]] = {}
    if wanted != [""]:
        rows = {row["command"]: row for row in json.loads(RESULTS.read_text())["commands"]}
    for command in (*QUICK, *SLOW):
        if wanted == [""] or command[0] in wanted:
            (tried,) = try_commands([command])
            rows[command[0]] = asdict(tried)
            RESULTS.write_text(json.dumps({"commands": list(rows.values())}, indent=1) + "\n")


def try_commands(commands: Iterable[tuple[str, tuple[str, ...]]]) -> list[Tried]:
    """Try commands one by one, each on shards of its own."""
    return [_try(name, arguments) for name, arguments in commands]


def _try(name: str, arguments: tuple[str, ...]) -> Tried:
    with tempfile.TemporaryDirectory(prefix="quoth-shards-") as place:
        folder = Path(place)
        (folder / "queries.tsv").write_text("1\tbarn owl\n")
        (folder / "folder").mkdir()
        (folder / "folder" / "owl.txt").write_text("The owl came back at dusk.\n")
        if not arguments:
            preload(OPERATIONS[name])
        apart(lambda: _prepare(name, folder))
        collection, out = str(folder / COLLECTION), str(folder / OUT)
        given = [each.format(c=collection, out=out, w=folder) for each in arguments]
        given = given or list(OPERATIONS[name].arguments(folder))
        ended = apart(lambda: run(given, folder / "log"), patience=_PATIENCE)
        said = ended.said.replace(collection, "notes.shards").replace(str(folder), "")
    if ended.code in (0, 1):
        return Tried(name, True)
    error = said.partition("error: ")[2].strip().partition("\n")[0]
    return Tried(name, False, error or said.strip()[-200:])


def _prepare(name: str, folder: Path) -> None:
    """Make the shards that a command is tried on, and the models that it needs."""
    prepare("learnable shards" if name in _LEARNABLE else "shards", folder)
    if name == "train dynamic-lm":
        from tiny_language_model import save_language_model  # in tests/support

        save_language_model(folder / "models" / "language-model")


if __name__ == "__main__":
    main()
