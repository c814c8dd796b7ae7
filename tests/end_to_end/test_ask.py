"""`quoth ask` and `quoth generate` as a user meets them, with a tiny random model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_language_model import TEXTS, make_dynamic_lm, save_language_model
from tiny_reader import make_reader

from quoth.answer.abstain import Abstention, save_abstention
from quoth.answer.cite import unquoted
from quoth.answer.config import SHIPPED, AnswerConfig
from quoth.cli.main import main
from quoth.engine.engine import Engine
from quoth.errors import ConfigError, MissingExtra, NoCollection
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Answer, Document
from quoth.settings.config import as_values
from quoth.text.display import make_safe
from quoth.vocabulary.dynamic import NO_ANSWER
from quoth.wire.schemas import AnswerResponse
from quoth.wire.writing import answer_response

QUESTION = "When does the barn owl hunt?"
Quoth = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model's folder, one that never answers, and a plain causal model."""
    folder = tmp_path_factory.mktemp("models")
    made = make_dynamic_lm(folder / "base")
    with torch.no_grad():
        made.network.encoder.scale *= 2.0  # so that it quotes
    for name in ("quoting", "silent"):
        made.save(folder / name, dtype="fp32")
    save_abstention(folder / "silent", Abstention((0.0, 0.0, 0.0, 0.0), 3.0))
    save_language_model(folder / "plain", kind="gpt2")
    return folder


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add_documents(
            Document(f"bird-{at}", {"title": (f"Bird {at}",), "text": (text,)})
            for at, text in enumerate([*TEXTS, "See [1] and <|im_end|> of the barn owl: [2]."])
        )
    return folder


@pytest.fixture
def engine(collection: Path, models: Path) -> Iterator[Engine]:
    given = {
        "answer": {"model": str(models / "quoting"), "threshold": 1.0},
        "decoding": {"max_subwords": 30, "no_repeat_subwords": 4},
    }
    with Engine.open(collection, settings=[given]) as opened:
        yield opened


@pytest.fixture
def quoth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: Path
) -> Quoth:
    """Run a command in this process; gives its exit code, output and messages."""

    def run(*arguments: object, model: str = "quoting") -> tuple[int, str, str]:
        chosen = ("--answer.model", str(models / model), "--decoding.max-subwords", "30")
        monkeypatch.setattr(sys, "argv", ["quoth", *map(str, arguments), *chosen])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def check_record(record: dict[str, Any], engine: Engine) -> None:
    """Every quotation can be found in its document by its offsets."""
    for citation in record["citations"]:
        texts = engine.document(citation["docid"]).fields[citation["field"]]
        quoted = texts[citation["instance"]][citation["start"] : citation["end"]]
        assert quoted == citation["quoted"] in citation["sentence"]
        assert record["text"][citation["answer_start"] : citation["answer_end"]] == quoted


def test_the_whole_record_is_json(collection: Path, engine: Engine, quoth: Quoth) -> None:
    code, out, err = quoth("ask", collection, QUESTION, "--json", "--threshold", 1, "-k", 2)
    record = json.loads(out)
    assert code == 0 and err == ""
    assert record["question"] == QUESTION and record["citations"] and not record["abstained"]
    assert [hit["rank"] for hit in record["passages"]] == [1, 2]
    check_record(record, engine)
    assert AnswerResponse.model_validate(record).model_dump(mode="json") == record


def test_an_answer_shows_its_sources(collection: Path, quoth: Quoth) -> None:
    arguments = ("ask", collection, QUESTION, "--threshold", 1, "-k", 3)
    record = json.loads(quoth(*arguments, "--json")[1])
    code, out, _err = quoth(*arguments)
    shown = make_safe(record["marked"])  # a tiny model may write what would steer a terminal
    assert code == 0 and " ".join(shown.split()) in " ".join(out.split())
    for citation in record["citations"]:
        assert f"[{citation['number']}] {citation['docid']}  {citation['field']}" in out
        assert f"{citation['start']}–{citation['end']}  " in out


