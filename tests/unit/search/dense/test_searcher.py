"""Dense search over a store: kept in step, resumed after a kill, refused for other models."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forking import run_together
from tiny_encoder import WORDS, save_tiny_encoder

from quoth.collection.store import FILE_NAME, Store
from quoth.errors import IndexMismatch
from quoth.index.dense.config import DenseConfig
from quoth.index.dense.index import DenseIndex
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder
from quoth.records import Document, Query
from quoth.search.dense import filling as dense_module
from quoth.search.dense.record import EncodingRecord
from quoth.search.dense.searcher import DenseSearcher
from quoth.search.searcher import ignore_progress
from quoth.text.passages import PassageConfig, cut_document
from quoth.text.words import Analyser, AnalyserConfig
from quoth.vocabulary.counting import count_terms

ENGLISH = Analyser(AnalyserConfig())
CUT = partial(cut_document, config=PassageConfig(max_words=8))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


class Setting:
    """A store, a searcher over it, and a count of what was encoded."""

    def __init__(self, folder: Path, tiny: Path, **settings: Any) -> None:
        self.folder = folder
        self.store = Store.create(folder)
        self.encoded: list[Mapping[str, Sequence[str]]] = []
        self.counts: list[Any] = []
        self.searcher = self.open(tiny, **settings)

    def open(
        self,
        tiny: Path,
        *,
        config: GlowConfig | None = None,
        dense: DenseConfig | None = None,
        counts: Callable[[], Any] = lambda: pytest.fail("no counts are needed"),
        analyser: Analyser = ENGLISH,
    ) -> DenseSearcher:
        def load() -> GlowEncoder:
            encoder = GlowEncoder.load(str(tiny), config=config, fast=False)
            encode = encoder.encode_documents

            def counting(documents: Sequence[Any], **options: Any) -> Any:
                self.encoded += documents
                self.counts.append(options.get("counts"))
                return encode(documents, **options)

            encoder.encode_documents = counting  # type: ignore[method-assign]
            return encoder

        return DenseSearcher(
            self.folder / "dense" / tiny.name,
            self.store,
            load_encoder=load,
            config=dense or DenseConfig(storage="fp32"),
            counts=counts,
            analyser=analyser,
            cut=CUT,
        )

    def add(self, *documents: Document) -> None:
        self.store.add(documents, cut=CUT)

    def catch_up(self) -> int:
        """Catch up; tells how many units were encoded."""
        before = len(self.encoded)
        self.searcher.catch_up(self.store, progress=ignore_progress)
        return len(self.encoded) - before

    def search(self, text: str, **options: Any) -> list[tuple[str, float]]:
        options = {"k": 100, "allowed": None, **options}
        hits = self.searcher.search([Query("q", text)], **options).hits["q"]
        return [(hit.docid, hit.score) for hit in hits]


@pytest.fixture
def setting(tmp_path: Path, tiny: Path) -> Iterator[Setting]:
    opened = Setting(tmp_path / "c.quoth", tiny)
    yield opened
    opened.store.close()


def _document(docid: str, text: str, **fields: str) -> Document:
    return Document(docid, {"text": (text,), **{name: (each,) for name, each in fields.items()}})


def _some(count: int, *, seed: int = 0) -> list[Document]:
    chance = random.Random(seed)
    return [
        _document(f"d{at:02}", " ".join(chance.choices(WORDS, k=chance.randint(3, 30))))
        for at in range(count)
    ]


# --- in step --------------------------------------------------------------------------------------


def test_only_what_is_new_is_encoded(setting: Setting) -> None:
    setting.add(_document("a", "owl"), _document("b", "barn"), _document("c", "night"))
    assert setting.catch_up() == 3
    setting.add(_document("a", "raven"), _document("b", "barn"), _document("d", "hen"))
    setting.store.remove(["c"])
    assert setting.catch_up() == 2  # a anew and d; b is as it was
    assert sorted(docid for docid, _score in setting.search("raven")) == ["a", "b", "d"]
    assert setting.search("raven")[0] == ("a", pytest.approx(1.0, abs=1e-5))
    assert setting.catch_up() == 0


def test_following_every_change_equals_encoding_once(setting: Setting) -> None:
    documents = _some(30)
    for at in range(0, 30, 7):
        setting.add(*documents[at : at + 7])
        setting.catch_up()
    setting.store.remove(["d03", "d15"])
    setting.add(_document("d04", "owl in the barn"))
    setting.catch_up()
    followed = setting.search("owl at night")
    setting.encoded.clear()
    setting.searcher.rebuild(setting.store, progress=ignore_progress)
    assert len(setting.encoded) >= 28
    assert [docid for docid, _ in setting.search("owl at night")] == [d for d, _ in followed]
    assert dict(setting.search("owl at night")) == pytest.approx(dict(followed), abs=1e-6)


def test_hits_equal_brute_force_with_and_without_a_filter(setting: Setting) -> None:
    documents = _some(40)
    setting.add(*documents)
    setting.catch_up()
    encoder = setting.searcher._encoder
    query = encoder.encode_queries(["night owl"]).vectors[0]
    scores = {}
    for document in documents:
        units = [{"text": (passage.text,)} for passage in CUT(document)]
        scores[document.docid] = float((encoder.encode_documents(units).vectors @ query).max())
    ranked = sorted(scores, key=lambda docid: (-scores[docid], docid))
    assert [docid for docid, _ in setting.search("night owl", k=10)] == ranked[:10]
    rows = setting.store.rows(ranked[-7:])  # the worst ones: a filter after ranking finds none
    found = setting.search("night owl", k=3, allowed=set(rows.values()))
    assert [docid for docid, _ in found] == ranked[-7:-4]
    assert dict(found) == pytest.approx({docid: scores[docid] for docid, _ in found}, abs=1e-5)


def test_a_document_scores_as_its_best_unit_and_is_explained_by_it(setting: Setting) -> None:
    long = "hen sleep in the field one two three. owl hunt at night in the barn x. a bird is here."
    setting.add(_document("long", long), *_some(10))
    setting.catch_up()
    query = Query("q", "owl hunt at night in the barn x.")
    hit = setting.search(query.text, k=1)[0]
    assert hit == ("long", pytest.approx(1.0, abs=1e-5))
    document = setting.store.get("long")
    assert document is not None
    part, absent = setting.searcher.explain(query, [document, _document("nowhere", "owl")])
    assert part.value == pytest.approx(hit[1], abs=1e-6)
    assert part.parts[0].label == "cosine with part 2 of the document"
    assert sum(each.value for each in part.parts) == part.value
    assert absent.value == 0.0 and "not encoded" in absent.label
    rows = setting.store.rows(["long"])
    body = setting.searcher.body_cosines(query, {rows["long"]: document})[rows["long"]]
    assert body.field == "text" and len(body.cosines) == 3
    assert max(body.cosines) == body.cosines[1] == pytest.approx(hit[1], abs=1e-5)


def test_a_document_is_scored_as_if_it_were_in_the_collection(setting: Setting) -> None:
    documents = _some(6)
    setting.add(*documents)
    setting.catch_up()
    queries = [Query(str(at), "owl at dusk") for at in range(6)]
    scores = setting.searcher.score(queries, documents)
    expected = dict(setting.search("owl at dusk"))
    assert dict(zip(sorted(expected), scores, strict=True)) == pytest.approx(expected, abs=1e-5)


def test_a_query_without_text_finds_nothing(setting: Setting) -> None:
    setting.add(*_some(3))
    setting.catch_up()
    assert setting.search(" \n") == []
    queries = [Query("1", ""), Query("2", "owl")]
    run = setting.searcher.search(queries, k=2, allowed=None)
    assert list(run.hits) == ["1", "2"] and run.hits["1"] == () and len(run.hits["2"]) == 2


# --- killed ---------------------------------------------------------------------------------------


def _die_after(num_chunks: int, folder: Path, tiny: Path) -> None:
    """Encode two documents at a time, and end the process as a kill would after so many times."""
    dense_module.CHUNK = 2  # type: ignore[misc]
    setting = Setting(folder, tiny)
    add, calls = DenseIndex.add, []

    def dying(*arguments: Any) -> None:
        add(*arguments)
        calls.append(1)
        if len(calls) == num_chunks:
            os._exit(137)

    DenseIndex.add = dying  # type: ignore[method-assign]
    setting.catch_up()


def _kill_after(num_chunks: int, setting: Setting, tiny: Path) -> None:
    assert run_together(_die_after, [(num_chunks, setting.folder, tiny)]) == [137]


def test_a_killed_encoding_resumes_without_encoding_again_what_was_done(
    setting: Setting, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_module, "CHUNK", 2)
    setting.add(*(_document(f"d{at}", f"owl x {at}") for at in range(7)))
    _kill_after(2, setting, tiny)
    assert not setting.searcher.is_current(setting.store.change)
    assert setting.catch_up() == 3  # 7 less two chunks of 2
    assert setting.searcher.is_current(setting.store.change)
    assert setting.searcher.find_damage(setting.store, progress=ignore_progress) == ()
    found = dict(setting.search("owl x 3"))
    setting.searcher.rebuild(setting.store, progress=ignore_progress)
    assert dict(setting.search("owl x 3")) == pytest.approx(found, abs=1e-6)
    assert len(found) == 7 and setting.searcher.describe()["subwords_cut"] == 0


@pytest.mark.parametrize("num_chunks", [3, 6])  # among the openings, and after them
def test_a_killed_encoding_ends_in_the_bytes_of_one_that_was_not(
    setting: Setting, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_chunks: int
) -> None:
    monkeypatch.setattr(dense_module, "CHUNK", 2)
    whole = Setting(tmp_path / "whole.quoth", tiny)
    for each in (setting, whole):
        each.add(*_some(10))
    num_units = whole.catch_up()
    whole.store.close()
    _kill_after(num_chunks, setting, tiny)
    assert setting.searcher.find_damage(setting.store, progress=ignore_progress) == ()
    held = setting.searcher.describe()["vectors"]
    assert 2 * min(num_chunks, 5) <= held < num_units
    assert setting.catch_up() == num_units - held
    files = [
        {each.name: each.read_bytes() for each in (made.folder / "dense" / "tiny").glob("*.npy")}
        for made in (setting, whole)
    ]
    assert files[0] == files[1] and len(files[0]) > 10


def _interrupt(*_given: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_what_a_killed_encoding_left_of_another_history_is_not_trusted(
    setting: Setting, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.add(_document("a", "owl"))
    setting.catch_up()
    setting.store.close()
    shutil.copy(setting.folder / FILE_NAME, tmp_path / "backup.db")
    setting.store = Store.create(setting.folder)
    setting.searcher = setting.open(tiny)
    setting.add(*(_document(f"d{at}", f"barn {at}") for at in range(5)))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(DenseIndex, "record_change", _interrupt)
        setting.catch_up()  # rows of this history are encoded, unrecorded
    setting.searcher.close()
    setting.store.close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (setting.folder / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", setting.folder / FILE_NAME)
    setting.store = Store.create(setting.folder)
    setting.add(*(_document(f"d{at}", f"night {at}") for at in range(5)))
    setting.searcher = setting.open(tiny)
    assert setting.catch_up() == 6
    assert setting.search("night 2")[0] == ("d2", pytest.approx(1.0, abs=1e-5))


# --- other models ---------------------------------------------------------------------------------


def _refused(setting: Setting, searcher: DenseSearcher, *expected: str) -> None:
    assert searcher.is_foreign()
    for use in (
        lambda: searcher.search([Query("q", "owl")], k=1, allowed=None),
        lambda: searcher.catch_up(setting.store, progress=ignore_progress),
    ):
        with pytest.raises(IndexMismatch) as refused:
            use()
        for text in (*expected, f'run "quoth encode {setting.folder}"'):
            assert text in str(refused.value)


def test_vectors_of_another_model_are_refused_with_the_command_that_encodes_again(
    setting: Setting, tiny: Path, tmp_path: Path
) -> None:
    setting.add(*_some(4))
    setting.catch_up()
    assert not setting.searcher.is_foreign()
    twin = save_tiny_encoder(tmp_path / "twin" / "tiny", seed=5)
    _refused(setting, setting.open(twin), "another model that was called tiny, too")
    shorter = GlowConfig(max_subwords=32)
    _refused(setting, setting.open(tiny, config=shorter), "tiny with other settings")
    halves = DenseConfig(storage="fp16")
    _refused(setting, setting.open(tiny, dense=halves), "as fp32, but dense.storage is fp16")
    renamed = Path(shutil.copytree(tiny, tmp_path / "renamed"))
    searcher = setting.open(renamed)
    searcher._opened._folder = setting.folder / "dense" / "tiny"
    _refused(setting, searcher, "vectors of tiny, but renamed is configured")
    setting.searcher = setting.open(twin)
    setting.searcher.discard()
    assert setting.catch_up() > 0 and len(setting.search("owl")) == 4


def test_looking_after_an_index_needs_no_encoder(setting: Setting) -> None:
    setting.add(*_some(4))
    setting.catch_up()
    searcher = DenseSearcher(
        setting.folder / "dense" / "tiny",
        setting.store,
        load_encoder=lambda: pytest.fail("loaded"),
        config=DenseConfig(),
        counts=lambda: pytest.fail("counted"),
        analyser=ENGLISH,
        cut=CUT,
    )
    assert searcher.is_current(setting.store.change)
    assert searcher.describe()["encoder"] == "tiny" and searcher.describe()["documents"] == 4
    assert searcher.find_damage(setting.store, progress=ignore_progress) == ()


# --- words that weigh -----------------------------------------------------------------------------


def _weighted(folder: Path, tiny: Path, analyser: Analyser, *documents: Document) -> Setting:
    counted = count_terms(
        {name: [analyser.terms(text) for text in own] for name, own in each.fields.items()}
        for each in documents
    )
    config = GlowConfig(weighting="row", max_subwords=64)
    made = Setting(folder, tiny, config=config, counts=lambda: counted, analyser=analyser)
    made.add(*documents)
    made.catch_up()
    return made


def test_words_weigh_as_the_analyser_of_the_collection_finds_them(
    tmp_path: Path, tiny: Path
) -> None:
    german = Analyser(AnalyserConfig(language="german"))
    documents = _document("a", "Die Häuser am Hang"), _document("b", "Ein Haus und ein Hang")
    made = _weighted(tmp_path / "c.quoth", tiny, german, *documents)
    (counts,) = made.counts
    inputs = made.searcher._encoder.inputs
    often, once = inputs.queries(["häusern", "dächern"], counts)  # haus in two, dach in none
    assert often.weights[1] < once.weights[1]
    english = made.open(
        tiny, config=made.searcher._encoder.config, counts=lambda: counts, analyser=ENGLISH
    )
    assert english.is_foreign() and not made.searcher.is_foreign()
    made.store.close()


def test_passages_are_as_long_as_passages_not_as_documents(tmp_path: Path, tiny: Path) -> None:
    documents = _document("a", "owl " * 8 + "barn " * 8), _document("b", "raven at night in a barn")
    made = _weighted(tmp_path / "c.quoth", tiny, ENGLISH, *documents)
    assert [len(each["text"][0].split()) for each in made.encoded] == [8, 6, 8]
    assert {each.average_lengths()["text"] for each in made.counts} == {22 / 3}
    made.store.close()


# --- units ----------------------------------------------------------------------------------------


def test_every_passage_of_the_body_is_encoded_with_the_other_fields(setting: Setting) -> None:
    setting.add(_document("a", "owl " * 8 + "barn " * 8, title="night", lang="x"))
    setting.catch_up()
    kept = [(each["title"], each["text"]) for each in setting.encoded]
    assert kept == [(("night",), ("owl " * 7 + "owl",)), (("night",), ("barn " * 7 + "barn",))]


def test_a_body_under_another_name_stands_in(setting: Setting) -> None:
    body = "owl " * 8 + "barn " * 8
    document = Document("a", {"title": ("night",), "abstract": (body,), "lang": ("x",)})
    setting.add(document)
    setting.catch_up()
    assert [each["text"][0][:4] for each in setting.encoded] == ["owl ", "barn"]
    row = setting.store.rows(["a"])["a"]
    body = setting.searcher.body_cosines(Query("q", "barn barn barn"), {row: document})[row]
    assert body.field == "abstract" and body.cosines[1] > body.cosines[0]


def test_a_document_of_nothing_but_a_title_is_one_unit(setting: Setting) -> None:
    document = Document("a", {"title": ("night owl",)})
    setting.add(document)
    assert setting.catch_up() == 1
    assert setting.search("night owl") == [("a", pytest.approx(1.0, abs=1e-5))]
    row = setting.store.rows(["a"])["a"]
    assert setting.searcher.body_cosines(Query("q", "owl"), {row: document}) == {}


def test_a_document_may_have_one_vector_as_a_whole(tmp_path: Path, tiny: Path) -> None:
    config = GlowConfig(unit="document", max_subwords=64)
    setting = Setting(tmp_path / "c.quoth", tiny, config=config)
    document = _document("a", "owl " * 8 + "barn " * 8)
    setting.add(document)
    assert setting.catch_up() == 1
    row = setting.store.rows(["a"])["a"]
    assert setting.searcher.body_cosines(Query("q", "owl"), {row: document}) == {}
    setting.store.close()


# --- what was cut ---------------------------------------------------------------------------------


def test_what_was_cut_is_counted_and_follows_the_documents(tmp_path: Path, tiny: Path) -> None:
    setting = Setting(tmp_path / "c.quoth", tiny, config=GlowConfig(max_subwords=8, fields=("t",)))
    counts = ("subwords", "subwords_cut", "documents_cut")

    def counted() -> tuple[int, ...]:
        return tuple(setting.searcher.describe()[name] for name in counts)

    eight = "owl barn owl barn owl barn owl barn"  # a passage: 8 subwords, 6 find room
    setting.add(Document("a", {"t": (f"{eight} {eight} owl",)}), Document("b", {"t": ("owl",)}))
    setting.catch_up()
    assert counted() == (8 + 8 + 3 + 3, 2 + 2, 1)
    setting.add(Document("c", {"t": (eight,)}))
    setting.catch_up()
    assert counted() == (22 + 8, 4 + 2, 2)
    setting.add(Document("a", {"t": ("owl barn",)}))
    setting.catch_up()
    assert counted() == (4 + 3 + 8, 2, 1)
    setting.store.remove(["c"])
    setting.catch_up()
    assert counted() == (4 + 3, 0, 0)
    setting.store.close()


class _History:
    def log_digest(self, change: int) -> str:
        return f"log {change}"


def test_the_record_survives_torn_lines_and_stays_small(tmp_path: Path) -> None:
    record = EncodingRecord(tmp_path)
    assert record.is_of_history(_History()) and record.totals({1})["subwords"] == 0
    record.begin(7, log="log 7")
    record.note([1, 1, 2], [5, 6, 7], [0, 1, 0])
    path = tmp_path / "encoding.jsonl"
    with path.open("ab") as stream:
        stream.write(b"[[3, 9")  # killed here
    record.note([3], [4], [2])
    expected = {"subwords": 11 + 7 + 4, "subwords_cut": 3, "documents_cut": 2}
    assert record.totals({1, 2, 3}) == expected
    assert record.totals({2}) == {"subwords": 7, "subwords_cut": 0, "documents_cut": 0}
    record.note([2], [8], [1])  # encoded again: the last counts
    assert record.totals({2}) == {"subwords": 8, "subwords_cut": 1, "documents_cut": 1}
    record.note([2, 2], [4, 5], [0, 2], start=1)  # the rest of it
    record.note([2], [9], [2], start=1)  # once more, as after a kill
    assert record.totals({2}) == {"subwords": 8 + 9, "subwords_cut": 3, "documents_cut": 1}
    record.compact({1, 2, 3})
    assert len(path.read_text().splitlines()) == 7
    record.compact({2})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"upto": 7, "log": "log 7"}, [[2, 17, 3]]]
    record.begin(8, log="another")
    assert not record.is_of_history(_History())
    record.clear()
    assert record.is_of_history(_History())


def test_queries_are_encoded_once_for_searching_and_explaining(setting: Setting) -> None:
    documents = _some(5)
    setting.add(*documents)
    setting.catch_up()
    encoder, calls = setting.searcher._encoder, []
    encode = encoder.encode_queries
    encoder.encode_queries = lambda texts, **options: (  # type: ignore[method-assign]
        calls.append(texts) or encode(texts, **options)  # type: ignore[func-returns-value]
    )
    setting.search("owl")
    setting.searcher.explain(Query("q", "owl"), documents)
    assert calls == [("owl",)]
    setting.search("barn")
    assert calls == [("owl",), ("barn",)]
    assert not np.array_equal(encode(["owl"]).vectors, encode(["barn"]).vectors)


def test_storing_with_less_precision_changes_scores_little(tmp_path: Path, tiny: Path) -> None:
    exact = Setting(tmp_path / "exact.quoth", tiny)
    small = Setting(tmp_path / "small.quoth", tiny, dense=replace(DenseConfig(), storage="int8"))
    for setting in (exact, small):
        setting.add(*_some(20))
        setting.catch_up()
    assert dict(small.search("owl")) == pytest.approx(dict(exact.search("owl")), abs=0.02)
    exact.store.close()
    small.store.close()
