"""Training sets: what is written is what the inputs say, and it comes back padded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import make_tokenizer

from quoth.errors import ConfigError, Damaged
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.retriever.training_set import Pair, open_training_set, write_training_set

ROW = GlowConfig(weighting="row", layout="fields", fields=("title", "text"))
PAIRS = [
    Pair("night owl", {"title": ["Barn owl"], "text": ["hunts at night, in one field"]}, "birds"),
    Pair("the swift", {"text": ["the swift sleeps on the wing"]}, "birds"),
    Pair("night owl", {"text": ["a raven"]}, "letters"),
    Pair("owl at dusk", {"title": ["Barn owl"], "text": ["hunts at night, in one field"]}, "birds"),
]


class Counts:
    """Every term stands in two of a hundred documents."""

    num_documents = 100

    def document_frequencies(self, view: str, terms: Iterable[str]) -> Mapping[str, int]:
        return dict.fromkeys(terms, 2)

    def average_lengths(self) -> Mapping[str, float]:
        return {"title": 2.0, "text": 5.0}


def inputs(config: GlowConfig) -> GlowInputs:
    return GlowInputs(make_tokenizer(), config, analyser=Analyser(AnalyserConfig()))


VARIANTS = {"row": ROW, "mild": replace(ROW, strength=0.25), "idf": replace(ROW, weights="idf")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    seen: list[int] = []
    write_training_set(
        tmp_path / "set",
        PAIRS,
        variants={name: inputs(config) for name, config in VARIANTS.items()},
        counts=Counts(),
        about={"corpus": "birds"},
        progress=seen.append,
    )
    assert seen == [4]
    return tmp_path / "set"


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_batches_equal_what_the_inputs_pad(folder: Path, variant: str) -> None:
    own = inputs(VARIANTS[variant])
    rows = np.array([3, 0, 1])
    batch = open_training_set(folder, variant=variant).batch(rows)
    queries = own.pad(own.queries([PAIRS[row].query for row in rows], Counts()))
    documents = own.pad(own.documents([PAIRS[row].fields for row in rows], Counts()))
    for found, expected in ((batch.queries, queries), (batch.documents, documents)):
        assert torch.equal(found.subword_ids, expected.subword_ids)
        assert torch.equal(found.mask, expected.mask)
        assert torch.equal(found.field_ids, expected.field_ids)
        torch.testing.assert_close(found.weights, expected.weights, rtol=1e-3, atol=0)


def test_equal_texts_are_stored_once(folder: Path) -> None:
    opened = open_training_set(folder, variant="row")
    assert len(opened) == 4
    assert opened.query_rows.tolist() == [0, 1, 0, 2]
    assert opened.document_rows.tolist() == [0, 1, 2, 0]
    assert opened.batch(np.array([0, 3])).document_rows.tolist() == [0, 0]
    assert [opened.sources[at] for at in opened.source_ids] == [pair.source for pair in PAIRS]
    assert opened.about == {"corpus": "birds"}


def test_the_plain_variant_needs_no_table(folder: Path) -> None:
    batch = open_training_set(folder).batch(np.arange(4))
    assert torch.equal(batch.documents.weights, torch.ones_like(batch.documents.weights))


def test_nothing_but_plain_arrays_is_written(folder: Path) -> None:
    assert {each.suffix for each in folder.iterdir()} == {".npy", ".json"}


def test_subwords_beyond_32767_survive_two_bytes() -> None:
    from quoth.training.sequences import SequenceTable

    table = SequenceTable.from_arrays(
        np.array([1, 65_000, 40_000], dtype=np.uint16),
        np.array([0, 1, 3]),
        field_ids=np.zeros(3, dtype=np.uint8),
        weights=None,
    )
    assert table.batch(np.array([1, 0])).subword_ids.tolist() == [[65_000, 40_000], [1, 0]]


def test_an_unknown_variant_and_an_unfinished_set_are_errors(folder: Path) -> None:
    with pytest.raises(ConfigError, match="only row, mild, idf, none"):
        open_training_set(folder, variant="column")
    (folder / "artifact.json").unlink()
    with pytest.raises(Damaged, match="no finished training set"):
        open_training_set(folder)


def test_variants_that_cut_differently_are_refused(tmp_path: Path) -> None:
    other = replace(ROW, max_subwords=8)
    with pytest.raises(ConfigError, match="cuts texts differently"):
        write_training_set(
            tmp_path / "set",
            PAIRS,
            variants={"row": inputs(ROW), "short": inputs(other)},
            counts=Counts(),
        )
