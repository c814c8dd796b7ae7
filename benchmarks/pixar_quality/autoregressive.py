"""Train and search an autoregressive control of PIXAR's size, and time both, on a GPU.

    python3 -m benchmarks.pixar_quality.autoregressive train --encoder FOLDER --out OUT
        --steps 1200
    python3 -m benchmarks.pixar_quality.autoregressive search --encoder FOLDER --out OUT
        --steps 1200
    python3 -m benchmarks.pixar_quality.autoregressive time --encoder FOLDER --out OUT
        --steps 1200 --checkpoint FOLDER

The paper's headline compares PIXAR with systems that write identifiers subword by subword (SEAL and
its like). This is one of those, from the same start: the query generator's network, PIXAR's encoder
and a decoder made from its layers, reads a query and writes an identifier in WordPiece. It learns
from the same queries, in the same order, with as many targets each and for as many steps as
PIXAR in `run_gpu` (`--start FOLDER` starts from a query generator that was trained instead). It
writes by a beam search that never leaves the identifiers (`constrained_beam`); documents get their
scores from the identifiers as PIXAR's do. `time` takes one query at a time through both, in turns.
Each part goes on where an earlier call stopped. Writes OUT/autoregressive.*.json and .npz;
`contrast_report` judges them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.pixar_quality.constrained_beam import (
    SubwordTrie,
    Written,
    build_subword_trie,
    search_beam,
)
from benchmarks.pixar_quality.run_gpu import AGGREGATIONS, PACKED, Desk, K, pad_rows
from benchmarks.pixar_quality.trained import latest_checkpoint
from quoth.index.trie.trie import Sequences, Trie
from quoth.models.pixar.config import PixarConfig
from quoth.models.pretrained import load_tokenizer
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.files import build_network, load_bert, load_network
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.models.query_generator.loading import start_id
from quoth.models.query_generator.network import QueryGeneratorNetwork, TextBatch
from quoth.models.query_generator.saved import read_saved
from quoth.search.generative.aggregate import Owners, aggregate, gather_evidence
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.search.generative.decode.decoder import Decoded
from quoth.training.batching import Batches
from quoth.training.checkpoint import load_latest
from quoth.training.identifiers.pairs import IdentifierPairs, TargetBatch, open_identifier_pairs
from quoth.training.loop import TrainingReport, seeded, set_dropout, train
from quoth.training.loop_config import LoopConfig
from quoth.training.recipes.pixar import query_batch
from quoth.training.recipes.pixar_config import PixarRecipe

VOCABULARY = "wordpiece"
WIDTHS = (10, 100)
_ROWS_AT_ONCE = 3200  # beginnings that are continued in one step


def main() -> None:
    """Do the part that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("train", "search", "time"))
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="a trained query generator to start from")
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--checkpoints", type=Path, default=Path("benchmarks/.cache/pixar-runs"))
    parser.add_argument("--checkpoint", type=Path, help="PIXAR's, of `run_gpu`, to be timed beside")
    parser.add_argument("--vocabulary", default="phrases-100000", help="PIXAR's")
    parser.add_argument("--set", dest="name", default="squad")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=512)
    # rates, decay and dropout are those of the query generator's own recipe
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--encoder-learning-rate", type=float, default=2e-4)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--checkpoint-every", type=int, default=200)
    parser.add_argument("--layers", type=int, default=6, help="of the decoder")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="of the beams")
    parser.add_argument("--test-queries", type=int, default=1000)
    parser.add_argument("--timed", type=int, default=200, help="queries that are timed")
    parser.add_argument("--wanted", type=int, default=2000, help="phrases of PIXAR's shortlist")
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    control = Control.open(given)
    if given.part == "train":
        control.train()
    elif given.part == "search":
        control.search()
    else:
        from benchmarks.pixar_quality.side_by_side import time_both

        time_both(control, given)


class IdentifierWriter(nn.Module):
    """What is trained: its output is the mean loss per subword of a batch."""

    def __init__(self, network: QueryGeneratorNetwork, *, dropout: float) -> None:
        super().__init__()
        self.network = network
        set_dropout(network, dropout)

    def forward(self, queries: TextBatch, targets: TextBatch) -> Tensor:
        """Return the loss; the targets of one query stand together."""
        states = self.network.encode(queries)
        losses = self.network.target_losses(targets, states, queries.mask)
        return losses.sum() / targets.mask.sum()


