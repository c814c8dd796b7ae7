"""Decoding: every method against scoring each identifier by brute force, and what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.index.trie import walk
from quoth.index.trie.build import build_trie
from quoth.index.trie.files import open_trie, save_trie
from quoth.index.trie.trie import Sequences, Trie
from quoth.search.generative.decode.config import COSINES, LENGTHS, METHODS, ORDERS, DecodeConfig
from quoth.search.generative.decode.decoder import Decoded, Decoder
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores
from quoth.vocabulary.identifiers import sort_phrases

NUM_PHRASES = 12
EXACT = ("exact", "best_first")


def make_trie(identifiers: list[tuple[int, ...]], *, num_phrases: int = NUM_PHRASES) -> Trie:
    """A trie in which the i-th identifier belongs to row i."""
    ids = np.array([each for own in identifiers for each in own], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, identifiers)])
    owners = np.arange(len(identifiers))
    return build_trie(Sequences(ids, offsets), owners=owners, num_phrases=num_phrases)


def read(trie: Trie) -> list[tuple[int, ...]]:
    found = trie.sequences(np.arange(len(trie)))
    return [
        tuple(found.ids[lo:hi].tolist()) for lo, hi in itertools.pairwise(found.offsets.tolist())
    ]


def draw_case(seed: int, *, num_identifiers: int, num_slots: int, coarse: bool) -> Any:
    """A trie, scores of a random shortlist, and norms; coarse scores make ties."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, num_identifiers)
    trie = make_trie([tuple(rng.integers(0, NUM_PHRASES, n)) for n in lengths.tolist()])
    shortlist = np.flatnonzero(rng.random(NUM_PHRASES) < 0.8).astype(np.int32)

    def score(*shape: int) -> Any:
        drawn = rng.normal(-1.0, 2.0, shape).astype(np.float32)
        return np.round(drawn) if coarse else drawn

    scores = PhraseScores(
        shortlist, score(num_slots, len(shortlist)), score(len(shortlist)), score(num_slots + 1)
    )
    norms = BagNorms(
        rng.uniform(0.5, 2.0, NUM_PHRASES).astype(np.float32),
        rng.uniform(0.5, 2.0, len(trie)).astype(np.float32),
    )
    return trie, scores, norms


def score_all(
    trie: Trie, scores: PhraseScores, config: DecodeConfig, norms: BagNorms
) -> Iterator[tuple[np.float32, int]]:
    """Score every identifier from the definitions, one by one."""
    place_by_phrase = {int(phrase): at for at, phrase in enumerate(scores.phrase_ids)}
    slots, pooled = scores.slot_scores, scores.pooled_scores
    assert slots is not None and pooled is not None and scores.end_scores is not None
    for row, phrases in enumerate(read(trie)):
        places = [place_by_phrase.get(each) for each in phrases]
        length = len(phrases)
        if None in places and config.missing == "exclude":
            continue
        if length > len(slots) and config.order in ("ordered", "perm_slots"):
            continue
        if config.length == "end" and length > len(slots) and config.order not in COSINES:
            continue
        total = sum_up(places, phrases, slots, pooled, config, norms)
        if config.order in COSINES:
            yield np.float32(total / norms.norms[row]), row
        elif config.length == "end":
            yield np.float32(total + scores.end_scores[length]), row
        else:
            alpha = {"none": 0.0, "mean": 1.0, "power": config.alpha}[config.length]
            yield np.float32(total / length**alpha), row


def sum_up(
    places: list[Any], phrases: Any, slots: Any, pooled: Any, config: DecodeConfig, norms: BagNorms
) -> float:
    def gain(slot: int, at: int) -> float:
        return config.floor if places[at] is None else float(slots[slot, places[at]])

    every = range(len(places))
    if config.order == "ordered":
        return sum(gain(at, at) for at in every)
    if config.order == "perm_slots":
        ways = itertools.permutations(range(len(slots)), len(places))
        return max(sum(gain(slot, at) for at, slot in enumerate(way)) for way in ways)
    if config.order in ("bag", "sorted_trie"):
        return sum(max(gain(slot, at) for slot in range(len(slots))) for at in every)
    weights = norms.phrase_weights if config.order in COSINES else np.ones(NUM_PHRASES, "f4")
    return sum(
        config.floor if place is None else float(pooled[place] * weights[phrase])
        for place, phrase in zip(places, phrases, strict=True)
    )


