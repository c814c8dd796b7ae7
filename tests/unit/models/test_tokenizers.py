"""Tokenizers are read like any file of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_encoder import make_tokenizer

from quoth.models.pretrained import load_tokenizer


def test_a_tokenizer_reads_as_it_was_written(tmp_path: Path) -> None:
    written = make_tokenizer()
    written.save(str(tmp_path / "tokenizer.json"))
    read = load_tokenizer(tmp_path)
    assert read.encode("the owl über 42").ids == written.encode("the owl über 42").ids
    assert read.to_str() == written.to_str()


def test_one_that_cannot_be_read_fails_as_files_do(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(OSError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)
