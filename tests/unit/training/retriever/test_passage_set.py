"""Passage sets: what goes in comes out, damage is seen, and the file is small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.training.passage_worlds import CLS, SEP, World, table
from tiny_encoder import make_tokenizer

from quoth.errors import ConfigError, Damaged
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs
from quoth.selfsupervision.pseudo_pairs import KINDS, PseudoQuery
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.retriever.passage_set import (
    PassageSet,
    make_passage_set,
    open_passage_set,
    pad_rows,
    save_passage_set,
)
from quoth.vocabulary.counting import CountedTerms
from quoth.vocabulary.term_counts import EVERYTHING

ARRAYS = (
    "document_rows",
    "kinds",
    "source_rows",
    "positive_rows",
    "lexical_rows",
    "excluded_rows",
    "negative_rows",
    "is_held_out",
)


@pytest.fixture
def inputs() -> GlowInputs:
    config = GlowConfig(max_subwords=16, max_query_subwords=8)
    return GlowInputs(make_tokenizer(), config, analyser=None)


def made(inputs: GlowInputs) -> PassageSet:
    passages = [{"text": ("the barn owl",)}, {"text": ("a raven at night",)}, {"text": ("hen",)}]
    queries = [
        PseudoQuery("owl", "generated", 0, (0, 2), (), (1,)),
        PseudoQuery("raven", "sentence", 1, (2,), (1,), (), "a at night", True),
        PseudoQuery("nothing", "log"),
    ]
    return make_passage_set(passages, queries, inputs=inputs, document_rows=[0, 0, 1])


def test_queries_and_passages_are_tokenised(inputs: GlowInputs) -> None:
    own = made(inputs)
    tokenizer = make_tokenizer()
    assert own.num_passages == 3 and len(own.passages) == 4  # one copy with its stretch held out
    assert len(own.queries) == 2  # nothing was found for the third
    batch = own.passage_batch(np.array([0, 3]))
    expected = tokenizer.encode("the barn owl").ids
    assert batch.subword_ids[0, : len(expected)].tolist() == expected
    assert batch.subword_ids[1, :5].tolist() == tokenizer.encode("a at night").ids
    assert own.positive_rows.tolist() == [0, 3]
    assert own.held_out_rows.tolist() == [1] and own.training_rows.tolist() == [0]
    assert own.kinds.tolist() == [KINDS.index("generated"), KINDS.index("sentence")]


def test_weights_and_fields_are_kept_and_written(tmp_path: Path) -> None:
    config = GlowConfig(max_subwords=16, weighting="row", layout="fields", fields=("title", "text"))
    inputs = GlowInputs(make_tokenizer(), config, analyser=Analyser(AnalyserConfig()))
    counts = CountedTerms(9, {EVERYTHING: {"owl": 1, "barn": 5}}, {"title": 9, "text": 40})
    passages = [{"title": ("owl",), "text": ("the barn owl",)}, {"text": ("hen",)}]
    queries = [PseudoQuery("barn owl", "generated", 0, (0,)), PseudoQuery("hen", "log", 1, (1,))]
    own = make_passage_set(passages, queries, inputs=inputs, counts=counts)
    save_passage_set(tmp_path / "p.set", own)
    for each in (own, open_passage_set(tmp_path / "p.set"), own.only(kinds=("generated", "log"))):
        expected = inputs.pad(inputs.documents(passages, counts))
        found = each.passage_batch(np.arange(2))
        assert found.subword_ids.tolist() == expected.subword_ids.tolist()
        assert found.field_ids.tolist() == expected.field_ids.tolist()
        assert found.weights.numpy() == pytest.approx(expected.weights.numpy(), rel=1e-3)
        asked = inputs.pad(inputs.queries(["barn owl", "hen"], counts))
        assert each.query_batch(np.arange(2)).weights.numpy() == pytest.approx(
            asked.weights.numpy(), rel=1e-3
        )
        assert (asked.weights != 1).any()


def test_targets_lack_the_first_symbol_and_keep_the_last() -> None:
    own = replace_queries(World().passage_set, [[11, 12], [13]])
    targets = own.query_targets(np.array([0, 1]))
    assert targets.subword_ids.tolist() == [[11, 12, SEP], [13, SEP, 0]]
    assert targets.mask.tolist() == [[True] * 3, [True, True, False]]
    assert own.query_batch(np.array([1])).subword_ids.tolist() == [[CLS, 13, SEP]]


def replace_queries(own: PassageSet, queries: list[list[int]]) -> PassageSet:
    rows = np.arange(len(queries))
    names = [name for name in ARRAYS if name != "document_rows"]
    kept = {name: getattr(own, name)[rows] for name in names}
    return replace(own, queries=table(queries), **kept)


def test_what_is_saved_comes_back(inputs: GlowInputs, tmp_path: Path) -> None:
    own = replace(made(inputs), about={"corpus": "birds"})
    save_passage_set(tmp_path / "set.bin", own)
    found = open_passage_set(tmp_path / "set.bin")
    for name in ARRAYS:
        assert getattr(found, name).tolist() == getattr(own, name).tolist(), name
    for side in ("passages", "queries"):
        mine, theirs = getattr(own, side), getattr(found, side)
        assert theirs.subword_ids.tolist() == mine.subword_ids.tolist()
        assert theirs.offsets.tolist() == mine.offsets.tolist()
    assert found.about == {"corpus": "birds"} and found.num_passages == 3


def test_damage_is_seen(inputs: GlowInputs, tmp_path: Path) -> None:
    path = tmp_path / "set.bin"
    save_passage_set(path, made(inputs))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"set\.bin is no whole passage set"):
        open_passage_set(path)
    path.write_bytes(content[:40])
    with pytest.raises(Damaged):
        open_passage_set(path)


def test_a_large_set_stays_small(tmp_path: Path) -> None:
    """A fiftieth of 30,000 passages of 192 subwords and 100,000 queries must be below 20 MB / 50.

    Random subwords compress worse than any text does.
    """
    chance = np.random.default_rng(0)
    passages = chance.zipf(1.2, (600, 190)).clip(1, 30_000).tolist()
    queries = chance.zipf(1.2, (2000, 12)).clip(1, 30_000).tolist()
    rows = chance.integers(0, 600, (2000, 20))
    none = pad_rows([()] * 2000)
    own = PassageSet(
        passages=table(passages),
        num_passages=600,
        document_rows=np.arange(600),
        queries=table(queries),
        kinds=np.zeros(2000, dtype=np.uint8),
        source_rows=rows[:, 1],
        positive_rows=rows[:, 0],
        lexical_rows=rows,
        excluded_rows=none,
        negative_rows=none,
        is_held_out=np.zeros(2000, dtype=bool),
    )
    save_passage_set(tmp_path / "set.bin", own)
    assert (tmp_path / "set.bin").stat().st_size < 20e6 / 50


def test_kinds_can_be_chosen(inputs: GlowInputs) -> None:
    own = made(inputs).only(kinds=("sentence",))
    assert own.positive_rows.tolist() == [3]
    batch = own.query_batch(np.array([0]))
    assert batch.subword_ids[0].tolist() == make_tokenizer().encode("raven").ids


def test_queries_without_any_passage_are_an_error(inputs: GlowInputs) -> None:
    with pytest.raises(ConfigError, match="no query has a passage"):
        make_passage_set([{"text": ("hen",)}], [PseudoQuery("owl", "log")], inputs=inputs)
