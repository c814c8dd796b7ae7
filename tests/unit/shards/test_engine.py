"""A collection in shards ranks as the same collection in one piece, whatever is written to it."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import WORDS, save_tiny_encoder
from tiny_generative import make_model
from tiny_generator import make_generator
from tiny_reader import make_reader

from quoth.artifact import save_artifact
from quoth.collection.lock import hold_writer_lock
from quoth.collection.shards import create_shards, open_shards
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.errors import CollectionError, ConfigError, OutOfDate, ShardDown
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.index.dense.state import read_state
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.plain import PlainEncoder
from quoth.records import Document, OutOfReach, Query, SearchRequest
from quoth.search.generative.files import save_generative_model
from quoth.search.lexical import agreement
from quoth.search.shard_questions import ShardQuestion
from quoth.shards import split_and_merge
from quoth.shards.engine import ShardedEngine
from quoth.shards.global_statistics import EXCHANGED_FILE
from quoth.shards.opening import open_engine
from quoth.shards.port import LocalPort, ShardEngine
from quoth.shards.split_and_merge import merge_shards, split_collection

QUERIES = (
    "owl raven at night",
    "owl owl barn field three",
    '"at night" owl',
    "+owl -raven hunt",
    "title:owl dusk",
    "note:x bird",
    "zebra",
    "",
)


def _documents(count: int, *, seed: int = 0, first: int = 0) -> list[Document]:
    chance = random.Random(seed)
    shares = [1 / (1 + at) for at in range(len(WORDS))]
    found = []
    for at in range(first, first + count):
        fields = {"title": (" ".join(chance.choices(WORDS, k=chance.randint(1, 4))),)}
        words = chance.choices(WORDS, weights=shares, k=chance.randint(1, 40))
        fields["text"] = (" ".join(words),)
        if at % 9 == 8:
            fields["note"] = ("x " + chance.choice(WORDS),)
        found.append(Document(f"d{at}", fields, {"year": 2000 + at % 5}))
    return found


class _Costly(LocalPort):
    """A shard that is better asked once than twice."""

    is_costly = True
    is_here = False


def _assert_same(
    whole: Engine, sharded: ShardedEngine, *, searcher: str = "lexical", where: str = ""
) -> None:
    """The same hits with the same scores and passages; in one piece, words are scored in single
    precision.
    """
    elsewhere = [_Costly(engine) for engine in sharded._engines]
    apart = ShardedEngine.open(sharded.folder, settings=sharded._given, ports=elsewhere)
    for text in QUERIES:
        options: dict[str, Any] = {"k": 100, "where": where, "searcher": searcher}
        expected = whole.search(text, **options)
        found = sharded.search(text, **options)
        assert apart.search(text, **options) == found, "asked once, or step by step"
        assert [hit.docid for hit in found] == [hit.docid for hit in expected], text
        assert [hit.passage for hit in found] == [hit.passage for hit in expected]
        scores = [hit.score for hit in expected]
        assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-6)
        docids = [hit.docid for hit in expected][:5]
        parts = whole.explain(text, docids, k=100, where=where, searcher=searcher)
        same = sharded.explain(text, docids, k=100, where=where, searcher=searcher)
        assert [each.value for each in same] == pytest.approx(
            [each.value for each in parts], abs=1e-6
        )
    apart.close()
    queries = [Query(str(at), text) for at, text in enumerate(QUERIES)]
    first = whole.run(queries, k=50, where=where, searcher=searcher)
    second = sharded.run(queries, k=50, where=where, searcher=searcher)
    assert first.name == second.name and first.hits.keys() == second.hits.keys()
    for qid, hits in first.hits.items():
        scores = {hit.docid: hit.score for hit in second.hits[qid]}
        assert scores == pytest.approx({hit.docid: hit.score for hit in hits}, rel=1e-6, abs=1e-6)


@pytest.fixture
def whole(tmp_path: Path) -> Any:
    with Engine.open(tmp_path / "whole.quoth") as engine:
        yield engine


# --- the same ranking -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "seed"), [(1, 0), pytest.param(2, 1, marks=pytest.mark.slow), (5, 2)]
)
def test_words_rank_the_same_after_splitting_and_every_kind_of_write(
    tmp_path: Path, whole: Engine, count: int, seed: int
) -> None:
    whole.add_documents(_documents(80, seed=seed))
    split_collection(whole.folder, tmp_path / "s", count=count)
    chance = random.Random(seed)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        _assert_same(whole, sharded)
        for step in range(2):
            fresh = _documents(25, seed=seed + 10 * step, first=65 + 15 * step)
            gone = [f"d{chance.randrange(100)}" for _ in range(9)] + ["nobody"]
            for engine in (whole, sharded):
                engine.add_documents(fresh)
            assert sharded.remove(gone) == whole.remove(gone)
            _assert_same(whole, sharded)
            _assert_same(whole, sharded, where="year >= 2002")
        assert sharded.docids() == whole.docids()
        assert sharded.verify().is_clean
        status = sharded.status()
        assert status["documents"] == whole.status()["documents"]
        assert status["fields"] == whole.status()["fields"]
        assert status["filters"].keys() == whole.status()["filters"].keys() == {"year"}
        assert (
            status["indexes"]["lexical"]["terms"] == whole.status()["indexes"]["lexical"]["terms"]
        )


def test_shards_that_are_made_empty_rank_the_same_when_filled(
    tmp_path: Path, whole: Engine
) -> None:
    create_shards(tmp_path / "s", count=3)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        assert sharded.search("owl") == () and sharded.docids() == ()
        for engine in (whole, sharded):
            engine.add_documents(_documents(1))  # leaves two shards empty
        _assert_same(whole, sharded)
        report = _documents(40, seed=3)
        assert sharded.add_documents(report) == whole.add_documents(report)
        _assert_same(whole, sharded)


@pytest.mark.parametrize("least", [0.0, 10.0])
def test_words_rank_the_same_whether_an_idf_is_mended_or_counts_as_slack(
    tmp_path: Path, whole: Engine, monkeypatch: pytest.MonkeyPatch, least: float
) -> None:
    monkeypatch.setattr(agreement, "_LEAST_MENDED", least)
    whole.add_documents(_documents(90))
    with ShardedEngine.open(split_collection(whole.folder, tmp_path / "s", count=4).folder) as many:
        _assert_same(whole, many)
        for engine in (whole, many):
            engine.remove([f"d{at}" for at in range(0, 90, 7)])
        _assert_same(whole, many)


def test_many_hits_of_one_score_are_cut_by_docid(tmp_path: Path, whole: Engine) -> None:
    whole.add_documents([Document(f"t{at:02}", {"text": ("owl hunts",)}) for at in range(40)])
    split_collection(whole.folder, tmp_path / "s", count=4)
    with ShardedEngine.open(tmp_path / "s") as sharded:
        found = [hit.docid for hit in sharded.search("owl", k=7)]
    assert found == [f"t{at:02}" for at in range(7)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(scope="module")
def weighted(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weighted") / "weighted"
    config = GlowConfig(
        weighting="row", weights="idf", idf="non_negative", max_subwords=64, mean_one=True
    )
    GlowEncoder.load(str(tiny), config=config, fast=False).save(folder)
    return folder


def test_vectors_and_fusing_rank_the_same_and_are_carried_over(tmp_path: Path, tiny: Path) -> None:
    settings = [{"dense": {"encoder": str(tiny)}, "fusion": {"method": "convex", "weight": 0.4}}]
    with Engine.open(tmp_path / "whole", settings=settings) as whole:
        whole.add_documents(_documents(60))
        calibration = whole.encode()
        before = {path: path.stat().st_mtime_ns for path in tiny.iterdir()}
        split_collection(whole.folder, tmp_path / "s", count=3, settings=settings)
        with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
            dense = sharded.status()["indexes"]["dense"]
            plain = whole.status()["indexes"]["dense"]
            for name in ("documents", "vectors", "encoder", "subwords", "documents_cut"):
                assert dense[name] == plain[name]
            for searcher in ("dense", "hybrid"):
                _assert_same(whole, sharded, searcher=searcher)
                _assert_same(whole, sharded, searcher=searcher, where="year == 2001")
            assert sharded.encode() == calibration
            for engine in (whole, sharded):
                engine.add_documents(_documents(10, seed=5, first=55))
                engine.remove(["d3", "d4"])
            for searcher in ("dense", "hybrid"):
                _assert_same(whole, sharded, searcher=searcher)
            assert sharded.attention("owl", ["d1", "d2"]) == whole.attention("owl", ["d1", "d2"])
            assert sharded.verify().is_clean
        assert before == {path: path.stat().st_mtime_ns for path in tiny.iterdir()}


def _forget_vectors(folder: Path, docids: Sequence[str]) -> None:
    """Leave a dense index as an encoding leaves it that was stopped before these documents."""
    path = folder / "dense" / "tiny"
    with contextlib.closing(Store.open(folder)) as store:
        rows = sorted(store.rows(docids).values())
    state = read_state(path)
    assert state is not None
    DenseIndex.open(path, model=state.model, config=DenseConfig()).remove(rows)
    left = read_state(path)
    assert left is not None
    save_artifact(path, replace(left, change=0, log="").to_artifact())


def test_unfinished_vectors_are_used_as_in_one_piece(tmp_path: Path, tiny: Path) -> None:
    settings = [{"dense": {"encoder": str(tiny)}, "fusion": {"method": "convex", "weight": 0.4}}]
    with Engine.open(tmp_path / "whole", settings=settings) as whole:
        whole.add_documents(_documents(40))
        whole.encode()
        shards = split_collection(tmp_path / "whole", tmp_path / "s", count=3, settings=settings)
        lost = [f"d{at}" for at in range(0, 40, 3)]
        _forget_vectors(tmp_path / "whole", lost)
        for path in shards.shards:
            _forget_vectors(path, lost)
    with (
        Engine.open(tmp_path / "whole", settings=settings) as whole,
        ShardedEngine.open(tmp_path / "s", settings=settings) as sharded,
    ):
        request = SearchRequest("owl raven at night", k=20, rerank=False)
        expected, found = whole.find(request), sharded.find(request)
        assert (found.searcher, found.incomplete) == ("hybrid", expected.incomplete)
        assert found.incomplete.startswith("vectors cover ")
        for searcher in ("dense", "hybrid"):
            _assert_same(whole, sharded, searcher=searcher)
        assert sharded.find(replace(request, searcher="lexical")).incomplete == ""
        sharded.encode()
        assert sharded.find(request).incomplete == ""


def test_a_shard_without_any_vector_leaves_the_search_to_words(tmp_path: Path, tiny: Path) -> None:
    settings = [{"dense": {"encoder": str(tiny)}}]
    create_shards(tmp_path / "s", count=2)
    with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
        sharded.add_documents(_documents(20))
        sharded.encode()
        docids = sharded.docids()
    shards = open_shards(tmp_path / "s")
    _forget_vectors(shards.shard(0), docids)
    shutil.rmtree(shards.shard(1) / "dense")
    with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
        assert sharded.find(SearchRequest("owl", k=5)).searcher == "lexical"
        with pytest.raises(CollectionError, match="has no vectors yet"):
            sharded.search("owl", searcher="hybrid")


def test_a_query_is_encoded_once_for_all_shards(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [{"dense": {"encoder": str(tiny)}, "fusion": {"method": "convex", "weight": 0.4}}]
    create_shards(tmp_path / "s", count=3)
    encode, encoded = PlainEncoder.encode_queries, []

    def counting(self: PlainEncoder, queries: Any, **options: Any) -> Any:
        encoded.append(tuple(queries))
        return encode(self, queries, **options)

    with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
        sharded.add_documents(_documents(30))
        sharded.encode()
        monkeypatch.setattr(PlainEncoder, "encode_queries", counting)
        for searcher in ("dense", "hybrid"):
            sharded.search(f"owl by {searcher}", searcher=searcher, rerank=False)
    assert encoded == [("owl by dense",), ("owl by hybrid",)]


class _Counting(LocalPort):
    """A shard that counts what it is asked."""

    def __init__(self, engine: ShardEngine) -> None:
        super().__init__(engine)
        self.asked: Counter[str] = Counter()

    def answer(self, questions: Any) -> Any:
        self.asked["answer"] += 1
        return super().answer(questions)

    def settle(self, question: Any, docids: Any) -> Any:
        self.asked["settle"] += 1
        return super().settle(question, docids)

    def show(self, request: Any, hits: Any) -> Any:
        self.asked["show"] += 1
        return super().show(request, hits)

    def sign(self, docids: Any) -> Any:
        self.asked["sign"] += 1
        return super().sign(docids)


def test_a_page_full_of_copies_is_filled_without_asking_again_and_again(tmp_path: Path) -> None:
    text = "the barn owl hunts at night over the field beside the river " + " ".join(WORDS)
    copies = [Document(f"c{at}", {"text": (text,)}, {"at": at}) for at in range(70)]
    others = [Document(f"e{at}", {"text": (f"owl {f'filler{at} ' * 99}",)}) for at in range(30)]
    create_shards(tmp_path / "s", count=2)
    with Engine.open(tmp_path / "whole") as whole, ShardedEngine.open(tmp_path / "s") as made:
        for engine in (whole, made):
            engine.add_documents([*copies, *others])
        ports = [_Counting(ShardEngine(path, (), lambda *_: None)) for path in made.shards.shards]
        with ShardedEngine.open(tmp_path / "s", ports=ports) as sharded:
            request = SearchRequest("owl hunts at night", k=10)
            expected, found = whole.find(request), sharded.find(request)
        assert [(each.hit.docid, each.also) for each in found.hits] == [
            (each.hit.docid, each.also) for each in expected.hits
        ]
        assert len(found.hits[0].also) > 10, "there were copies to leave out"
        for port in ports:
            assert port.asked["answer"] <= 3, "twice, and once more as copies score the same"
            assert port.asked["settle"] <= 2
            assert port.asked["sign"] <= 1 and port.asked["show"] <= 2
            port.close()


def test_weights_in_the_encoder_are_those_of_all_documents(tmp_path: Path, weighted: Path) -> None:
    settings = [{"dense": {"encoder": str(weighted), "storage": "fp32"}}]
    documents = _documents(30)
    create_shards(tmp_path / "s", count=3)
    with (
        Engine.open(tmp_path / "whole", settings=settings) as whole,
        ShardedEngine.open(tmp_path / "s", settings=settings) as sharded,
    ):
        for engine in (whole, sharded):
            engine.add_documents(documents)
            engine.encode()
        _assert_same(whole, sharded, searcher="dense")
        fresh = [Document(f"o{at}", {"text": (f"owl {WORDS[at]}",)}) for at in range(20)]
        for engine in (whole, sharded):  # new vectors are made with the statistics after them
            engine.add_documents(fresh)
        _assert_same(whole, sharded, searcher="dense")


@pytest.mark.parametrize("likelihood", [0.0, 0.01])
def test_hits_are_reranked_as_in_one_piece(tmp_path: Path, tiny: Path, likelihood: float) -> None:
    reader = str(make_reader(tmp_path / "reading").folder)
    make_generator(tmp_path / "base").save(tmp_path / "generator")
    rerank = {"reader": reader, "depth": 6, "late_interaction": 1.0, "late_hits": 4}
    rerank |= {"late_likelihood": likelihood, "generator": str(tmp_path / "generator")}
    settings = [{"dense": {"encoder": str(tiny)}, "rerank": rerank}]
    create_shards(tmp_path / "s", count=3)
    with (
        Engine.open(tmp_path / "whole", settings=settings) as whole,
        ShardedEngine.open(tmp_path / "s", settings=settings) as sharded,
    ):
        for engine in (whole, sharded):
            engine.add_documents(_documents(40))
        shares = [engine.encode().rerank for engine in (whole, sharded)]
        assert shares[0] is not None and shares[0] == shares[1]
        request = SearchRequest("owl at night", k=8, explain=True)
        one, many = whole.find(request), sharded.find(request)
        assert one.reranked_by == many.reranked_by == "cross-encoder"
        assert [each.hit.docid for each in one.hits] == [each.hit.docid for each in many.hits]
        for each, other in zip(one.hits, many.hits, strict=True):
            assert each.hit.score == pytest.approx(other.hit.score, abs=1e-4)
            assert set(each.found_by) == set(other.found_by)
        raised = [each.explanation for found in (one, many) for each in found.hits[:6]]
        assert all(part and "cosine to the first" in part.parts[-1].label for part in raised)
        for found in (one, many):
            for voice, weight in (("late interaction", 1.0), ("log p(query", likelihood)):
                heard = [voice in str(each.explanation) for each in found.hits]
                assert heard.count(True) == (4 if weight else 0)
        for engine in (whole, sharded):  # whoever answers wants hits that differ
            found = engine.find(replace(request, feedback=False)).hits
            assert not any("cosine to the first" in str(each.explanation) for each in found)
            assert not any("late interaction" in str(each.explanation) for each in found)


# --- splitting and joining ------------------------------------------------------------------------


def test_splitting_and_joining_gives_the_same_collection(tmp_path: Path, tiny: Path) -> None:
    settings = [{"dense": {"encoder": str(tiny)}, "passages": {"max_words": 12}}]
    with Engine.open(tmp_path / "whole", settings=settings) as whole:
        whole.add_documents(_documents(50))
        whole.add_documents(_documents(10, seed=7))  # updates move to the end
        whole.encode()
        with whole._writing() as (store, _config):
            store.put_identifiers({"d1": ["an owl", "a barn"]}, origin="title")
        split_collection(whole.folder, tmp_path / "s", count=3)
        merge_shards(tmp_path / "s", tmp_path / "merged")
        with Engine.open(tmp_path / "merged", settings=settings) as merged:
            assert merged.docids() == whole.docids()
            assert [merged.document(each) for each in merged.docids()] == [
                whole.document(each) for each in whole.docids()
            ]
            assert merged.config == whole.config
            assert merged._reader().identifiers("d1") == ("an owl", "a barn")
            assert merged._searchers.calibration == whole._searchers.calibration is not None
            for searcher in ("lexical", "dense", "hybrid"):
                assert merged.search("owl at night", searcher=searcher) == whole.search(
                    "owl at night", searcher=searcher
                )
            assert merged.verify().is_clean


def test_a_shard_works_alone(tmp_path: Path, whole: Engine) -> None:
    whole.add_documents(_documents(40))
    shards = split_collection(whole.folder, tmp_path / "s", count=2)
    own = [docid for docid in whole.docids() if shards.shard_of(docid) == 1]
    with Engine.open(shards.shard(1)) as alone, Engine.open(tmp_path / "same") as same:
        same.add_documents([whole.document(docid) for docid in own])
        assert alone.docids() == same.docids() == tuple(own)
        assert alone.search("owl night") == same.search("owl night")
        assert alone.verify().is_clean


def test_what_is_there_is_not_written_over(tmp_path: Path, whole: Engine) -> None:
    whole.add_documents(_documents(5))
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine").write_text("")
    for act in (
        lambda: split_collection(whole.folder, tmp_path / "s", count=2),
        lambda: split_collection(whole.folder, tmp_path / "t", count=0),
        lambda: split_collection(tmp_path / "nothing", tmp_path / "t", count=2),
        lambda: merge_shards(whole.folder, tmp_path / "t"),
    ):
        with pytest.raises((CollectionError, ConfigError)):
            act()
    assert {each.name for each in tmp_path.iterdir()} == {"s", "whole.quoth"}
    split_collection(whole.folder, tmp_path / "t", count=2)
    with pytest.raises(CollectionError, match="exists and is not empty"):
        merge_shards(tmp_path / "t", whole.folder)


def test_an_interrupted_split_leaves_nothing(
    tmp_path: Path, whole: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.add_documents(_documents(20))

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(split_and_merge, "_carry_vectors", interrupt)
    with pytest.raises(KeyboardInterrupt):
        split_collection(whole.folder, tmp_path / "s", count=2)
    assert [each.name for each in tmp_path.iterdir()] == ["whole.quoth"]


# --- statistics out of date -----------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path: Path, whole: Engine) -> Any:
    whole.add_documents(_documents(30))
    return split_collection(whole.folder, tmp_path / "s", count=2)


def _own(shards: Any, number: int, words: str) -> Document:
    """Make a document that belongs to a shard."""
    docid = next(f"n{at}" for at in range(100) if shards.shard_of(f"n{at}") == number)
    return Document(docid, {"text": (words,)})


def test_a_shard_written_to_alone_refuses_until_statistics_are_exchanged(
    whole: Engine, shards: Any
) -> None:
    fresh = _own(shards, 1, "owl owl owl")
    with Engine.open(shards.shard(1)) as alone:
        alone.add_documents([fresh])
    port = LocalPort.open(shards.shard(1))
    query = Query("q", "owl")
    with pytest.raises(OutOfDate, match=f'run "quoth shard --exchange {shards.folder}"'):
        port.answer([ShardQuestion((query,), 5, "lexical", syntax=False)])
    with ShardedEngine.open(shards.folder) as sharded:  # which exchanges them
        whole.add_documents([fresh])
        _assert_same(whole, sharded)
    ((found,),) = port.answer([ShardQuestion((query,), 1, "lexical", syntax=False)])
    assert found.docids
    port.close()


def test_an_open_engine_notices_and_exchanges(whole: Engine, shards: Any) -> None:
    with ShardedEngine.open(shards.folder) as sharded:
        _assert_same(whole, sharded)
        fresh = _own(shards, 0, "owl and a brand new word")
        with Engine.open(shards.shard(0)) as alone:
            alone.add_documents([fresh])
        whole.add_documents([fresh])
        _assert_same(whole, sharded)


def test_an_exchange_that_a_kill_cut_short_is_finished(whole: Engine, shards: Any) -> None:
    old = (shards.shard(1) / EXCHANGED_FILE).read_bytes()
    fresh = _own(shards, 0, "owl owl owl")
    with ShardedEngine.open(shards.folder) as sharded:
        sharded.add_documents([fresh])
    (shards.shard(1) / EXCHANGED_FILE).write_bytes(old)  # shard 1 itself has not changed
    whole.add_documents([fresh])
    with ShardedEngine.open(shards.folder) as sharded:
        _assert_same(whole, sharded)


def test_sums_are_the_same_bytes_in_every_shard_and_every_time(shards: Any) -> None:
    before = (shards.shard(0) / EXCHANGED_FILE).read_bytes()
    with ShardedEngine.open(shards.folder) as sharded:
        sharded.exchange()
    assert (shards.shard(0) / EXCHANGED_FILE).read_bytes() == before
    assert (shards.shard(1) / EXCHANGED_FILE).read_bytes() == before


def test_while_a_writer_is_at_work_search_goes_on(shards: Any) -> None:
    port = LocalPort.open(shards.shard(1))
    query = Query("q", "owl")
    with hold_writer_lock(shards.folder, wait_seconds=0.0):
        with Engine.open(shards.shard(1)) as alone:  # stands for a writer before its exchange
            alone.add_documents([_own(shards, 1, "owl owl owl")])
        ((found,),) = port.answer([ShardQuestion((query,), 50, "lexical", syntax=False)])
    assert found.docids
    port.close()


def test_verify_says_that_statistics_are_out_of_date_and_mends_them(shards: Any) -> None:
    with ShardedEngine.open(shards.folder) as sharded:
        with Engine.open(shards.shard(0)) as alone:
            alone.add_documents([_own(shards, 0, "owl")])
        damage = sharded.verify()
        assert not damage.is_clean and "exchanged statistics" in damage.lines()[0]
        assert sharded.verify(repair=True).is_clean
        assert sharded.verify().lines() == ()


# --- shards elsewhere, and what is refused --------------------------------------------------------


class _Down(LocalPort):
    def answer(self, questions: Sequence[ShardQuestion]) -> Any:
        raise ShardDown(self.number, "node lost")

    def find(self, request: SearchRequest) -> Any:
        raise ShardDown(self.number, "node lost")


def test_hits_within_reach_are_given_and_the_rest_is_said(whole: Engine, shards: Any) -> None:
    ports = [
        kind(ShardEngine(path, (), lambda *_: None))
        for kind, path in zip((LocalPort, _Down), shards.shards, strict=True)
    ]
    with ShardedEngine.open(shards.folder, ports=ports) as sharded:
        found = sharded.find(SearchRequest("owl night", k=100))
        lost = sum(shards.shard_of(docid) == 1 for docid in whole.docids())
        assert found.unreachable == (OutOfReach(1, lost, "node lost"),)
        expected = whole.search("owl night", k=100)
        assert [each.hit.docid for each in found.hits] == [
            hit.docid for hit in expected if shards.shard_of(hit.docid) == 0
        ]
        many = sharded.find_many([Query("q", "owl")], searcher="lexical")
        assert many.unreachable == found.unreachable and many.run.hits["q"]
        assert sharded.status()["documents"] == 30
    for port in ports:
        port.close()


def test_documents_snippets_and_answers_are_reached(whole: Engine, shards: Any) -> None:
    with ShardedEngine.open(shards.folder) as sharded:
        hit = sharded.search("owl")[0]
        assert hit.passage is not None
        assert sharded.document(hit.docid) == whole.document(hit.docid)
        assert sharded.snippet("owl", hit.passage) == whole.snippet("owl", hit.passage)
        with pytest.raises(CollectionError, match="there is no document 'nobody'"):
            sharded.document("nobody")


def test_what_shards_cannot_do_is_refused_with_advice(shards: Any) -> None:
    with ShardedEngine.open(shards.folder) as sharded:
        with pytest.raises(ConfigError, match="there is no searcher 'psychic'"):
            sharded.search("owl", searcher="psychic")
        with pytest.raises(CollectionError, match=f'run "quoth encode {shards.folder}"'):
            sharded.search("owl", searcher="hybrid")
    with pytest.raises(CollectionError, match="is a collection in shards"):
        Engine.open(shards.folder).add_documents(_documents(1))
    with pytest.raises(CollectionError, match="not a shard of another"):
        LocalPort.open(shards.folder.parent / "whole.quoth")


def test_a_folder_is_opened_as_what_it_is(whole: Engine, shards: Any) -> None:
    with open_engine(shards.folder) as first, open_engine(whole.folder) as second:
        assert isinstance(first, ShardedEngine) and isinstance(second, Engine)
    shutil.rmtree(shards.shard(1))
    with pytest.raises(CollectionError, match="shard 1 of 2 is missing"):
        open_engine(shards.folder)


def test_generative_search_finds_within_each_shard(tmp_path: Path) -> None:
    titles = ("barn owl", "owl at night", "two birds", "raven", "swift on the wing", "one hen")
    settings = [{"generative": {"generator": "none"}}]
    with Engine.open(tmp_path / "whole", settings=settings) as whole:
        whole.add_documents(
            [
                Document(f"d{at}", {"title": (title,), "text": (f"{title} here",)})
                for at, title in enumerate(titles)
            ]
        )
        model = make_model(tmp_path / "pixar")
        save_generative_model(whole.folder / "generative" / "tiny", model, about={})
        split_collection(whole.folder, tmp_path / "s", count=2, settings=settings)
        with ShardedEngine.open(tmp_path / "s", settings=settings) as sharded:
            for query in ("barn owl", "raven"):
                best = whole.search(query, searcher="generative", k=1)
                assert sharded.search(query, searcher="generative", k=1) == best
            assert sharded.status()["indexes"]["generative"]["documents"] == 6