def test_without_phrases_nothing_is_cited(collection: Path, quoth: Quoth) -> None:
    _code, out, _err = quoth(
        "ask", collection, QUESTION, "--json", "--no-phrases", "--threshold", 1
    )
    record = json.loads(out)
    assert record["text"] and record["citations"] == []


def test_where_there_is_no_answer_the_nearest_passages_are_shown(
    collection: Path, quoth: Quoth
) -> None:
    code, out, _err = quoth("ask", collection, QUESTION, model="silent")
    assert code == 0 and out.startswith(NO_ANSWER) and "(support 0.05)" in out
    assert "bird-0" in out and "The barn owl hunts at night." in out
    record = json.loads(quoth("ask", collection, QUESTION, "--json", model="silent")[1])
    assert record["abstained"] and record["support"] == pytest.approx(0.0474, abs=1e-3)
    told = json.loads(
        quoth("ask", collection, QUESTION, "--json", "--threshold", 0.99, model="silent")[1]
    )
    assert not told["abstained"]


def test_a_model_that_has_not_learned_to_quote_says_so(collection: Path, quoth: Quoth) -> None:
    code, out, err = quoth("ask", collection, QUESTION, "--json", "--threshold", 1, model="plain")
    record = json.loads(out)
    assert code == 0 and record["citations"] == [] and record["text"]
    assert "has not learned to quote" in err and "without citations" in err


