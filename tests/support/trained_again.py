"""Train every kind of model that a user can train, each for a few steps, always the same way."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from learning_worlds import copy_words, make_collection, make_documents, save_models
from tiny_language_model import save_language_model

from quoth.cli.main import main as run_command
from quoth.models.query_generator.generator import QueryGenerator


def main(folder: str) -> None:
    home = Path(folder)
    home.mkdir()
    encoder, generator = save_models(home / "given")
    language_model = save_language_model(home / "given" / "language-model")
    collection = make_collection(home / "birds.quoth", make_documents(30))
    QueryGenerator.generate = copy_words  # type: ignore[assignment, method-assign]
    run(
        *("learn", collection, "--dense.encoder", encoder, "--learn.generator", generator),
        *("--learn.method", "distil", "--learn.steps", 3, "--learn.batch-size", 4),
        *("--learn.k", 2, "--learn.warm-up-steps", 8, "--learn.warm-up-batch", 16),
        *("--learn.learning-rate", 2e-3, "--learn.held-out", 0.3, "--device", "cpu"),
        *("--learn.judged-queries", 20, "--seed", 5),
    )
    run(
        *("train", "pixar", collection, "--generative.generator", generator, "--device", "cpu"),
        *("--set", "pixar.steps=6", "--set", "pixar.batch-size=8", "--pixar.start", "none"),
        *("--pixar.shortlist", "centroids", "--pixar.num-lists", 2, "--seed", 5),
    )
    run(
        *("train", "dynamic-lm", collection, "--out", home / "dynamic-lm", "--seed", 5),
        *("--answer.model", language_model, "--steps", 3, "--device", "cpu"),
        *("--set", "training.sentences=8", "--set", "training.judged=4"),
    )
    pairs = home / "pairs.jsonl"
    pairs.write_text("".join(map(_pair, make_documents(30))))
    run(
        *("train", "glow", "--pairs", pairs, "--out", home / "glow", "--base", encoder),
        *("--glow.steps", 3, "--glow.batch-size", 4, "--glow.num-layers", 1),
        *("--encoder.max_subwords", 48, "--device", "cpu"),
    )
    run("phrases", "build", collection, "--size", 400, "--out", home / "phrases")


def run(*arguments: object) -> None:
    """Run a command in this process."""
    sys.argv = ["quoth", *map(str, arguments)]
    try:
        run_command()
    except SystemExit as ended:
        if ended.code:
            raise


def _pair(document: object) -> str:
    fields = document.fields  # type: ignore[attr-defined]
    return json.dumps({"query": fields["title"][0], "passage": fields["text"][0]}) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
