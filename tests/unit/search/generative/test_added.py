"""New words of new documents: phrases with rows of their own, kept with the index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tiny_generative import make_model

from quoth.collection.store import Store
from quoth.records import Document, Part, Query
from quoth.search.generative.added import weigh_phrases
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.files import GenerativeModel
from quoth.search.generative.index import open_index
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.generative.state import TRIE, read_index
from quoth.search.searcher import ignore_progress
from quoth.text.passages import PassageConfig, cut_document
from quoth.vocabulary.phrases.added import AddedWords, list_texts

CUT = partial(cut_document, config=PassageConfig())
CONFIG = GenerativeConfig(depth=4, sentences=0, generator="none")
OLD = {"a": "barn owl at night", "b": "two birds sleep"}
NEW = {"c": "zanzibar owl", "d": "quagga zanzibar", "e": "raven"}
QUERIES = [Query("1", "owl of zanzibar"), Query("2", "quagga"), Query("3", "birds at night")]
ORDERS = ("ordered", "perm_slots", "bag", "sorted_trie", "pooled", "bag_cos", "bag_max")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return make_model(tmp_path_factory.mktemp("tiny"), word_vectors=True, row_lengths=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "c.quoth")) as opened:
        yield opened


def _open(
    store: Store, model: GenerativeModel, config: GenerativeConfig = CONFIG, name: str = "m"
) -> GenerativeSearcher:
    folder = store.path.parent / "generative" / name / TRIE
    return GenerativeSearcher(folder, store, load_model=lambda: model, config=config)


def _add(store: Store, titles: dict[str, str], *searchers: GenerativeSearcher) -> None:
    store.add([Document(docid, {"title": (text,)}) for docid, text in titles.items()], cut=CUT)
    for searcher in searchers:
        searcher.catch_up(store, progress=ignore_progress)


def _added(searcher: GenerativeSearcher) -> list[str]:
    state = read_index(searcher.folder)
    assert state is not None
    found = list_texts(open_index(searcher.folder, state, deep=True).added.strings)
    assert state.num_added == len(found)
    return found


def _scores(searcher: GenerativeSearcher) -> dict[str, dict[str, float]]:
    hits = searcher.search(QUERIES, k=9, allowed=None).hits
    return {qid: {hit.docid: hit.score for hit in own} for qid, own in hits.items()}


def _cosines(store: Store, model: GenerativeModel, query: Query) -> dict[str, float]:
    """Score every title word by word, new words by the network's vectors of them."""
    encoded = model.pixar.encode_queries([query.text])
    (pooled,), (words,) = encoded.pooled, encoded.words
    known, found = len(model.vocabulary), {}
    weights = weigh_phrases(model.vocabulary.uses, "rarity", num_added=1)
    for stored in store.live_documents():
        added = AddedWords(known, most=99)
        (title,) = stored.document.fields["title"]
        ids = model.vocabulary.segment([title], added).ids
        own = model.pixar.encode_phrases(list_texts(added.strings)) if len(added) else ()
        rows = np.array([own[i - known] if i >= known else model.pixar.head.rows[i] for i in ids])
        weight = np.array([weights[min(i, known)] for i in ids])
        gains = rows @ pooled / np.linalg.norm(pooled) + np.maximum(0, (rows @ words.T).max(1))
        found[stored.document.docid] = float(
            weight @ gains / np.linalg.norm((weight[:, None] * rows).sum(0))
        )
    return found


def test_new_words_score_by_the_networks_own_vectors(store: Store, model: GenerativeModel) -> None:
    searcher = _open(store, model)
    _add(store, OLD, searcher)
    before = _scores(searcher)
    _add(store, NEW, searcher)
    assert sorted(_added(searcher)) == [" quagga", " zanzibar"]
    after = _scores(searcher)
    for query in QUERIES:
        whole = 1 + CONFIG.mean_share  # a title alone is the best and the mean
        expected = {d: whole * own for d, own in _cosines(store, model, query).items()}
        assert after[query.qid] == pytest.approx(expected, abs=3e-3)
        assert {d: after[query.qid][d] for d in OLD} == pytest.approx(before[query.qid], abs=1e-6)


def test_an_index_that_followed_searches_as_one_built_anew(
    store: Store, model: GenerativeModel
) -> None:
    searcher = _open(store, model)
    _add(store, OLD, searcher)
    _add(store, NEW, searcher)
    _add(store, {"f": "okapi zanzibar"}, searcher)
    store.remove(["d"])  # the only one with a quagga
    searcher.catch_up(store, progress=ignore_progress)
    anew = _open(store, model, name="anew")
    anew.rebuild(store, progress=ignore_progress)
    assert " quagga" in _added(searcher) and " quagga" not in _added(anew)
    found, expected = _scores(searcher), _scores(anew)
    assert found.keys() == expected.keys()
    for qid, own in found.items():
        assert own == pytest.approx(expected[qid], abs=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_explanations_add_up_and_name_new_words(
    store: Store, model: GenerativeModel, order: str
) -> None:
    searcher = _open(store, model, replace(CONFIG, order=order), name=order)
    _add(store, OLD | NEW, searcher)
    hits = {
        hit.docid: hit.score for hit in searcher.search(QUERIES[1:2], k=9, allowed=None).hits["2"]
    }
    if order not in ("ordered", "perm_slots", "sorted_trie"):
        assert "d" in hits
    documents = [Document(docid, {"title": (NEW["d"],)}) for docid in hits if docid == "d"]
    for part in searcher.explain(QUERIES[1], documents, k=9):
        assert part.value == pytest.approx(hits["d"], abs=1e-4)
        assert _leaves(part) == pytest.approx(part.value, abs=1e-4)
        assert "quagga" in part.parts[0].label


def test_scores_that_another_index_of_the_model_gave_are_completed(
    store: Store, model: GenerativeModel, tmp_path: Path
) -> None:
    searcher = _open(store, model)
    _add(store, OLD | NEW, searcher)
    with closing(Store.create(tmp_path / "other.quoth")) as other:
        elsewhere = _open(other, model)
        _add(other, {"x": "dodo mauritius"}, elsewhere)
        prepared = elsewhere.phrase_scores(QUERIES)
    expected = _scores(searcher)
    searcher.know_scores(QUERIES, prepared)
    assert _scores(searcher) == expected


def test_nothing_is_added_where_rows_are_trained_or_it_is_set_so(
    store: Store, model: GenerativeModel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trained = make_model(tmp_path_factory.mktemp("trained"))
    plain = _open(store, trained, name="trained")
    parts = _open(store, model, replace(CONFIG, new_words=False), name="parts")
    _add(store, OLD | NEW, plain, parts)
    assert _added(plain) == _added(parts) == []


def test_an_altered_word_is_damage(store: Store, model: GenerativeModel) -> None:
    searcher = _open(store, model)
    _add(store, OLD | NEW, searcher)
    assert searcher.find_damage(store, progress=ignore_progress) == ()
    (path,) = searcher.folder.glob("*/added-words.npy")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "added-words.npy" in " ".join(searcher.find_damage(store, progress=ignore_progress))


def _leaves(part: Part) -> float:
    return part.value if not part.parts else sum(map(_leaves, part.parts))
