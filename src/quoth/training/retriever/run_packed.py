"""Train on another machine what `quoth learn --pack` packed: no collection, no index, no text.

    python -m quoth.training.retriever.run_packed notes.packed --out trained

Needs torch, transformers, tokenizers, safetensors and numpy. The file names the encoder and the
query generator that it was made for; they are checked, and given as folders where they are not
installed. What comes out is a folder for `quoth learn --unpack`; an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from quoth.artifact import seal_file, write_text_atomically
from quoth.errors import ConfigError, Damaged, QuothError
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.subword_counts import load_counts
from quoth.models.pretrained import find_folder
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.network import QueryGeneratorNetwork
from quoth.training.distribution import process_number
from quoth.training.retriever.curriculum import (
    Curriculum,
    CurriculumRun,
    StageTrained,
    Tell,
    run_curriculum,
)
from quoth.training.retriever.passage_set import open_passage_set

ENCODER, GENERATOR = "encoder", "query-generator"
FACTS = "trained.json"


def train_packed(
    path: Path,
    out: Path,
    *,
    tell: Tell,
    encoder: str = "",
    generator: str = "",
    device: str = "auto",
) -> tuple[StageTrained, ...]:
    """Train what a packed file asks for, and write what was trained and facts to a folder."""
    passage_set = open_passage_set(path)
    curriculum = Curriculum.from_record(_about(passage_set.about, "curriculum", path))
    start = load_start(_about(passage_set.about, "encoder", path), encoder)
    writer = None
    if curriculum.method != "none":
        writer = load_writer(_about(passage_set.about, "generator", path), generator)
    where = torch.device(
        ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    )
    run = CurriculumRun(where, out / "stages", tell)
    network = None if writer is None else require_alike(writer, start.tokenizer, start.name)
    made = run_curriculum(start.network, network, passage_set, curriculum, run)
    if process_number() != 0:
        return made.stages  # the first of several processes writes for all
    trained = GlowEncoder(
        ENCODER,
        made.retriever,
        start.tokenizer,
        start.config,
        identity={},
        subword_counts=load_counts(find_folder(start.name)),
    )
    trained.save(out / ENCODER)
    if made.query_generator is not None and writer is not None:
        # int8, in which it shipped, would round what it learned away
        _with_network(writer, made.query_generator).save(out / GENERATOR, dtype="bf16")
    facts = {
        "passage_set": seal_file(path).sha256,
        "device": where.type,
        "stages": [asdict(stage) for stage in made.stages],
    }
    write_text_atomically(out / FACTS, json.dumps(facts, indent=1) + "\n")
    return made.stages


def _with_network(writer: QueryGenerator, network: QueryGeneratorNetwork) -> QueryGenerator:
    return QueryGenerator(
        GENERATOR, network, writer.inputs, writer.config, encoder=writer.encoder, identity={}
    )


def load_start(named: Mapping[str, Any], folder: str) -> GlowEncoder:
    """Load the encoder to start from, in full precision, and make sure that it is the one meant."""
    found = GlowEncoder.load(folder or str(named["name"]), fast=False)
    if found.identity()["digest"] != named["digest"]:
        raise ConfigError(
            f"{found.name} has other weights than the encoder {named['name']} this was packed for;"
            " name the folder that holds it with --encoder"
        )
    return found


def load_writer(named: Mapping[str, Any], folder: str) -> QueryGenerator:
    """Load the query generator that wrote the queries, in full precision."""
    found = QueryGenerator.load(folder or str(named["name"]), fast=False)
    if found.identity()["digest"] != named["digest"]:
        raise ConfigError(
            f"{found.name} has other weights than the query generator {named['name']} that wrote"
            " these queries; name the folder that holds it with --generator"
        )
    return found


def require_alike(
    writer: QueryGenerator, tokenizer: Tokenizer, encoder: str
) -> QueryGeneratorNetwork:
    """Refuse a query generator that cuts words otherwise than the encoder it is trained with.

    Both read the same passage set.
    """
    alike = writer.inputs.tokenizer.get_vocab() == tokenizer.get_vocab()
    if not isinstance(writer.network, QueryGeneratorNetwork) or not alike:
        raise ConfigError(
            f"{writer.name} cuts words otherwise than {encoder}, so they cannot be trained"
            " together; set --learn.method none, or use a generator made from that encoder"
        )
    return writer.network


def _about(about: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = about.get(name)
    if not isinstance(found, Mapping):
        raise Damaged(f"{path} does not say its {name}; pack it with quoth learn --pack")
    return found


def _tell(stage: str, step: int, steps: int) -> None:
    print(f"{stage}: step {step} of {steps}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; an error becomes a message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m quoth.training.retriever.run_packed")
    parser.add_argument("packed", type=Path, help="what quoth learn --pack wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is trained")
    parser.add_argument("--encoder", default="", help="folder of the encoder to start from")
    parser.add_argument("--generator", default="", help="folder of the query generator")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    given = parser.parse_args(arguments)
    try:
        stages = train_packed(
            given.packed,
            given.out,
            tell=_tell,
            encoder=given.encoder,
            generator=given.generator,
            device=given.device,
        )
    except QuothError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for stage in stages:
        print(f"{stage.name}: {stage.steps} steps, best after {stage.best_step}")
    print(f"take {given.out} back and run: quoth learn COLLECTION --unpack {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
