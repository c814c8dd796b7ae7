"""Where documents have one field alone, it is indexed once and searched as if it were twice."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import corpora
import pytest
import reference
import tantivy

from quoth.engine.engine import Engine
from quoth.index.lexical import index as index_module
from quoth.index.lexical import writer as writer_module
from quoth.index.lexical.index import ALL, VERSION, LexicalIndex, read_artifact, view_names
from quoth.index.lexical.query import Clause, LexicalQuery
from quoth.index.lexical.writer import LexicalWriter
from quoth.records import Document
from quoth.search.lexical.score import score
from quoth.text.query_syntax import Occur
from quoth.vocabulary.term_counts import EVERYTHING, FieldTerms

WEIGHTS = (
    ((EVERYTHING, 1.0), ("title", 0.3)),
    ((EVERYTHING, 1.0),),
    (("title", 2.0),),
)


def _write(folder: Path, added: dict[int, FieldTerms], current: LexicalIndex | None = None) -> None:
    with closing(LexicalWriter(folder, fields=("title",), identity={}, current=current)) as writer:
        for row, document in added.items():
            writer.add(row, document)
        writer.commit(change=max(added), log="")


def _open(folder: Path) -> LexicalIndex:
    index = LexicalIndex.open(folder)
    assert index is not None
    return index


def _corpus() -> dict[int, FieldTerms]:
    chance = random.Random(3)
    return {
        row: {"title": [corpora.random_terms(chance, longest=40) for _ in range(2)]}
        for row in range(1, 201)
    }


def _assert_scores_like_the_definition(index: LexicalIndex, corpus: dict[int, FieldTerms]) -> None:
    statistics = corpora.count_terms(corpus.values())
    chance, occurs = random.Random(7), list[Occur](["should", "should", "must", "must_not"])
    for _query in range(40):
        query = LexicalQuery(
            tuple(
                Clause(
                    tuple(chance.choices(corpora.TERMS[:12], k=chance.choice([1, 1, 2]))),
                    chance.choice(WEIGHTS),
                    chance.choice(occurs),
                )
                for _clause in range(chance.randint(1, 3))
            )
        )
        expected = {
            row: score(query, document, statistics)
            for row, document in corpus.items()
            if reference.matches(query, document)
        }
        found = index.top_k(query, 1000, allowed=None)
        assert dict(found) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_scores_are_those_of_the_definition(tmp_path: Path) -> None:
    corpus = _corpus()
    _write(tmp_path, corpus)
    _assert_scores_like_the_definition(_open(tmp_path), corpus)


def test_its_terms_are_indexed_once(tmp_path: Path) -> None:
    _write(tmp_path, {1: {"title": [["owl"]]}})
    index = tantivy.Index.open(str(_open(tmp_path).path))
    assert index.searcher().doc_freq(ALL, "owl") == 1
    with pytest.raises(ValueError, match="f0"):
        index.searcher().doc_freq("f0", "owl")


def test_an_index_that_has_it_twice_is_searched_and_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = _corpus()
    early = {row: corpus[row] for row in corpus if row <= 150}
    with monkeypatch.context() as before:
        before.setattr(index_module, "view_names", _two_names)
        before.setattr(writer_module, "view_names", _two_names)
        before.setattr(writer_module, "VERSION", 1)
        _write(tmp_path, early)
    old = _open(tmp_path)
    _assert_scores_like_the_definition(old, early)
    _write(tmp_path, {row: corpus[row] for row in corpus if row > 150}, current=old)
    _assert_scores_like_the_definition(_open(tmp_path), corpus)
    artifact = read_artifact(tmp_path)
    assert artifact is not None and artifact.version == VERSION == 2


def _two_names(fields: tuple[str, ...]) -> dict[str, str]:
    assert view_names(fields) == {EVERYTHING: ALL, "title": ALL}
    return {EVERYTHING: ALL, "title": "f0"}


def test_a_second_field_brings_the_index_of_both(tmp_path: Path) -> None:
    first = Document("a", {"text": ("an owl in the barn",)})
    second = Document("b", {"text": ("a barn",), "title": ("owl",)})
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add_documents([first])
        assert [hit.docid for hit in engine.search("text:owl")] == ["a"]
        engine.add_documents([second])
        for query in ("owl", "title:owl", "text:owl", "barn"):
            hits = engine.search(query, k=5)
            expected = reference.search({"a": first, "b": second}, query, k=5)
            reference.assert_same_hits(hits, expected, all_hits=expected)
        assert engine.verify().lines() == ()
