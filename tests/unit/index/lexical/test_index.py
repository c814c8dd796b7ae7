"""The tantivy index gives the scores of `search/lexical/score.py`, whatever is asked and however it
grew."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import corpora
import pytest
import reference

from quoth.engine.engine import Engine
from quoth.errors import Damaged, IndexMoved, OutOfFiles
from quoth.index.lexical import index as module
from quoth.index.lexical.index import META, UNFINISHED, LexicalIndex, read_artifact, tantivy_errors
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.index.lexical.writer import LexicalWriter, _writing
from quoth.records import Document
from quoth.search.lexical.by_postings import PostingsRanking
from quoth.search.lexical.score import score
from quoth.text.query_syntax import Occur
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms

# tantivy computes in single precision, where ln(1 + x) of a small x has few digits left: scores
# agree to one part in a million, or to one millionth.
FIELDS = ("title", "text", "tags")
ANYWHERE = ((EVERYTHING, 1.0), ("title", 0.3), ("tags", 0.5))


def _write(
    folder: Path,
    added: dict[int, FieldTerms],
    *,
    removed: tuple[int, ...] = (),
    current: LexicalIndex | None = None,
) -> LexicalIndex:
    with closing(LexicalWriter(folder, fields=FIELDS, identity={}, current=current)) as writer:
        writer.remove(removed)
        for row, document in added.items():
            writer.add(row, document)
        writer.commit(change=max(added, default=0), log="")
    index = LexicalIndex.open(folder)
    assert index is not None
    return index


@pytest.fixture(scope="module")
def corpus() -> dict[int, FieldTerms]:
    chance = random.Random(1)
    return {row: corpora.random_fields(chance, longest=90) for row in range(1, 401)}


@pytest.fixture(scope="module")
def index(corpus: dict[int, FieldTerms], tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    return _write(tmp_path_factory.mktemp("index"), corpus)


def _expected(corpus: dict[int, FieldTerms], query: LexicalQuery) -> dict[int, float]:
    statistics = corpora.count_terms(corpus.values())
    return {
        row: score(query, document, statistics)
        for row, document in corpus.items()
        if reference.matches(query, document)
    }


def _random_clause(chance: random.Random) -> Clause:
    terms = tuple(chance.choices(corpora.TERMS[:12], k=chance.choice([1, 1, 1, 2, 3])))
    weights = chance.choice([ANYWHERE, ((chance.choice(FIELDS), 1.0),), ((EVERYTHING, 2.5),)])
    occurs: list[Occur] = ["should", "should", "must", "must_not"]
    return Clause(terms, weights, chance.choice(occurs))


# --- Scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_scores_are_those_of_the_definition(
    corpus: dict[int, FieldTerms], index: LexicalIndex, seed: int
) -> None:
    chance = random.Random(seed)
    query = LexicalQuery(tuple(_random_clause(chance) for _ in range(chance.randint(1, 4))))
    expected = _expected(corpus, query)
    found = index.top_k(query, 1000, allowed=None)
    assert dict(found) == pytest.approx(expected, rel=1e-6, abs=1e-6) and len(found) == len(
        expected
    )
    values = [value for _row, value in found]
    assert values == sorted(values, reverse=True)


def test_the_random_queries_find_something_with_every_kind_of_clause(
    corpus: dict[int, FieldTerms],
) -> None:
    kinds: set[tuple[str, bool, bool]] = set()
    for seed in range(60):
        chance = random.Random(seed)
        query = LexicalQuery(tuple(_random_clause(chance) for _ in range(chance.randint(1, 4))))
        if _expected(corpus, query):
            kinds |= {(c.occur, len(c.terms) > 1, len(c.weights) > 1) for c in query.clauses}
    assert len(kinds) == 3 * 2 * 2


def test_the_index_holds_the_rows_it_was_given(
    corpus: dict[int, FieldTerms], index: LexicalIndex
) -> None:
    assert index.rows() == sorted(corpus) and index.num_documents == len(corpus)
    frequencies = corpora.count_terms(corpus.values()).frequencies
    for view in (EVERYTHING, *FIELDS):
        for term in corpora.TERMS:
            assert index.document_frequencies(view, [term]) == {term: frequencies[view][term]}


def test_phrases_never_cross_from_one_instance_to_the_next(tmp_path: Path) -> None:
    index = _write(
        tmp_path,
        {1: {"tags": [["a"], ["b"]]}, 2: {"tags": [["a", "b"]]}, 3: {"title": [["b", "a"]]}},
    )
    phrase = LexicalQuery((Clause(("a", "b"), ((EVERYTHING, 1.0),), "must"),))
    assert [row for row, _score in index.top_k(phrase, 9, allowed=None)] == [2]


def test_nothing_wanted_finds_nothing(index: LexicalIndex) -> None:
    unwanted = LexicalQuery((Clause(("t0",), ANYWHERE, "must_not"),))
    assert index.top_k(unwanted, 5, allowed=None) == []
    assert index.top_k(LexicalQuery(()), 5, allowed=None) == []


# --- The cut --------------------------------------------------------------------------------------


def test_all_that_tie_with_the_last_hit_come_along(tmp_path: Path) -> None:
    twins = {row: {"text": [["owl", "barn"]]} for row in range(1, 101)}
    index = _write(tmp_path, {0: {"text": [["owl", "owl"]]}, **twins})
    query = LexicalQuery((Clause(("owl",), ((EVERYTHING, 1.0),)),))
    assert [row for row, _score in index.top_k(query, 1, allowed=None)] == [0]
    assert {row for row, _score in index.top_k(query, 2, allowed=None)} == set(range(101))


def test_ties_at_the_cut_are_resolved_by_docid(tmp_path: Path) -> None:
    docids = [f"d{number:02}" for number in range(60)]
    shuffled = random.Random(5).sample(docids, len(docids))
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add_documents(Document(docid, {"text": ("owl barn",)}) for docid in shuffled)
        assert [hit.docid for hit in engine.search("owl", k=7)] == docids[:7]
        assert [hit.docid for hit in engine.search("owl", k=60)] == docids


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_small_and_large_sets_of_allowed_rows_give_the_same(
    corpus: dict[int, FieldTerms],
    index: LexicalIndex,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    k: int,
) -> None:
    chance = random.Random(seed)
    query = LexicalQuery(tuple(_random_clause(chance) for _ in range(3)))
    allowed = set(chance.sample(sorted(corpus), chance.choice([1, 5, 40, 300]))) | {10_000}
    by_term_set = index.top_k(query, k, allowed=allowed)
    monkeypatch.setattr(module, "_MAX_TERM_SET", 0)
    by_deepening = index.top_k(query, k, allowed=allowed)
    expected = {row: v for row, v in _expected(corpus, query).items() if row in allowed}
    cut = sorted(expected.values(), reverse=True)[:k]
    for found in (by_term_set, by_deepening):
        assert {row for row, _value in found} <= allowed
        assert [value for _row, value in found][:k] == pytest.approx(cut, rel=1e-6, abs=1e-6)
        assert all(
            value == pytest.approx(expected[row], rel=1e-6, abs=1e-6) for row, value in found
        )
    assert dict(by_term_set) == pytest.approx(dict(by_deepening), rel=1e-6)


def test_a_condition_that_leaves_the_worst_alone_fetches_no_more_than_it_allows(
    corpus: dict[int, FieldTerms], index: LexicalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = LexicalQuery((Clause(("t0",), ANYWHERE), Clause(("t1",), ANYWHERE)))
    ranked = [row for row, _score in index.top_k(query, 1000, allowed=None)]
    allowed, asked = set(ranked[-30:]), []
    collect = LexicalIndex._collect

    def counting(self: LexicalIndex, built: Any, limit: int) -> Any:
        asked.append(limit)
        return collect(self, built, limit)

    monkeypatch.setattr(module, "_MAX_TERM_SET", 0)
    monkeypatch.setattr(LexicalIndex, "_collect", counting)
    found = index.top_k(query, 2, allowed=allowed)
    assert found[0][0] in allowed and max(asked) <= 4 * len(allowed) < len(ranked)


@pytest.mark.parametrize("stage", [tantivy_errors, _writing])
def test_a_panic_is_damage_whether_reading_or_writing(stage: Any, tmp_path: Path) -> None:
    panic = type("PanicException", (BaseException,), {})  # as pyo3 names it: no Exception
    with pytest.raises(Damaged, match=r"index out of bounds.*quoth verify"), stage(tmp_path):
        raise panic("index out of bounds")
    with pytest.raises(KeyboardInterrupt), stage(tmp_path):
        raise KeyboardInterrupt


@pytest.mark.parametrize("stage", [tantivy_errors, _writing])
@pytest.mark.parametrize(
    "error",
    [
        OSError(24, "Too many open files"),
        ValueError("IO error: Too many open files (os error 24)"),
        ValueError('IoError { io_error: Os { code: 23, message: "(os error 23)" } }'),
    ],
)
def test_too_many_open_files_are_no_damage(stage: Any, error: Exception, tmp_path: Path) -> None:
    said = "too many files are open; nothing is damaged"
    with pytest.raises(OutOfFiles, match=said), stage(tmp_path):
        raise error


def test_no_allowed_row_means_no_hit(index: LexicalIndex) -> None:
    query = LexicalQuery((Clause(("t0",), ANYWHERE),))
    assert index.top_k(query, 5, allowed=set()) == []
    assert index.top_k(query, 5, allowed={10_000}) == []


# --- Growing --------------------------------------------------------------------------------------


def test_an_index_that_grew_in_batches_scores_like_one_built_at_once(
    corpus: dict[int, FieldTerms], index: LexicalIndex, tmp_path: Path
) -> None:
    grown: LexicalIndex | None = None
    rows = sorted(corpus)
    for start in range(0, len(rows), 50):
        batch = {row: corpus[row] for row in rows[start : start + 50]}
        grown = _write(tmp_path, batch, current=grown)
    assert grown is not None and grown.num_dead == 0 and grown.rows() == rows
    query = LexicalQuery((Clause(("t3",), ANYWHERE), Clause(("t1", "t0"), ANYWHERE)))
    expected = dict(index.top_k(query, 1000, allowed=None))
    assert dict(grown.top_k(query, 1000, allowed=None)) == pytest.approx(
        expected, rel=1e-6, abs=1e-6
    )


def test_a_removed_row_is_found_no_more_and_counted_as_dead(tmp_path: Path) -> None:
    documents = {row: {"text": [["owl", f"n{row}"]]} for row in range(1, 30)}
    index = _write(tmp_path, documents)
    later = _write(tmp_path, {30: {"text": [["owl"]]}}, removed=(2, 3), current=index)
    assert later.rows() == [1, *range(4, 31)] and later.num_dead == 2
    assert later.document_frequencies("text", ["owl"]) == {"owl": 30}, "the dead ones, too"
    state = later.state("text", "owl")
    assert state is not None and state.num_documents == 30
    assert later.state("text", "never") is None
    assert index.rows() == list(range(1, 30)), "an opened index is one state for good"


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_an_index_holds_just_its_live_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", at_once)
    whole = _write(tmp_path, {row: {"text": [["owl"]]} for row in range(1, 30)})
    index = _write(tmp_path, {90: {"text": [["owl"]]}}, removed=(1, 7, 8), current=whole)
    rows = [*range(2, 7), *range(9, 30), 90]
    assert index.holds(iter(rows)) and not index.holds([])
    for other in (1, 7, 30, 89, 91, 1 << 62):
        assert not index.holds(sorted([*rows, other]))
    for row in (2, 9, 17, 90):
        assert not index.holds([each for each in rows if each != row])
        assert not index.holds(sorted([*rows, row])), "twice"
    assert not index.holds([-1, *rows]) and not index.holds([-2, -1])
    assert index.rows(first=6, last=9) == [6, 9] and len(index.rows(first=9, most=4)) == 4


def test_an_empty_index_holds_no_rows(tmp_path: Path) -> None:
    index = _write(tmp_path, {})
    assert index.rows() == [] and index.holds([]) and not index.holds([1])


def test_an_index_that_fails_to_commit_can_be_written_again_at_once(tmp_path: Path) -> None:
    index = _write(tmp_path, {1: {"text": [["owl"]]}})
    with (
        pytest.raises(ZeroDivisionError),
        closing(LexicalWriter(tmp_path, fields=FIELDS, identity={}, current=index)) as writer,
    ):
        writer.add(2, {"text": [["owl"]]})
        _ = 1 / 0
    assert _write(tmp_path, {3: {"text": [["owl"]]}}, current=index).rows() == [1, 3]


# --- Opening --------------------------------------------------------------------------------------


def test_a_folder_without_a_finished_index_opens_as_none(tmp_path: Path) -> None:
    assert LexicalIndex.open(tmp_path) is None and LexicalIndex.open(tmp_path / "none") is None


def test_tantivy_ahead_of_its_record_is_damage_unless_a_writer_was_stopped(tmp_path: Path) -> None:
    index = _write(tmp_path, {1: {"text": [["owl"]]}})
    meta = index.path / META
    meta.write_text(meta.read_text() + " ")
    with pytest.raises(Damaged, match=META):
        LexicalIndex.open(tmp_path)
    (tmp_path / UNFINISHED).touch()
    opened = LexicalIndex.open(tmp_path)
    assert opened is not None and not opened.is_settled


def test_a_finished_batch_leaves_no_mark_behind(tmp_path: Path) -> None:
    index = _write(tmp_path, {1: {"text": [["owl"]]}})
    _write(tmp_path, {2: {"text": [["owl"]]}}, current=index)
    assert not (tmp_path / UNFINISHED).exists()


def test_an_index_that_is_replaced_while_it_is_opened_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, {1: {"text": [["owl"]]}})
    old = read_artifact(tmp_path)
    _write(tmp_path, {2: {"text": [["owl"]]}})  # builds another folder and removes the first
    answers: Iterator[Any] = iter([old])
    monkeypatch.setattr(module, "read_artifact", lambda path: next(answers, read_artifact(path)))
    opened = LexicalIndex.open(tmp_path)
    assert opened is not None and opened.rows() == [2]


def test_a_reader_gives_up_where_the_index_never_comes_to_rest(tmp_path: Path) -> None:
    index = _write(tmp_path, {1: {"text": [["owl"]]}})
    (tmp_path / UNFINISHED).touch()
    (index.path / META).unlink()
    with pytest.raises(IndexMoved, match="search again"):
        LexicalIndex.open(tmp_path)


# --- Removed documents ----------------------------------------------------------------------------


def _churn(engine: Engine) -> dict[str, Document]:
    """Add short and very long documents, and remove the long ones: the mean length collapses."""
    chance = random.Random(9)
    short = [
        corpora.as_document(f"s{n}", corpora.random_fields(chance, longest=30)) for n in range(90)
    ]
    long = [
        Document(
            f"l{n}", {"text": (" ".join(corpora.random_terms(chance, longest=9000)),), "id": ("l",)}
        )
        for n in range(12)
    ]
    engine.add_documents([*short, *long])
    engine.remove([each.docid for each in long])
    return {each.docid: each for each in short}


def _grow_longer(engine: Engine) -> dict[str, Document]:
    """Remove very short documents, so that the true mean length is far above tantivy's."""
    chance = random.Random(10)
    kept = [
        Document(f"k{n}", {"text": (" ".join([*corpora.random_terms(chance, longest=200), "t0"]),)})
        for n in range(60)
    ]
    gone = [Document(f"g{n}", {"text": ("t39",)}) for n in range(58)]
    engine.add_documents([*kept, *gone])
    engine.remove([each.docid for each in gone])
    return {each.docid: each for each in kept}


