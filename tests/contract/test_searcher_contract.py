"""What every `Searcher` must do, whichever way it searches. A new one is added to `SEARCHERS`."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tiny_encoder import save_tiny_encoder
from tiny_generative import tiny_model

from quoth import artifact
from quoth.collection import portions
from quoth.collection.store import FILE_NAME, Store
from quoth.index.dense.config import DenseConfig
from quoth.index.lexical import index as lexical_index
from quoth.models.glow.encoder import GlowEncoder
from quoth.records import Document, Hit, Part, Query
from quoth.search.dense.searcher import DenseSearcher
from quoth.search.generative.config import GenerativeConfig
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.lexical.config import LexicalConfig
from quoth.search.lexical.searcher import LexicalSearcher
from quoth.search.rerank import ReadPassage, Reranking, RerankingSearcher, ScorePairs
from quoth.search.searcher import Searcher, ignore_progress
from quoth.text.passages import PassageConfig, cut_document
from quoth.text.words import Analyser, AnalyserConfig

CUT = partial(cut_document, config=PassageConfig())
Make = Callable[[Path, Store], Searcher]
BY_VECTORS = ("dense", "generative")
"""Searchers that find every document, the likeliest first."""


def _make_lexical(folder: Path, store: Store) -> Searcher:
    return LexicalSearcher(
        folder / "lexical",
        store,
        analyser=Analyser(AnalyserConfig()),
        config=LexicalConfig(compact_share=1.0),
        syntax=False,
    )


@cache
def _load_tiny(folder: Path) -> GlowEncoder:
    if not folder.exists():
        save_tiny_encoder(folder)
    return GlowEncoder.load(str(folder), fast=False)


def _make_dense(folder: Path, store: Store) -> Searcher:
    return DenseSearcher(
        folder / "dense",
        store,
        load_encoder=partial(_load_tiny, folder.parent / "tiny"),
        config=DenseConfig(),
        counts=lambda: pytest.fail("an encoder without weighting needs no counts"),
        analyser=Analyser(AnalyserConfig()),
        cut=CUT,
    )


def _make_generative(folder: Path, store: Store) -> Searcher:
    return GenerativeSearcher(
        folder / "generative" / "tiny" / "trie",
        store,
        load_model=partial(tiny_model, folder.parent),
        config=GenerativeConfig(sources=("title", "text"), depth=3),
    )


def _load() -> ScorePairs:
    """Find any query the likelier, the longer a passage: no order that the first search has."""
    return lambda _queries, passages: [float(len(passage.text)) for passage in passages]


class _Reranked(RerankingSearcher):
    """A reranking with the upkeep of the index below it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def close(self) -> None:
        self._first.close()


def _make_reranked(folder: Path, store: Store) -> Searcher:
    first = _make_lexical(folder, store)

    def read(_query: Query, hits: Sequence[Hit]) -> list[ReadPassage]:
        stored = store.documents(sorted(store.rows([hit.docid for hit in hits]).values()))
        by_docid = {document.docid: (row, document) for row, document in stored.items()}
        found = (by_docid[hit.docid] for hit in hits)
        return [ReadPassage("", store.passages(each, row)[0].text) for row, each in found]

    how = Reranking("likelihood", 5, 0.3, load=_load, read=read, words=lambda query: query.text)
    return _Reranked(first, how)


SEARCHERS: dict[str, Make] = {
    "lexical": _make_lexical,
    "dense": _make_dense,
    "generative": _make_generative,
    "reranked": _make_reranked,
}


@pytest.fixture(params=SEARCHERS)
def make(request: pytest.FixtureRequest) -> Make:
    return SEARCHERS[request.param]


