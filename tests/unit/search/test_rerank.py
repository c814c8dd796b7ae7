"""Reranking: what is read, how it is mixed, what it costs, and that explanations add up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from quoth.collection.store import Store
from quoth.engine.passages import PassageChooser
from quoth.errors import ConfigError, IndexMoved
from quoth.index.lexical.passage_terms import PassageTerms
from quoth.records import Document, Hit, Part, Query, RankAndScore, Run
from quoth.search.hybrid.calibration import ShareCalibration
from quoth.search.hybrid.fusion_config import CalibrationConfig, FusionConfig
from quoth.search.hybrid.searcher import HybridSearcher
from quoth.search.near import NearUnits
from quoth.search.rerank import (
    LookAgain,
    ReadPassage,
    ReadVectors,
    Reranking,
    RerankingSearcher,
    ScorePairs,
    Similarity,
    join_passage,
    read_passage,
)
from quoth.search.rerank_config import BOTH, LIKELIHOOD, RerankConfig
from quoth.search.rerank_share import RerankTrial, calibrate_share
from quoth.search.standings import Look, mix
from quoth.text.passages import PassageConfig, cut_document
from quoth.text.query_syntax import wanted_text
from quoth.text.words import Analyser, AnalyserConfig

CUT = partial(cut_document, config=PassageConfig())
QUERY = Query("q", "night owl")
LATE = Look(1.0, 0.01)


class Fixed:
    """A searcher whose hits are given."""

    name = "fixed"

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self.asked: list[int] = []

    def search(self, queries: Sequence[Query], *, k: int, allowed: set[int] | None) -> Run:
        self.asked.append(k)
        ranked = sorted(self.scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        hits = tuple(Hit(docid, score) for docid, score in ranked)
        return Run(self.name, {query.qid: hits if query.text else () for query in queries})

    def explain(
        self,
        query: Query,
        documents: Sequence[Document],
        *,
        k: int = 10,
        allowed: set[int] | None = None,
    ) -> tuple[Part, ...]:
        raise AssertionError("its parts do not add up to the share it has here")

    def close(self) -> None:
        raise AssertionError("whoever made it closes it")


class Owls:
    """Finds a query the likelier, the more owls a passage holds."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, str]]] = []

    def score(self, queries: Sequence[str], passages: Sequence[ReadPassage]) -> list[float]:
        self.calls.append(list(zip(queries, map(join_passage, passages), strict=True)))
        return [-40.0 + 10.0 * passage.text.count("owl") for passage in passages]


class NoTerms:
    """Weighs no term and keeps none of any passage."""

    def term_weights(self, _query: Query) -> dict[str, float]:
        return {}

    def passage_terms(self, _rows: Iterable[int]) -> dict[int, PassageTerms]:
        return {}


def _say_nothing(_query: Query, _passages: Sequence[ReadPassage]) -> None:
    """Compare nothing."""


class Setting:
    """A store, a first search over it, and its reranking."""

    def __init__(self, folder: Path, scores: Mapping[str, float], owls: Mapping[str, int]) -> None:
        self.store = Store.create(folder)
        documents = [
            Document(
                docid, {"title": (f"Note {docid}",), "text": ("owl " * owls.get(docid, 0) + ".",)}
            )
            for docid in scores
        ]
        self.store.add(documents, cut=CUT)
        self.first = Fixed(scores)
        self.owls = Owls()
        self.loads = 0

    def searcher(
        self,
        *,
        syntax: bool = False,
        depth: int = 50,
        weight: float = 0.3,
        vectors: ReadVectors | None = None,
        feedback: float = 0.0,
        look: LookAgain | None = None,
        late: Look = LATE,
        by: str = LIKELIHOOD,
    ) -> RerankingSearcher:
        passages = PassageChooser(
            self.store,
            analyser=Analyser(AnalyserConfig()),
            cut=CUT,
            lexical=lambda _syntax: NoTerms(),
            near=lambda _query, _stored: {},
            plain=lambda query, *, syntax: query,
        )
        how = Reranking(
            by=by,
            depth=depth,
            weight=weight,
            load=self._load,
            read=partial(passages.read_hits, "lexical", syntax=syntax),
            words=lambda query: (
                wanted_text(query.text, fields=self.store.fields()) if syntax else query.text
            ),
            width=None if vectors is None else 16.0,
            similarity=None if vectors is None else Similarity(look or _say_nothing, vectors),
            late=late,
            late_hits=2,
            feedback=feedback,
            feedback_hits=1,
        )
        return RerankingSearcher(self.first, how)

    def _load(self) -> ScorePairs:
        self.loads += 1
        return self.owls.score


