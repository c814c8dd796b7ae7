"""The Python API: adding, searching, explaining, settings that must agree, and catching up."""

from __future__ import annotations

import functools
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from quoth import Engine
from quoth.collection.store import Store, Written
from quoth.engine import adding
from quoth.engine.adding import AddReport
from quoth.errors import (
    CollectionError,
    ConfigError,
    CorpusError,
    FilterError,
    IndexMismatch,
    NoCollection,
)
from quoth.records import Document, Part, Problem, Query, SearchRequest, Span
from quoth.text.passages import cut_document

BIRDS = {
    "owl": {"title": "Barn owl", "text": "The owl hunts at dusk.", "year": 2019},
    "raven": {"title": "Raven", "text": "A raven speaks; an owl listens at dusk.", "year": 2020},
    "hen": {"title": "Hen", "text": "A hen sleeps in the barn.", "year": 2021},
    "swift": {"title": "Swift", "text": "Swifts sleep on the wing, owls do not.", "year": 2022},
}


def _jsonl(path: Path, records: Mapping[str, Mapping[str, Any]]) -> str:
    lines = (json.dumps({"_id": docid, **fields}) for docid, fields in records.items())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Engine.open(tmp_path / "birds.quoth") as engine:
        engine.add([_jsonl(tmp_path / "birds.jsonl", BIRDS)])
    return tmp_path / "birds.quoth"


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.open(folder) as opened:
        yield opened


def _make(docid: str, text: str, **metadata: int) -> Document:
    return Document(docid, {"text": (text,)}, metadata)


# The promise of the module's docstring ---------------------------------------------------------


