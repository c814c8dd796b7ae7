"""Beams that never leave the identifiers: the same scores as brute force, whoever is beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.pixar_quality.constrained_beam import (
    SubwordTrie,
    Written,
    build_subword_trie,
    search_beam,
)
from tiny_generator import make_generator
from torch import Tensor

from quoth.index.trie.trie import Sequences
from quoth.models.query_generator.network import QueryGeneratorNetwork

END, START, SIZE = 1, 0, 12
IDENTIFIERS = [[3, 4], [3, 4, 5], [3, 5], [6], [6, 6, 6], [7, 3, 4], [8, 9, 10, 11], [8, 9]]


def _sequences(identifiers: list[list[int]]) -> Sequences:
    flat = np.array([each for own in identifiers for each in own], dtype=np.int32)
    return Sequences(flat, np.cumsum([0, *map(len, identifiers)]))


TRIE = build_subword_trie(_sequences(IDENTIFIERS), end=END)


class TableStep:
    """Logits that depend on the query and on all that was written, drawn by seed."""

    def __init__(self, queries: list[int], width: int) -> None:
        self._queries = [query for query in queries for _ in range(width)]
        self._written: list[list[int]] = [[] for _ in self._queries]

    def __call__(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        if parents is not None:
            self._written = [self._written[at] for at in parents.tolist()]
        self._written = [
            [*own, token] for own, token in zip(self._written, tokens.tolist(), strict=True)
        ]
        return torch.stack(
            [logits(query, own) for query, own in zip(self._queries, self._written, strict=True)]
        )


def logits(query: int, written: list[int]) -> Tensor:
    chance = torch.Generator().manual_seed(hash((query, *written)) % (1 << 31))
    return 2.0 * torch.randn(SIZE, generator=chance)


def brute_force(query: int) -> dict[int, float]:
    scores = {}
    for row, own in enumerate(IDENTIFIERS):
        written, total = [START], 0.0
        for token in (*own, END):
            total += float(logits(query, written).log_softmax(0)[token])
            written.append(token)
        scores[row] = total
    return scores


def _search(queries: list[int], width: int, trie: SubwordTrie = TRIE) -> list[Written]:
    step = TableStep(queries, width)
    return search_beam(step, trie, num_queries=len(queries), width=width, prefix=(START,))


@pytest.mark.parametrize("query", range(5))
def test_a_wide_beam_finds_every_identifier_with_its_probability(query: int) -> None:
    found, expected = _search([query], len(IDENTIFIERS))[0], brute_force(query)
    best = sorted(expected, key=lambda row: -expected[row])
    assert found.rows.tolist() == best
    assert found.scores == pytest.approx([expected[row] for row in best], abs=1e-5)
    assert found.lengths.tolist() == [len(IDENTIFIERS[row]) + 1 for row in best]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_narrow_beam_writes_identifiers_alone_with_their_probability(width: int) -> None:
    for query in range(10):
        found, expected = _search([query], width)[0], brute_force(query)
        rows = found.rows.tolist()
        assert 0 < len(rows) <= 2 * width and len(set(rows)) == len(rows)
        assert found.scores == pytest.approx([expected[row] for row in rows], abs=1e-5)


@pytest.mark.parametrize("width", [1, 3, 8])
def test_queries_do_not_meddle_with_each_other(width: int) -> None:
    together = _search([4, 5, 6], width)
    for query, found in zip((4, 5, 6), together, strict=True):
        alone = _search([query], width)[0]
        size = min(len(alone.rows), width)  # beside slower queries a search may find more
        assert found.rows[:size].tolist() == alone.rows[:size].tolist()
        assert found.scores[:size] == pytest.approx(alone.scores[:size], abs=1e-5)


def test_the_trie_holds_each_identifier_once_and_nothing_else() -> None:
    found: dict[int, list[int]] = {}

    def walk(node: int, written: list[int]) -> None:
        if (row := int(TRIE.rows[node])) >= 0:
            assert row not in found
            found[row] = written
        edges = range(int(TRIE.starts[node]), int(TRIE.starts[node + 1]))
        tokens = [int(TRIE.subword_ids[edge]) for edge in edges]
        assert len(set(tokens)) == len(tokens)  # beginnings are shared
        for edge, token in zip(edges, tokens, strict=True):
            walk(edge + 1, [*written, token])

    walk(0, [])
    assert found == {row: [*own, END] for row, own in enumerate(IDENTIFIERS)}


def test_steps_of_the_network_give_the_probability_of_the_whole(tmp_path: Path) -> None:
    generator = make_generator(tmp_path / "base")
    network, inputs = generator.network, generator.inputs
    assert isinstance(network, QueryGeneratorNetwork)
    texts = ["owl at night", "owl at dusk", "a raven", "barn owl in the field"]
    targets = inputs.queries(texts)
    end = inputs.symbols.end
    trie = build_subword_trie(_sequences([own[:-1] for own in targets]), end=end)
    batch = inputs.pad(inputs.passages(["the barn owl hunts", "one hen among many birds"]))
    with torch.inference_mode():
        states = network.encode(batch)
        step = network.begin(states, batch.mask, per_passage=len(texts))
        found = search_beam(step, trie, num_queries=2, width=len(texts), prefix=network.prefix)
        for at, own in enumerate(found):
            rows = [at] * len(texts)
            whole = network.log_probs(inputs.pad(targets), states[rows], batch.mask[rows]).sum(1)
            assert own.scores == pytest.approx(whole[own.rows.tolist()].numpy(), abs=1e-3)
            assert sorted(own.rows.tolist()) == list(range(len(texts)))
