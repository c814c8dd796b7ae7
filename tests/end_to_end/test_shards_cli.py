"""`quoth shard`, `quoth merge`, and the other commands on a collection in shards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import BIRDS, Outcome, Quoth, make_runner, write_lines


@pytest.fixture
def quoth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quoth:
    return make_runner(monkeypatch, capsys)


@pytest.fixture
def birds(tmp_path: Path, quoth: Quoth) -> Path:
    collection = tmp_path / "birds.quoth"
    assert quoth("add", collection, write_lines(tmp_path / "birds.jsonl", BIRDS)).code == 0
    return collection


@pytest.fixture
def shards(tmp_path: Path, birds: Path, quoth: Quoth) -> Path:
    made = quoth("shard", birds, "--shards", 2, "--out", tmp_path / "birds.shards", "--json").json()
    assert made["shards"] == 2 and made["folder"] == str(tmp_path / "birds.shards")
    return tmp_path / "birds.shards"


def _hits(found: Outcome) -> list[tuple[str, float]]:
    """Take docids and scores, which a collection in one piece computes in single precision."""
    return [(hit["docid"], round(hit["score"], 5)) for hit in found.json()["hits"]]


def test_commands_say_the_same_of_shards(
    birds: Path, shards: Path, quoth: Quoth, tmp_path: Path
) -> None:
    more = write_lines(tmp_path / "more.jsonl", [{"_id": "eagle-owl", "text": "The largest owl."}])
    assert quoth("add", shards, more, "--json").json() == quoth("add", birds, more, "--json").json()
    assert quoth("remove", shards, "hen", "nobody").code == 1
    assert quoth("remove", birds, "hen", "nobody").code == 1
    for query in ("owl", "barn owl dusk", "title:raven", "+owl -barn"):
        assert _hits(quoth("search", shards, query, "--json")) == _hits(
            quoth("search", birds, query, "--json")
        )
    limited = ("owl", "--where", "year >= 2020", "--explain", "--json")
    assert quoth("search", shards, *limited).json() == quoth("search", birds, *limited).json()
    status = quoth("status", shards, "--json").json()
    assert status["documents"] == 4 and set(status["shards"]) == {"00000", "00001"}
    assert quoth("verify", shards) == Outcome(0, "everything is as written\n", "")


def test_runs_and_measures_are_the_same(
    birds: Path, shards: Path, quoth: Quoth, tmp_path: Path
) -> None:
    queries = write_lines(tmp_path / "q.jsonl", [{"_id": "1", "text": "owl at dusk"}])
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n1\traven\t1\n")
    for folder in (birds, shards):
        run = quoth("run", folder, queries, "--out", tmp_path / f"{folder.name}.run", "--json")
        assert run.json()["hits"] == 3
    measured = [
        quoth("evaluate", folder, "--queries", queries, "--qrels", qrels, "--json").json()
        for folder in (birds, shards)
    ]
    assert measured[0]["measures"] == measured[1]["measures"]


def test_shards_are_joined_to_the_collection_they_were(
    birds: Path, shards: Path, quoth: Quoth, tmp_path: Path
) -> None:
    assert quoth("merge", shards, "--out", tmp_path / "joined.quoth").code == 0
    for query in ("owl", "sleep at night"):
        assert quoth("search", tmp_path / "joined.quoth", query, "--json") == quoth(
            "search", birds, query, "--json"
        )
    assert quoth("verify", tmp_path / "joined.quoth").code == 0


def test_empty_shards_are_made_and_filled(quoth: Quoth, tmp_path: Path) -> None:
    folder = tmp_path / "new.shards"
    assert quoth("shard", "--new", folder, "--shards", 3).code == 0
    assert quoth("add", folder, write_lines(tmp_path / "birds.jsonl", BIRDS)).code == 0
    assert [docid for docid, _ in _hits(quoth("search", folder, "owl", "--json"))] == [
        "owl",
        "raven",
    ]


def test_statistics_are_exchanged_on_demand(
    birds: Path, shards: Path, quoth: Quoth, tmp_path: Path
) -> None:
    more = write_lines(
        tmp_path / "more.jsonl", [{"_id": "eagle", "text": "No owl at all, an eagle."}]
    )
    (one,) = [path for path in shards.iterdir() if path.is_dir() and _belongs(path, "eagle")]
    assert quoth("add", one, more).code == 0
    assert quoth("add", birds, more).code == 0
    assert quoth("shard", "--exchange", shards).code == 0
    assert _hits(quoth("search", shards, "owl", "--json")) == _hits(
        quoth("search", birds, "owl", "--json")
    )


def _belongs(shard: Path, docid: str) -> bool:
    from quoth.collection.shards import open_shards, shard_number

    return open_shards(shard.parent).shard_of(docid) == shard_number(shard)


def test_bad_input_is_refused_and_nothing_written(
    birds: Path, shards: Path, quoth: Quoth, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    out = tmp_path / "out"
    for arguments, code, expected in (
        (("shard", birds), 2, "give the number of shards"),
        (("shard", birds, "--shards", 2), 2, "give the number of shards"),
        (("shard", birds, "--exchange", "--shards", 2), 2, "takes an existing sharded collection"),
        (("shard", birds, "--shards", 0, "--out", out), 2, "expected 1 to 100,000"),
        (("shard", birds, "--shards", 2, "--out", shards), 3, "exists and is not empty"),
        (("shard", tmp_path / "none", "--shards", 2, "--out", out), 3, "there is no collection"),
        (("shard", shards, "--shards", 2, "--out", out), 3, "is a collection in shards"),
        (("shard", "--exchange", birds), 3, "is not a collection in shards"),
        (("merge", birds, "--out", out), 3, "is not a collection in shards"),
        (("merge", shards, "--out", birds), 3, "exists and is not empty"),
        (("learn", shards), 2, "too few to learn from"),
        (("search", shards, "owl", "--with", "dense"), 3, f'run "quoth encode {shards}"'),
    ):
        quoth(*arguments).assert_fails(code, expected)
    shutil.rmtree(shards / "shard-00001")
    quoth("search", shards, "owl").assert_fails(3, "shard 1 of 2 is missing")
    quoth("merge", shards, "--out", out).assert_fails(3, "shard 1 of 2 is missing")
    assert sorted(tmp_path.iterdir()) == before


_KILLED_SPLIT = """
import os, signal, sys
from pathlib import Path
from quoth.shards import split_and_merge as sharding

def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

sharding.sync_folder = die if sys.argv[3] == "after" else sharding.sync_folder
sharding._carry_vectors = die if sys.argv[3] == "before" else sharding._carry_vectors
sharding.split_collection(Path(sys.argv[1]), Path(sys.argv[2]), count=2)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_split_leaves_all_or_nothing(
    birds: Path, quoth: Quoth, tmp_path: Path, when: str
) -> None:
    out = tmp_path / "killed.shards"
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED_SPLIT, str(birds), str(out), when],
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == -signal.SIGKILL
    if when == "before":
        assert not out.exists()
        assert quoth("shard", birds, "--shards", 2, "--out", out).code == 0
    assert _hits(quoth("search", out, "owl", "--json")) == _hits(
        quoth("search", birds, "owl", "--json")
    )
