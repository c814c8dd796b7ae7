"""Score queries by the small query generator, and keep the states that it reads passages by.

One reading of a passage says two things of a query: log p(query | passage), and, since the states
are those of a sentence encoder, how near each subword of the query is to the passage's. Needs
neither torch nor transformers where ONNX Runtime is installed: their loading takes longer than a
search.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.pretrained import find_shipped, load_tokenizer
from quoth.models.processor import has_onnx
from quoth.models.query_generator.heard import Heard, Vectors
from quoth.models.query_generator.saved import KIND, encoder_folder, is_own, read_saved


class ScoresSubwords(Protocol):
    """The network of a scorer."""

    def read(self, passages: Sequence[Sequence[int]], query: Sequence[int]) -> Heard:
        """Read passages, `[CLS] … [SEP]`, for a query that ends with `[SEP]`."""


class QueryScorer:
    """Reads passages for queries, both as texts."""

    def __init__(
        self, network: ScoresSubwords, tokenizer: Tokenizer, *, passage: int, query: int
    ) -> None:
        """Cut passages and queries to so many subwords, special ones included."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._network, self.tokenizer = network, tokenizer
        self._passage, self._query = passage, query
        first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        if first is None or last is None:
            raise ConfigError("the tokenizer has no [CLS] or [SEP]; name an encoder of BERT's kind")
        self._first, self._last = first, last

    def read(self, query: str, passages: Sequence[str]) -> Heard:
        """Return what is read of each passage, title and text joined."""
        encoded = self.tokenizer.encode_batch(list(passages), add_special_tokens=False)
        own = [[self._first, *each.ids[: self._passage - 2], self._last] for each in encoded]
        asked = self.tokenizer.encode(query, add_special_tokens=False).ids
        return self._network.read(own, [*asked[: self._query - 1], self._last])

    def states(self, subword_ids: Sequence[int]) -> Vectors:
        """Return a vector of unit length for each subword of a text, `[CLS] … [SEP]`."""
        return self._network.read([subword_ids], [self._last]).states[0]


def open_scorer(name: str) -> QueryScorer | None:
    """Open a generator to score with; None where it is of another kind, or not installed."""
    folder = Path(name) if Path(name).is_dir() else _find(name)
    if folder is None or not is_own(folder):
        return None
    saved = read_saved(folder)
    base = encoder_folder(folder, saved)
    sizes = saved.config.max_passage_subwords, saved.config.max_query_subwords
    network = _open(name, folder, base)
    if network is None:
        return None
    return QueryScorer(network, load_tokenizer(base), passage=sizes[0], query=sizes[1])


def _open(name: str, folder: Path, base: Path) -> ScoresSubwords | None:
    if has_onnx():
        from quoth.models.query_generator.onnx_scorer import open_onnx_scorer

        return open_onnx_scorer(folder, base)
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.models.query_generator.torch_scorer import TorchScorer

    return TorchScorer(QueryGenerator.load(name))


def _find(name: str) -> Path | None:
    with contextlib.suppress(ConfigError):
        return find_shipped(name) if name == KIND else None
    return None
