"""`quoth encode` and `--with dense,hybrid` as a user meets them, and life without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import Outcome, Quoth, make_runner, write_lines
from tiny_encoder import save_tiny_encoder
from tiny_language_model import save_language_model

from quoth.index.dense.index import DenseIndex
from quoth.search.dense import filling

BIRDS = [
    {"_id": "owl", "title": "Barn owl", "text": "An owl hunts. The owl is a bird of the night."},
    {"_id": "raven", "title": "Raven", "text": "A raven watches an owl at dusk."},
    {"_id": "hen", "title": "Hen", "text": "A hen sleeps in the barn at night."},
    {"_id": "swift", "title": "Swift", "text": "Swifts sleep on the wing."},
]
NEURAL = ("torch", "onnxruntime", "transformers", "tokenizers", "safetensors", "numpy", "faiss")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny: Path) -> Quoth:
    """Run the command in this process with the tiny encoder, unless another is named."""

    plain = make_runner(monkeypatch, capsys)

    def run(*arguments: object, encoder: str = str(tiny)) -> Outcome:
        return plain(*arguments, "--dense.encoder", encoder)

    return run


@pytest.fixture
def birds(tmp_path: Path, quoth: Quoth) -> Path:
    collection = tmp_path / "birds.quoth"
    assert quoth("add", collection, write_lines(tmp_path / "birds.jsonl", BIRDS)).code == 0
    return collection


@pytest.fixture
def encoded(birds: Path, quoth: Quoth) -> Path:
    assert quoth("encode", birds).code == 0
    return birds


def test_encoding_says_what_it_made_and_how_it_will_fuse(birds: Path, quoth: Quoth) -> None:
    told = quoth("encode", birds)
    assert told.code == 0 and "4 vectors" in " ".join(told.out.split())
    assert "lexical" in told.out and "0.5" in told.out and "too few" in told.err
    found = quoth("encode", birds, "--json").json()
    assert found["dense"]["vectors"] == found["dense"]["documents"] == 4
    assert found["dense"]["encoder"] == "tiny" and found["dense"]["subwords_cut"] == 0
    assert found["calibration"]["weights"] == {"lexical": 0.5, "dense": 0.5}


def test_words_of_the_encoder_are_not_called_mistyped(
    encoded: Path, quoth: Quoth, tmp_path: Path
) -> None:
    words = save_tiny_encoder(tmp_path / "words", words=["night", "light", "barn"])
    assert quoth("encode", encoded, encoder=str(words)).code == 0
    lexical = quoth("search", encoded, "light", "--with", "lexical", encoder=str(words))
    assert "did you mean: night" in lexical.err
    assert "did you mean" not in quoth("search", encoded, "light", encoder=str(words)).err
    assert "did you mean: night" in quoth("search", encoded, "nihgt", encoder=str(words)).err


def test_encoding_tells_how_much_was_cut(birds: Path, quoth: Quoth, tmp_path: Path) -> None:
    long = write_lines(tmp_path / "long.jsonl", [{"_id": "long", "text": "zyxwvutsrq " * 30}])
    quoth("add", birds, long)
    told = quoth("encode", birds)
    assert "of the text did not fit into the vectors, from 1 document" in told.err
    status = quoth("status", birds)
    assert "subwords_cut: 174" in status.out and "documents_cut: 1" in status.out


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_search_with_vectors(encoded: Path, quoth: Quoth, name: str) -> None:
    text = "Hen A hen sleeps in the barn at night."
    found = quoth("search", encoded, text, "--with", name, "--explain", "--json").json()
    assert len(found["hits"]) == 4 and found["hits"][0]["docid"] == "hen"
    for hit in found["hits"]:
        parts = hit["explanation"]["parts"]
        assert sum(part["value"] for part in parts) == pytest.approx(hit["score"], abs=1e-6)
        assert hit["passage"]["text"] and set(hit["found_by"]) <= {"lexical", "dense"}
    shown = quoth("search", encoded, text, "--with", name)
    assert shown.code == 0 and "1. Hen" in shown.out
    nothing = quoth("search", encoded, " ", "--with", name)
    assert nothing.code == 0 and nothing.out == "" and "the query is empty" in nothing.err


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_explain_shows_what_the_encoder_looked_at(encoded: Path, quoth: Quoth, name: str) -> None:
    asked = ("search", encoded, "the hen sleeps", "--with", name, "-k", 2, "--explain")
    hits = quoth(*asked, "--json").json()["hits"]
    for hit in hits:
        assert {each["word"] for each in hit["attention"]["query"]} == {"the", "hen", "sleeps"}
        shares = [each["share"] for each in hit["attention"]["document"]]
        assert 0 < sum(shares) < 1 and shares == sorted(shares, reverse=True)
        assert hit["explanation"]["value"] == pytest.approx(hit["score"], abs=1e-6)
        assert hit["docid"] in {each["word"] for each in hit["attention"]["document"]}
    shown = quoth(*asked)
    assert shown.out.count("attention in the query: ") == 2
    assert shown.out.count("attention in the document: ") == 2
    by_words = ("search", encoded, "hen", "--with", "lexical")
    plain = quoth(*by_words, "--explain", "--json").json()["hits"]
    assert plain[0]["attention"] is None and plain[0]["explanation"]
    silent = quoth("search", encoded, "hen", "--with", name, "--json").json()["hits"]
    assert silent[0]["attention"] is None


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_run_and_evaluate_with_vectors(
    encoded: Path, quoth: Quoth, tmp_path: Path, name: str
) -> None:
    queries = write_lines(
        tmp_path / "queries.jsonl",
        [{"_id": "q1", "text": "Raven A raven watches an owl at dusk."}],
    )
    out = tmp_path / "run.trec"
    told = quoth("run", encoded, queries, "--out", out, "--with", name, "-k", 2, "--json").json()
    assert told["hits"] == 2
    first = out.read_text().splitlines()[0].split()
    assert first[2] == "raven" and first[5] == name
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\traven\t1\n")
    found = quoth(
        *("evaluate", encoded, "--queries", queries, "--qrels", qrels),
        *("--with", name, "--measures", "RR@10", "--json"),
    ).json()
    assert found["searcher"] == name and found["measures"] == {"RR@10": 1.0}


def test_adding_and_removing_keep_vectors_in_step(
    encoded: Path, quoth: Quoth, tmp_path: Path
) -> None:
    more = write_lines(tmp_path / "more.jsonl", [{"_id": "mouse", "text": "a mouse of the field"}])
    assert quoth("add", encoded, more).code == 0
    hits = quoth("search", encoded, "a mouse of the field", "--with", "dense", "--json").json()
    assert hits["hits"][0]["docid"] == "mouse" and hits["hits"][0]["score"] > 0.99
    assert quoth("remove", encoded, "mouse", "hen").code == 0
    hits = quoth("search", encoded, "a mouse of the field", "--with", "dense", "--json").json()
    assert sorted(each["docid"] for each in hits["hits"]) == ["owl", "raven", "swift"]
    status = quoth("status", encoded, "--json").json()
    assert status["indexes"]["dense"]["documents"] == 3 and status["bytes"]["dense"] > 0
    assert quoth("verify", encoded).code == 0


def test_an_interrupted_encoding_serves_search_and_says_what_is_missing(
    birds: Path, quoth: Quoth, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "CHUNK", 2)
    write, calls = DenseIndex.add, []

    def stopping(*arguments: Any) -> None:
        write(*arguments)
        calls.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DenseIndex, "add", stopping)
        assert quoth("encode", birds).code != 0 and calls == [1]
    told = quoth("search", birds, "night", "--no-rerank")
    assert told.code == 0 and "vectors cover 2 of 4 passages" in told.err
    assert f'"quoth encode {birds}" finishes them' in told.err.replace("\n", " ")
    found = quoth("search", birds, "night", "--json").json()
    assert found["searcher"] == "hybrid" and found["incomplete"].startswith("vectors cover 2")
    assert str(birds) not in found["incomplete"]
    model = save_language_model(tmp_path / "model")
    asked = quoth(
        *("ask", birds, "Who hunts at night?", "--answer.model", model, "--threshold", 1),
        *("--decoding.max-subwords", 4, "--json"),
    )
    assert "vectors cover 2 of 4 passages" in asked.err, asked.err
    assert asked.json()["incomplete"] == found["incomplete"]
    assert "unfinished: true" in quoth("status", birds).out
    assert quoth("verify", birds).code == 0
    assert quoth("encode", birds).code == 0
    again = quoth("search", birds, "night")
    assert again.code == 0 and "vectors cover" not in again.err


def test_mistakes_are_explained(birds: Path, quoth: Quoth, tmp_path: Path) -> None:
    quoth("search", birds, "owl", "--with", "hybrid").assert_fails(
        3, "no vectors yet of", f'run "quoth encode {birds}"'
    )
    quoth("search", birds, "owl", "--with", "fuzzy").assert_fails(
        2, "no searcher 'fuzzy'", "lexical, dense, hybrid"
    )
    quoth("encode", birds, encoder="no-such-encoder").assert_fails(
        2, "no encoder 'no-such-encoder'", "all-MiniLM-L6-v2"
    )
    quoth("encode", tmp_path / "nothing.quoth").assert_fails(3, "nothing.quoth")
    quoth("encode", birds, "--dense.storage", "fp8").assert_fails(2, "storage", "fp16")


# --- without torch --------------------------------------------------------------------------------


WITHOUT_NEURAL = """
import io, json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from quoth.cli.main import main
found, own = [], sys.stdout
for sys.argv[1:] in json.loads(sys.argv[2]):
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    try:
        main()
    except SystemExit as end:
        written = []
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            written.append(stream.buffer.getvalue().decode())
        found.append([end.code or 0, *written])