SCORES = {"a": 9.0, "b": 5.0, "c": 1.0, "d": 0.5, "e": 0.25}
OWLS = {"a": 1, "b": 3, "c": 2, "d": 9, "e": 9}


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path / "c.quoth", SCORES, OWLS)
    with closing(made.store):
        yield made


def _search(searcher: RerankingSearcher, *, k: int = 10) -> dict[str, float]:
    return {hit.docid: hit.score for hit in searcher.search([QUERY], k=k, allowed=None).hits["q"]}


def test_a_score_is_the_weighted_sum_of_both_scaled_over_the_depth(setting: Setting) -> None:
    found = _search(setting.searcher(depth=3, weight=0.3))
    assert found["a"] == pytest.approx(0.7 * 1.0 + 0.3 * 0.0)
    assert found["b"] == pytest.approx(0.7 * (5 - 1) / (9 - 1) + 0.3 * 1.0)
    assert found["c"] == pytest.approx(0.7 * 0.0 + 0.3 * (20 - 10) / (30 - 10))
    assert list(found) == ["a", "b", "c", "d", "e"]
    assert list(_search(setting.searcher(depth=3, weight=0.9))) == ["b", "c", "a", "d", "e"]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_hits_below_the_depth_are_not_read_and_keep_their_order(
    setting: Setting, weight: float
) -> None:
    found = _search(setting.searcher(depth=2, weight=weight))
    assert list(found)[2:] == ["c", "d", "e"]
    assert len(set(found.values())) == 5 or weight in (0.0, 1.0)
    assert sorted(found.values(), reverse=True) == list(found.values())
    assert not any("owl " * 9 in passage for call in setting.owls.calls for _, passage in call)


VECTORS = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [3.0, 3.0], "e": [1.0, 0.0]}


