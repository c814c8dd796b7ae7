"""`quoth train glow` as a user meets it: from a file of pairs to an encoder to search with."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.cli.main import main
from quoth.errors import ConfigError
from quoth.jobs.glow import job
from quoth.jobs.glow.job import train_encoder
from quoth.jobs.glow.report import GlowRequest
from quoth.jobs.job_folder import MODEL_REPORT_FILE
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.search.searcher import ignore_progress
from quoth.training.recipes.glow_config import GlowRecipe, encoder_config

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = (
    *("--glow.steps", "3", "--glow.batch-size", "4", "--glow.num-layers", "1"),
    *("--encoder.max_subwords", "48", "--device", "cpu"),
)


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def assert_fails(self, code: int, *expected: str) -> None:
        assert self.code == code and self.out == "", self.err
        assert self.err.startswith("error: "), self.err
        for text in expected:
            assert text in self.err, self.err


Quoth = Callable[..., Outcome]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


def write_pairs(path: Path, count: int = 24, *, negatives: bool = False) -> Path:
    """Write pairs whose passages hold the words of their queries."""
    chance = random.Random(0)
    lines = []
    for at in range(count):
        words = chance.sample(WORDS, 4)
        record: dict[str, Any] = {
            "query": f"{words[0]} {words[1]} {at}",
            "passage": {"title": words[0], "text": " ".join(words)},
        }
        if negatives:
            record["negatives"] = [" ".join(chance.sample(WORDS, 4))]
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n")
    return path


def plan(tmp_path: Path, tiny: Path, name: str, **others: Any) -> GlowRequest:
    recipe = GlowRecipe(steps=4, batch_size=4, num_layers=1, weighting="row", learning_rate=1e-2)
    given: dict[str, Any] = {
        "pairs": write_pairs(tmp_path / "pairs.jsonl", negatives=True),
        "out": tmp_path / name,
        "recipe": recipe,
        "encoder": encoder_config(recipe, GlowConfig(max_subwords=48)),
        "base": str(tiny),
        "device": "cpu",
        "checkpoint_every": 2,
    }
    return GlowRequest(**{**given, **others})


def test_from_pairs_to_search(tmp_path: Path, tiny: Path, quoth: Quoth) -> None:
    pairs, out = write_pairs(tmp_path / "pairs.jsonl"), tmp_path / "mine"
    given = ("--pairs", pairs, "--out", out, "--base", tiny, *SMALL)
    told = quoth("train", "glow", *given, "--held_out", "0.25", "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert (found["pairs"], found["held_out_queries"], found["passages"]) == (18, 6, 24)
    assert found["steps"] == 3 and len(found["losses"]) == 3 and found["device"] == "cpu"
    assert (found["layers"], found["layers_of_the_base"]) == (1, 2)
    assert all(0 <= found["held_out"][when]["RR@10"] <= 1 for when in ("before", "after"))
    assert not (tmp_path / "mine.training").exists()
    saved = json.loads((out / MODEL_REPORT_FILE).read_text())
    assert saved["settings"]["glow"]["steps"] == 3 and saved["settings"]["held_out"] == 0.25

    again = quoth("train", "glow", *given, "--held_out", "0.25")
    assert again.code == 0 and "was already trained with these settings" in again.err
    assert "RR@10" in again.out and "6 held-out queries among 24 passages" in again.out
    assert "1 of the base's 2 layers were kept" in again.err

    documents = tmp_path / "documents.jsonl"
    documents.write_text(
        "".join(json.dumps({"_id": word, "text": f"{word} at night"}) + "\n" for word in WORDS[:5])
    )
    collection = tmp_path / "c.quoth"
    assert quoth("add", collection, documents).code == 0
    assert quoth("encode", collection, "--dense.encoder", out).code == 0
    searched = quoth(
        *("search", collection, "raven at night", "--with", "dense", "--json"),
        *("--dense.encoder", out),
    )
    assert json.loads(searched.out)["hits"][0]["docid"] == "raven"


def test_training_is_compared_with_the_whole_base(tmp_path: Path, tiny: Path) -> None:
    scores = {}
    for layers in (0, 1):
        recipe = GlowRecipe(steps=1, batch_size=4, num_layers=layers)
        encoder = encoder_config(recipe, GlowConfig(max_subwords=48))
        given = plan(tmp_path, tiny, f"of-{layers}", recipe=recipe, encoder=encoder, held_out=0.5)
        scores[layers] = train_encoder(given, progress=ignore_progress)
    assert scores[1].before == scores[0].before == scores[0].start != scores[1].start


def test_queries_weigh_by_the_length_of_those_trained_with(tmp_path: Path, tiny: Path) -> None:
    given = plan(tmp_path, tiny, "weighted")
    train_encoder(given, progress=ignore_progress)
    loaded = GlowEncoder.load(str(given.out), fast=False)
    assert loaded.config.query_length == 3.0  # two words and a number


def test_without_weighting_it_is_read_by_sentence_transformers(tmp_path: Path, tiny: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    recipe = GlowRecipe(steps=2, batch_size=4, num_layers=1)
    encoder = encoder_config(recipe, GlowConfig(max_subwords=48))
    given = plan(tmp_path, tiny, "plain", recipe=recipe, encoder=encoder)
    train_encoder(given, progress=ignore_progress)
    model = sentence_transformers.SentenceTransformer(str(given.out), device="cpu")
    texts = ["a barn owl", "the hen sleeps at dusk"]
    expected = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    own = GlowEncoder.load(str(given.out), fast=False)
    found = own.encode_documents([{"text": (text,)} for text in texts]).vectors
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_ctrl_c_keeps_the_checkpoint(
    tmp_path: Path, tiny: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, out = write_pairs(tmp_path / "pairs.jsonl"), tmp_path / "mine"
    given = (
        *("--pairs", pairs, "--out", out, "--base", tiny, *SMALL),
        *("--checkpoint-every", "1"),
    )

    def interrupt(self: Any, report: Any) -> None:
        if report.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job.GlowJob, "_tell", interrupt)
        stopped = quoth("train", "glow", *given)
    assert stopped.code == 130 and "the same command resumes" in stopped.err
    assert [each.name for each in (tmp_path / "mine.training" / "checkpoints").iterdir()] == [
        "step-000000001"
    ]
    other = quoth("train", "glow", *given, "--glow.seed", "1")
    other.assert_fails(2, "glow.seed was 0, is 1", "name another --out, or --restart")
    told: list[int] = []
    monkeypatch.setattr(job.GlowJob, "_tell", lambda self, report: told.append(report.step))
    assert quoth("train", "glow", *given).code == 0
    assert told == [2, 3]
    assert quoth("train", "glow", *given, "--glow.seed", "1", "--restart").code == 0
    assert told == [2, 3, 1, 2, 3]


def test_statistics_come_from_the_pairs_or_a_collection(
    tmp_path: Path, tiny: Path, quoth: Quoth
) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"_id": "a", "text": "owl owl hen"}\n{"_id": "b", "text": "raven"}\n')
    collection = tmp_path / "c.quoth"
    assert quoth("add", collection, documents).code == 0
    weights = {}
    for name, where in (("pairs", None), ("collection", collection)):
        given = plan(tmp_path, tiny, name, collection=where)
        train_encoder(given, progress=ignore_progress)
        saved = json.loads((given.out / MODEL_REPORT_FILE).read_text())["settings"]
        assert saved["statistics"]["from"] == name
        weights[name] = load_file(given.out / "model.safetensors")[
            "encoder.layer.0.output.dense.weight"
        ]
    assert not torch.equal(weights["pairs"], weights["collection"])


def test_subword_statistics_travel_with_the_encoder(tmp_path: Path, tiny: Path) -> None:
    recipe = GlowRecipe(steps=2, batch_size=4, num_layers=1, weighting="column")
    encoder = encoder_config(recipe, GlowConfig(max_subwords=48, statistics="subwords"))
    given = plan(tmp_path, tiny, "subwords", recipe=recipe, encoder=encoder)
    train_encoder(given, progress=ignore_progress)
    loaded = GlowEncoder.load(str(given.out), fast=False)
    (found,) = loaded.inputs.queries(["owl zyx"], None)  # no counts of a collection are needed
    pairs = [json.loads(line) for line in given.pairs.read_text().splitlines()]
    texts = {json.dumps(pair["passage"]) for pair in pairs}
    holding = sum("owl" in json.loads(text)["text"].split() for text in texts)
    holding += sum("owl" in pair["negatives"][0].split() for pair in pairs)
    total = loaded.inputs._subword_counts
    assert total is not None and total.document_frequencies("*", ["owl"]) == {"owl": holding}
    assert found.weights[1] < found.weights[2] == found.weights[3]  # letters never seen are rare
    assert "subwords" in loaded.identity()
    with pytest.raises(ConfigError, match="a collection counts words; leave out --collection"):
        train_encoder(replace(given, collection=tmp_path), progress=ignore_progress)


def test_mistakes_are_explained(tmp_path: Path, tiny: Path, quoth: Quoth) -> None:
    pairs = write_pairs(tmp_path / "pairs.jsonl")
    given = ("train", "glow", "--pairs", pairs, "--base", tiny, "--out", tmp_path / "x", *SMALL)
    quoth(*given, "--glow.weighting", "rows").assert_fails(2, "weighting is 'rows'", "add_log")
    quoth(*given, "--encoder.preset", "papers").assert_fails(
        2, "preset is 'papers'", "paper or code"
    )
    quoth(*given, "--device", "tpu").assert_fails(2, "'tpu'", "auto, cpu, cuda or cuda:N")
    quoth(*given, "--device", "cuda:99").assert_fails(2, "cuda:99", "--device auto")
    quoth(*given, "--glow.batch-size", "99").assert_fails(2, "99", "lower the batch size")
    quoth(*given[:2], "--pairs", tmp_path / "none.jsonl", *given[4:]).assert_fails(4, "none.jsonl")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    quoth(*given).assert_fails(2, "holds something else than an encoder")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"query": "owl", "passage": "an owl"}\n{"query": "hen"}\nnot json\n')
    quoth("train", "glow", "--pairs", bad, "--base", tiny).assert_fails(
        4, f"{bad}:2: has neither passage nor positive", f"{bad}:3: not JSON"
    )


def test_doubled_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"encoder\.pooling is 'cls': set glow\.pooling"):
        encoder_config(GlowRecipe(), GlowConfig(pooling="cls"))


def test_help_reads_well(quoth: Quoth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    overview = quoth("train", "--help")
    assert overview.code == 0 and "glow" in overview.out and "--dense.encoder" in overview.out
    page = quoth("train", "glow", "--help-all").out
    for text in ("--pairs", "--resume", "--restart", "--glow.steps", "--encoder.statistics"):
        assert text in page
    assert "--encoder.weighting" not in page and "--glow.weighting" in page