@pytest.mark.parametrize("history", [_churn, _grow_longer])
def test_dead_documents_change_no_hit_and_no_score(tmp_path: Path, history: Any) -> None:
    settings = [{"lexical": {"compact_share": 1.0, "boosts": {"id": 0.0, "text": 0.0}}}]
    rebuilt_settings = [{"lexical": {"compact_share": 0.0, "boosts": {"id": 0.0, "text": 0.0}}}]
    with (
        Engine.open(tmp_path / "dead.quoth", settings=settings) as dead,
        Engine.open(tmp_path / "rebuilt.quoth", settings=rebuilt_settings) as rebuilt,
    ):
        history(dead)
        documents = history(rebuilt)
        assert dead.status()["indexes"]["lexical"]["removed_but_counted"] > 0
        assert rebuilt.status()["indexes"]["lexical"]["removed_but_counted"] == 0
        for query in ("t0", "t1 t5", '"t0 t1" t2', "+t3 -t0", "title:t0 t9", "t0 t0 t4", "t39"):
            for k in (1, 3, 10):
                mine, other = dead.search(query, k=k), rebuilt.search(query, k=k)
                assert [hit.docid for hit in mine] == [hit.docid for hit in other]
                assert [hit.score for hit in mine] == pytest.approx(
                    [hit.score for hit in other], rel=1e-6, abs=1e-6
                )
        every = reference.search(documents, "t0 t4", k=999)
        assert len(every) > 20


