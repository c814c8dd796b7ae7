"""Where the system refuses to write, whoever writes says so as Python does."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tiny_encoder import make_tokenizer
from tokenizers import Tokenizer

from quoth.models.saving import save_tensors, save_tokenizer, writing_tensors


def test_tensors_read_as_they_were_written(tmp_path: Path) -> None:
    save_tensors({"rows": torch.arange(6.0)}, tmp_path / "w.safetensors", metadata={"a": "b"})
    assert load_file(tmp_path / "w.safetensors")["rows"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_what_the_system_refuses_is_an_error_of_the_file(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "w.safetensors"
    with pytest.raises(FileNotFoundError) as error:
        save_tensors({"rows": torch.zeros(1)}, nowhere)
    assert error.value.filename == str(nowhere)
    with pytest.raises(OSError, match="No space left") as full, writing_tensors(nowhere):
        raise SafetensorError("Error while serializing: I/O error: full (os error 28)")
    assert full.value.errno == errno.ENOSPC and full.value.filename == str(nowhere)
    with pytest.raises(SafetensorError), writing_tensors(nowhere):
        raise SafetensorError("invalid header")


def test_a_tokenizer_is_written_as_its_library_writes_it(tmp_path: Path) -> None:
    tokenizer: Tokenizer = make_tokenizer()
    tokenizer.save(str(tmp_path / "theirs.json"))
    save_tokenizer(tokenizer, tmp_path / "ours.json")
    assert (tmp_path / "ours.json").read_bytes() == (tmp_path / "theirs.json").read_bytes()
    with pytest.raises(FileNotFoundError):
        save_tokenizer(tokenizer, tmp_path / "nowhere" / "ours.json")
