"""Texts to subwords and back, the one way, for training, writing and scoring alike.

A passage is one string (the caller joins title and text); it is read as the encoder was trained to
read, `[CLS] passage [SEP]` or its like. A query is a target: its subwords and the end symbol, cut
so that the end symbol is always there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.query_generator.config import CausalGeneratorConfig, QueryGeneratorConfig
from quoth.models.query_generator.network import TextBatch

_UNKNOWN = ("[UNK]", "<unk>")
_OTHER = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<s>", "</s>", "<mask>")


@dataclass(frozen=True, slots=True)
class Symbols:
    """The subwords that are no text, in one tokenizer."""

    opening: tuple[int, ...]
    """What stands before a passage."""

    end: int
    """What ends a passage and a query."""

    pad: int
    """What fills up a batch; never read."""

    banned: tuple[int, ...]
    """What a query never holds: everything special but the end."""

    continuing: tuple[int, ...]
    """What cannot begin a query: pieces that continue a word."""


class QueryGeneratorInputs:
    """Turns passages and queries into padded subwords, and subwords into queries."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        config: QueryGeneratorConfig | CausalGeneratorConfig,
        symbols: Symbols | None = None,
    ) -> None:
        """Read with a tokenizer; its symbols are looked for where they are not given."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.symbols = symbols or find_symbols(tokenizer)
        self._config = config

    def passages(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise passages, cut to `max_passage_subwords`."""
        opening, end = list(self.symbols.opening), self.symbols.end
        room = self._config.max_passage_subwords - len(opening) - 1
        return [[*opening, *ids[:room], end] for ids in self._tokenise(texts)]

    def queries(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise queries as targets, cut to `max_query_subwords`."""
        room = self._config.max_query_subwords - 1
        return [[*ids[:room], self.symbols.end] for ids in self._tokenise(texts)]

    def pad(self, sequences: Sequence[Sequence[int]]) -> TextBatch:
        """Pad sequences to the longest of them."""
        size = (len(sequences), max(map(len, sequences)))
        ids = np.full(size, self.symbols.pad, dtype=np.int64)
        mask = np.zeros(size, dtype=bool)
        for row, each in enumerate(sequences):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = True
        return TextBatch(torch.from_numpy(ids), torch.from_numpy(mask))

    def texts(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Write subwords as text, special ones left out and white space tidied."""
        special = {*self.symbols.banned, self.symbols.end}
        found = self.tokenizer.decode_batch(
            [[each for each in own if each not in special] for own in sequences]
        )
        return [" ".join(text.split()) for text in found]

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]


def find_symbols(tokenizer: Tokenizer) -> Symbols:
    """Find the special subwords of a tokenizer of the BERT, BART or T5 kind."""
    vocabulary = tokenizer.get_vocab()
    kinds = (("[CLS]", "[SEP]", "[PAD]"), ("<s>", "</s>", "<pad>"), ("", "</s>", "<pad>"))
    for opening, end, pad in kinds:
        if end in vocabulary and pad in vocabulary and (not opening or opening in vocabulary):
            break
    else:
        raise ConfigError(
            "the tokenizer has neither [CLS], [SEP], [PAD] nor </s>, <pad>: it is not of the"
            " BERT, BART or T5 kind; name another model"
        )
    special = {*_UNKNOWN, *_OTHER, *_added_special(tokenizer)} - {end}
    continues = "##" if end == "[SEP]" else None
    return Symbols(
        opening=(vocabulary[opening],) if opening else (),
        end=vocabulary[end],
        pad=vocabulary[pad],
        banned=tuple(sorted(vocabulary[each] for each in special if each in vocabulary)),
        continuing=tuple(
            sorted(at for each, at in vocabulary.items() if continues and each[:2] == continues)
        ),
    )


def _added_special(tokenizer: Tokenizer) -> set[str]:
    """List what the tokenizer itself calls special (T5's <extra_id_…>), and BERT's unused rows."""
    added = {each.content for each in tokenizer.get_added_tokens_decoder().values() if each.special}
    return added | {each for each in tokenizer.get_vocab() if each.startswith("[unused")}
