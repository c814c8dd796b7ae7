"""The command line as a user meets it: every command, its messages, its exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from math import log2
from pathlib import Path
from typing import Any

import pytest
from commands import BIRDS, Outcome, Quoth, make_runner, write_lines
from typer.testing import CliRunner

from quoth import __version__
from quoth.cli.main import make_app
from quoth.engine.engine import Engine
from quoth.wire.schemas import SearchResponse

COMMANDS = (
    *("add", "remove", "search", "run", "evaluate", "compare", "status", "verify", "demo"),
    *("shard", "merge"),
)
QUOTH = Path(sys.executable).parent / "quoth"
DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "ir"


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


def _spawn(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(QUOTH), *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
        **options,
    )


def _heed_interrupts() -> None:
    """Undo what a shell does to jobs in the background: they would ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "birds.quoth"
    with Engine.open(folder) as engine:
        engine.add([str(write_lines(folder.parent / "birds.jsonl", BIRDS))])
    return folder


@pytest.fixture
def birds(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "birds.quoth"))


# Help ------------------------------------------------------------------------------------------


def test_help_lists_every_command_and_exit_code() -> None:
    result = CliRunner().invoke(make_app(), ["--help"])
    assert result.exit_code == 0
    shown = " ".join(result.output.split())
    for command in COMMANDS:
        assert f"│ {command} " in shown
    for code in ("0 success", "1 success, but", "2 wrong", "3 collection", "4 stopped", "5 unus"):
        assert code in shown
    assert "130 interrupted" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_that_is_not_cut_off(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(
        make_app(command), [command, "--help"]
    )
    assert result.exit_code == 0 and f"Usage: quoth {command}" in result.output
    names = [word for word in result.output.split() if word.startswith("--")]
    assert "--help" in names and not any("…" in name or "_" in name for name in names)


def test_no_arguments_show_help_and_version_prints_itself(quoth: Quoth) -> None:
    assert "Usage: quoth" in quoth().out
    assert quoth("--version") == Outcome(0, f"quoth {__version__}\n", "")


def test_help_loads_nothing_heavy() -> None:
    script = """
import sys
wanted = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        wanted.append(name.partition(".")[0])
sys.meta_path.insert(0, Watch())
sys.argv = ["quoth", "--help"]
from quoth.cli.main import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "tantivy", "numpy", "scipy", "ir_measures", "pypdf", "docx"}
    print(sorted(heavy & set(wanted)), "quoth" in wanted, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[] True"


# Wrong usage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "c.quoth", "owl", "--colour", "red"], "No such option: --colour"),
        (["serch", "c.quoth"], "No such command 'serch'. Did you mean 'search', 'serve'?"),
        (["search", "c.quoth"], "Missing argument 'QUERY'"),
        (["add", "c.quoth"], "Missing argument 'SOURCE'"),
        (["search", "c.quoth", "owl", "-k", "0"], "Invalid value for '-k'"),
        (["run", "c.quoth", "q.jsonl"], "Missing option '--out'"),
        (["search", "c.quoth", "owl", "--readers.id-key", "a"], "No such option"),
    ],
)
def test_wrong_usage_names_what_is_wrong(quoth: Quoth, arguments: list[str], expected: str) -> None:
    outcome = quoth(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in " ".join(outcome.err.split()) and "--help" in outcome.err


def test_unknown_searcher(quoth: Quoth, birds: Path) -> None:
    quoth("search", birds, "owl", "--with", "magic").assert_fails(
        2, "there is no searcher 'magic'; choose one of lexical"
    )


def test_bad_filter_points_at_the_place(quoth: Quoth, birds: Path) -> None:
    outcome = quoth("search", birds, "owl", "--where", "year >")
    assert (outcome.code, outcome.out) == (2, "")
    first, shown, caret = outcome.err.splitlines()
    assert first.startswith("error: filter, column 7: found the end, expected a value")
    assert shown.strip() == "year >" and caret.index("^") == len("  year >")


def test_bad_settings(quoth: Quoth, birds: Path, tmp_path: Path) -> None:
    config = tmp_path / "quoth.toml"
    config.write_text('[lexical]\nfoo = 1\n[colours]\n[passages]\nmax_words = "many"\n')
    quoth("search", birds, "owl", "--config", config).assert_fails(
        2, "[lexical] has no field foo", "no section [colours]", "max_words is 'many', expected a"
    )
    config.write_text("[lexical\n")
    quoth("search", birds, "owl", "--config", config).assert_fails(2, "is not valid TOML", "line 1")
    quoth("search", birds, "owl", "--config", tmp_path / "none.toml").assert_fails(
        2, "none.toml cannot be read (No such file or directory)"
    )
    quoth("search", birds, "owl", "--lexical.boosts", "2").assert_fails(
        2, "lexical.boosts is '2', expected name=weight pairs"
    )
    quoth("add", birds, "x.txt", "--collection.batch-documents", "0").assert_fails(
        2, "batch_documents is 0, expected at least 1"
    )


def test_settings_from_a_file_and_in_both_spellings(
    quoth: Quoth, birds: Path, tmp_path: Path
) -> None:
    def score(*options: object) -> float:
        return float(quoth("search", birds, "raven", "--json", *options).json()["hits"][0]["score"])

    config = tmp_path / "quoth.toml"
    config.write_text("[lexical]\ndefault_boost = 0\n")
    plain, boosted = score("--config", config), score()
    assert plain < boosted
    assert score("--lexical.default-boost", "0") == score("--lexical.default_boost", "0") == plain
    assert score("--config", config, "--lexical.boosts", "title=0.3") == boosted


# The collection --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "none.quoth", "owl"],
        ["status", "none.quoth"],
        ["verify", "none.quoth"],
        ["remove", "none.quoth", "owl"],
    ],
)
def test_missing_collection(
    quoth: Quoth, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quoth(*arguments).assert_fails(
        3, 'there is no collection at none.quoth; make one with "quoth add none.quoth SOURCE"'
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_a_collection(quoth: Quoth, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "birds.jsonl", BIRDS)
    quoth("add", source, source).assert_fails(3, "cannot hold a collection", "name another folder")


def test_other_settings_than_the_collection_was_made_with(
    quoth: Quoth, birds: Path, tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "x.jsonl", [{"_id": "x", "text": "Eulen"}])
    german = ("--analyser.language", "german")
    quoth("add", birds, source, *german).assert_fails(
        3, "analyser.language = 'english' (now 'german')", f'"quoth verify {birds} --repair"'
    )
    repaired = quoth("verify", birds, "--repair", *german)
    assert (repaired.code, repaired.out) == (0, "repaired: rebuilt what differed\n")
    assert quoth("add", birds, source, *german).code == 0
    assert quoth("search", birds, "Eule", "--json").json()["hits"][0]["docid"] == "x"


def test_status(quoth: Quoth, birds: Path) -> None:
    found = quoth("status", birds, "--json").json()
    assert (found["documents"], found["fields"]) == (4, ["title", "text"])
    shown = quoth("status", birds)
    assert shown.code == 0 and shown.err == ""
    assert f"collection: {birds}" in shown.out.replace("\n", " ") or str(birds) in shown.out
    assert "\ndocuments: 4\n" in shown.out and "\n    max_words: 180\n" in shown.out
    assert shown.out.count("\n") > 15


def test_verify_and_repair_after_the_index_is_gone(quoth: Quoth, birds: Path) -> None:
    assert quoth("verify", birds) == Outcome(0, "everything is as written\n", "")
    shutil.rmtree(birds / "lexical")
    broken = quoth("verify", birds)
    assert broken.code == 1 and "finished" in broken.err and "lexical" in broken.err
    assert broken.out == "indexes are damaged; --repair rebuilds them from the documents\n"
    record = quoth("verify", birds, "--json")
    assert record.code == 1 and record.json()["clean"] is False and record.err == ""
    repaired = quoth("verify", birds, "--repair")
    assert (repaired.code, repaired.out) == (0, "repaired: rebuilt what differed\n")
    assert quoth("verify", birds, "--json").json() == {
        "clean": True,
        "store": [],
        "indexes": [],
        "models": [],
        "repaired": False,
        "behind": {},
    }
    assert quoth("search", birds, "owl", "--json").json()["hits"][0]["docid"] == "owl"


# Adding and removing ---------------------------------------------------------------------------


def test_add_shows_a_table(quoth: Quoth, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "birds.jsonl", BIRDS)
    added = quoth("add", tmp_path / "c.quoth", source)
    assert (added.code, added.err) == (0, "")
    assert _table(added.out) == {"added": "4", "updated": "0", "unchanged": "0", "skipped": "0"}
    assert _table(quoth("add", tmp_path / "c.quoth", source).out)["unchanged"] == "4"


def _table(text: str) -> dict[str, str]:
    rows = [line.split("│") for line in text.splitlines() if line.startswith("│")]
    return {row[1].strip(): row[2].strip() for row in rows}


def test_add_json_lists_every_problem_on_stdout_alone(quoth: Quoth, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "bad.jsonl", [BIRDS[0], *["{bad"] * 25, BIRDS[0]])
    outcome = quoth("add", tmp_path / "c.quoth", source, "--json")
    assert (outcome.code, outcome.err) == (1, "")
    found = outcome.json()
    problems = found.pop("problems")
    assert found == {"added": 1, "updated": 0, "unchanged": 0, "skipped": 26}
    assert len(problems) == 26
    assert problems[-1] == f"{source}:27: duplicate id 'owl'"


def test_add_shows_the_first_problems_and_counts_the_rest(quoth: Quoth, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "bad.jsonl", [BIRDS[0], *["{bad"] * 1_025])
    outcome = quoth("add", tmp_path / "c.quoth", source)
    assert outcome.code == 1 and _table(outcome.out)["skipped"] == "1,025"
    lines = outcome.err.splitlines()
    assert len(lines) == 21
    assert lines[0].startswith(f"skipped {source}:2: not valid JSON")
    assert lines[19].startswith(f"skipped {source}:21: ")
    assert lines[20] == "… and 1,005 more (--json lists them all)"
    few = quoth("add", tmp_path / "d.quoth", write_lines(source, ["{bad"] * 20))
    assert len(few.err.splitlines()) == 20


def test_strict_stops_at_the_first_problem(quoth: Quoth, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "bad.jsonl", [BIRDS[0], "{bad", BIRDS[1]])
    outcome = quoth("add", tmp_path / "c.quoth", source, "--strict")
    outcome.assert_fails(4, f"{source}:2: not valid JSON")
    quoth("add", tmp_path / "c.quoth", tmp_path / "no.txt", "--strict").assert_fails(
        4, "no.txt: no such file or folder"
    )


def test_add_from_standard_input(quoth: Quoth, tmp_path: Path) -> None:
    lines = "".join(json.dumps(each) + "\n" for each in BIRDS).encode()
    assert quoth("add", tmp_path / "c.quoth", "-", "--json", stdin=lines).json()["added"] == 4
    text = quoth("add", tmp_path / "c.quoth", "-", "--json", stdin=b"Eine Eule.")
    assert text.json()["added"] == 1
    found = quoth("search", tmp_path / "c.quoth", "Eule", "--json").json()["hits"]
    assert [hit["docid"] for hit in found] == ["-"]


def test_reader_settings_reach_the_readers(quoth: Quoth, tmp_path: Path) -> None:
    table = tmp_path / "birds.csv"
    table.write_text("key,text,lang\n7,an owl,en\n8,eine Eule,de\n")
    options = ("--readers.id-key", "key", "--readers.metadata-keys", "lang")
    assert quoth("add", tmp_path / "c.quoth", table, *options).code == 0
    where = ("--where", 'lang == "de"')
    found = quoth("search", tmp_path / "c.quoth", "Eule owl", *where, "--json").json()["hits"]
    assert [(hit["docid"], hit["metadata"]["lang"]) for hit in found] == [("8", "de")]


def test_remove(quoth: Quoth, birds: Path) -> None:
    outcome = quoth("remove", birds, "owl", "dodo", "dodo")
    assert (outcome.code, outcome.out) == (1, "removed 1 of 2 documents\n")
    assert set(outcome.err.splitlines()) == {"not in the collection: dodo"}
    assert quoth("remove", birds, "hen") == Outcome(0, "removed 1 of 1 document\n", "")
    outcome = quoth("remove", birds, "hen", "swift", "--json")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.json() == {"removed": 1, "missing": ["hen"]}


# Searching -------------------------------------------------------------------------------------


def test_search_shows_title_score_docid_and_text(quoth: Quoth, birds: Path) -> None:
    outcome = quoth("search", birds, "owl", "-k", "1", "--lexical.default-boost", "0")
    assert (outcome.code, outcome.err) == (0, "")
    score = quoth(
        "search", birds, "owl", "-k", "1", "--lexical.default-boost", "0", "--json"
    ).json()["hits"][0]["score"]
    assert outcome.out == f" 1. Barn owl  {score:.3f}  owl\n    An owl hunts. The owl is an owl.\n"


def test_search_as_json(quoth: Quoth, birds: Path) -> None:
    outcome = quoth("search", birds, "sleeping barn", "--explain", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = outcome.json()
    assert found["query"] == "sleeping barn"
    first = found["hits"][0]
    assert first["docid"] == "hen" and first["metadata"] == {"year": 2021}
    assert first["explanation"]["value"] == first["score"]
    text, spans = first["snippet"]["text"], first["snippet"]["highlights"]
    assert [text[start:end] for start, end in spans] == ["sleeps", "barn"]
    assert first["passage"]["text"][0:3] == text[0:3]
    plain = quoth("search", birds, "owl", "--json").json()
    assert plain["hits"][0]["explanation"] is None
    for record in (found, plain):  # what the server answers with, to the last key
        assert SearchResponse.model_validate(record).model_dump(mode="json") == record


def test_search_explains_with_a_tree(quoth: Quoth, birds: Path) -> None:
    lines = quoth("search", birds, "raven", "--explain").out.splitlines()
    assert lines[0].startswith(" 1. Raven") and lines[2].endswith("lexical")
    assert lines[3].startswith("└──") and lines[3].endswith("raven")
    assert "anywhere: 2x in 8 words, idf" in lines[4] and "title: 1x in 1 words" in lines[5]


def test_search_filters(quoth: Quoth, birds: Path) -> None:
    found = quoth("search", birds, "owl sleep barn", "--where", "year >= 2021", "--json").json()
    assert {hit["docid"] for hit in found["hits"]} == {"hen", "swift"}


def test_a_misspelt_key_of_a_condition_is_told_the_keys_there_are(
    quoth: Quoth, birds: Path
) -> None:
    advice = quoth("search", birds, "owl", "--where", "yaer > 2000").err
    assert advice.rstrip().endswith("or drop --where; some keys to filter by: year")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["zebra"], "nothing found; try other words"),
        (["owl", "--where", "year > 3000"], "nothing found where year > 3000; try other words, or"),
        (["  "], "nothing found; the query is empty"),
    ],
)
def test_finding_nothing_is_no_error(
    quoth: Quoth, birds: Path, arguments: list[str], advice: str
) -> None:
    outcome = quoth("search", birds, *arguments)
    assert (outcome.code, outcome.out) == (0, "") and outcome.err.startswith(advice)
    assert quoth("search", birds, *arguments, "--json").json()["hits"] == []


# Evaluation ------------------------------------------------------------------------------------


@pytest.fixture
def judged(tmp_path: Path) -> tuple[Path, Path]:
    """For "owl" the second of two is relevant; for "sleeping" both are, one more than the other."""
    queries = write_lines(
        tmp_path / "queries.jsonl",
        [{"_id": "q1", "text": "owl"}, {"_id": "q2", "text": "night sleeping"}],
    )
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text(
        "query-id\tcorpus-id\tscore\nq1\traven\t1\nq2\then\t2\nq2\tswift\t1\nq2\towl\t0\n"
    )
    return queries, qrels


NDCG = {"q1": 1 / log2(3), "q2": 1.0}
"""One relevant document at rank 2 (ideal: rank 1); and the ideal order."""


def test_evaluate_gives_the_numbers_of_the_definition(
    quoth: Quoth, birds: Path, judged: tuple[Path, Path]
) -> None:
    queries, qrels = judged
    options = ("--queries", queries, "--qrels", qrels)
    outcome = quoth("evaluate", birds, *options, "--measures", "nDCG@10,RR@10,P@1,R@1", "--json")
    assert outcome.err == ""
    found = outcome.json()
    assert found["queries"] == 2 and found["searcher"] == "lexical"
    assert found["measures"] == pytest.approx(
        {
            "nDCG@10": (NDCG["q1"] + NDCG["q2"]) / 2,
            "RR@10": (1 / 2 + 1) / 2,
            "P@1": (0 + 1) / 2,
            "R@1": (0 + 1 / 2) / 2,
        }
    )
    assert all(low <= high for low, high in found["intervals"].values())
    assert set(found["latency"]) >= {"mean_ms", "p50_ms", "p99_ms"}
    shown = quoth("evaluate", birds, *options)
    assert f"{(NDCG['q1'] + 1) / 2:.4f}" in shown.out and f"{birds}, 2 queries" in " ".join(
        shown.out.split()
    )
    assert shown.err.startswith("per query: mean ")


def test_run_writes_what_compare_reads(
    quoth: Quoth, birds: Path, judged: tuple[Path, Path], tmp_path: Path
) -> None:
    queries, qrels = judged
    ours, other = tmp_path / "ours.run", tmp_path / "other.run"
    told = quoth("run", birds, queries, "--out", ours)
    assert (told.code, told.out) == (0, "")
    assert told.err == f"2 queries, 4 hits → {ours}\n"
    lines = [line.split() for line in ours.read_text().splitlines()]
    assert [(line[0], line[2], line[3]) for line in lines] == [
        ("q1", "owl", "1"),
        ("q1", "raven", "2"),
        ("q2", "hen", "1"),
        ("q2", "swift", "2"),
    ]
    other.write_text("q1 Q0 raven 1 2.0 x\nq1 Q0 owl 2 1.0 x\nq2 Q0 hen 1 1.0 x\n")
    compared = quoth("compare", ours, other, "--qrels", qrels, "--measures", "nDCG@10", "--json")
    assert compared.err == ""
    means = {row["run_name"]: row["mean"] for row in compared.json()["rows"]}
    ideal = 2 + 1 / log2(3)  # gains 2 and 1 at ranks 1 and 2
    assert means == pytest.approx(
        {"ours.run": (NDCG["q1"] + 1) / 2, "other.run": (1 + 2 / ideal) / 2}
    )
    shown = quoth("compare", ours, other, "--qrels", qrels, "--out", tmp_path / "tables")
    assert shown.code == 0 and "ours.run" in shown.out and "other.run" in shown.out
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".json", ".csv", ".tex"}


def test_run_as_json(quoth: Quoth, birds: Path, judged: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "a.run"
    outcome = quoth("run", birds, judged[0], "--out", out, "-k", "1", "--json")
    assert outcome.json() == {"queries": 2, "hits": 2, "run": str(out)} and outcome.err == ""
    assert len(out.read_text().splitlines()) == 2


def test_evaluation_input_that_is_unusable(
    quoth: Quoth, birds: Path, judged: tuple[Path, Path], tmp_path: Path
) -> None:
    queries, qrels = judged
    options = ("--queries", queries, "--qrels", qrels)
    quoth("evaluate", birds, *options, "--measures", "nDGC@10").assert_fails(5, "nDGC")
    quoth("evaluate", birds, "--queries", tmp_path / "no", "--qrels", qrels).assert_fails(
        5, "no: No such file or directory"
    )
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("q7 0 owl 1\n")
    quoth("evaluate", birds, "--queries", queries, "--qrels", foreign).assert_fails(
        5, "judges no query of", "check that both belong to the same collection"
    )
    (tmp_path / "bad.run").write_text("q1 Q0 owl\n")
    quoth("compare", tmp_path / "bad.run", "--qrels", qrels).assert_fails(5, "bad.run:1")


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the judged collections in ../shared/data/ir")
@pytest.mark.parametrize(
    ("name", "least"),
    [("cranfield", 0.415), pytest.param("scifact", 0.680, marks=pytest.mark.slow)],
)
def test_search_is_as_good_as_bm25_should_be(
    quoth: Quoth, tmp_path: Path, name: str, least: float
) -> None:
    source = DATA / name
    added = quoth("add", tmp_path / "c.quoth", source, "--json").json()
    assert added["added"] > 1_000 and added["skipped"] == 0
    (qrels,) = (source / "qrels").glob("test.tsv*")
    options = ("--queries", source / "queries.jsonl.gz", "--qrels", qrels)
    found = quoth("evaluate", tmp_path / "c.quoth", *options, "--measures", "nDCG@10", "--json")
    assert found.json()["measures"]["nDCG@10"] >= least


# The process -----------------------------------------------------------------------------------


def test_exit_codes_of_the_installed_command(birds: Path, tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "bad.jsonl", ["{bad"])
    expected = {
        0: ["search", birds, "owl"],
        1: ["add", birds, bad, "--no-encode"],
        2: ["search", birds, "owl", "--lexical.compact-share", "x"],
        3: ["search", tmp_path / "none.quoth", "owl"],
        4: ["add", birds, bad, "--strict"],
        5: ["evaluate", birds, "--queries", bad, "--qrels", bad],
    }
    started = {code: _spawn(*arguments, stdout=-1) for code, arguments in expected.items()}
    for code, process in started.items():
        _out, err = process.communicate(timeout=300)
        assert process.returncode == code, err
        assert "Traceback" not in err
        assert err.startswith("error: ") == (code > 1)


def test_an_interrupted_add_keeps_what_was_acknowledged_and_resumes(
    quoth: Quoth, tmp_path: Path
) -> None:
    folder = tmp_path / "c.quoth"
    lines = [{"_id": f"d{number}", "text": f"owl number {number}"} for number in range(2_000)]
    source = write_lines(tmp_path / "many.jsonl", lines)
    batches = ("--collection.batch-documents", "100")
    process = _spawn("add", folder, "-", *batches, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(source.read_text())  # and then it waits for more
    process.stdin.flush()
    _wait_for_documents(folder)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err == (
        "error: interrupted; everything stored so far is kept, and the same command resumes\n"
    )
    with Engine.open(folder) as engine:
        kept = engine.status()["documents"]
        assert kept > 0 and kept % 100 == 0, "whole batches"
        assert engine.verify().is_clean
        assert len(engine.search("owl", k=kept + 1)) == kept
    again = quoth("add", folder, source, "--json").json()
    assert (again["added"], again["unchanged"]) == (2_000 - kept, kept)


def _wait_for_documents(folder: Path) -> None:
    for _attempt in range(600):
        time.sleep(0.05)
        if (folder / "collection.db").exists():
            with Engine.open(folder) as engine:
                if engine._reader().num_documents:
                    return
    raise AssertionError("nothing was acknowledged")


@pytest.mark.parametrize("form", [[], ["--json"], ["--explain"]])
def test_output_that_nobody_reads_is_no_error(birds: Path, form: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = _spawn("search", birds, "owl", *form, stdout=writing)
    os.close(writing)
    _out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")


def test_piping_into_head(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    source = write_lines(
        tmp_path / "many.jsonl",
        [{"_id": f"d{number:03}", "text": "owl " + "word " * 60} for number in range(300)],
    )
    with Engine.open(folder) as engine:
        engine.add([str(source)])
    search = f"{shlex.quote(str(QUOTH))} search {shlex.quote(str(folder))} owl -k 300 --json"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{search} | head -1"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_is_one_line(birds: Path, form: list[str]) -> None:
    with open("/dev/full", "w") as full:
        process = _spawn("search", birds, "owl", *form, stdout=full)
        _out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (3, "error: output: No space left on device\n")


def test_an_output_without_unicode_is_served_too(tmp_path: Path) -> None:
    text = "naïve 東京 owl"
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add([str(write_lines(tmp_path / "a.jsonl", [{"_id": "é", "text": text}]))])
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for form in ([], ["--json"]):
        process = _spawn(
            "search", tmp_path / "c.quoth", "owl", *form, stdout=subprocess.PIPE, env=env
        )
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, "")
        if form:
            assert json.loads(out)["hits"][0]["passage"]["text"] == text
        else:
            assert "na?ve ?? owl" in out
