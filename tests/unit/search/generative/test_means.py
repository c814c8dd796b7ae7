"""The mean of all identifiers of a document, beside its best one, against counting one by one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from tiny_encoder import WORDS
from tiny_generative import make_model

from quoth.collection.store import Store
from quoth.index.trie.build import build_trie
from quoth.index.trie.trie import Sequences, Trie
from quoth.records import Document, Part, Query
from quoth.search.generative.aggregate import Owners
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores
from quoth.search.generative.files import GenerativeModel
from quoth.search.generative.means import MeanScorer, bound_unseen, list_owned
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.generative.state import TRIE
from quoth.search.searcher import ignore_progress
from quoth.text.passages import PassageConfig, cut_document

CUT = partial(cut_document, config=PassageConfig())
CONFIG = GenerativeConfig(sentences=0, generator="none")
PHRASES = 9


# --- identifiers by themselves --------------------------------------------------------------------


def _some_trie(chance: np.random.Generator) -> tuple[Trie, list[list[tuple[int, ...]]]]:
    """Name six owners by a few short sequences, many of them shared."""
    named = [
        [
            tuple(chance.integers(PHRASES, size=chance.integers(1, 5)).tolist())
            for _ in range(chance.integers(1, 7))
        ]
        for _owner in range(6)
    ]
    flat = [(owner, each) for owner, own in enumerate(named) for each in own]
    ids = np.array([phrase for _, each in flat for phrase in each], dtype=np.int32)
    offsets = np.cumsum([0, *(len(each) for _, each in flat)])
    owners = np.array([owner * 3 for owner, _ in flat])  # rows of a store have gaps
    trie = build_trie(Sequences(ids, offsets), owners=owners, num_phrases=PHRASES)
    return trie, [list(dict.fromkeys(own)) for own in named]


def _some_scores(chance: np.random.Generator) -> PhraseScores:
    ids = np.flatnonzero(chance.random(PHRASES) < 0.8).astype(np.int32)
    scores = chance.normal(size=len(ids)).astype(np.float32)
    return PhraseScores(ids, pooled_scores=scores, length=2.0)


@pytest.mark.parametrize("posting", ["ignore", "divide"])
@pytest.mark.parametrize("missing", ["exclude", "floor"])
@pytest.mark.parametrize("seed", range(10))
def test_means_equal_those_counted_one_by_one(posting: str, missing: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    trie, named = _some_trie(chance)
    scores = _some_scores(chance)
    weights = chance.random(PHRASES).astype(np.float32)
    norms = (1 + chance.random(len(trie))).astype(np.float32)
    config = replace(CONFIG, posting=posting, missing=missing, floor=-0.5)
    assert scores.pooled_scores is not None
    weighed = (scores.pooled_scores * weights[scores.phrase_ids]).tolist()
    gains = dict(zip(scores.phrase_ids.tolist(), weighed, strict=True))

    def score(each: tuple[int, ...]) -> float:
        ids = np.array(each, dtype=np.int32)
        (row,) = trie.find(Sequences(ids, np.array([0, len(ids)])))
        if missing == "exclude" and not gains.keys() >= set(each):
            return 0.0
        found = sum(gains.get(phrase, -0.5) for phrase in each) / float(norms[row])
        count = sum(each in own for own in named)
        return found - (math.log(count) / 2.0 if posting == "divide" else 0.0)

    scorer = MeanScorer(trie, list_owned(trie), norms=BagNorms(weights, norms), config=config)
    best = np.full(6, 99.0)  # above every mean
    found = scorer.add(Owners(np.arange(6) * 3, best), scores)
    owners, added = (found.rows // 3).tolist(), ((found.scores - 99.0) / 0.5).tolist()
    means = dict(zip(owners, added, strict=True))
    expected = {at: fmean(map(score, own)) for at, own in enumerate(named)}
    assert means == pytest.approx(expected, abs=1e-5)
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def test_owned_lists_turn_the_lists_of_owners_around() -> None:
    trie, named = _some_trie(np.random.default_rng(3))
    owned = list_owned(trie)
    assert owned.owners.tolist() == [0, 3, 6, 9, 12, 15]
    for at, own in enumerate(named):
        rows = owned.identifiers[owned.starts[at] : owned.starts[at + 1]].astype(np.int64)
        assert rows.tolist() == sorted(rows.tolist())
        sequences = trie.sequences(rows)
        spelled = pairwise(sequences.offsets.tolist())
        found = {tuple(sequences.ids[lo:hi].tolist()) for lo, hi in spelled}
        assert found == set(own) and len(rows) == len(own)


def test_no_mean_is_above_the_bound_of_what_was_not_seen() -> None:
    for seed in range(10):
        chance = np.random.default_rng(seed)
        trie, _named = _some_trie(chance)
        norms = BagNorms(np.ones(PHRASES, np.float32), np.ones(len(trie), np.float32))
        scorer = MeanScorer(trie, list_owned(trie), norms=norms, config=CONFIG)
        for best in (-1.0, 0.0, 0.1):
            found = scorer.add(Owners(np.array([0, 3]), np.full(2, best)), _some_scores(chance))
            assert found.scores.max() <= bound_unseen(best, CONFIG.mean_share)


# --- searching ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return make_model(tmp_path_factory.mktemp("tiny"), word_vectors=True)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    """The same model with lists of few phrases."""
    return make_model(tmp_path_factory.mktemp("narrow"), list_length=12, word_vectors=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "c.quoth")) as opened:
        yield opened


def _fill(store: Store, *, seed: int, count: int = 40) -> None:
    """Add documents with several names each; some share all theirs, so that they tie."""
    chance = random.Random(seed)
    names = [
        tuple(" ".join(chance.choices(WORDS, k=chance.randint(1, 4))) for _ in range(5))
        for _ in range(count)
    ]
    names = [names[at // 2] if at % 8 < 2 else own for at, own in enumerate(names)]
    store.add([Document(f"d{at:02}", {"title": own}) for at, own in enumerate(names)], cut=CUT)


def _open(store: Store, model: GenerativeModel, config: GenerativeConfig) -> GenerativeSearcher:
    folder = store.path.parent / "generative" / model.shortlist.config.method / TRIE
    searcher = GenerativeSearcher(folder, store, load_model=lambda: model, config=config)
    searcher.catch_up(store, progress=ignore_progress)
    return searcher


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_k_best_are_those_of_decoding_everything(
    store: Store, model: GenerativeModel, narrow: GenerativeModel, is_narrow: bool, seed: int
) -> None:
    _fill(store, seed=seed)
    used = narrow if is_narrow else model
    chance = random.Random(seed)
    query = Query("q", " ".join(chance.sample(WORDS, 4)))
    deep = _open(store, used, replace(CONFIG, depth=10_000))
    every = deep.search([query], k=99, allowed=None).hits["q"]
    assert len(every) > 5 and every == tuple(sorted(every, key=lambda h: (-h.score, h.docid)))
    assert len({hit.score for hit in every}) < len(every)  # some tie
    rows = store.rows([hit.docid for hit in every])
    for depth, method in ((1, "exact"), (3, "best_first"), (20, "exact")):
        shallow = _open(store, used, replace(CONFIG, depth=depth, method=method))
        for k in (1, 2, 3, 5, 99):
            assert shallow.search([query], k=k, allowed=None).hits["q"] == every[:k]
            allowed = {row for row in rows.values() if chance.random() < 0.4}
            expected = tuple(hit for hit in every if rows[hit.docid] in allowed)[:k]
            assert shallow.search([query], k=k, allowed=allowed).hits["q"] == expected


def test_a_search_needs_no_other_index_for_another_share(
    store: Store, model: GenerativeModel
) -> None:
    _fill(store, seed=0)
    made = _open(store, model, CONFIG)
    other = GenerativeSearcher(
        made.folder, store, load_model=lambda: model, config=replace(CONFIG, mean_share=0.0)
    )
    assert other.is_current(store.change)


@pytest.mark.parametrize(
    "other", [{"order": "bag"}, {"order": "pooled"}, {"aggregate": "logsumexp"}]
)
def test_the_mean_counts_beside_the_best_cosine_alone(
    store: Store, model: GenerativeModel, other: dict[str, str]
) -> None:
    _fill(store, seed=0)
    runs = []
    for share in (0.0, 0.5):
        config = replace(CONFIG, mean_share=share, **other)
        assert not config.counts_all
        runs.append(_open(store, model, config).search([Query("q", "owl")], k=9, allowed=None))
    assert runs[0] == runs[1] and CONFIG.counts_all


@pytest.mark.parametrize("is_narrow", [False, True])
def test_an_explanation_names_the_mean_and_adds_up(
    store: Store, model: GenerativeModel, narrow: GenerativeModel, is_narrow: bool
) -> None:
    _fill(store, seed=1)
    searcher = _open(store, narrow if is_narrow else model, replace(CONFIG, depth=2))
    query = Query("q", "barn owl at night")
    hits = searcher.search([query], k=5, allowed=None).hits["q"]
    documents = [each for hit in hits if (each := store.get(hit.docid)) is not None]
    for hit, part in zip(hits, searcher.explain(query, documents, k=5), strict=True):
        assert part.value == pytest.approx(hit.score, rel=1e-6)
        assert _leaves(part) == pytest.approx(hit.score, rel=1e-6)
        best, mean = part.parts
        assert best.label.startswith("identifier ")
        assert mean.label.startswith("mean of all identifiers, ") and mean.value > 0.0


def _leaves(part: Part) -> float:
    return part.value if not part.parts else sum(map(_leaves, part.parts))