def _vectors(_query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
    return {each: NearUnits(np.array(VECTORS[each]), ()) for each in docids if each in VECTORS}


def test_hits_that_are_like_the_best_one_are_raised_by_their_cosine(setting: Setting) -> None:
    plain = _search(setting.searcher(depth=4, weight=0.3, vectors=_vectors))
    found = _search(setting.searcher(depth=4, weight=0.3, vectors=_vectors, feedback=5.0))
    assert list(plain) == ["a", "b", "d", "c", "e"]
    assert list(found) == ["a", "d", "c", "b", "e"]  # e would be most like it, but is below
    cosines = {"a": 1.0, "b": 0.0, "c": 0.5**0.5, "d": (1.0 + 0.5**0.5) / 3}  # d has the mean
    for docid, cosine in cosines.items():
        assert found[docid] == pytest.approx(plain[docid] + 5.0 * cosine)
    assert found["e"] == plain["e"]


def test_the_least_alike_keeps_its_score_even_where_its_cosine_is_negative(
    setting: Setting,
) -> None:
    def vectors(_query: Query, docids: Sequence[str]) -> dict[str, NearUnits]:
        return {each: NearUnits(np.array([-1.0 if each == "b" else 1.0]), ()) for each in docids}

    plain = _search(setting.searcher(depth=3, vectors=vectors))
    found = _search(setting.searcher(depth=3, vectors=vectors, feedback=0.4))
    assert found["b"] == plain["b"]
    assert found["c"] == pytest.approx(plain["c"] + 0.8)


def test_raised_scores_are_explained_as_they_are_made(setting: Setting) -> None:
    searcher = setting.searcher(depth=4, vectors=_vectors, feedback=0.4)
    found = _search(searcher)
    documents = [Document(docid, {}) for docid in found]
    for document, part in zip(documents, searcher.explain(QUERY, documents), strict=True):
        assert part.value == pytest.approx(found[document.docid])
        assert sum(each.value for each in part.parts) == pytest.approx(part.value)
        assert any("cosine" in each.label for each in part.parts) == (document.docid != "e")


def test_no_vector_is_asked_for_where_likeness_counts_nothing(setting: Setting) -> None:
    def refuse(_query: Query, _docids: Sequence[str]) -> dict[str, NearUnits]:
        raise AssertionError("asked for vectors")

    assert len(_search(setting.searcher(vectors=refuse))) == 5
    setting.first.scores = {"a": 1.0}
    assert _search(setting.searcher(vectors=refuse, feedback=0.4)).keys() == {"a"}


def _look(_query: Query, passages: Sequence[ReadPassage]) -> list[Look]:
    known = {"Note a": Look(0.25, -40.0), "Note d": Look(0.75, -1.0)}
    return [known.get(each.title, Look(0.5, -50.0)) for each in passages]


def test_the_best_hits_are_lifted_by_a_second_look(setting: Setting) -> None:
    plain = _search(setting.searcher(depth=4, vectors=_vectors))
    weights = Look(5.0, 0.01)
    found = _search(setting.searcher(depth=4, vectors=_vectors, look=_look, late=weights))
    assert list(plain)[:2] == ["a", "b"]  # late_hits is 2: d would gain most, but is not looked at
    assert found["a"] == pytest.approx(plain["a"] + 5.0 * (0.25 - 0.375) + 0.01 * (-40.0 + 45.0))
    assert found["b"] == pytest.approx(plain["b"] + 5.0 * (0.5 - 0.375) + 0.01 * (-50.0 + 45.0))
    assert {docid: found[docid] for docid in "cde"} == {docid: plain[docid] for docid in "cde"}


def test_likeness_goes_by_the_order_after_the_second_look(setting: Setting) -> None:
    found = _search(
        setting.searcher(depth=4, vectors=_vectors, look=_look, late=Look(90.0), feedback=1.0)
    )
    lifted = _search(setting.searcher(depth=4, vectors=_vectors, look=_look, late=Look(90.0)))
    assert next(iter(lifted)) == "b"
    assert found["b"] == pytest.approx(lifted["b"] + 1.0)  # it is the one that others are like
    assert found["a"] == lifted["a"]  # at a right angle


def test_lifted_scores_are_explained_as_they_are_made(setting: Setting) -> None:
    searcher = setting.searcher(depth=4, vectors=_vectors, look=_look, feedback=0.4)
    found = _search(searcher)
    documents = [Document(docid, {}) for docid in found]
    for document, part in zip(documents, searcher.explain(QUERY, documents), strict=True):
        assert part.value == pytest.approx(found[document.docid])
        assert sum(each.value for each in part.parts) == pytest.approx(part.value)
        for voice in ("late interaction", "log p(query | passage): -"):
            has_voice = any(voice in each.label for each in part.parts[2:])
            assert has_voice == (document.docid in "ab")


def test_nothing_is_looked_at_twice_for_a_query_nor_where_it_counts_nothing(
    setting: Setting,
) -> None:
    asked: list[int] = []

    def look(_query: Query, passages: Sequence[ReadPassage]) -> list[Look]:
        asked.append(len(passages))
        return [Look(0.5)] * len(passages)

    searcher = setting.searcher(depth=4, vectors=_vectors, look=look)
    assert _search(searcher) == _search(searcher)
    assert asked == [2]
    _search(setting.searcher(depth=4, vectors=_vectors, look=look, late=Look()))
    _search(setting.searcher(depth=1, vectors=_vectors, look=look))
    assert asked == [2]


def test_no_weight_gives_the_first_order_and_full_weight_the_likelihood_alone(
    setting: Setting,
) -> None:
    assert list(_search(setting.searcher(weight=0.0))) == list("abcde")
    assert list(_search(setting.searcher(weight=1.0))) == list("debca")


@pytest.mark.parametrize(("depth", "k", "asked"), [(50, 10, 50), (2, 10, 10)])
def test_the_first_search_gives_what_is_read_and_what_is_wanted(
    setting: Setting, depth: int, k: int, asked: int
) -> None:
    _search(setting.searcher(depth=depth), k=k)
    assert setting.first.asked == [asked]
    assert list(_search(setting.searcher(depth=5), k=2)) == list(_search(setting.searcher()))[:2]


def test_equal_scores_are_left_to_the_likelihood_and_ties_to_docids(tmp_path: Path) -> None:
    made = Setting(tmp_path / "c.quoth", dict.fromkeys("abcd", 2.0) | {"x": 1.0}, {"c": 1})
    with closing(made.store):
        assert list(_search(made.searcher(depth=3))) == ["c", "a", "b", "d", "x"]
        assert list(_search(made.searcher(depth=4, weight=1.0))) == ["c", "a", "b", "d", "x"]


def test_what_is_read_is_the_title_and_the_chosen_passage(setting: Setting) -> None:
    _search(setting.searcher(depth=2))
    assert setting.owls.calls == [
        [("night owl", "Note a\nowl ."), ("night owl", "Note b\nowl owl owl .")]
    ]


def test_signs_of_the_query_language_are_not_read_as_words(setting: Setting) -> None:
    asked = Query("q", 'title:night -barn +owl "at dusk"')
    setting.searcher(syntax=True).search([asked], k=1, allowed=None)
    setting.searcher(syntax=False).search([asked], k=1, allowed=None)
    assert setting.owls.calls[0][0][0] == "night owl at dusk"
    assert setting.owls.calls[1][0][0] == asked.text


def test_a_title_is_not_read_twice() -> None:
    document = Document("d", {"name": ("Owls",), "tags": ("birds", "night")})
    name, tag, *_ = CUT(document)
    title = document.title
    assert join_passage(read_passage(title, name)) == "Owls"
    assert join_passage(read_passage(title, tag)) == "Owls\nbirds"
    assert join_passage(read_passage(title, None)) == "Owls"


# --- Cost -----------------------------------------------------------------------------------------


def test_all_queries_of_a_run_are_scored_in_one_go(setting: Setting) -> None:
    asked = [Query("1", "owl"), Query("2", "night"), Query("3", "")]
    run = setting.searcher(depth=2).search(asked, k=3, allowed=None)
    assert [len(call) for call in setting.owls.calls] == [4] and list(run.hits) == ["1", "2", "3"]
    assert run.hits["3"] == () and len(run.hits["1"]) == 3


def test_the_scorer_is_loaded_once_and_only_for_hits(setting: Setting) -> None:
    searcher = setting.searcher()
    searcher.search([Query("q", "")], k=3, allowed=None)
    assert setting.loads == 0
    _search(searcher)
    searcher.search([Query("r", "another")], k=3, allowed=None)
    assert setting.loads == 1


def test_explaining_a_search_reads_nothing_again(setting: Setting) -> None:
    searcher = setting.searcher(depth=2)
    _search(searcher)
    searcher.explain(QUERY, [Document("a", {})])
    assert len(setting.owls.calls) == 1


@pytest.mark.parametrize(("by", "read"), [(LIKELIHOOD, [2, 3]), (BOTH, [2, 5])])
def test_scores_that_depend_on_other_hits_are_never_mixed_with_earlier_ones(
    setting: Setting, by: str, read: list[int]
) -> None:
    searcher = setting.searcher(by=by)
    setting.first.scores = {docid: SCORES[docid] for docid in "ab"}
    _search(searcher)
    setting.first.scores = SCORES
    _search(searcher)
    assert [len(call) for call in setting.owls.calls] == read


def test_reranking_can_be_configured_without_torch() -> None:
    modules = "quoth.search.rerank, quoth.settings.config"
    code = f"import sys; import {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- Explaining -----------------------------------------------------------------------------------


def test_explanations_add_up_and_say_what_each_part_is(setting: Setting) -> None:
    searcher = setting.searcher(depth=3)
    found = _search(searcher)
    documents = [Document(docid, {}) for docid in found]
    parts = dict(zip(found, searcher.explain(QUERY, documents), strict=True))
    for docid, part in parts.items():
        assert part.value == pytest.approx(found[docid], abs=1e-6)
        assert sum(leaf.value for leaf in part.parts) == pytest.approx(part.value, abs=1e-6)
    assert [leaf.label for leaf in parts["b"].parts] == [
        "first search (fixed): 5.000 scaled to 0.50, weight 0.70, rank 2",
        "log p(query | passage): -10.0 scaled to 1.00, weight 0.30",
    ]
    (below,) = parts["d"].parts
    assert below.label == "first search (fixed): 0.500, rank 4, below the 3 that are reranked"


def test_a_document_that_was_not_found_is_explained_by_nothing(setting: Setting) -> None:
    (part,) = setting.searcher().explain(QUERY, [Document("z", {})])
    assert (part.value, part.parts[0].label) == (0.0, "first search (fixed): not found")


# --- What goes wrong ------------------------------------------------------------------------------


def test_a_document_removed_meanwhile_means_searching_again(setting: Setting) -> None:
    setting.store.remove(["b"])
    setting.store.forget(upto=setting.store.change)
    with pytest.raises(IndexMoved, match="search again"):
        _search(setting.searcher())


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"rerank: weight is 2, .*; depth is 0, .*; generator is"):
        RerankConfig(weight=2, depth=0, generator="")