def decode(
    trie: Trie, scores: PhraseScores, config: DecodeConfig, norms: BagNorms, *, threads: int = 1
) -> Decoded:
    [found] = Decoder(trie, config, norms=norms, threads=threads).decode([scores])
    return found


# Equivalence


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_identifiers=st.integers(1, 120),
    num_slots=st.integers(1, 5),
    order=st.sampled_from([order for order in ORDERS if order != "sorted_trie"]),
    length=st.sampled_from(LENGTHS),
    depth=st.integers(1, 30),
    method=st.sampled_from([*EXACT, "floor"]),
    coarse=st.booleans(),
    threads=st.integers(1, 3),
)
def test_exact_methods_find_what_brute_force_finds(
    seed: int,
    num_identifiers: int,
    num_slots: int,
    order: str,
    length: str,
    depth: int,
    method: str,
    coarse: bool,
    threads: int,
) -> None:
    case = draw_case(seed, num_identifiers=num_identifiers, num_slots=num_slots, coarse=coarse)
    trie, scores, norms = case
    config = DecodeConfig(order=order, length=length, depth=depth, alpha=0.5, floor=-3.0, beam=2)
    if method == "floor":
        config = replace(config, missing="floor")
    else:
        config = replace(config, method=method)
    expected = sorted(score_all(trie, scores, config, norms), key=lambda each: (-each[0], each[1]))
    found = decode(trie, scores, config, norms, threads=threads)
    assert found.scores.tolist() == pytest.approx(
        [score for score, _ in expected[:depth]], abs=1e-5, rel=1e-6
    )
    if order != "perm_slots":  # whose best assignments may tie but for rounding
        assert found.rows.tolist() == [row for _, row in expected[:depth]]


@pytest.mark.parametrize("method", [*EXACT, "beam", "skim"])
def test_every_method_finds_the_best_where_none_is_cut(method: str) -> None:
    trie, scores, norms = draw_case(11, num_identifiers=80, num_slots=4, coarse=False)
    for order in ("ordered", "perm_slots", "bag", "pooled", *COSINES):
        config = DecodeConfig(method=method, order=order, depth=200, beam=200)
        expected = decode(trie, scores, DecodeConfig(order=order, depth=200), norms)
        found = decode(trie, scores, config, norms)
        assert len(expected.rows) > 10
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.scores.tolist() == expected.scores.tolist()


@pytest.mark.parametrize("method", ["exact", "skim"])
@pytest.mark.parametrize("order", ["ordered", "perm_slots", "bag", "pooled", *COSINES])
def test_threads_change_nothing(order: str, method: str) -> None:
    rng = np.random.default_rng(8)
    drawn = [tuple(rng.zipf(1.5, n) % 900) for n in rng.integers(1, 6, 5_000).tolist()]
    trie = make_trie(drawn, num_phrases=900)
    shortlist = np.flatnonzero(rng.random(900) < 0.6).astype(np.int32)
    scores = PhraseScores(
        shortlist,
        slot_scores=rng.normal(-5.0, 2.0, (6, len(shortlist))).astype(np.float32),
        pooled_scores=rng.normal(-5.0, 2.0, len(shortlist)).astype(np.float32),
    )
    weights, norms = rng.random(900) + 0.1, rng.random(len(trie)) + 0.5
    own = BagNorms(weights.astype(np.float32), norms.astype(np.float32))
    config = DecodeConfig(order=order, method=method, depth=40, reach=300)
    alone, shared = (decode(trie, scores, config, own, threads=n) for n in (1, 4))
    assert len(alone.rows) == 40
    assert shared.rows.tolist() == alone.rows.tolist()
    assert shared.scores.tolist() == alone.scores.tolist()


def test_no_threads_are_refused() -> None:
    with pytest.raises(ConfigError, match="threads is 0"):
        Decoder(make_trie([(1, 2)]), DecodeConfig(order="pooled"), threads=0)


