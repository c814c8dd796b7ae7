"""What travels to a machine without a network is one archive in pieces."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from benchmarks.offline import write_pieces


def test_pieces_join_to_the_folders(tmp_path: Path) -> None:
    source, content = tmp_path / "source", np.random.default_rng(0).bytes(5_000)
    (source / "__pycache__").mkdir(parents=True)
    (source / "weights").write_bytes(content)
    (source / "__pycache__" / "kept").write_bytes(content)
    pieces = write_pieces({"packages/own": source}, tmp_path / "out", size=2_000)
    assert pieces == sorted((tmp_path / "out").iterdir())
    assert len(pieces) > 1 and all(piece.stat().st_size <= 2_000 for piece in pieces)
    whole = b"".join(piece.read_bytes() for piece in pieces)
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    assert (tmp_path / "there" / "packages" / "own" / "weights").read_bytes() == content
    assert not (tmp_path / "there" / "packages" / "own" / "__pycache__").exists()
