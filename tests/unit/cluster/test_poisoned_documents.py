"""A document that fails is told of and skipped, whichever step it fails in; the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoth.errors import ConfigError
from quoth.models.glow.encoded import Encoded
from quoth.records import Document, Located, Problem
from quoth.search.dense.filling import EncodedChunk, Stage
from quoth.settings.config import build_config
from quoth.shards import ray_add, ray_encode
from quoth.text.passages import PassageConfig, cut_document


def write_lines(path: Path, docids: str) -> str:
    path.write_text("".join(f'{{"id": "{docid}", "text": "owls"}}\n' for docid in docids))
    return str(path)


def test_a_document_that_cannot_be_cut_is_a_problem_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(document: Document, *, config: PassageConfig) -> Any:
        if document.docid == "b":
            raise ValueError("bad text")
        return cut_document(document, config=config)

    monkeypatch.setattr(ray_add, "cut_document", cut)
    source = write_lines(tmp_path / "a.jsonl", "abc")
    found = list(ray_add.read_one(source, config=build_config(), directory=str(tmp_path)))
    assert [each.document.docid for each in found if isinstance(each, Located)] == ["a", "c"]
    (problem,) = [str(each) for each in found if isinstance(each, Problem)]
    assert problem.startswith(f"{source}:2") and "'b' cannot be cut: bad text" in problem


def test_a_source_whose_reader_fails_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: Any, **_named: Any) -> Any:
        raise RuntimeError("the parser broke")

    monkeypatch.setattr(ray_add, "read_documents", fail)
    found = list(ray_add.read_one("a.md", config=build_config(), directory=str(tmp_path)))
    assert [str(each) for each in found] == ["a.md: failed: the parser broke"]


def test_sources_are_read_where_the_command_was_given(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", "a")
    found = list(ray_add.read_one("a.jsonl", config=build_config(), directory=str(tmp_path)))
    assert [type(each) for each in found] == [Located]


def test_standard_input_is_not_for_a_cluster() -> None:
    with pytest.raises(ConfigError, match="leave --ray out"):
        list(ray_add._list_sources(["-"], lambda _problem: None))


class StubSearcher:
    """Encodes each row as its own number; row 3 fails."""

    width = 2

    def encode_chunk(self, _store: Any, rows: Sequence[int], stage: Stage) -> EncodedChunk:
        if 3 in rows:
            raise RuntimeError("too odd")
        vectors = np.array([[row, 1.0] for row in rows], dtype=np.float32)
        ones = (1,) * len(rows)
        return EncodedChunk(tuple(rows), (stage.start,) * len(rows), Encoded(vectors, ones, ones))


def test_a_document_that_cannot_be_encoded_gets_zeros_and_is_told_of() -> None:
    encode: Any = ray_encode._encode_safely
    whole = encode(StubSearcher(), None, [1, 2], Stage.OPENING)
    assert (whole.chunk.rows, whole.failed) == ((1, 2), ())
    made = encode(StubSearcher(), None, [1, 3, 2], Stage.REST)
    assert made.failed == ((3, "too odd"),)
    assert dict(zip(made.chunk.rows, made.chunk.encoded.vectors.tolist(), strict=True)) == {
        1: [1.0, 1.0],
        2: [2.0, 1.0],
        3: [0.0, 0.0],
    }
    assert made.chunk.encoded.lengths == (1, 1, 0)
    assert whole.chunk.units == (0, 0) and made.chunk.units == (1, 1, 1)
