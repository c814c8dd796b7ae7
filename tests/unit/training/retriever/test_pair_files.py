"""Pairs in their shapes, and what is wrong with them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from quoth.errors import CorpusError
from quoth.training.retriever.pair_files import MAX_PROBLEMS, LabelledPair, read_pairs


def test_pairs_in_other_shapes(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\ufeffowl?\tAn owl.\n\nhen?\tA hen.\tA raven.\t\n", encoding="utf-8")
    assert read_pairs(path, body="text") == [
        LabelledPair("owl?", {"text": ("An owl.",)}),
        LabelledPair("hen?", {"text": ("A hen.",)}, ({"text": ("A raven.",)},)),
    ]
    path.write_text('{"query": "q", "positive": {"title": ["a", "b"], "text": "c"}, "id": 3}\n')
    assert read_pairs(path, body="text") == [
        LabelledPair("q", {"title": ("a", "b"), "text": ("c",)})
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": " ", "passage": "x"}', "query is empty"),
        ('{"passage": "x"}', "query is missing"),
        ('{"query": "q", "passage": 3}', "passage is not text"),
        ('{"query": "q", "passage": {"text": ""}}', "passage holds no text"),
        ('{"query": "q", "passage": {"text": [1]}}', "passage.text is neither text nor a list"),
        ('{"query": "q", "passage": "x", "negatives": "y"}', "negatives is no list"),
        ('{"query": "q", "passage": "x", "negatives": [""]}', "negatives[0] is empty"),
        ("[1]", "expected query<TAB>passage"),
    ],
)
def test_what_is_wrong_with_a_pair_is_told_with_its_line(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(CorpusError) as error:
        read_pairs(path, body="text")
    assert str(error.value).startswith(f"{path}:2: ") and message in str(error.value)


def test_a_file_without_pairs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("\n")
    with pytest.raises(CorpusError, match="holds no pairs; expected lines such as"):
        read_pairs(tmp_path / "pairs.jsonl", body="text")


def test_many_problems_come_together_and_gz_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"query": "q", "passage": "p"}\n' + b"{}\n" * 9))
    with pytest.raises(CorpusError) as error:
        read_pairs(path, body="text")
    lines = str(error.value).splitlines()
    assert len(lines) == MAX_PROBLEMS + 1 and lines[-1] == "(reading stopped here)"
    assert [line.split(": ")[0] for line in lines[:2]] == [f"{path}:2", f"{path}:3"]