def test_no_hits_mix_to_none() -> None:
    assert mix([], [], weight=0.3) == ()


# --- Over a fused search --------------------------------------------------------------------------


def test_hits_of_a_fused_search_name_its_sides_and_the_reader(setting: Setting) -> None:
    config = FusionConfig(method="convex", normalise="min_max")
    fused = HybridSearcher([setting.first], config=config, weights={"fixed": 1.0})
    setting.first, plain = fused, setting.first  # type: ignore[assignment]
    searcher = setting.searcher(depth=3)
    found = _search(searcher, k=4)
    sides = searcher.found_by(QUERY, ["b", "d"], k=4, allowed=None)
    assert sides["b"] == {"fixed": RankAndScore(2, 5.0), "likelihood": RankAndScore(1, -10.0)}
    assert sides["d"] == {"fixed": RankAndScore(4, 0.5)}, "not read"
    (part,) = searcher.explain(QUERY, [Document("b", {})], k=4)
    assert part.value == found["b"] and len(plain.asked) == 1
    first = part.parts[0]
    assert sum(leaf.value for leaf in first.parts) == pytest.approx(first.value)
    assert first.parts[0].label.startswith("fixed: 5.000")


# --- The share ------------------------------------------------------------------------------------


def _trial(number: int, *, read: Sequence[float]) -> RerankTrial:
    hits = [Hit("other", 3.0), Hit("target", 2.0), Hit("last", 0.0)]
    return RerankTrial("target", 0.9 if number % 2 else 0.1, hits, read)