def test_the_weights_of_terms_are_those_of_living_documents(tmp_path: Path) -> None:
    """Among the living, alpha is rarer than beta; with the dead counted in, it is the other way."""
    filler = [Document(f"f{n}", {"text": ("one two three four",)}) for n in range(25)]
    alphas = [Document(f"a{n}", {"text": ("alpha two three four",)}) for n in range(5)]
    betas = [Document(f"b{n}", {"text": ("beta two three four",)}) for n in range(10)]
    dead = [Document(f"x{n}", {"text": ("alpha beta three four",)}) for n in range(15)]
    dead += [Document(f"y{n}", {"text": ("alpha two three four",)}) for n in range(20)]
    with Engine.open(
        tmp_path / "c.quoth", settings=[{"lexical": {"compact_share": 1.0}}]
    ) as engine:
        engine.add_documents([*filler, *alphas, *betas, *dead])
        engine.remove([each.docid for each in dead])
        assert engine.status()["indexes"]["lexical"]["removed_but_counted"] == 15 + 20
        hits = engine.search("alpha beta", k=6)
    assert [hit.docid for hit in hits] == ["a0", "a1", "a2", "a3", "a4", "b0"]
    assert hits[0].score == pytest.approx(math.log(1 + (40 - 5 + 0.5) / (5 + 0.5)))
    assert hits[5].score == pytest.approx(math.log(1 + (40 - 10 + 0.5) / (10 + 0.5)))


def test_more_candidates_are_fetched_until_no_other_can_be_among_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(
        tmp_path / "c.quoth", settings=[{"lexical": {"compact_share": 1.0}}]
    ) as engine:
        documents = _grow_longer(engine)
        depths: list[int] = []
        original = LexicalIndex.top_k

        def top_k(self: LexicalIndex, query: LexicalQuery, k: int, **options: Any) -> Any:
            depths.append(k)
            return original(self, query, k, **options)

        monkeypatch.setattr(LexicalIndex, "top_k", top_k)
        monkeypatch.setattr(PostingsRanking, "can_answer", lambda self, query: False)
        hits = engine.search("t0 t2", k=2)
        assert depths[1] == 4 * depths[0], "the first proposal was taken as it came"
        every = reference.search(documents, "t0 t2", k=999)
        assert [hit.docid for hit in hits] == [hit.docid for hit in every[:2]]
        reference.assert_same_hits(hits, every[:2], all_hits=every)
