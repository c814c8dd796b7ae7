"""A tiny random reader: its network, its inputs, and a folder that it is saved in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from tiny_encoder import save_tiny_encoder

from quoth.models.bert_files import BertShape, read_shape
from quoth.models.pretrained import EncoderSource, digest_weights, load_encoder, load_tokenizer
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import own_tensors, save_reader
from quoth.models.reader.inputs import ReaderInputs
from quoth.models.reader.network import ReaderNetwork

CONFIG = ReaderConfig(
    max_subwords=60, max_question_subwords=12, max_title_subwords=8, overlap_subwords=8
)


@dataclass(frozen=True)
class TinyReader:
    """A reader's parts."""

    network: ReaderNetwork
    inputs: ReaderInputs
    base: Path
    folder: Path
    shape: BertShape

    def save(self, folder: Path, *, dtype: str = "fp32") -> Path:
        """Write it into a folder."""
        encoder = EncoderSource(str(self.base), digest_weights(self.base))
        tensors = own_tensors(self.network, self.shape)
        save_reader(folder, tensors, CONFIG, encoder=encoder, dtype=dtype)
        return folder


def make_reader(scratch: Path, *, seed: int = 0) -> TinyReader:
    """Make a reader at random, and save it."""
    base = save_tiny_encoder(scratch / "base", seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = ReaderNetwork(load_encoder(base)).eval()
    shape = read_shape(base)
    assert shape is not None
    inputs = ReaderInputs(load_tokenizer(base), CONFIG)
    tiny = TinyReader(network, inputs, base, scratch / "reader", shape)
    tiny.save(tiny.folder)
    return tiny