@pytest.mark.parametrize(
    ("read", "share"),
    [
        ([0.0, 9.0, 1.0], 0.3),  # 0.3 finds every target: no need to leave the default
        ([0.0, 4.5, 9.0], (0.3 + 0.5) / 2),  # it takes 0.5 to get past the first
        ([9.0, 0.0, 1.0], 0.3),  # nothing helps
    ],
)
def test_a_share_leaves_the_default_only_for_evidence(read: list[float], share: float) -> None:
    trials = [_trial(number, read=read) for number in range(60)]
    found = calibrate_share(trials, default=0.3, model="m", config=CalibrationConfig())
    assert found.share == pytest.approx(share) and found.num_queries == 60
    assert found.scores["reranked"] >= found.scores["first"] == 0.5


def test_harm_lowers_the_share_and_few_trials_leave_it() -> None:
    harmed = [Hit("target", 3.0), Hit("other", 2.9), Hit("last", 0.0)]
    trials = [RerankTrial("target", 0.5, harmed, [0.0, 9.0, 1.0]) for _ in range(60)]
    found = calibrate_share(trials, default=0.3, model="m", config=CalibrationConfig())
    assert found.share == pytest.approx(0.15), "half the way to none"
    few = calibrate_share(trials[:29], default=0.3, model="m", config=CalibrationConfig())
    assert few == ShareCalibration(0.3, 29, {}, few.reason, "m") and "too few" in few.reason