def test_the_example_of_the_docstring(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Owls that hunt at dusk are quiet.")
    (notes / "b.md").write_text("# Hens\n\nHens sleep at dusk.")
    engine = Engine.open(str(tmp_path / "notes.quoth"))
    assert engine.add([str(notes)]) == AddReport(added=2, updated=0, unchanged=0, skipped=0)
    hits = engine.search("owls that hunt at dusk")
    assert [Path(hit.docid).name for hit in hits] == ["a.txt", "b.md"]
    assert hits[0].passage is not None
    assert hits[0].passage.text == "Owls that hunt at dusk are quiet."
    engine.close()


# Adding ----------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_reported_and_counted(tmp_path: Path) -> None:
    source = tmp_path / "mixed.jsonl"
    source.write_text('{"_id": "a", "text": "owl"}\n{bad\n{"_id": "b", "text": " "}\n')
    problems: list[Problem] = []
    with Engine.open(tmp_path / "c.quoth") as engine:
        report = engine.add([str(source), str(tmp_path / "none.txt")], report=problems.append)
        assert report == AddReport(added=1, updated=0, unchanged=0, skipped=3)
        assert engine.docids() == ("a",)
    assert [each.place.line for each in problems] == [2, 3, None]
    assert str(problems[0]).startswith(f"{source}:2: not valid JSON")


def test_without_a_report_the_first_problem_stops_the_reading(tmp_path: Path) -> None:
    source = tmp_path / "mixed.jsonl"
    source.write_text('{"_id": "a", "text": "owl"}\n{bad\n{"_id": "b", "text": "hen"}\n')
    one_by_one = {"collection": {"batch_documents": 1}}
    with Engine.open(tmp_path / "c.quoth", settings=[one_by_one]) as engine:
        with pytest.raises(CorpusError, match=r"mixed\.jsonl:2: not valid JSON"):
            engine.add([str(source)])
        assert engine.docids() == ("a",)
        assert [hit.docid for hit in engine.search("owl hen")] == ["a"], "and it can be found"


def test_an_empty_list_that_can_be_called_is_a_report_too(tmp_path: Path) -> None:
    class Problems(list[Problem]):
        def __call__(self, problem: Problem) -> None:
            self.append(problem)

    problems = Problems()
    with Engine.open(tmp_path / "c.quoth") as engine:
        assert engine.add([str(tmp_path / "none.txt")], report=problems).skipped == 1
    assert len(problems) == 1


def test_of_duplicates_in_one_add_the_first_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_text('{"_id": "a", "text": "first owl"}\n{"_id": "a", "text": "second owl"}\n')
    second.write_text('{"_id": "b", "text": "hen"}\n{"_id": "a", "text": "third owl"}\n')
    problems: list[Problem] = []
    with Engine.open(tmp_path / "c.quoth") as engine:
        report = engine.add([str(first), str(second)], report=problems.append)
        assert report == AddReport(added=2, updated=0, unchanged=0, skipped=2)
        assert engine.document("a").fields["text"] == ("first owl",)
    assert [str(each) for each in problems] == [
        f"{first}:2: duplicate id 'a'",
        f"{second}:2: duplicate id 'a'",
    ]


def test_the_same_docid_in_a_later_add_updates(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add([_jsonl(source, {"a": {"text": "owl"}, "b": {"text": "hen"}})])
        report = engine.add([_jsonl(source, {"a": {"text": "raven"}, "b": {"text": "hen"}})])
        assert report == AddReport(added=0, updated=1, unchanged=1, skipped=0)
        assert engine.document("a").fields["text"] == ("raven",)
        assert engine.search("owl") == ()
        assert [hit.docid for hit in engine.search("raven")] == ["a"]


def test_documents_made_by_the_caller(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "c.quoth") as engine:
        assert engine.add_documents([_make("a", "owl"), _make("b", "hen")]) == Written(2, 0, 0)
        again = engine.add_documents([_make("a", "owl"), _make("b", "raven"), _make("c", "owl")])
        assert again == Written(added=1, updated=1, unchanged=1)
        with pytest.raises(CorpusError, match="empty docid"):
            engine.add_documents([_make("", "owl")])


def test_remove_tells_what_was_not_there(engine: Engine) -> None:
    assert engine.remove(["owl", "dodo"]) == ("dodo",)
    assert "owl" not in engine.docids() and len(engine.docids()) == 3
    assert "owl" not in [hit.docid for hit in engine.search("barn owl")]


def test_batches_are_cut_by_number_and_by_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "MAX_BATCH_CHARACTERS", 100)
    sizes: list[int] = []
    original = Store.add

    def add(self: Store, documents: Any, **options: Any) -> Written:
        sizes.append(len(documents))
        return original(self, documents, **options)

    monkeypatch.setattr(Store, "add", add)
    lengths = [1] * 7 + [60, 60] + [200] + [1]
    documents = [_make(f"d{number}", "x" * length) for number, length in enumerate(lengths)]
    with Engine.open(
        tmp_path / "c.quoth", settings=[{"collection": {"batch_documents": 5}}]
    ) as engine:
        engine.add_documents(documents)
    # five by number; 1 + 1 + 60 + 60 characters reach 100; 200 alone do; the rest
    assert sizes == [5, 4, 1, 1]


_MEASURE = """
import resource, sys
from quoth import Engine
with Engine.open(sys.argv[1]) as engine:
    print(engine.add([sys.argv[2]]).added, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_collection(tmp_path: Path) -> None:
    peaks = []
    for number in (3_000, 30_000):
        source = tmp_path / f"{number}.jsonl"
        with source.open("w") as lines:
            for at in range(number):
                words = " ".join(f"word{(at * step) % 5003}" for step in range(1, 16))
                lines.write(f'{{"_id": "d{at}", "text": "{words}"}}\n')
        printed = subprocess.run(
            [sys.executable, "-c", _MEASURE, str(tmp_path / f"{number}.quoth"), str(source)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert int(printed[0]) == number
        peaks.append(int(printed[1]) / 1024)
    assert peaks[1] - peaks[0] < 60, f"MiB at the peak: {peaks}"


# Searching -------------------------------------------------------------------------------------


def test_conditions_apply_before_ranking(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "c.quoth") as engine:
        better = [_make(f"better{number:02}", "owl owl owl", year=2000) for number in range(40)]
        worse = [
            _make(f"worse{number:02}", "owl and many other birds", year=2001)
            for number in range(10)
        ]
        engine.add_documents([*better, *worse])
        assert {hit.docid[:6] for hit in engine.search("owl", k=10)} == {"better"}
        hits = engine.search("owl", k=7, where="year > 2000")
        assert [hit.docid for hit in hits] == [f"worse{number:02}" for number in range(7)]
        assert engine.run([Query("q", "owl")], k=3, where="year > 2000").hits["q"][2].docid == (
            "worse02"
        )
        assert engine.search("owl", where="year > 3000") == ()
        with pytest.raises(FilterError, match="column"):
            engine.search("owl", where="year >")


@pytest.mark.parametrize("text", ["barn owl", '+dusk "an owl"', "title:raven owl -hen", "sleeping"])
def test_an_explanation_adds_up_to_the_score(engine: Engine, text: str) -> None:
    found = engine.find(SearchRequest(text, explain=True)).hits
    assert found
    parts = engine.explain(text, [each.hit.docid for each in found])
    for each, hit, part in zip(found, engine.search(text), parts, strict=True):
        assert each.explanation == part and each.hit.score == part.value
        assert hit.score == pytest.approx(part.value, rel=1e-6)  # of the ranking
        assert _sum_of_leaves(part) == pytest.approx(part.value, rel=1e-12)
        _assert_sums(part)


def _sum_of_leaves(part: Part) -> float:
    return sum(map(_sum_of_leaves, part.parts)) if part.parts else part.value


def _assert_sums(part: Part) -> None:
    if part.parts:
        assert part.value == pytest.approx(math.fsum(each.value for each in part.parts), rel=1e-12)
    for each in part.parts:
        _assert_sums(each)


def test_scores_follow_the_formula(tmp_path: Path) -> None:
    from math import log

    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add_documents([_make("a", "owl hen"), _make("b", "hen cow"), _make("c", "cow pig")])
        (hit,) = engine.search("owl")
    idf = log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    k1, b = 1.2, 0.75
    tf, length, average = 1, 2, 2
    saturated = tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))
    assert hit.score == pytest.approx(idf * saturated)  # the body has no extra weight


def test_a_passage_is_a_slice_of_its_field(tmp_path: Path) -> None:
    body = "A heading\n\n" + " ".join(f"word{number}." for number in range(100)) + " An owl hoots. "
    document = Document("d", {"title": ("Birds",), "text": ("nothing here", body * 2)})
    short = {"passages": {"max_words": 12}}
    with Engine.open(tmp_path / "c.quoth", settings=[short]) as engine:
        engine.add_documents([document])
        (hit,) = engine.search("owl")
        passage = hit.passage
        assert passage is not None and (passage.docid, passage.instance) == ("d", 1)
        field = engine.document("d").fields[passage.field][passage.instance]
        assert passage.text == field[passage.span.start : passage.span.end]
        assert "owl" in passage.text and len(passage.text.split()) <= 12


def test_a_snippet_is_a_slice_of_its_passage_with_the_words_marked(engine: Engine) -> None:
    (hit, *_rest) = engine.search("listening ravens")
    assert hit.passage is not None
    snippet = engine.snippet("listening ravens", hit.passage)
    marked = [snippet.text[span.start : span.end] for span in snippet.highlights]
    assert marked == ["raven", "listens"]
    field = engine.document(hit.docid).fields[hit.passage.field][hit.passage.instance]
    assert field[snippet.span.start : snippet.span.end] == snippet.text
    short = engine.snippet("listening ravens", hit.passage, max_chars=20)
    assert len(short.text) <= 20 and short.text in field


def test_run_and_search_agree(engine: Engine) -> None:
    queries = [Query("1", "barn owl"), Query("2", "sleep at dusk"), Query("3", "nothing")]
    run = engine.run(queries, k=3)
    for query in queries:
        hits = engine.search(query.text, k=3)
        assert [hit.docid for hit in run.hits[query.qid]] == [hit.docid for hit in hits]
        assert [hit.score for hit in run.hits[query.qid]] == pytest.approx(
            [hit.score for hit in hits], rel=1e-5
        )
    assert all(hit.passage is None for hits in run.hits.values() for hit in hits)
    assert run.hits["3"] == ()


def test_run_takes_queries_as_plain_words_unless_told(engine: Engine) -> None:
    query = [Query("q", "owl -raven")]
    plain = {hit.docid for hit in engine.run(query).hits["q"]}
    heeded = {hit.docid for hit in engine.run(query, syntax=True).hits["q"]}
    assert plain == {"owl", "raven", "swift"} and heeded == {"owl", "swift"}


def test_what_is_not_there(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no document 'dodo'"):
        engine.document("dodo")
    with pytest.raises(CollectionError, match="there is no document 'dodo'"):
        engine.explain("owl", ["dodo"])
    with pytest.raises(ConfigError, match="no searcher 'magic'; choose one of lexical"):
        engine.search("owl", searcher="magic")
    with pytest.raises(NoCollection, match=r'make one with "quoth add'):
        Engine.open(tmp_path / "none.quoth").search("owl")
    assert not (tmp_path / "none.quoth").exists(), "looking must not make anything"


def test_no_collection_is_made_among_other_files(tmp_path: Path) -> None:
    """Whoever names them before the collection finds them as they were."""
    names = ["a.md", "b.md", "c.md", "d.md"]
    for name in names:
        (tmp_path / name).write_text("An owl.")
    with pytest.raises(
        CollectionError, match=r"other files \(a\.md, b\.md, c\.md, …\).*name it first"
    ):
        Engine.open(tmp_path).add([])
    with pytest.raises(NoCollection, match=r"with other files \(a\.md"):
        Engine.open(tmp_path).search("owl")
    assert sorted(each.name for each in tmp_path.iterdir()) == names


@pytest.mark.parametrize("left", ["writer.lock", "collection.db-wal", ".hidden", "lost+found"])
def test_what_a_killed_writer_or_a_file_system_leaves_is_no_obstacle(
    tmp_path: Path, left: str
) -> None:
    (tmp_path / left).touch()
    with Engine.open(tmp_path) as engine:
        engine.add_documents([Document("owl", {"text": ("An owl.",)})])
        assert [hit.docid for hit in engine.search("owl")] == ["owl"]


@pytest.mark.parametrize("path", ["birds.jsonl", "birds.jsonl/below"])
def test_a_file_cannot_hold_a_collection(folder: Path, path: str) -> None:
    with pytest.raises(CollectionError, match=r"cannot hold a collection \(.*name another folder"):
        Engine.open(folder.parent / path).add([])


# Settings that must agree ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "field", "kept", "now"),
    [("analyser", "language", "english", "german"), ("passages", "max_words", 180, 3)],
)
def test_other_settings_are_refused_and_the_remedy_works(
    folder: Path, section: str, field: str, kept: object, now: object
) -> None:
    settings = [{section: {field: now}}]
    with Engine.open(folder, settings=settings) as engine:
        before = [hit.docid for hit in Engine.open(folder).search("owl")]
        for attempt in (
            lambda: engine.add_documents([_make("x", "owl")]),
            lambda: engine.remove(["owl"]),
            lambda: engine.verify(),
        ):
            with pytest.raises(IndexMismatch) as caught:
                attempt()
            assert str(caught.value) == (
                f"{folder} was made with {section}.{field} = {kept!r} (now {now!r}); leave that"
                f' setting out, or change the whole collection with "quoth verify {folder}'
                ' --repair" and the setting'
            )
        assert [hit.docid for hit in Engine.open(folder).search("owl")] == before
        damage = engine.verify(repair=True)
        assert damage.is_clean and damage.indexes
        engine.add_documents([_make("x", "owl hunts")])
        assert engine.verify().is_clean
    with Engine.open(folder) as engine:  # from now on without saying so
        assert engine.status()["settings"][section][field] == now
        assert "x" in [hit.docid for hit in engine.search("owl")]
        assert engine.verify().indexes == ()


def test_a_stemmer_other_than_the_index_was_built_with_cannot_search(folder: Path) -> None:
    with (
        Engine.open(folder, settings=[{"analyser": {"language": "german"}}]) as engine,
        pytest.raises(IndexMismatch, match=r"language = 'english' \(now 'german'\)"),
    ):
        engine.search("owl")


def test_a_missing_index_is_not_rebuilt_with_other_settings(folder: Path) -> None:
    shutil.rmtree(folder / "lexical")
    with (
        Engine.open(folder, settings=[{"analyser": {"language": "german"}}]) as engine,
        pytest.raises(IndexMismatch, match=r"analyser\.language = 'english'"),
    ):
        engine.search("owl")
    with Engine.open(folder) as engine:
        assert next(iter(engine.search("owls"))).docid == "owl"


def test_new_passage_settings_cut_anew(folder: Path) -> None:
    with Engine.open(folder) as engine:
        few = engine.status()["passages"]
    with Engine.open(folder, settings=[{"passages": {"max_words": 3}}]) as engine:
        engine.verify(repair=True)
        assert engine.status()["passages"] > few
        passages = [hit.passage for hit in engine.search("owl dusk")]
        assert all(each is not None and len(each.text.split()) <= 3 for each in passages)


def test_an_open_engine_follows_a_repair_with_another_stemmer(folder: Path) -> None:
    with Engine.open(folder) as reader:
        assert reader.search("sleeping")
        with Engine.open(folder, settings=[{"analyser": {"language": "none"}}]) as writer:
            writer.verify(repair=True)
            writer.add_documents([_make("x", "sleeping")])
        (hit,) = reader.search("sleeping")
        assert hit.docid == "x" and hit.passage is not None
        assert reader.snippet("sleeping", hit.passage).highlights == (Span(0, 8),)


# Catching up, following, closing ---------------------------------------------------------------


def _commit_without_index(folder: Path, document: Document) -> None:
    """Leave what a writer leaves that was killed between the store and the index."""
    store = Store.create(folder)
    with Engine.open(folder) as engine:
        store.add([document], cut=functools.partial(cut_document, config=engine.config.passages))
    store.close()


def test_another_engine_catches_up_after_a_kill(folder: Path) -> None:
    _commit_without_index(folder, _make("late", "zebra"))
    with Engine.open(folder) as other:
        assert [hit.docid for hit in other.search("zebra")] == ["late"]
        assert other.verify().is_clean
        assert other.status()["indexes"]["lexical"]["change"] == other.status()["change"] == 5


def test_an_open_engine_catches_up_after_a_kill(engine: Engine, folder: Path) -> None:
    assert engine.search("zebra") == ()
    _commit_without_index(folder, _make("late", "zebra"))
    assert [hit.docid for hit in engine.search("zebra")] == ["late"]


def test_an_engine_sees_what_another_writes(engine: Engine, folder: Path) -> None:
    assert engine.search("zebra") == ()
    with Engine.open(folder) as other:
        other.add_documents([_make("z", "zebra")])
        assert [hit.docid for hit in engine.search("zebra")] == ["z"]
        other.remove(["z"])
        assert engine.search("zebra") == ()


def test_a_closed_engine_opens_again_when_used(engine: Engine) -> None:
    assert len(engine.search("owl")) == 3
    engine.close()
    engine.close()
    assert len(engine.search("owl")) == 3


def test_leaving_the_block_closes(folder: Path) -> None:
    with Engine.open(folder) as engine:
        engine.search("owl")
        assert engine._store is not None and engine._cached_searchers
    assert engine._store is None and not engine._cached_searchers


def test_progress_is_told_while_adding(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with Engine.open(
        tmp_path / "c.quoth",
        settings=[{"collection": {"batch_documents": 2}}],
        progress=lambda *state: told.append(state),
    ) as engine:
        engine.add_documents(_make(f"d{number}", "owl") for number in range(5))
    assert [done for what, done, _total in told if what == "reading documents"] == [2, 4, 5]


def test_status_counts(engine: Engine) -> None:
    status = engine.status()
    assert (status["documents"], status["fields"]) == (4, ["title", "text"])
    assert status["passages"] == 8  # a title and a text each
    assert status["bytes"]["collection.db"] > 0 and status["bytes"]["lexical"] > 0


def test_status_names_filters_on_the_metadata_there_is(engine: Engine) -> None:
    filters = engine.status()["filters"]
    assert filters == {"year": {"kind": "number", "value": 2021, "condition": "year >= 2021"}}
    assert {hit.docid for hit in engine.search("barn sleep", where=filters["year"]["condition"])}
    engine.remove(BIRDS)
    assert engine.status()["filters"] == {}