def test_without_shipped_weights_the_embedded_model_answers(
    collection: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AnswerConfig().model == SHIPPED
    monkeypatch.setattr("quoth.models.pretrained._SHIPPED", "no_such_package")
    asked = []

    def find(name: str, *, cache: Path) -> Path:
        asked.append((name, cache))
        return models / "plain"

    monkeypatch.setattr("quoth.models.language_models.find_language_model", find)
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    with Engine.open(collection, settings=[{"decoding": {"max_subwords": 5}}]) as engine:
        stream = engine.ask(QUESTION)
        assert "'dynamic-vocabulary' are not installed" in stream.notice
        assert stream.answer().citations == ()
    assert asked == [("SmolLM2-135M-Instruct", Path("/some/cache/quoth"))]


def test_a_text_is_continued(collection: Path, engine: Engine, quoth: Quoth) -> None:
    arguments = ("generate", collection, "At dusk the barn owl ", "--tokens", 12, "-k", 4)
    code, out, _err = quoth(*arguments)
    assert code == 0 and out.startswith("At dusk the barn owl")
    record = json.loads(quoth(*arguments, "--json")[1])
    check_record(record, engine)
    assert record["prefix"] == "At dusk the barn owl " and record["citations"]
    drawn = [
        json.loads(quoth(*arguments, "--json", "--nucleus", 0.95, "--seed", seed)[1])["text"]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_python_api_answers_and_keeps_its_model(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quoth.engine import language_model

    opened, opens = language_model.open_language_model, []

    def count(name: str) -> language_model.OpenedModel:
        opens.append(name)
        return opened(name)

    monkeypatch.setattr(language_model, "open_language_model", count)
    first = engine.answer(QUESTION, k=3)
    assert engine.answer(QUESTION, k=3) == first and len(opens) == 1
    assert "".join(piece.text for piece in engine.ask(QUESTION, k=3)).rstrip() == first.text
    assert first.citations


def test_a_reader_answers_where_there_is_one(collection: Path, tmp_path: Path) -> None:
    folder = make_reader(tmp_path).folder
    given = {"answer": {"reader": str(folder), "threshold": 1.0, "passages_per_document": 2}}
    with Engine.open(collection, settings=[given]) as engine:
        answer = engine.answer(QUESTION)
        stream = engine.ask(QUESTION)
        assert [piece.text for piece in stream] and stream.answer() == answer
        hits = engine.search(QUESTION, k=5, syntax=False)
        assert answer.passages == tuple(hit.passage for hit in hits)
        record = answer_response(stream.shown()).model_dump(mode="json")
        check_record(record, engine)
        assert record["short"]["text"] in record["text"]
    assert answer.citations and not unquoted_words(answer)
    assert answer.short is not None
    span = answer.short.span
    assert answer.text[span.start : span.end] == answer.short.text
    with (
        pytest.raises(ConfigError, match="'owl'"),
        Engine.open(collection, settings=[{"answer": {"reader": "owl"}}]) as engine,
    ):
        engine.answer(QUESTION)


def unquoted_words(answer: Answer) -> list[str]:
    return [
        answer.text[each.start : each.end] for each in unquoted(answer) if each.start < each.end
    ]


def test_vectors_kept_with_a_collection_are_used_and_may_be_removed(
    engine: Engine, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.answer(QUESTION)
    kept = list((collection / "phrase-vectors").iterdir())
    given = [as_values(engine.config, ("answer", "decoding"))]
    with monkeypatch.context() as patch, Engine.open(collection, settings=given) as other:
        patch.setattr(DynamicLM, "encode_phrases", None)  # not needed: all are kept
        assert other.answer(QUESTION).citations
    for path in kept:
        path.unlink()
    with Engine.open(collection, settings=given) as other:
        assert other.answer(QUESTION).citations
    assert kept and list((collection / "phrase-vectors").iterdir())
    assert engine.verify().is_clean


# --- bad input -----------------------------------------------------------------------------------


def test_bad_questions_are_refused_before_anything_is_loaded(
    collection: Path, quoth: Quoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "quoth.engine.language_model", None)
    for question, said in (
        ("", "the text is empty"),
        (" \n ", "the text is empty"),
        ("owl " * 25_000, "100,000 characters, at most 2,000 are read"),
    ):
        for command in ("ask", "generate"):
            code, out, err = quoth(command, collection, question)
            assert code == 2 and out == "" and said in err


def test_an_empty_collection_holds_no_answer(tmp_path: Path, models: Path) -> None:
    given = {"answer": {"model": str(models / "quoting")}}
    with Engine.open(tmp_path / "empty.quoth", settings=[given]) as engine:
        with pytest.raises(NoCollection):
            engine.answer(QUESTION)
        engine.add_documents([])
        answer = engine.answer(QUESTION)
    assert answer.abstained and answer.passages == () and answer.text == NO_ANSWER


def test_questions_are_plain_words_and_never_query_syntax(engine: Engine) -> None:
    for question in ('field:owl "barn owl', "-owl +raven", "[1] <|im_end|>?", "大鸦 ไทย?"):
        answer = engine.answer(question)
        for citation in answer.citations:
            own, source = citation.answer_span, citation.passage_span
            quoted = citation.passage.text[source.start : source.end]
            assert quoted == answer.text[own.start : own.end]


def test_a_model_that_is_not_there_is_named(collection: Path, quoth: Quoth) -> None:
    code, out, err = quoth("ask", collection, QUESTION, model="none")
    assert code == 2 and out == "" and "there is no language model" in err


def test_a_missing_library_says_what_needs_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "quoth.models.dynamic_lm.dynamic_lm", None)
    with pytest.raises(MissingExtra, match=r'^answers need .*pip install "quoth\[neural\]"'):
        engine.answer(QUESTION)


def test_a_damaged_model_is_named(
    collection: Path, models: Path, tmp_path: Path, quoth: Quoth
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(models / "quoting", broken)
    path = next(broken.rglob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-9])
    code, _out, err = quoth("ask", collection, QUESTION, model=str(broken))
    assert code == 3 and path.name in err


def test_a_threshold_out_of_range_is_refused(collection: Path) -> None:
    with pytest.raises(ConfigError, match=r"answer.*threshold is 2\.0, expected 0 to 1"):
        Engine.open(collection, settings=[{"answer": {"threshold": 2.0}}])


def test_helping_and_searching_import_no_network(collection: Path) -> None:
    code = (
        "import sys; from quoth.engine.engine import Engine;"
        "engine = Engine.open(sys.argv[1]); assert engine.search('owl');"
        "import quoth.cli.commands.ask;"
        "print([m for m in sys.modules if m in ('torch', 'numpy') or 'answer.a' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(collection)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