class Setting:
    """A store and a searcher over it, which follows when told."""

    def __init__(self, folder: Path, make: Make) -> None:
        self.folder = folder
        self.store = Store.create(folder)
        self.searcher = make(folder, self.store)
        self.catch_up()

    def add(self, *documents: Document) -> None:
        self.store.add(documents, cut=CUT)
        self.catch_up()

    def remove(self, *docids: str) -> None:
        self.store.remove(docids)
        self.catch_up()

    def catch_up(self) -> None:
        self.searcher.catch_up(self.store, progress=ignore_progress)

    def search(self, text: str, *, k: int = 10, allowed: set[int] | None = None) -> tuple[Hit, ...]:
        return self.searcher.search([Query("q", text)], k=k, allowed=allowed).hits["q"]

    def finds(self, text: str, *matching: str) -> bool:
        """Whether words find these documents alone, and vectors every document."""
        every = self.store.all_docids() if self.searcher.name in BY_VECTORS else matching
        return sorted(self.scores(text)) == sorted(every)

    def scores(self, text: str) -> dict[str, float]:
        return {hit.docid: hit.score for hit in self.search(text, k=999)}

    def damage(self) -> tuple[str, ...]:
        return self.searcher.find_damage(self.store, progress=ignore_progress)

    def close(self) -> None:
        close = getattr(self.searcher, "close", None)
        if close is not None:
            close()
        self.store.close()


@pytest.fixture
def setting(tmp_path: Path, make: Make) -> Iterator[Setting]:
    with closing(Setting(tmp_path / "c.quoth", make)) as opened:
        yield opened


def _document(docid: str, text: str, title: str = "") -> Document:
    return Document(docid, {"text": (text,), **({"title": (title,)} if title else {})})


def _twins(count: int) -> list[Document]:
    """Make documents that every searcher must score alike, added in no order."""
    return [_document(f"d{number * 7 % count:02}", "the barn owl") for number in range(count)]


def _leaves(part: Part) -> float:
    return part.value if not part.parts else sum(map(_leaves, part.parts))


# --- Searching ------------------------------------------------------------------------------------


def test_an_empty_collection_has_no_hits(setting: Setting) -> None:
    assert setting.search("owl") == () and setting.search("owl", allowed={1, 2}) == ()
    assert setting.damage() == ()


def test_queries_are_answered_one_by_one_under_their_own_keys(setting: Setting) -> None:
    setting.add(_document("a", "owl"), _document("b", "barn"))
    asked = [Query("1", "owl"), Query("2", "barn"), Query("3", "")]
    run = setting.searcher.search(asked, k=1, allowed=None)
    assert run.name == setting.searcher.name and list(run.hits) == ["1", "2", "3"]
    assert [hit.docid for hit in run.hits["1"]] == ["a"]
    assert [hit.docid for hit in run.hits["2"]] == ["b"]
    assert setting.searcher.search([], k=5, allowed=None).hits == {}


def test_k_beyond_the_number_of_hits_gives_them_all_once_each(setting: Setting) -> None:
    setting.add(*_twins(25))
    hits = setting.search("owl", k=1000)
    assert sorted(hit.docid for hit in hits) == [f"d{number:02}" for number in range(25)]
    assert len(setting.search("owl", k=3)) == 3


def test_an_updated_document_is_found_once(setting: Setting) -> None:
    for text in ("owl", "owl barn", "owl night"):
        setting.add(_document("a", text), _document(f"b {text}", text))
    assert sorted(hit.docid for hit in setting.search("owl")).count("a") == 1
    assert "a" not in setting.scores("barn") or setting.searcher.name in BY_VECTORS


def test_hits_come_best_first_and_ties_by_docid(setting: Setting) -> None:
    setting.add(*_twins(40), _document("zz", "owl owl owl"))
    hits = setting.search("owl", k=12)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.docid))
    tied = [hit.docid for hit in hits if hit.docid != "zz"]
    assert tied == [f"d{number:02}" for number in range(len(tied))]


def test_a_smaller_k_gives_the_beginning_of_a_larger_one(setting: Setting) -> None:
    setting.add(*(_document(f"d{n}", "owl " * (n % 5 + 1) + "barn " * (n % 3)) for n in range(30)))
    setting.remove("d3", "d17")
    every = setting.search("owl barn", k=100)
    for k in (1, 2, 5, 20):
        assert [hit.docid for hit in setting.search("owl barn", k=k)] == [
            hit.docid for hit in every[:k]
        ]


def test_an_empty_set_of_allowed_rows_gives_nothing(setting: Setting) -> None:
    setting.add(*_twins(5))
    assert setting.search("owl", allowed=set()) == ()
    assert setting.search("owl", allowed={10_000}) == ()


