"""Fitting a reader: it learns to tell passages apart, and comes out half the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_reader import TinyReader, make_reader

from quoth.models.quantised import dequantise, read_sealed
from quoth.models.reader.files import WEIGHTS_FILE, read_saved
from quoth.models.reader.inputs import TitledText
from quoth.training.recipes.fitted_reader import FitExample, FitRecipe, OpenReader, fit_reader

CPU = torch.device("cpu")
PASSAGES = tuple(TitledText("", text) for text in ("the barn owl", "a raven at night", "hen"))
EXAMPLES = [
    FitExample(query, (PASSAGES[own], *(each for each in PASSAGES if each != PASSAGES[own])))
    for query, own in (("owl", 0), ("raven", 1), ("hen", 2))
]
RECIPE = FitRecipe(steps=40, batch_size=3, learning_rate=5e-3, max_subwords=32)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyReader:
    return make_reader(tmp_path_factory.mktemp("reader"))


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return dequantise(read_sealed(folder / WEIGHTS_FILE, sha256=read_saved(folder).sha256))


def test_a_fitted_reader_puts_the_own_passage_first(tiny: TinyReader) -> None:
    reader = OpenReader(tiny.folder)
    words = reader.network.encoder.embeddings.word_embeddings.weight.clone()  # type: ignore[union-attr,operator]
    fit_reader(reader, EXAMPLES, RECIPE, device=CPU)
    for example in EXAMPLES:
        own = [reader.inputs.pairs([example.query], [each])[0] for each in example.passages]
        with torch.inference_mode():
            scores = [
                float(
                    reader.network(
                        batch_of(torch.from_numpy(each.subword_ids), each.second)
                    ).relevance
                )
                for each in own
            ]
        assert scores[0] == max(scores)
    now = reader.network.encoder.embeddings.word_embeddings.weight  # type: ignore[union-attr]
    assert torch.equal(words, now), "the table of words is the encoder's"


def batch_of(ids: torch.Tensor, second: int) -> object:
    from quoth.models.reader.network import SequenceBatch

    fields = (torch.arange(len(ids)) >= second).long()
    return SequenceBatch(ids[None], fields[None], torch.ones(1, len(ids), dtype=torch.bool))


def test_what_is_saved_lies_between_before_and_after(tiny: TinyReader, tmp_path: Path) -> None:
    reader = OpenReader(tiny.folder)
    reader.save(tmp_path / "same", share=1.0)
    before = tensors(tmp_path / "same")
    for name, each in tensors(tiny.folder).items():
        assert before[name].numpy() == pytest.approx(each.numpy(), abs=0.02)
    fit_reader(reader, EXAMPLES, FitRecipe(steps=3, batch_size=3, learning_rate=5e-3), device=CPU)
    for name, share in (("half", 0.5), ("whole", 1.0)):
        reader.save(tmp_path / name, share=share)
    half, whole = tensors(tmp_path / "half"), tensors(tmp_path / "whole")
    name = "relevance.weight"
    middle = (before[name] + whole[name]) / 2
    assert half[name].numpy() == pytest.approx(middle.numpy(), abs=2e-3)
    assert not torch.equal(before[name], whole[name])


def test_small_changes_are_not_rounded_away(tiny: TinyReader, tmp_path: Path) -> None:
    """A few gentle steps move a weight by less than a step of int8, yet all in one direction."""
    folder = tiny.save(tmp_path / "int8", dtype="int8")
    before, reader = tensors(folder), OpenReader(folder)
    gentle = FitRecipe(steps=10, batch_size=3, learning_rate=1e-4, max_subwords=32)
    fit_reader(reader, EXAMPLES, gentle, device=CPU)
    reader.save(tmp_path / "fitted", share=1.0, seed=3)
    reader.save(tmp_path / "again", share=1.0, seed=3)
    now, saved = reader.network.state_dict(), tensors(tmp_path / "fitted")
    matrices = [name for name, each in before.items() if each.ndim == 2 and "layer" in name]
    learned = torch.cat([(now[f"encoder.{name}"] - before[name]).flatten() for name in matrices])
    kept = torch.cat([(saved[name] - before[name]).flatten() for name in matrices])
    assert float(learned.abs().max()) < 1.5e-3
    assert float(kept @ learned / (learned @ learned)) == pytest.approx(1.0, abs=0.3)
    assert all(torch.equal(saved[name], each) for name, each in tensors(tmp_path / "again").items())
