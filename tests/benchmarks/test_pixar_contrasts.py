"""Rivals' shortlists are fitted to one length, and what was found is judged beside PIXAR."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.pixar_latency.rivals.config import RivalConfig
from benchmarks.pixar_latency.rivals.samples import Samples
from benchmarks.pixar_quality.contrast_report import (
    BEAM_WAYS,
    LIST_WAYS,
    Judge,
    judge_autoregressive,
    judge_shortlists,
)
from benchmarks.pixar_quality.shortlist_rivals import CLOSE, choose_vectors, fit
from benchmarks.pixar_quality.trained import latest_checkpoint

from quoth.models.pixar.shortlist.interface import Places, Shortlist
from quoth.models.pixar.shortlist.rows import Rows
from quoth.records import Qrels, Query

SAMPLES = Samples(np.zeros((16, 2), dtype=np.float32), np.zeros((16, 3, 2), dtype=np.float32))


LISTED = 50_000


class Saturating(Shortlist):
    """Keeps fewer of each further phrase that is listed, as lists that overlap do."""

    def __init__(self, setting: int) -> None:
        rows = Rows.store(torch.zeros(LISTED, 2), torch.zeros(LISTED), storage="float32")
        super().__init__(rows, RivalConfig(method="svd"))  # type: ignore[arg-type]
        self._size = min(LISTED, round(8 * setting**0.75))

    def choose(self, pooled: object, slots: object) -> Places:
        return np.arange(self._size, dtype=np.int32)

    def own_arrays(self) -> dict[str, Places]:
        return {}


@pytest.mark.parametrize("first", [1, 400, 100_000])
def test_a_setting_is_found_from_wherever_the_search_starts(first: int) -> None:
    found = fit(Saturating, SAMPLES, wanted=2000, first=first, most=100_000)
    assert found.kept == pytest.approx(2000, rel=0.1 if first != 400 else CLOSE)
    assert found.kept == round(8 * found.setting**0.75)


def test_a_setting_never_goes_beyond_what_there_is() -> None:
    assert fit(Saturating, SAMPLES, wanted=2000, first=400, most=50).setting == 50


def test_pooled_vectors_alone_come_from_more_queries() -> None:
    every, pooled = choose_vectors(SAMPLES, "all"), choose_vectors(SAMPLES, "pooled")
    assert every.flat().shape == (2 * 4, 2) and pooled.flat().shape == (16, 2)


def test_the_latest_checkpoint_is_that_of_the_highest_step(tmp_path: Path) -> None:
    for step in (90, 1000, 200):
        (tmp_path / f"step-{step:09d}").mkdir()
        (tmp_path / f"step-{step:09d}" / "tensors.safetensors").touch()
    assert latest_checkpoint(tmp_path).parent.name == "step-000001000"
    with pytest.raises(FileNotFoundError, match="train with run_gpu first"):
        latest_checkpoint(tmp_path / "none")


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    tests = [("test", Query(f"test/{at}", f"query {at}")) for at in range(20)]
    names = [f"s/d{at}" for at in range(20)]
    qrels = Qrels({query.qid: {names[at]: 1} for at, (_split, query) in enumerate(tests)})
    own = np.arange(20, dtype=np.int32)[:, None]
    first, second = np.hstack((own, (own + 1) % 20)), np.hstack(((own + 1) % 20, own))
    for name, found in (("full", first), ("centroids", second), ("svd", second)):
        for vectors in ("all", "pooled"):
            path = tmp_path / f"shortlists.{name}.{vectors}.npz"
            np.savez(path, **dict.fromkeys(LIST_WAYS, found))
    np.savez(tmp_path / "autoregressive.fresh.beam-10.npz", **dict.fromkeys(BEAM_WAYS, second))
    (tmp_path / "autoregressive.fresh.json").write_text(json.dumps({"steps": 3}))
    (tmp_path / "autoregressive.fresh.latency.json").write_text(json.dumps({"systems": []}))
    return Judge(tmp_path, tests, names, qrels)


FACTS = {
    "set": "s",
    "vocabulary": "phrases-9",
    "about": {},
    "step": 4,
    "device": "cpu",
    "methods": [
        {"method": method, "vectors": vectors, "file": f"shortlists.{method}.{vectors}.npz"}
        for method, vectors in (("full", "all"), ("centroids", "all"), ("svd", "pooled"))
    ],
}


def test_shortlists_are_judged_beside_all_phrases(judge: Judge) -> None:
    full, centroids, svd = judge_shortlists(judge, FACTS)["rows"]
    assert full["results"]["bag_cos.max"]["RR@10"]["mean"] == 1.0
    for row in (centroids, svd):
        found = row["results"]["bag_cos.max"]
        assert found["RR@10"]["mean"] == 1 / 2 and found["R@20"]["mean"] == 1.0
        assert found["RR@10"]["contrast"]["difference"] == 1 / 2 - 1
        assert found["RR@10"]["interval"]["low"] <= 1 / 2 <= found["RR@10"]["interval"]["high"]


def test_the_control_is_judged_beside_pixar(judge: Judge) -> None:
    found = judge_autoregressive(judge, FACTS, ["fresh"])
    rows = {(row["system"], row["way"]): row["results"]["RR@10"] for row in found["rows"]}
    assert found["arms"][0]["training"] == {"steps": 3}
    assert rows["pixar", "bag_cos.max"]["contrast"] is None
    assert rows["fresh.beam-10", "sum.max"]["mean"] == 1 / 2
    assert rows["fresh.beam-10", "sum.max"]["contrast"]["difference"] == -1 / 2
