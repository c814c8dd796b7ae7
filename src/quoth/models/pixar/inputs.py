"""Queries to subwords, the one way, for training and search alike: [CLS] query [SEP]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.network import QueryBatch

_KINDS = (("[CLS]", "[SEP]", "[PAD]", "[MASK]"), ("<s>", "</s>", "<pad>", "<mask>"))


class PixarInputs:
    """Turns queries into padded subwords, as the encoder was trained to read."""

    def __init__(self, tokenizer: Tokenizer, config: PixarConfig) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        for kind in _KINDS:
            if all(symbol in vocabulary for symbol in kind):
                self._opening, self._end, self.pad_id, self.mask_id = (vocabulary[s] for s in kind)
                break
        else:
            raise ConfigError(
                "the tokenizer has neither [CLS], [SEP], [PAD], [MASK] nor <s>, </s>, <pad>,"
                " <mask>: name an encoder of the BERT kind"
            )
        self._room = config.max_query_subwords - 2

    def queries(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise queries, cut to `max_query_subwords`."""
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[self._opening, *each.ids[: self._room], self._end] for each in encodings]

    def pad(self, sequences: Sequence[Sequence[int]]) -> QueryBatch:
        """Pad sequences to the longest of them."""
        size = (len(sequences), max(map(len, sequences)))
        ids = np.full(size, self.pad_id, dtype=np.int64)
        mask = np.zeros(size, dtype=bool)
        for row, each in enumerate(sequences):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = True
        return QueryBatch(torch.from_numpy(ids), torch.from_numpy(mask))
