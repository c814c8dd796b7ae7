"""Held-out pairs: the same figures as ir-measures gives, and queries kept apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.training.training_worker import make_base
from tiny_encoder import WORDS, make_tokenizer

from quoth.evaluation.measures import evaluate_run
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs
from quoth.models.glow.network import GlowNetwork
from quoth.records import Hit, Qrels, Run
from quoth.training.retriever.held_out import HeldOut, hold_out_queries, score_ranking

CPU = torch.device("cpu")


class _Fixed(GlowNetwork):
    """Gives each sequence the vector of its first word, so that rankings are known."""

    def __init__(self) -> None:
        super().__init__(make_base(), pooling="mean", weighting="none", separate=False)
        chance = torch.Generator().manual_seed(0)
        table = torch.randn(300, 8, generator=chance)
        self.table = torch.nn.functional.normalize(table, dim=1)

    def encode_queries(self, batch):  # type: ignore[no-untyped-def]
        return self.table[batch.subword_ids[:, 1]]

    encode_documents = encode_queries


def test_scores_equal_those_of_ir_measures() -> None:
    tokenizer = make_tokenizer()
    inputs = GlowInputs(tokenizer, GlowConfig(), analyser=None)
    words = list(WORDS[:30])
    answers = [
        (query, {"text": (f"{passage} and more {at}",)})
        for at, (query, passage) in enumerate(zip(words[:12], words[12:24], strict=True))
    ]
    answers += [(words[0], {"text": (f"{words[0]} itself",)}), (words[1], {"text": ("owl b",)})]
    others = [{"text": (f"{word} c {at}",)} for at, word in enumerate(words)]
    network = _Fixed()
    judged = HeldOut(answers, others, inputs=inputs, counts=None, seed=0)
    assert (judged.num_queries, judged.num_passages) == (12, len(answers) + 30)
    found = judged.judge(network, CPU)

    passages = [fields["text"][0] for _query, fields in answers]
    passages += [fields["text"][0] for fields in others]

    def vector(text: str) -> torch.Tensor:
        return network.table[tokenizer.encode(text).ids[1]]

    hits = {}
    for query in words[:12]:
        cosines = np.array([float(vector(query) @ vector(text)) for text in passages])
        order = np.argsort(-cosines, kind="stable")[:10]
        hits[query] = tuple(Hit(passages[row], -float(rank)) for rank, row in enumerate(order))
    grades: dict[str, dict[str, int]] = {}
    for query, fields in answers:
        grades.setdefault(query, {})[fields["text"][0]] = 1
    expected = evaluate_run(Run("r", hits), Qrels(grades), ["RR@10", "nDCG@10"]).means
    assert 0 < expected["RR@10"] < 1
    assert found.mrr == pytest.approx(expected["RR@10"], abs=1e-6)
    assert found.ndcg == pytest.approx(expected["nDCG@10"], abs=1e-6)


def test_an_answer_beyond_the_cut_is_worth_nothing() -> None:
    assert score_ranking(np.zeros(10, dtype=bool), 2) == (0.0, 0.0)
    both = np.array([True, True] + [False] * 8)
    assert score_ranking(both, 2) == (1.0, pytest.approx(1.0))


def test_the_seed_decides_which_queries_are_held_out() -> None:
    queries = [f"q{at % 50}" for at in range(200)]
    first = hold_out_queries(queries, share=0.2, seed=0)
    assert len(first) == 10 and first == hold_out_queries(queries[::-1], share=0.2, seed=0)
    assert first != hold_out_queries(queries, share=0.2, seed=1)
