"""Generative search against brute force; explanations that add up; an index that follows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from tiny_encoder import WORDS
from tiny_generative import make_model

from quoth.collection.store import Store
from quoth.errors import CollectionError, ConfigError, Damaged, IndexMismatch
from quoth.index.trie import files
from quoth.index.trie.trie import ARRAYS
from quoth.records import Document, Part, Query
from quoth.search.generative import index as generative_index
from quoth.search.generative import state as generative_state
from quoth.search.generative.added import weigh_phrases
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.decode.score_table import PhraseScores
from quoth.search.generative.files import GenerativeModel, save_generative_model
from quoth.search.generative.index import GenerativeIndex, open_index
from quoth.search.generative.names import Identify
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.generative.state import TRIE, read_index
from quoth.search.searcher import ignore_progress
from quoth.text.passages import PassageConfig, cut_document

CUT = partial(cut_document, config=PassageConfig())
CONFIG = GenerativeConfig(depth=4, sentences=0)
QUERY = Query("q", "barn owl at night")
Make = Callable[..., GenerativeSearcher]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return make_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    """The same model with lists of few phrases."""
    return make_model(tmp_path_factory.mktemp("narrow"), list_length=12)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.create(tmp_path / "c.quoth")) as opened:
        yield opened


@pytest.fixture
def make(store: Store, model: GenerativeModel) -> Make:
    def give(
        config: GenerativeConfig = CONFIG,
        *,
        name: str = "m",
        identify: Identify | None = None,
        model: GenerativeModel = model,
    ) -> GenerativeSearcher:
        folder = store.path.parent / "generative" / name / TRIE
        searcher = GenerativeSearcher(
            folder, store, load_model=lambda: model, config=config, identify=identify
        )
        searcher.catch_up(store, progress=ignore_progress)
        return searcher

    return give


def _some(count: int, *, seed: int = 0) -> list[Document]:
    chance = random.Random(seed)
    titles = [" ".join(chance.choices(WORDS, k=chance.randint(1, 5))) for _ in range(count)]
    return [Document(f"d{at * 7 % count:02}", {"title": (titles[at],)}) for at in range(count)]


def _fill(store: Store, count: int = 30) -> list[Document]:
    documents = _some(count)
    store.add(documents, cut=CUT)
    chance = random.Random(1)
    texts = {
        each.docid: [" ".join(chance.choices(WORDS, k=3)) for _ in range(3)]
        for each in documents[::2]
    }
    store.put_identifiers(texts, origin="test")
    return documents


def _leaves(part: Part) -> float:
    return part.value if not part.parts else sum(map(_leaves, part.parts))


# --- searching ------------------------------------------------------------------------------------


def _expected(
    store: Store, model: GenerativeModel, text: str, *, share: float = CONFIG.mean_share
) -> dict[str, float]:
    """Score each document as its best identifier and a share of the mean of all."""
    return {
        docid: max(own) + share * fmean(own) for docid, own in _cosines(store, model, text).items()
    }


def _cosines(store: Store, model: GenerativeModel, text: str) -> dict[str, list[float]]:
    """Compare the query with each identifier of each document, one by one."""
    encoded = model.pixar.encode_queries([text])
    (pooled,), (words,) = encoded.pooled, encoded.words
    weights = weigh_phrases(model.vocabulary.uses, "rarity")
    found = {}
    for stored in store.live_documents():
        docid = stored.document.docid
        texts = [*stored.document.fields["title"], *store.identifiers(docid)]
        cosines = []
        for each in dict.fromkeys(texts):
            ids = model.vocabulary.segment([each]).ids
            rows = model.pixar.head.rows[ids]
            gains = rows @ pooled / np.linalg.norm(pooled)
            if len(words):
                gains = gains + np.maximum(0.0, (rows @ words.T).max(axis=1))
            length = np.linalg.norm((weights[ids, None] * rows).sum(axis=0))
            cosines.append(float(weights[ids] @ gains / length))
        found[docid] = cosines
    return found


@pytest.mark.parametrize("text", ["barn owl at night", "raven", "two birds sleep on the wing"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_document_scores_as_the_cosines_of_its_best_identifier_and_the_mean_of_all(
    store: Store, model: GenerativeModel, make: Make, text: str, share: float
) -> None:
    _fill(store)
    run = make(replace(CONFIG, mean_share=share)).search([Query("q", text)], k=99, allowed=None)
    found = {hit.docid: hit.score for hit in run.hits["q"]}
    assert run.name == "generative"
    assert found == pytest.approx(_expected(store, model, text, share=share), abs=1e-5)


@pytest.mark.parametrize("text", ["barn owl at night", "raven"])
def test_words_of_a_query_add_what_each_knows_of_a_phrase(
    store: Store, make: Make, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    _fill(store)
    own = make_model(tmp_path_factory.mktemp("words"), word_vectors=True)
    found = {}
    for order in ("bag_cos", "bag_max"):
        searcher = make(replace(CONFIG, order=order), model=own, name=order)
        (hits,) = searcher.search([Query("q", text)], k=99, allowed=None).hits.values()
        found[order] = {hit.docid: hit.score for hit in hits}
    expected = _expected(store, own, text)
    assert found["bag_max"] == pytest.approx(expected, abs=1e-5)
    assert all(found["bag_max"][docid] >= score for docid, score in found["bag_cos"].items())
    assert found["bag_max"] != found["bag_cos"]


def test_without_vectors_of_words_only_the_pooled_vector_counts(store: Store, make: Make) -> None:
    _fill(store)
    runs = [
        make(replace(CONFIG, order=order), name=order).search([QUERY], k=99, allowed=None)
        for order in ("bag_cos", "bag_max")
    ]
    assert runs[0] == runs[1]


def test_filters_k_and_depth_change_no_score_and_no_order(store: Store, make: Make) -> None:
    documents = _fill(store)
    deep = make(replace(CONFIG, depth=10_000))
    every = deep.search([QUERY], k=99, allowed=None).hits["q"]
    shallow = make(replace(CONFIG, depth=1))
    rows = store.rows([each.docid for each in documents])
    chance = random.Random(2)
    for k, share in itertools.product((1, 3, 99), (0.1, 0.5, 1.0)):
        allowed = {row for row in rows.values() if chance.random() < share}
        expected = [hit for hit in every if rows[hit.docid] in allowed][:k]
        assert list(shallow.search([QUERY], k=k, allowed=allowed).hits["q"]) == expected


@pytest.mark.parametrize("order", ["bag", "bag_cos"])
def test_only_shortlisted_phrases_make_identifiers(
    store: Store, make: Make, narrow: GenerativeModel, order: str
) -> None:
    _fill(store)
    searcher = make(replace(CONFIG, order=order), model=narrow)
    encoded = narrow.pixar.encode_queries([QUERY.text])
    found = narrow.shortlist.shortlist(encoded.pooled[0], encoded.slots[0])
    listed = set(found.phrase_ids.tolist())
    expected = set()
    for stored in store.live_documents():
        docid = stored.document.docid
        for text in [*stored.document.fields["title"], *store.identifiers(docid)]:
            if set(narrow.vocabulary.segment([text]).ids.tolist()) <= listed:
                expected.add(docid)
    hits = searcher.search([QUERY], k=99, allowed=None).hits["q"]
    assert {hit.docid for hit in hits} == expected and 0 < len(expected) < 30


def test_without_a_shortlist_the_pooled_vector_scores_every_phrase(
    store: Store, make: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _fill(store)
    few = make_model(tmp_path_factory.mktemp("few"), depth=6)
    expected = make().search([QUERY], k=99, allowed=None)
    assert make(model=few).search([QUERY], k=99, allowed=None) == expected


def _name_once(store: Store) -> None:
    """Name each document by one title that no other has."""
    titles = list(itertools.permutations(WORDS[:12], 2))[::7]
    store.add(
        [Document(f"d{at:02}", {"title": (" ".join(own),)}) for at, own in enumerate(titles)],
        cut=CUT,
    )


def test_one_identifier_each_ranks_documents_alike_by_seal_and_by_max(
    store: Store, make: Make
) -> None:
    _name_once(store)
    found = {}
    for aggregate in ("max", "seal"):
        searcher = make(replace(CONFIG, depth=99, aggregate=aggregate), name=aggregate)
        hits = searcher.search([QUERY], k=99, allowed=None).hits["q"]
        found[aggregate] = [hit.docid for hit in hits if hit.score > 0.0]
    assert len(found["seal"]) > 1 and found["seal"] == found["max"][: len(found["seal"])]


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_cosines_are_summed_at_the_length_of_the_querys_vector(
    store: Store, model: GenerativeModel, make: Make, temperature: float
) -> None:
    _fill(store)
    config = replace(CONFIG, depth=10_000, aggregate="logsumexp", temperature=temperature)
    hits = make(config).search([QUERY], k=99, allowed=None).hits["q"]
    length = float(np.linalg.norm(model.pixar.encode_queries([QUERY.text]).pooled[0]))
    expected = {
        docid: temperature / length * float(np.log(np.exp(np.array(own) * scale).sum()))
        for scale in [length / temperature]
        for docid, own in _cosines(store, model, QUERY.text).items()
    }
    assert {hit.docid: hit.score for hit in hits} == pytest.approx(expected, abs=1e-5)


ORDERS = ("ordered", "perm_slots", "bag", "sorted_trie", "pooled", "bag_cos", "bag_max")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("aggregate", ["max", "logsumexp", "seal", "rank"])
def test_explanations_add_up_whatever_is_configured(
    store: Store, make: Make, order: str, aggregate: str
) -> None:
    _fill(store)
    lengths = ("mean", "end") if aggregate == "max" else ("power",)
    for length in lengths:
        config = GenerativeConfig(
            order=order, length=length, alpha=0.5, aggregate=aggregate, lift=9.0
        )
        searcher = make(config, name=f"{order}-{aggregate}-{length}")
        hits = searcher.search([QUERY], k=5, allowed=None).hits["q"]
        documents = [each for hit in hits if (each := store.get(hit.docid)) is not None]
        assert len(documents) == 5
        for hit, part in zip(hits, searcher.explain(QUERY, documents, k=5), strict=True):
            assert part.value == pytest.approx(hit.score, rel=1e-6, abs=1e-6)
            assert _leaves(part) == pytest.approx(part.value, rel=1e-9)
            assert all("identifier" in each.label for each in part.parts)
    if aggregate == "max" and order == "bag_cos":
        leaf = part.parts[0].parts[0]
        assert leaf.label.startswith('phrase "') and part.parts[0].label.startswith('identifier "')


def test_phrases_outside_the_shortlist_are_explained_by_the_floor(store: Store, make: Make) -> None:
    _fill(store)
    config = GenerativeConfig(order="bag_cos", missing="floor", floor=50.0, depth=1_000)
    searcher = make(config, name="floor")
    (scores,) = searcher.phrase_scores([QUERY])
    searcher.know_scores([QUERY], [_keep(scores, every=3)])
    hits = searcher.search([QUERY], k=5, allowed=None).hits["q"]
    documents = [each for hit in hits if (each := store.get(hit.docid)) is not None]
    parts = searcher.explain(QUERY, documents, k=5)
    assert any(": 50.0000 · 1.00" in leaf.label for part in parts for leaf in part.parts[0].parts)
    for hit, part in zip(hits, parts, strict=True):
        assert part.value == pytest.approx(hit.score, rel=1e-6, abs=1e-6)


def _keep(scores: PhraseScores, *, every: int) -> PhraseScores:
    """Shortlist some phrases only."""
    assert scores.pooled_scores is not None
    return replace(
        scores,
        phrase_ids=scores.phrase_ids[::every],
        pooled_scores=scores.pooled_scores[::every],
        slot_scores=None,
    )


def test_what_is_not_found_is_explained_by_nothing(store: Store, make: Make) -> None:
    _fill(store)
    stranger = Document("stranger", {"title": ("owl",)})
    (part,) = make().explain(QUERY, [stranger])
    assert (part.value, part.parts) == (0.0, ())
    (part,) = make().explain(Query("q", " "), [stranger])
    assert part.value == 0.0


# --- naming ---------------------------------------------------------------------------------------


def _names(searcher: GenerativeSearcher, model: GenerativeModel) -> dict[int, set[str]]:
    state = read_index(searcher.folder)
    assert state is not None
    index = open_index(searcher.folder, state)
    found: dict[int, set[str]] = {}
    for row in range(len(index.trie)):
        text = model.vocabulary.join(index.trie.sequences(np.array([row])).ids)
        for owner in index.trie.postings(np.array([row])).rows.tolist():
            found.setdefault(owner, set()).add(text)
    return found


def test_sources_say_what_names_a_document(
    store: Store, make: Make, model: GenerativeModel
) -> None:
    fields = {"title": ("Barn  owl", "hen"), "text": ("raven at dusk",)}
    store.add([Document("a", fields), Document("b", {"text": ("mouse",)})], cut=CUT)
    store.put_identifiers({"a": ["owl at night", "barn owl"]}, origin="test")
    row = store.rows(["a", "b"])
    asked: list[str] = []

    def identify(documents: Sequence[Document]) -> list[list[str]]:
        asked.extend(each.docid for each in documents)
        return [["swift", "dusk"] for _each in documents]

    given = make(name="given")
    assert _names(given, model) == {row["a"]: {"barn owl", "hen", "owl at night"}}
    written = make(name="written", identify=identify)
    assert asked == ["b"] and _names(written, model)[row["b"]] == {"swift", "dusk"}
    few = make(replace(CONFIG, per_document=2), name="few", identify=identify)
    assert _names(few, model)[row["a"]] == {"barn owl", "hen"}
    title = make(replace(CONFIG, sources=("title",)), name="title", identify=identify)
    assert _names(title, model) == {row["a"]: {"barn owl", "hen"}} and asked == ["b", "b"]
    text = make(replace(CONFIG, sources=("text",), max_phrases=1), name="text")
    assert _names(text, model) == {row["a"]: {"raven"}, row["b"]: {"mouse"}}


def test_sentences_name_a_document_after_its_sources(
    store: Store, make: Make, model: GenerativeModel
) -> None:
    text = "The raven watches. The mouse hides, and the hen is at rest at dusk."
    store.add([Document("a", {"title": ("Barn owl",), "text": (text,)})], cut=CUT)
    row = store.rows(["a"])["a"]
    plain = make(replace(CONFIG, sentences=9, titled=False), name="plain")
    cut = make(replace(CONFIG, sentences=9, titled=False, clause_words=5), name="cut")
    titled = make(replace(CONFIG, sentences=9), name="titled")
    few = make(replace(CONFIG, sentences=1, titled=False), name="few")
    whole = {"the raven watches.", "the mouse hides, and the hen is at rest at dusk."}
    assert _names(plain, model)[row] == {"barn owl", *whole}
    pieces = {"the raven watches.", "the mouse hides,", "and the hen is at", "rest at dusk."}
    assert _names(cut, model)[row] == {"barn owl", *pieces}
    assert _names(titled, model)[row] == {f"barn owl {each}" for each in whole}
    assert _names(few, model)[row] == {"barn owl", "the raven watches."}


# --- following the store --------------------------------------------------------------------------


def _identify(documents: Sequence[Document]) -> list[list[str]]:
    return [[f"{each.fields['title'][0]} {each.docid}", "bird"] for each in documents]


def _index(folder: Path) -> GenerativeIndex:
    state = read_index(folder)
    assert state is not None
    return open_index(folder, state, deep=True)


def _assert_equal(own: GenerativeIndex, other: GenerativeIndex) -> None:
    for name in ARRAYS:
        first, second = getattr(own.trie, name), getattr(other.trie, name)
        assert first.dtype == second.dtype and np.array_equal(first, second), name
    assert np.array_equal(own.norms, other.norms) and np.array_equal(own.rows, other.rows)


@pytest.mark.parametrize("order", ["bag_cos", "sorted_trie"])
@pytest.mark.parametrize("seed", range(4))
def test_following_changes_equals_building_anew(
    store: Store, make: Make, order: str, seed: int
) -> None:
    chance = random.Random(seed)
    config = replace(CONFIG, order=order)
    followed = make(config, identify=_identify)
    for step in range(6):
        documents = _some(20, seed=seed * 100 + step)
        store.add(chance.sample(documents, 8), cut=CUT)
        docids = list(store.all_docids())
        store.remove(chance.sample(docids, min(len(docids), 3)))
        given = {docid: [f"owl {step}", "barn owl"] for docid in chance.sample(docids, 2)}
        store.put_identifiers(given, origin="test")
        if chance.random() < 0.7:
            followed.catch_up(store, progress=ignore_progress)
    followed.catch_up(store, progress=ignore_progress)
    assert followed.is_current(store.change) and followed.num_behind(store) == 0
    built = make(config, name="anew", identify=_identify)
    _assert_equal(_index(followed.folder), _index(built.folder))
    followed.rebuild(store, progress=ignore_progress)
    _assert_equal(_index(followed.folder), _index(built.folder))
    assert followed.find_damage(store, progress=ignore_progress) == ()
    assert len(list(followed.folder.iterdir())) == 2  # the newest state and its description


def test_other_settings_name_the_documents_anew(store: Store, make: Make) -> None:
    _fill(store)
    before = make()
    assert before.is_current(store.change)
    other = replace(CONFIG, sources=("title",))
    assert not GenerativeSearcher(
        before.folder, store, load_model=before._load_model, config=other
    ).is_current(store.change)
    after = make(other)
    assert after.is_current(store.change) and not before.is_current(store.change)
    assert after.describe()["identifiers"] < 31 and after.describe()["documents"] == 30


def test_a_trie_of_another_format_is_built_anew(
    store: Store, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(store)
    with monkeypatch.context() as patched:
        patched.setattr(files, "VERSION", 1)
        patched.setattr(generative_state, "_TRIE_VERSION", 1)
        expected = make().search([QUERY], k=5, allowed=None)
    searcher = make()
    assert searcher.search([QUERY], k=5, allowed=None) == expected
    assert searcher.is_current(store.change)


def test_a_crash_while_saving_leaves_the_old_state(
    store: Store, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(store)
    searcher = make()
    before = searcher.search([QUERY], k=5, allowed=None)
    store.add([Document("new", {"title": ("barn owl at night",)})], cut=CUT)

    def crash(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    for name in ("write_array", "save_index_state"):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(generative_index, name, crash)
            searcher.catch_up(store, progress=ignore_progress)
        searcher.close()
        assert searcher.search([QUERY], k=5, allowed=None) == before
        assert searcher.num_behind(store) == 1
    searcher.catch_up(store, progress=ignore_progress)
    hits = searcher.search([QUERY], k=99, allowed=None).hits["q"]
    assert len(hits) == 31 and "new" in [hit.docid for hit in hits]
    assert len(list(searcher.folder.iterdir())) == 2


def test_every_altered_file_is_noticed(store: Store, make: Make) -> None:
    _fill(store)
    searcher = make()
    for path in [each for each in searcher.folder.rglob("*") if each.is_file()]:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert searcher.find_damage(store, progress=ignore_progress), path
        path.write_bytes(whole[:-2])
        assert searcher.find_damage(store, progress=ignore_progress), path
        if path.suffix == ".npy":
            searcher.close()
            with pytest.raises(Damaged, match=path.name):
                searcher.search([QUERY], k=5, allowed=None)
        path.write_bytes(whole)
    assert searcher.find_damage(store, progress=ignore_progress) == ()


def test_an_index_of_another_model_is_refused(
    store: Store, make: Make, model: GenerativeModel
) -> None:
    _fill(store)
    searcher = make()
    save_generative_model(store.path.parent / "generative" / "other", model, about={})
    other = make(name="other")
    (searcher.folder).rename(other.folder.with_name("spare"))
    other.discard()
    other.folder.with_name("spare").rename(other.folder)
    for use in (
        lambda: other.search([QUERY], k=5, allowed=None),
        lambda: other.catch_up(store, progress=ignore_progress),
    ):
        with pytest.raises(IndexMismatch, match="another model or phrase vocab") as error:
            use()
        assert f'run "quoth train pixar {store.path.parent}"' in str(error.value)
    assert other.find_damage(store, progress=ignore_progress)
    other.rebuild(store, progress=ignore_progress)
    assert other.search([QUERY], k=5, allowed=None).hits["q"]


def test_without_an_index_it_is_said(store: Store, model: GenerativeModel) -> None:
    folder = store.path.parent / "generative" / "m" / TRIE
    searcher = GenerativeSearcher(folder, store, load_model=lambda: model, config=CONFIG)
    with pytest.raises(CollectionError, match="holds no index of the documents yet"):
        searcher.search([QUERY], k=5, allowed=None)
    assert searcher.describe()["identifiers"] == 0 and not searcher.is_current(0)


def test_all_problems_of_the_settings_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        GenerativeConfig(
            model="../m", sources=(), max_phrases=256, weighting="x", order="x", aggregate="x"
        )
    for part in (
        "model is",
        "sources is",
        "max_phrases is",
        "weighting",
        "order is",
        "aggregate is",
    ):
        assert part in str(caught.value)