def test_rows_are_restricted_before_ranking(setting: Setting) -> None:
    strong = [_document(f"a{n:02}", "owl owl owl") for n in range(40)]
    weak = [_document(f"w{n:02}", "owl among many other words here") for n in range(8)]
    setting.add(*strong, *weak)
    rows = setting.store.rows([each.docid for each in weak])
    hits = setting.search("owl", k=5, allowed=set(rows.values()))
    assert [hit.docid for hit in hits] == ["w00", "w01", "w02", "w03", "w04"]
    if setting.searcher.name == "lexical-reranked":
        return  # its scores stand on a scale of the hits of one search
    free = setting.scores("owl")
    assert all(hit.score == pytest.approx(free[hit.docid], rel=1e-6) for hit in hits)


# --- Explaining -----------------------------------------------------------------------------------


def test_the_parts_of_an_explanation_add_up_to_the_score(setting: Setting) -> None:
    setting.add(*(_document(f"d{n}", "owl " * (n + 1) + "barn", "night owl") for n in range(9)))
    setting.remove("d8")
    query = Query("q", "owl at night, owl in barn")
    hits = setting.search(query.text)
    documents = [setting.store.get(hit.docid) for hit in hits]
    assert len(hits) == 8 and None not in documents
    parts = setting.searcher.explain(query, [each for each in documents if each is not None])
    for hit, part in zip(hits, parts, strict=True):
        assert part.value == pytest.approx(hit.score, rel=1e-6, abs=1e-6)
        assert _leaves(part) == pytest.approx(part.value, rel=1e-6)
        assert part.parts and part.label


def test_a_document_that_does_not_match_is_explained_by_nothing(setting: Setting) -> None:
    setting.add(_document("a", "owl"), _document("b", "barn"))
    (part,) = setting.searcher.explain(Query("q", "owl"), [_document("b", "barn")])
    assert part.value == 0 or setting.searcher.name in BY_VECTORS


# --- Upkeep ---------------------------------------------------------------------------------------


def _history(setting: Setting) -> None:
    setting.add(*(_document(f"d{n}", "owl " * (n % 4 + 1) + f"barn x{n}") for n in range(20)))
    setting.add(_document("d1", "night " * 30), _document("new", "owl", "A new field"))
    setting.remove("d2", "d3", "d4")
    setting.add(_document("d2", "owl again"))


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def test_catching_up_twice_changes_nothing(setting: Setting) -> None:
    _history(setting)
    before, found = _files(setting.folder), setting.scores("owl barn")
    setting.catch_up()
    assert _files(setting.folder) == before and setting.scores("owl barn") == found
    assert setting.damage() == ()


def test_an_index_that_followed_every_change_equals_one_built_anew(setting: Setting) -> None:
    _history(setting)
    assert setting.damage() == ()
    queries = ("owl", "barn night", "new field", "x7 again")
    followed = {text: setting.scores(text) for text in queries}
    order = {text: [hit.docid for hit in setting.search(text, k=5)] for text in queries}
    setting.searcher.rebuild(setting.store, progress=ignore_progress)
    assert setting.damage() == ()
    for text in queries:
        # A reranking divides by how far a query's scores reach, and their rounding with them.
        slack = 1e-4 if setting.searcher.name == "lexical-reranked" else 1e-6
        assert setting.scores(text) == pytest.approx(followed[text], rel=slack, abs=slack)
        assert [hit.docid for hit in setting.search(text, k=5)] == order[text]


def test_many_changes_at_once_equal_the_same_changes_one_by_one(
    setting: Setting, tmp_path: Path, make: Make
) -> None:
    with closing(Setting(tmp_path / "one by one.quoth", make)) as slow:
        _history(slow)
        expected = slow.scores("owl barn night")
    setting.store.add(
        [_document(f"d{n}", "owl " * (n % 4 + 1) + f"barn x{n}") for n in range(20)], cut=CUT
    )
    setting.store.add(
        [_document("d1", "night " * 30), _document("new", "owl", "A new field")], cut=CUT
    )
    setting.store.remove(["d2", "d3", "d4"])
    setting.store.add([_document("d2", "owl again")], cut=CUT)
    setting.catch_up()
    assert setting.scores("owl barn night") == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert setting.damage() == ()


def test_changes_not_caught_up_with_are_reported(setting: Setting) -> None:
    setting.add(_document("a", "owl"))
    setting.store.add([_document("b", "owl")], cut=CUT)
    setting.store.remove(["a"])
    assert setting.damage() == () and setting.searcher.num_behind(setting.store) == 2
    setting.catch_up()
    assert setting.damage() == () and setting.searcher.num_behind(setting.store) == 0


