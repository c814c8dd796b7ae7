"""Average the weights of several readers that went on from one, and judge the averages.

    python3 -m benchmarks.reader.soup START RUN RUN … --encoder FOLDER --opened FILE --out OUT

Each RUN is what `train_gpu --start START` wrote, with another seed or another mix of examples.
Runs that leave one point lie in one valley of the loss, and their average is often better than any,
most of all on what none was trained on. `--shares` says how much of START is mixed in. Writes
OUT/soup-SHARE (int8, ready to be shipped) for each, and what each says of held-out questions, the
start and every run included, to OUT/soup.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import torch
from safetensors.torch import load_file

from benchmarks.reader.average import mix
from benchmarks.reader.opening import add_arguments, open_sets
from benchmarks.reader.train_gpu import Judge, open_network
from quoth.models.pretrained import DEFAULT_NAME, DEFAULT_SHA256, EncoderSource, load_tokenizer
from quoth.models.quantised import dequantise
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import WEIGHTS_FILE, save_reader


def main() -> None:
    """Average, judge, write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names = make_soups(given)
    _network, inputs = open_network(given.encoder, given.start)
    reading, judged = open_sets(given, inputs, device)
    mark_id = load_tokenizer(given.encoder).token_to_id("?")
    judge = Judge(reading, inputs, judged, given, device=device, mark_id=mark_id)
    path = given.out / "soup.json"
    content: dict[str, Any] = {
        "settings": {key: str(value) for key, value in vars(given).items()},
        "held_out": {},
    }
    folders = {**names, "start": given.start, **{each.name: each for each in given.runs}}
    for name, folder in folders.items():
        print(name, flush=True)
        network = open_network(given.encoder, folder)[0]
        content["held_out"][name] = judge(network, name)
        path.write_text(json.dumps(content, indent=1) + "\n")


def make_soups(given: argparse.Namespace) -> dict[str, Path]:
    """Write a reader for every share of the start, and return their folders by name."""
    read = [dequantise(load_file(str(each / WEIGHTS_FILE))) for each in (given.start, *given.runs)]
    encoder = EncoderSource(DEFAULT_NAME, DEFAULT_SHA256)
    found = {}
    for share in map(float, given.shares.split(",")):
        name = f"soup-{share:g}"
        others = (1 - share) / len(given.runs)
        mixed = mix(read, [share, *[others] * len(given.runs)])
        found[name] = given.out / name
        save_reader(found[name], mixed, ReaderConfig(), encoder=encoder, dtype="int8")
    return found


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("start", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shares", default="0,0.2,0.5", help="of START, each a soup")
    parser.add_argument("--judge", type=int, default=1_500, help="held-out examples of a source")
    parser.add_argument("--judge-signs", type=int, default=6_000, help="held-out examples in all")
    parser.add_argument("--leave-out", default="", help="sources that no run was trained on")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


if __name__ == "__main__":
    main()
