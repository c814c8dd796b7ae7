"""BERT to read with, not to train: subwords in, states out, without loading transformers.

Loading torch or transformers takes longer than a search. ONNX Runtime reads where it is installed,
torch elsewhere; both give the same numbers in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quoth.models.bert_files import BertShape
from quoth.models.tensor_files import Floats

Ids = NDArray[np.int64]


class ReadsBert(Protocol):
    """The transformer without its pooler."""

    shape: BertShape

    def states(
        self,
        subword_ids: Ids,
        lengths: Ids,
        field_ids: Ids | None = None,
        *,
        first: int | None = None,
    ) -> Floats:  # (B, T), (B,) -> (B, T, D)
        """Read sequences of these lengths; what fills them up may be any subword.

        Without `field_ids`, everything is of the first kind. Only the states of the `first`
        subwords are returned (None: all), which spares most of the last layer.
        """


def open_bert(tensors: Mapping[str, Floats], shape: BertShape, *, quick: bool = False) -> ReadsBert:
    """Return what reads by these tensors; `quick` allows int8 where that is quicker."""
    try:
        from quoth.models.onnx_bert import OnnxBert
    except ImportError:
        from quoth.models.torch_bert import TorchBert

        return TorchBert(tensors, shape)
    return OnnxBert(tensors, shape, quick=quick)


def pad(sequences: Sequence[Sequence[int] | Ids]) -> tuple[Ids, Ids]:  # (B, T), (B,)
    """Fill sequences up to the longest of them; returns how long each was, too.

    >>> [each.tolist() for each in pad([[5, 6], [7]])]
    [[[5, 6], [7, 0]], [2, 1]]
    """
    lengths = np.array([len(each) for each in sequences], np.int64)
    filled = np.zeros((len(sequences), int(lengths.max())), np.int64)
    for row, each in enumerate(sequences):
        filled[row, : len(each)] = each
    return filled, lengths