@pytest.mark.parametrize("method", EXACT)
def test_many_identifiers_are_found_through_long_walks(method: str) -> None:
    """Enough identifiers for galloping, whole runs of phrases, and rows scored by the hundred."""
    rng = np.random.default_rng(5)
    drawn = [tuple(rng.zipf(1.5, n) % 3000) for n in rng.integers(1, 6, 20_000).tolist()]
    trie = make_trie(drawn, num_phrases=3000)
    shortlist = np.flatnonzero(rng.random(3000) < 0.5).astype(np.int32)
    gains = rng.normal(-5.0, 2.0, len(shortlist)).astype(np.float32)
    table = np.full(3000, -np.inf)
    table[shortlist] = gains
    rows = [(np.float32(sum(table[list(own)]) / len(own)), at) for at, own in enumerate(read(trie))]
    expected = sorted(rows, key=lambda each: (-each[0], each[1]))[:50]
    config = DecodeConfig(order="pooled", method=method, depth=50, beam=8)
    [found] = Decoder(trie, config).decode([PhraseScores(shortlist, pooled_scores=gains)])
    assert found.rows.tolist() == [row for _, row in expected]


def score_pooled(
    trie: Trie, shortlist: Any, gains: Any, *, depth: int
) -> list[tuple[np.float32, int]]:
    """The best mean scores of complete identifiers, ties by row."""
    gain_by_phrase = dict(zip(shortlist.tolist(), gains.tolist(), strict=True))
    rows = [
        (np.float32(sum(gain_by_phrase[each] for each in own) / len(own)), at)
        for at, own in enumerate(read(trie))
        if all(each in gain_by_phrase for each in own)
    ]
    return sorted(rows, key=lambda each: (-each[0], each[1]))[:depth]


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_ties_repeated_phrases_and_long_identifiers_are_ranked_by_row(
    method: str, share: float
) -> None:
    """Few distinct scores, so that thousands tie with the last one kept."""
    rng = np.random.default_rng(8)
    drawn = [tuple(rng.zipf(1.3, n) % 200) for n in rng.integers(1, 5, 3000).tolist()]
    drawn += [(phrase,) * n for phrase in range(200) for n in (2, 3, 64)]
    drawn += [tuple(rng.integers(0, 200, 255)) for _ in range(5)]
    trie = make_trie(drawn, num_phrases=200)
    shortlist = np.flatnonzero(rng.random(200) < share).astype(np.int32)
    gains = rng.integers(-2, 1, len(shortlist)).astype(np.float32)
    expected = score_pooled(trie, shortlist, gains, depth=70)
    config = DecodeConfig(order="pooled", method=method, depth=70)
    [found] = Decoder(trie, config).decode([PhraseScores(shortlist, pooled_scores=gains)])
    assert list(zip(found.scores, found.rows.tolist(), strict=True)) == expected


@pytest.mark.parametrize("method", METHODS)
def test_one_phrase_finds_what_is_made_of_it_alone(method: str) -> None:
    trie = make_trie([(4,), (4, 4), (4, 4, 4, 4), (4, 5), (5, 4, 4), (11,), (0, 4)])
    scores = PhraseScores(np.array([4], np.int32), pooled_scores=np.array([-2], np.float32))
    [found] = Decoder(trie, DecodeConfig(order="pooled", method=method)).decode([scores])
    assert [read(trie)[row] for row in found.rows.tolist()] == [(4,), (4, 4), (4, 4, 4, 4)]
    assert found.scores.tolist() == [-2, -2, -2]


def test_pairs_without_room_for_a_whole_phrase_lose_no_identifier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "_PAIR_BITS", 15)  # 12 for the rows, 3 of 8 for a phrase
    rng = np.random.default_rng(3)
    drawn = [tuple(rng.integers(0, 200, n)) for n in rng.integers(1, 4, 3000).tolist()]
    trie = make_trie(drawn, num_phrases=200)
    shortlist = np.flatnonzero(rng.random(200) < 0.3).astype(np.int32)
    gains = rng.normal(size=len(shortlist)).astype(np.float32)
    expected = score_pooled(trie, shortlist, gains, depth=300)
    [found] = Decoder(trie, DecodeConfig(order="pooled")).decode(
        [PhraseScores(shortlist, pooled_scores=gains)]
    )
    assert found.rows.tolist() == [row for _, row in expected] and len(expected) > 50


