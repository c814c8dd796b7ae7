"""The autoregressive control: it learns, resumes, finds, and is timed beside others in turns."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
import torch
from benchmarks.phrases.rival_tokenizers import open_wordpiece
from benchmarks.pixar_quality import side_by_side
from benchmarks.pixar_quality.autoregressive import (
    VOCABULARY,
    Control,
    ended_targets,
    joined_beginnings,
    rank,
)
from benchmarks.pixar_quality.side_by_side import ENCODE, PIXAR, summarise, time_in_turns
from tiny_encoder import save_tiny_encoder

from quoth.index.trie.build import build_trie
from quoth.index.trie.trie import Sequences
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pretrained import load_tokenizer
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.training.identifiers.pairs import (
    IdentifierPairConfig,
    TargetBatch,
    make_identifier_pairs,
    save_identifier_pairs,
)

PASSAGES = [
    ["owl at night", "barn owl hunt"],
    ["raven watches one hen", "a hen among many"],
    ["swift on the wing", "swift at dusk"],
    ["one letter of words", "three other words"],
]
TESTS = ["barn owl hunt", "a hen among many", "swift at dusk", "three other words"]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> argparse.Namespace:
    root = tmp_path_factory.mktemp("autoregressive")
    encoder = save_tiny_encoder(root / "encoder")
    folder = root / "packed" / "birds"
    folder.mkdir(parents=True)
    vocabulary = open_wordpiece(encoder / "tokenizer.json")
    pairs = make_identifier_pairs(
        PASSAGES,
        tokenise=PixarInputs(load_tokenizer(encoder), PixarConfig()).queries,
        segment=vocabulary.segment,
        num_phrases=len(vocabulary),
        config=IdentifierPairConfig(held_out_share=0.0),
    )
    save_identifier_pairs(folder / f"{VOCABULARY}.bin", pairs)
    (folder / "documents.json").write_text(json.dumps(["a", "b", "c", "d"]))
    (folder / "tests.json").write_text(
        json.dumps([["test", str(n), t] for n, t in enumerate(TESTS)])
    )
    return argparse.Namespace(
        part="train",
        encoder=encoder,
        start=None,
        packed=root / "packed",
        out=root,
        checkpoints=root / "runs",
        name="birds",
        steps=150,
        batch=8,
        learning_rate=5e-3,
        encoder_learning_rate=1e-3,
        weight_decay=0.0,
        dropout=0.0,
        checkpoint_every=75,
        layers=2,
        widths="3",
        test_queries=10,
        threads=1,
    )


@pytest.fixture(scope="module")
def trained(given: argparse.Namespace) -> Control:
    Control.open(given).train()
    return Control.open(argparse.Namespace(**{**vars(given), "part": "search"}))


def test_a_query_finds_the_document_whose_other_identifier_it_is(trained: Control) -> None:
    untrained = Control.open(argparse.Namespace(**{**vars(trained.given), "part": "train"}))
    best = {}
    for name, control in (("untrained", untrained), ("trained", trained)):
        control.network.eval()
        written = control.write(TESTS, width=4)
        best[name] = [
            rank(control.desk.trie, own.rows, own.scores, AggregateConfig()).rows[0]
            for own in written
        ]
    assert best["trained"] == [0, 1, 2, 3] != best["untrained"]


def test_rankings_and_facts_are_written_once(trained: Control) -> None:
    trained.search()
    path = trained.given.out / "autoregressive.fresh.beam-3.npz"
    found, written = np.load(path), path.stat().st_mtime_ns
    assert found["sum.max"].shape == (4, 100) and found["sum.max"][:, 0].tolist() == [0, 1, 2, 3]
    trained.search()
    assert path.stat().st_mtime_ns == written
    facts = json.loads((trained.given.out / "autoregressive.fresh.json").read_text())
    assert facts["steps"] == 150 and facts["losses"][-1][1] < facts["losses"][0][1]


def test_targets_are_cut_so_that_their_end_is_kept() -> None:
    drawn = TargetBatch(
        torch.tensor([[[7, 8, 9], [5, -1, -1]], [[6, 6, -1], [-1, -1, -1]]]),
        torch.tensor([[3, 1], [2, 0]]),  # the last input has one target only
    )
    batch = ended_targets(drawn, end=2, most=3)
    assert batch.subword_ids.tolist() == [[7, 8, 2], [5, 2, 0], [6, 6, 2], [0, 0, 0]]
    assert batch.mask.sum(1).tolist() == [3, 2, 3, 0]


def test_identifiers_that_are_too_long_to_write_are_left_out() -> None:
    sequences = Sequences(np.array([5, 6, 7, 8, 5], dtype=np.int32), np.array([0, 3, 5]))
    trie = build_trie(sequences, owners=np.array([0, 1]), num_phrases=9)
    rows = [joined_beginnings(trie, end=1, most=most).rows for most in (4, 3)]
    assert [sorted(own[own >= 0].tolist()) for own in rows] == [[0, 1], [0]]
    assert trie.length(0) == 2


def test_systems_take_turns_and_the_warm_up_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    now = [0.0]

    def system(name: str, seconds: float) -> side_by_side.Answer:
        def answer(text: str) -> None:
            seen.append(f"{name} {text}")
            now[0] += seconds if text != "cold" else 99.0

        return answer

    monkeypatch.setattr(side_by_side.time, "perf_counter", lambda: now[0])
    systems = {
        ENCODE: system(ENCODE, 0.001),
        PIXAR: system(PIXAR, 0.002),
        "beam": system("b", 0.008),
    }
    times = time_in_turns(systems, ["cold", "x", "y"], warm_up=1)
    assert seen[3:6] == ["encode x", "pixar x", "b x"]
    found = summarise("beam", times)
    assert found["mean"] == pytest.approx(8.0)
    assert found["times_pixar"]["mean"] == pytest.approx(8 / 2)
    assert found["times_encode"]["low"] == pytest.approx(8 / 1)