def ended_targets(drawn: TargetBatch, *, end: int, most: int) -> TextBatch:
    """Lay identifiers out one per row, each with its end, cut to `most` subwords in all.

    >>> drawn = TargetBatch(torch.tensor([[[7, 8, -1], [9, -1, -1]]]), torch.tensor([[2, 1]]))
    >>> batch = ended_targets(drawn, end=2, most=4)
    >>> batch.subword_ids.tolist(), batch.mask.sum(1).tolist()
    ([[7, 8, 2], [9, 2, 0]], [3, 2])
    """
    ids, lengths = drawn.phrase_ids.flatten(0, 1), drawn.lengths.flatten()  # (B · K, S), (B · K,)
    lengths = lengths.clamp_max(min(most - 1, ids.shape[1]))
    room = int(lengths.max()) + 1
    places = torch.arange(room, device=ids.device)
    padded = torch.cat((ids, ids.new_full((len(ids), 1), -1)), dim=1)[:, :room]
    ended = torch.where(places == lengths[:, None], end, padded)
    mask = (places <= lengths[:, None]) & (lengths > 0)[:, None]
    return TextBatch(ended.masked_fill(~mask, 0), mask)


@dataclass
class Control:
    """The network, what it learns from, and the identifiers it may write."""

    given: argparse.Namespace
    network: QueryGeneratorNetwork
    inputs: QueryGeneratorInputs
    config: QueryGeneratorConfig
    pairs: IdentifierPairs
    desk: Desk
    trie: SubwordTrie  # rows are those of the desk's trie
    device: torch.device

    @classmethod
    def open(cls, given: argparse.Namespace) -> Control:
        """Start the network, with the latest checkpoint where there is one."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        folder = given.packed / given.name
        pairs = open_identifier_pairs(folder / f"{VOCABULARY}.bin")
        desk = Desk.open(folder, pairs, most=given.test_queries, threads=given.threads)
        network, inputs, config = start_network(given, longest=desk.trie.longest)
        trie = joined_beginnings(desk.trie, end=inputs.symbols.end, most=config.max_query_subwords)
        control = cls(given, network, inputs, config, pairs, desk, trie.to(device), device)
        if given.part != "train":
            control.restore()
        return control

    @property
    def name(self) -> str:
        """Name the arm: where the decoder started."""
        return "pretrained" if self.given.start else "fresh"

    @property
    def place(self) -> Path:
        """Where checkpoints are."""
        return Path(self.given.checkpoints) / f"{self.given.name}.autoregressive.{self.name}"

    @property
    def facts_path(self) -> Path:
        """Where facts about the training go."""
        return Path(self.given.out) / f"autoregressive.{self.name}.json"

    def train(self) -> None:
        """Train, going on from the latest checkpoint, unless that was done."""
        given, recipe = self.given, PixarRecipe(batch_size=self.given.batch)
        if self.facts_path.exists():
            return
        rows, began = self.pairs.training_rows, time.perf_counter()
        with seeded(recipe.seed, self.device) as generator:
            model = IdentifierWriter(self.network, dropout=given.dropout).to(self.device)
            on_device = self.pairs.to(self.device)
            end, most = self.inputs.symbols.end, self.config.max_query_subwords

            def loss(own: nn.Module, at: NDArray[np.int64], _strength: float) -> Tensor:
                read = query_batch(on_device, rows[at])
                drawn = on_device.draw_targets(
                    rows[at],
                    count=recipe.targets_per_input,
                    num_slots=most - 1,
                    generator=generator,
                )
                targets = ended_targets(drawn, end=end, most=most)
                found: Tensor = own(TextBatch(read.subword_ids, read.mask), targets)
                return found

            report = train(
                model,
                query_batches(self.pairs, rows, recipe),
                loss,
                loop_config(given),
                generator=generator,
                progress=lambda each: print(each.step, round(each.loss, 3), flush=True),
                checkpoint=self.place,
                until=given.steps,  # writes a checkpoint after the last step, whatever the interval
            )
        self.keep_training(report, recipe, time.perf_counter() - began)

    def keep_training(self, report: TrainingReport, recipe: PixarRecipe, seconds: float) -> None:
        """Write how training went."""
        sizes = [each.numel() for each in self.network.parameters()]
        facts = {
            "start": self.name,
            "config": asdict(self.config),
            "parameters": sum(sizes),
            "steps": report.steps,
            "batch": self.given.batch,
            "targets_per_input": recipe.targets_per_input,
            "learning_rates": [self.given.learning_rate, self.given.encoder_learning_rate],
            "seconds": round(seconds, 1),
            "losses": report.losses,
            "about": dict(self.pairs.about),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        }
        self.facts_path.write_text(json.dumps(facts, default=str))

    def restore(self) -> None:
        """Put the latest checkpoint into the network."""
        state = load_latest(self.place)
        if state is None:
            raise FileNotFoundError(f"{self.place} holds no checkpoint; run the part train first")
        model = IdentifierWriter(self.network, dropout=0.0)
        own = {name: state.tensors[f"model/{name}"] for name in model.state_dict()}
        model.load_state_dict(own)
        print(f"restored step {state.step} from {latest_checkpoint(self.place)}", flush=True)
        self.network.to(self.device).eval()

    def search(self) -> None:
        """Search for the test queries with each width; written as soon as it is done."""
        for width in map(int, self.given.widths.split(",")):
            path = self.given.out / f"autoregressive.{self.name}.beam-{width}.npz"
            if path.exists():
                continue
            began = time.perf_counter()
            found: dict[str, list[NDArray[np.int32]]] = {}
            at_once = max(1, _ROWS_AT_ONCE // width)
            for start in range(0, len(self.desk.texts), at_once):
                texts = self.desk.texts[start : start + at_once]
                for written in self.write(texts, width=width):
                    for name, best in rank_all(self.desk.trie, written).items():
                        found.setdefault(name, []).append(pad_rows(best.rows))
            np.savez_compressed(path, **{name: np.stack(own) for name, own in found.items()})
            print(f"{path.name}: {time.perf_counter() - began:.1f} s", flush=True)

    @torch.inference_mode()
    def write(self, texts: Sequence[str], *, width: int) -> list[Written]:
        """Write identifiers for queries."""
        batch = self.inputs.pad(self.inputs.passages(texts)).to(self.device)
        states = self.network.encode(batch)
        step = self.network.begin(states, batch.mask, per_passage=width)
        return search_beam(
            step, self.trie, num_queries=len(texts), width=width, prefix=self.network.prefix
        )


def start_network(
    given: argparse.Namespace, *, longest: int
) -> tuple[QueryGeneratorNetwork, QueryGeneratorInputs, QueryGeneratorConfig]:
    """Make a network from the encoder, or from a query generator; its encoder is trained too."""
    tokenizer = load_tokenizer(given.encoder)
    if given.start is None:
        config = QueryGeneratorConfig(
            num_layers=given.layers,
            max_passage_subwords=PixarConfig().max_query_subwords,  # what it reads are queries
            max_query_subwords=longest + 1,
            train_encoder=True,
        )
        inputs = QueryGeneratorInputs(tokenizer, config)
        network = build_network(load_bert(given.encoder), config, start_id=start_id(inputs))
        return network, inputs, config
    saved = read_saved(given.start)
    saved = replace(saved, config=replace(saved.config, train_encoder=True))
    inputs = QueryGeneratorInputs(tokenizer, saved.config)
    network = load_network(given.start, saved, base=given.encoder, start_id=start_id(inputs))
    return network, inputs, saved.config


def loop_config(given: argparse.Namespace) -> LoopConfig:
    """Return how long and how fast the control learns."""
    return LoopConfig(
        steps=given.steps,
        learning_rate=given.learning_rate,
        learning_rates={"network.encoder.": given.encoder_learning_rate},
        weight_decay=given.weight_decay,
        report_every=50,
        checkpoint_every=given.checkpoint_every,
    )


def query_batches(pairs: IdentifierPairs, rows: NDArray[np.int64], recipe: PixarRecipe) -> Batches:
    """Batch the queries in the order in which PIXAR gets them."""
    each = np.arange(len(rows))
    size = min(recipe.batch_size, len(rows))
    lengths = pairs.queries.lengths[pairs.query_rows[rows]]
    return Batches(each, each, batch_size=size, seed=recipe.seed, lengths=lengths)


def joined_beginnings(trie: Trie, *, end: int, most: int) -> SubwordTrie:
    """Make the trie that a beam walks; its rows are those of the other one.

    Identifiers of more subwords than can be written, the end included, are left out.
    """
    writable = int(trie.length_rows[min(most, len(trie.length_rows) - 1)])
    rows = np.arange(writable, dtype=np.int64)  # rows ascend with the length
    found = trie.sequences(rows)
    return build_subword_trie(Sequences(found.ids, found.offsets), end=end)


def rank_all(trie: Trie, written: Written) -> dict[str, Owners]:
    """Score documents by the identifiers that were written, in each way.

    An identifier counts with its log-probability (sum), or with that per subword (mean).
    """
    best = {}
    for name, scores in (("sum", written.scores), ("mean", written.scores / written.lengths)):
        for way, config in AGGREGATIONS.items():
            best[f"{name}.{way}"] = rank(trie, written.rows, scores, config)
    return best


def rank(
    trie: Trie, rows: NDArray[np.int64], scores: NDArray[np.floating[Any]], config: AggregateConfig
) -> Owners:
    """Aggregate identifiers, best first, to documents."""
    order = np.lexsort((rows, -scores))
    decoded = Decoded(rows[order], scores[order].astype(np.float32))
    return aggregate(gather_evidence(trie, decoded, scale=0.0), config, k=K)


if __name__ == "__main__":
    main()