@pytest.mark.parametrize("method", ["beam", "skim"])
def test_what_is_cut_short_is_scored_all_the_same(method: str) -> None:
    trie, scores, norms = draw_case(2, num_identifiers=120, num_slots=4, coarse=False)
    whole = decode(trie, scores, DecodeConfig(order="bag", depth=200), norms)
    config = DecodeConfig(method=method, order="bag", depth=200, beam=2, reach=20)
    found = decode(trie, scores, config, norms)
    score_by_row = dict(zip(whole.rows.tolist(), whole.scores.tolist(), strict=True))
    assert 0 < len(found.rows) < len(whole.rows)
    assert found.scores.tolist() == [score_by_row[row] for row in found.rows.tolist()]


def test_sorted_identifiers_match_in_any_order() -> None:
    drawn = [(3, 1), (1, 3), (5, 2, 4)]
    ids = np.array([each for own in drawn for each in own], dtype=np.int32)
    offsets = np.array([0, 2, 4, 7])
    sequences = Sequences(sort_phrases(ids, offsets), offsets)
    trie = build_trie(sequences, owners=np.arange(3), num_phrases=NUM_PHRASES)
    assert read(trie) == [(1, 3), (2, 4, 5)]
    scores = PhraseScores(
        np.arange(1, 6, dtype=np.int32),
        np.array([[-1, -9, -2, -9, -9], [-9, -3, -8, -4, -5]], dtype=np.float32),
    )
    [found] = Decoder(trie, DecodeConfig(order="sorted_trie")).decode([scores])
    assert found.rows.tolist() == [0, 1]
    assert found.scores.tolist() == [(-1 - 2) / 2, (-3 - 4 - 5) / 3]
    with pytest.raises(ConfigError, match="needs identifiers with sorted phrases"):
        Decoder(make_trie(drawn), DecodeConfig(order="sorted_trie"))


# Arithmetic


def test_scores_are_what_the_formulas_say() -> None:
    trie = make_trie([(0, 1), (1, 0), (1,)])  # rows 1, 2, 0
    scores = PhraseScores(
        np.array([0, 1], dtype=np.int32),
        slot_scores=np.array([[-1, -2], [-4, -8]], dtype=np.float32),
        pooled_scores=np.array([0.5, 0.25], dtype=np.float32),
        end_scores=np.array([-9, -3, -0.5], dtype=np.float32),
    )
    norms = BagNorms(np.array([2, 4] + [1] * 10, "f4"), np.array([4, 2, 5], "f4"))

    def score(**settings: Any) -> dict[int, float]:
        found = decode(trie, scores, DecodeConfig(**settings), norms)
        return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))

    assert score(order="ordered", length="none") == {0: -2, 1: -1 - 8, 2: -2 - 4}
    assert score(order="perm_slots", length="none") == {0: -2, 1: -4 - 2, 2: -2 - 4}
    assert score(order="bag", length="mean") == {0: -2, 1: (-1 - 2) / 2, 2: (-2 - 1) / 2}
    assert score(order="bag", length="end") == {0: -2 - 3, 1: -3 - 0.5, 2: -3 - 0.5}
    assert score(order="bag", length="power", alpha=2.0) == {0: -2, 1: -3 / 4, 2: -3 / 4}
    assert score(order="bag_cos") == {0: 4 * 0.25 / 4, 1: (1 + 1) / 2, 2: pytest.approx(2 / 5)}


def test_ties_go_by_row() -> None:
    trie = make_trie([(at,) for at in range(10)])
    shortlist = np.arange(10, dtype=np.int32)
    scores = PhraseScores(shortlist, pooled_scores=np.zeros(10, dtype=np.float32))
    for method in EXACT:
        [found] = Decoder(trie, DecodeConfig(order="pooled", method=method, depth=4)).decode(
            [scores]
        )
        assert found.rows.tolist() == [0, 1, 2, 3]


def test_there_may_be_nothing_to_find() -> None:
    nothing = PhraseScores(np.empty(0, np.int32), pooled_scores=np.empty(0, np.float32))
    [found] = Decoder(make_trie([(1, 2)]), DecodeConfig(order="pooled")).decode([nothing])
    assert len(found.rows) == 0
    some = PhraseScores(np.array([1], np.int32), pooled_scores=np.zeros(1, np.float32))
    for method in METHODS:
        config = DecodeConfig(order="pooled", method=method)
        assert len(Decoder(make_trie([]), config).decode([some])[0].rows) == 0
        assert len(Decoder(make_trie([(1, 2)]), config).decode([some])[0].rows) == 0