# --- Another history ------------------------------------------------------------------------------


def _restore(setting: Setting, make: Make, backup: Path) -> Setting:
    """Put an older collection.db back beside the newer index."""
    setting.close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (setting.folder / name).unlink(missing_ok=True)
    shutil.copy(backup, setting.folder / FILE_NAME)
    setting.store = Store.create(setting.folder)
    setting.searcher = make(setting.folder, setting.store)
    return setting


def _back_up(setting: Setting, make: Make, path: Path) -> None:
    setting.close()
    shutil.copy(setting.folder / FILE_NAME, path)
    setting.store = Store.create(setting.folder)
    setting.searcher = make(setting.folder, setting.store)


def test_an_older_store_put_back_is_noticed_and_followed(
    setting: Setting, tmp_path: Path, make: Make
) -> None:
    setting.add(_document("a", "owl"), _document("b", "barn"))
    _back_up(setting, make, tmp_path / "backup.db")
    setting.add(_document("c", "owl"), _document("a", "night"))
    _restore(setting, make, tmp_path / "backup.db")
    assert setting.damage(), "the index is ahead of the store"
    setting.catch_up()
    assert setting.finds("owl night", "a") and setting.damage() == ()
    assert sorted(setting.store.all_docids()) == ["a", "b"]


def test_another_history_of_the_same_length_is_noticed_and_followed(
    setting: Setting, tmp_path: Path, make: Make
) -> None:
    setting.add(_document("a", "owl"), _document("b", "barn"))
    _back_up(setting, make, tmp_path / "backup.db")
    setting.add(_document("c", "owl one"), _document("d", "owl two"))
    _restore(setting, make, tmp_path / "backup.db")
    setting.store.add([_document("x", "night"), _document("y", "owl three")], cut=CUT)
    assert any("history" in problem for problem in setting.damage())
    setting.catch_up()
    assert setting.finds("owl", "a", "y") and setting.finds("night", "x")
    assert setting.search("night")[0].docid == "x"  # not what this row was before
    assert setting.damage() == ()


def test_another_history_that_has_grown_longer_is_noticed_and_followed(
    setting: Setting, tmp_path: Path, make: Make
) -> None:
    setting.add(_document("a", "owl"))
    _back_up(setting, make, tmp_path / "backup.db")
    setting.add(_document("c", "owl"))
    _restore(setting, make, tmp_path / "backup.db")
    setting.store.add([_document(f"n{n}", "barn") for n in range(5)], cut=CUT)
    setting.catch_up()
    assert setting.finds("owl", "a") and setting.finds("barn", *(f"n{n}" for n in range(5)))
    assert setting.search("owl")[0].docid == "a"
    assert setting.damage() == ()


@pytest.mark.parametrize(
    "altered",
    [
        "DELETE FROM documents WHERE docid = 'a'",
        "UPDATE documents SET row = row + 90 WHERE docid = 'b'",
        "UPDATE documents SET row = -row WHERE docid = 'a'",
        "INSERT INTO documents (docid, hash, content, added)"
        " SELECT 'd', hash, content, added FROM documents WHERE docid = 'c'",
    ],
)
def test_an_index_of_other_documents_than_the_store_holds_is_damaged(
    setting: Setting, altered: str
) -> None:
    setting.add(*(_document(docid, "owl") for docid in "abc"))
    assert setting.damage() == ()
    setting.store._db.run(altered)
    assert any("holds other documents than the store" in each for each in setting.damage())


def test_checking_takes_hardly_more_memory_for_more_documents(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical_index, "_ROWS_AT_ONCE", 50)
    monkeypatch.setattr(portions, "MOST_DOCUMENTS", 50)
    monkeypatch.setattr(artifact, "_BLOCK", 4096)
    peaks, sizes = [], (500, 1500)
    for size in sizes:
        setting.add(*(_document(f"d{n}", "barn owl") for n in range(len(peaks) * 500, size)))
        assert setting.damage() == ()  # whatever is loaded or cached once, is by now
        tracemalloc.start()
        setting.damage()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 64 * (sizes[1] - sizes[0]), peaks
