"""What the benchmark packs and trains: related chunks, statements, arms that differ."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.generation.negatives import TABLE_5
from benchmarks.generation.pack import (
    Packer,
    Piece,
    cut_pieces,
    find_related,
    is_held_out,
    make_records,
)
from benchmarks.generation.train_gpu import model_config, recipe_of, train_arm
from tests.unit.training.dynamic_worlds import (
    PASSAGES,
    TEXTS,
    make_inputs,
    make_model,
    make_set,
)

from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.quoting.quote_writer import CoverRecord, QuoteRecord, QuoteWriter
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.quoting.set import open_dynamic_set

GIVEN = Namespace(
    steps=5,
    batch=2,
    quote_batch=2,
    accumulate=1,
    rate=1e-3,
    report_every=1,
    checkpoint_every=0,
    seed=0,
    tuning="lora",
    rank=4,
    dropout=0.0,
    reach=3.0,
    choice=0.0,
    sentence=0.0,
    budget=32,
    workers=0,
    quote_share=0.75,
    encoder_layers=1,
    start=None,
    minutes=0.0,
    latest=0.0,
    valid=4,
    continuations=20,
)


def chunk(*ids: int) -> SubwordText:
    return SubwordText(np.array(ids), np.ones(len(ids), dtype=bool))


def test_related_chunks_share_rare_subwords_and_are_others() -> None:
    chunks = [chunk(1, 2, 50, 51), chunk(1, 3, 60), chunk(1, 2, 51, 50), chunk(1, 3, 60, 61)]
    related = find_related(chunks)
    assert related[:, 0].tolist() == [2, 3, 0, 1]
    assert all(row not in own for row, own in enumerate(related.tolist()))


def test_records_hold_the_answer_and_neighbours_of_other_documents() -> None:
    pieces = [Piece(str(at), f"t{at % 2}", text) for at, text in enumerate(PASSAGES)]
    questions = [("When was the barn owl named?", ("1769",), "0"), ("Who?", ("nobody",), "1")]
    (record,) = make_records(questions, pieces)
    assert record.passage == PASSAGES[0] and PASSAGES[0] not in record.distractors
    (record,) = make_records(questions, pieces, other_titles=True)
    assert set(record.distractors) <= {PASSAGES[1], PASSAGES[3]}


def test_packed_files_can_be_read(tmp_path: Path) -> None:
    inputs = make_inputs()
    packer = Packer(inputs, tmp_path)
    packer.pack_texts([" ".join(TEXTS * 4)] * 2, "texts-0")
    texts = open_dynamic_set(tmp_path / "texts-0.bin").texts
    assert texts.lengths.max() == 512 and texts.lengths.min() >= 64
    pieces = [Piece(str(at), "", text) for at, text in enumerate(PASSAGES)]
    records = make_records([("When was it named?", ("1769",), "0")] * 8, pieces)
    covers = [CoverRecord("hens", "A hen sleeps at night in old barns.", PASSAGES)]
    packer.pack_quotes(QuoteWriter(inputs, QuotingConfig()), records, covers)
    name = "quotes-valid.bin" if is_held_out(PASSAGES[0]) else "quotes.bin"
    quotations = open_dynamic_set(tmp_path / name).quotations
    assert len(quotations) >= 8 and quotations.is_answerable.any()


def test_pieces_are_short_and_on_one_line() -> None:
    pieces = cut_pieces("One two three.\n\n" + "word " * 300 + "end.")
    assert len(pieces) > 2 and all(len(each.split()) <= 120 for each in pieces)
    assert not any("\n" in each for each in pieces)


def test_arms_differ() -> None:
    arms = ["quoth", "plain", "output_only", "no_text", "no_kl", "cited", "cited_plain"]
    arms += ["shared"]
    arms += ["negatives:in_batch", "negatives:generation", "sampling:n_ids", "sampling:fmm"]
    arms += ["fmm:pre_batch", "fmm:in_batch", "ids:pre_batch", "ids:in_batch"]
    settings = {arm: (model_config(arm, GIVEN), recipe_of(arm, GIVEN)) for arm in arms}
    assert len(set(map(str, settings.values()))) == len(arms)
    assert settings["output_only"][0].phrase_input == "unfold"
    assert settings["ids:pre_batch"][1].sampling.method == "n_ids"
    assert settings["ids:pre_batch"][1].negatives == TABLE_5["pre_batch"]
    with pytest.raises(SystemExit, match="no arm nothing"):
        recipe_of("nothing", GIVEN)


@pytest.mark.parametrize("arm", ["cited", "negatives:generation"])
def test_an_arm_is_trained_saved_and_measured(arm: str, tmp_path: Path) -> None:
    model = make_model(tmp_path / "base")
    record = QuoteRecord("When was it named?", ("1769",), PASSAGES[0], PASSAGES[1:])
    quotations = tuple(QuoteWriter(model.inputs, QuotingConfig()).answer([record] * 8))
    dynamic_set = make_set(model.inputs, quotations=quotations)
    given = Namespace(**vars(GIVEN) | {"base": tmp_path / "base", "out": tmp_path, "steps": 2})
    made = train_arm(
        arm,
        dynamic_set,
        given,
        device=torch.device("cpu"),
        valid=dynamic_set.texts,
        quotes_valid=dynamic_set if arm == "cited" else None,
    )
    name = arm.replace(":", "-")
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert [each["step"] for each in content["curve"]] == [1, 2]
    assert content["plain_loss"][0] != content["plain_loss"][1]
    assert ("quotations_held_out" in content) == (arm == "cited")
    assert made.subword_ids
    open_dynamic_lm(tmp_path / name, base=tmp_path / "base", device=torch.device("cpu"))
