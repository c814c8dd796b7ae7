"""Writing queries: each way against brute force on a small language whose every step is known."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from quoth.models.query_generator.decoding import (
    DecodingRules,
    beam,
    constrain,
    draw,
    draw_uniforms,
    greedy,
    nucleus,
)

CPU = torch.device("cpu")
START, END, SIZE = 5, 0, 6
RULES = DecodingRules(prefix=(START,), end=END, max_length=4, banned=(START,), no_repeat=0)


class Language:
    """Logits of what follows depend on all that was written, and on the passage."""

    def __init__(self, rows: int, *, per_passage: int = 1) -> None:
        self.written: list[tuple[int, ...]] = [() for _ in range(rows)]
        self._per_passage = per_passage

    def __call__(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        if parents is not None:
            own = [parent // self._per_passage for parent in parents.tolist()]
            assert own == [row // self._per_passage for row in range(len(own))]
            self.written = [self.written[parent] for parent in parents.tolist()]
        self.written = [
            (*before, token) for before, token in zip(self.written, tokens.tolist(), strict=True)
        ]
        rows = [self.logits(row // self._per_passage, one) for row, one in enumerate(self.written)]
        return torch.stack(rows)

    @staticmethod
    def logits(passage: int, written: tuple[int, ...]) -> Tensor:
        seed = 7 * passage + sum(11**at * (token + 1) for at, token in enumerate(written))
        return 2 * torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))


def log_prob(passage: int, query: tuple[int, ...]) -> float:
    """Sum up log p of a query and its end."""
    total, written = 0.0, (START,)
    for token in (*query, END):
        total += float(Language.logits(passage, written).log_softmax(0)[token])
        written = (*written, token)
    return total


def all_queries() -> list[tuple[int, ...]]:
    """Every query of one to three tokens."""
    letters = range(1, SIZE - 1)
    return [each for n in (1, 2, 3) for each in itertools.product(letters, repeat=n)]


def test_greedy_takes_the_likeliest_token_each_time() -> None:
    found = greedy(Language(3), 3, RULES, CPU)
    for passage, query in enumerate(found):
        written: tuple[int, ...] = (START,)
        for at in range(4):
            logits = Language.logits(passage, written)
            allowed = [each for each in range(SIZE - 1) if at > 0 or each != END]
            token = max(allowed, key=lambda each: float(logits[each])) if at < 3 else END
            written = (*written, token)
            if token == END:
                break
        assert tuple(query) == written[1:-1]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_queries_there_are(penalty: float) -> None:
    width = 80  # as many as there are queries: nothing is lost
    language = Language(2 * width, per_passage=width)
    found = beam(language, 2, RULES, CPU, width=width, length_penalty=penalty)
    for passage, queries in enumerate(found):
        ranked = sorted(
            all_queries(), key=lambda q: -log_prob(passage, q) / (len(q) + 1) ** penalty
        )
        assert [tuple(each) for each in queries[:5]] == ranked[:5]


def test_a_beam_of_one_is_greedy() -> None:
    found = beam(Language(3), 3, RULES, CPU, width=1, length_penalty=1.0)
    likeliest = greedy(Language(3), 3, RULES, CPU)
    assert all(own for own in found)
    # the beam stops only when nothing open could win, so its first query is greedy's or better
    for passage, (own, other) in enumerate(zip(found, likeliest, strict=True)):
        scores = [log_prob(passage, tuple(q)) / (len(q) + 1) for q in (own[0], other)]
        assert scores[0] >= scores[1] - 1e-5


def test_nucleus_draws_each_token_as_often_as_it_is_likely() -> None:
    probs = torch.tensor([0.4, 0.3, 0.2, 0.06, 0.04])
    uniforms = (torch.arange(10_000) + 0.5) / 10_000
    drawn = draw(probs.log().expand(10_000, -1), uniforms, top_p=0.85)
    shares = torch.bincount(drawn, minlength=5) / 10_000
    expected = torch.tensor([0.4, 0.3, 0.2, 0.0, 0.0]) / 0.9
    torch.testing.assert_close(shares, expected, atol=2e-4, rtol=0)


def test_a_nucleus_wider_than_the_first_look_is_exact() -> None:
    size = 1_000
    logits = torch.zeros(2, size)
    logits[1, 3] = 20.0
    uniforms = torch.tensor([0.9999, 0.9999])
    drawn = draw(logits, uniforms, top_p=0.92)
    assert drawn[1] == 3
    shares = draw(torch.zeros(size, size), (torch.arange(size) + 0.5) / size, top_p=0.92)
    assert len(set(shares.tolist())) == 920


def test_nucleus_is_decided_by_its_uniforms() -> None:
    uniforms = draw_uniforms(6, 4, seed=(0, 1))
    first = nucleus(Language(6), uniforms, RULES, top_p=0.92)
    assert first == nucleus(Language(6), uniforms, RULES, top_p=0.92)
    assert first != nucleus(Language(6), draw_uniforms(6, 4, seed=(1, 1)), RULES)
    assert greedy(Language(6), 6, RULES, CPU) == nucleus(Language(6), uniforms, RULES, top_p=1e-6)
    cold = nucleus(Language(6), uniforms, RULES, top_p=1.0, temperature=1e-3)
    assert cold == greedy(Language(6), 6, RULES, CPU)


def test_no_query_is_empty_or_holds_what_is_banned() -> None:
    rules = DecodingRules(
        prefix=(START,), end=END, max_length=4, banned=(START, 2), banned_first=(1,), no_repeat=0
    )
    rows = 200
    found = nucleus(Language(rows), draw_uniforms(rows, 4, seed=(0,)), rules, top_p=1.0)
    assert all(1 <= len(each) <= 3 for each in found)
    assert not any({START, 2, END} & set(each) for each in found)
    assert all(each[0] != 1 for each in found) and any(1 in each for each in found)


def test_runs_of_tokens_are_not_repeated() -> None:
    rules = DecodingRules(prefix=(START,), end=END, max_length=12, no_repeat=2)

    def stutter(tokens: Tensor, parents: Tensor | None) -> Tensor:
        logits = torch.zeros(1, SIZE)
        logits[0, 3], logits[0, END] = 9.0, -9.0
        return logits

    (found,) = greedy(stutter, 1, rules, CPU)
    pairs = list(itertools.pairwise(found))
    assert found[:2] == [3, 3] and len(pairs) == len(set(pairs))
    free = greedy(stutter, 1, DecodingRules((START,), END, 6, no_repeat=0), CPU)
    assert free == [[3] * 5]


def test_the_last_token_is_the_end() -> None:
    logits = constrain(torch.zeros(1, SIZE), torch.ones(1, 3, dtype=torch.int64), RULES, at=3)
    assert logits.argmax() == END and logits.isfinite().sum() == 1