# One decoder, many queries


def test_queries_do_not_disturb_each_other() -> None:
    trie, scores, norms = draw_case(4, num_identifiers=100, num_slots=3, coarse=False)
    halves = [
        PhraseScores(scores.phrase_ids[part], scores.slot_scores[:, part])
        for part in (slice(0, 5), slice(3, None))
    ]
    decoder = Decoder(trie, DecodeConfig(order="bag"), norms=norms)
    expected = [decode(trie, each, DecodeConfig(order="bag"), norms) for each in halves]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda at: decoder.decode([halves[at % 2]])[0], range(20)))
    for at, own in enumerate([*decoder.decode(halves), *found]):
        assert own.rows.tolist() == expected[at % 2].rows.tolist()


def test_a_mapped_trie_decodes_like_the_one_in_memory(tmp_path: Path) -> None:
    trie, scores, norms = draw_case(9, num_identifiers=100, num_slots=3, coarse=False)
    save_trie(trie, tmp_path)
    for order in ("ordered", "bag_cos"):
        one, other = (
            decode(each, scores, DecodeConfig(order=order), norms)
            for each in (trie, open_trie(tmp_path))
        )
        assert one.rows.tolist() == other.rows.tolist() and len(one.rows)


# What is refused


def test_all_problems_of_a_configuration_are_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeConfig(
            method="best",
            order="x",
            length="y",
            missing="z",
            depth=0,
            beam=0,
            reach=0,
            alpha=-1.0,
            floor=float("nan"),
        )
    names = ("method", "order", "length", "missing", "depth", "beam", "reach", "alpha", "floor")
    assert all(f"{name} is" in str(caught.value) for name in names)
    with pytest.raises(ConfigError, match="missing = floor needs method = exact"):
        DecodeConfig(method="beam", missing="floor")


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (DecodeConfig(order="pooled"), {"phrase_ids": np.array([2, 1], np.int32)}, "do not ascend"),
        (
            DecodeConfig(order="pooled"),
            {"phrase_ids": np.array([1, 99], np.int32)},
            "expected 0 to 11",
        ),
        (
            DecodeConfig(order="pooled"),
            {"pooled_scores": None},
            "order = pooled needs pooled_scores",
        ),
        (
            DecodeConfig(order="pooled"),
            {"pooled_scores": np.zeros(3, "f4")},
            r"shape \(3,\), expected \(2,\)",
        ),
        (
            DecodeConfig(order="pooled"),
            {"pooled_scores": np.array([0, np.nan], "f4")},
            "not finite",
        ),
        (
            DecodeConfig(order="pooled"),
            {"pooled_scores": np.array([0, -np.inf], "f4")},
            "not finite",
        ),
        (DecodeConfig(order="bag"), {"slot_scores": np.zeros((0, 2), "f4")}, "expected"),
        (DecodeConfig(order="pooled", length="end"), {"end_scores": None}, "needs end_scores"),
    ],
)
def test_scores_that_do_not_fit_are_refused(
    config: DecodeConfig, changes: dict[str, Any], message: str
) -> None:
    zeros = np.zeros((2, 2), dtype=np.float32)
    scores = PhraseScores(np.array([1, 2], dtype=np.int32), zeros, zeros[0], np.zeros(3, "f4"))
    with pytest.raises(ConfigError, match=message):
        Decoder(make_trie([(1, 2)]), config).decode([replace(scores, **changes)])


@pytest.mark.parametrize(
    ("norms", "message"),
    [
        (None, "order = bag_cos needs norms"),
        (BagNorms(np.ones(3, "f4"), np.ones(1, "f4")), "3 weights and 1 norms"),
        (BagNorms(np.ones(NUM_PHRASES, "f4"), np.zeros(1, "f4")), "not all above 0"),
    ],
)
def test_norms_that_do_not_fit_are_refused(norms: BagNorms | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Decoder(make_trie([(1, 2)]), DecodeConfig(order="bag_cos"), norms=norms)