print(json.dumps(found), file=own)
"""


def _without_neural(*commands: Sequence[object]) -> list[Outcome]:
    """Run commands where none of the neural extra's libraries can be imported."""
    given = json.dumps([list(map(str, command)) for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NEURAL, json.dumps(NEURAL), given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(*each) for each in json.loads(done.stdout)]


def test_words_work_without_torch_and_encoding_says_what_to_install(
    encoded: Path, quoth: Quoth, tiny: Path, tmp_path: Path
) -> None:
    with_tiny = ("--dense.encoder", str(tiny))
    plain = Path(shutil.copytree(encoded, tmp_path / "plain.quoth"))
    shutil.rmtree(plain / "dense")
    more = write_lines(tmp_path / "more.jsonl", [{"_id": "mouse", "text": "a mouse of the field"}])
    # One collection was never encoded, one was on another machine.
    searched, encoding, searched_too, encoding_too, by_vectors, status, added, found = (
        _without_neural(
            ("search", plain, "raven", "--json", *with_tiny),
            ("encode", plain, *with_tiny),
            ("search", encoded, "raven", "--json", *with_tiny),
            ("encode", encoded, *with_tiny),
            ("search", encoded, "owl", "--with", "dense", *with_tiny),
            ("status", encoded, "--json", *with_tiny),
            ("add", encoded, more, "--json", *with_tiny),
            ("search", encoded, "mouse", "--json", *with_tiny),
        )
    )
    for outcome in (searched, searched_too):
        assert [hit["docid"] for hit in outcome.json()["hits"]] == ["raven"]
    for outcome in (encoding, encoding_too, by_vectors):
        outcome.assert_fails(2, 'pip install "quoth[neural]"')
    assert "quoth[neural]" in status.json()["indexes"]["dense"]["unavailable"]
    assert added.json()["added"] == 1 and "vectors are not up to date" in added.err
    assert [hit["docid"] for hit in found.json()["hits"]] == ["mouse"]
    # Back on a machine with torch, searching with vectors catches up by itself.
    hits = quoth("search", encoded, "a mouse of the field", "--with", "dense", "--json").json()
    assert hits["hits"][0]["docid"] == "mouse"
