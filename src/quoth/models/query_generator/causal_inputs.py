"""Texts for a causal query generator: the passage, what stands after it, and the query.

Text is text: `<|im_end|>` in a passage is read as those characters. White space becomes single
spaces, and a query begins with one, as words within a text do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.inputs import plain_reader
from quoth.models.pretrained import load_tokenizer
from quoth.models.query_generator.config import CausalGeneratorConfig
from quoth.models.query_generator.inputs import QueryGeneratorInputs, Symbols


class CausalInputs(QueryGeneratorInputs):
    """Turns passages and queries into subwords of a language model, and those into queries."""

    def __init__(
        self, tokenizer: Tokenizer, config: CausalGeneratorConfig, symbols: Symbols
    ) -> None:
        super().__init__(plain_reader(tokenizer), config, symbols)
        separator = self._tokenise([config.separator])[0]
        self._lower_case = config.lower_case
        self._closing, self.prefix = separator[:-1], tuple(separator[-1:])
        self._room = config.max_passage_subwords - len(symbols.opening) - len(self._closing)
        if self._room < 1:
            raise ConfigError(
                f"max_passage_subwords is {config.max_passage_subwords}, which leaves no room for a"
                f" passage beside {config.separator!r}; raise it"
            )

    def passages(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise passages, cut to `max_passage_subwords`; `prefix` is to follow."""
        found = self._tokenise([" ".join(text.split()) for text in texts])
        return [[*self.symbols.opening, *ids[: self._room], *self._closing] for ids in found]

    def queries(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise queries as targets, cut to `max_query_subwords`."""
        spaced = [f" {' '.join(text.split())}" for text in texts]
        return super().queries([text.lower() if self._lower_case else text for text in spaced])

    def texts(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Write subwords as text; halves of characters are left out."""
        found = [text.replace("\ufffd", "").strip() for text in super().texts(sequences)]
        return [text.lower() for text in found] if self._lower_case else found


def load_causal_inputs(base: Path, config: CausalGeneratorConfig) -> CausalInputs:
    """Load the tokenizer of a language model, and its symbols from `config.json`."""
    content = json.loads((base / "config.json").read_text(encoding="utf-8"))
    tokenizer = load_tokenizer(base)
    return CausalInputs(tokenizer, config, _find_symbols(tokenizer, content, base))


def _find_symbols(tokenizer: Tokenizer, content: dict[str, Any], base: Path) -> Symbols:
    opening, end, pad = (_first(content.get(f"{name}_token_id")) for name in ("bos", "eos", "pad"))
    if end is None:
        raise ConfigError(
            f"{base / 'config.json'} has no eos_token_id, so queries would never end;"
            " name another language model"
        )
    special = {at for at, each in tokenizer.get_added_tokens_decoder().items() if each.special}
    return Symbols(
        opening=() if opening is None else (opening,),
        end=end,
        pad=end if pad is None else pad,
        banned=tuple(sorted(special - {end})),
        continuing=(),
    )


def _first(value: Any) -> int | None:
    """Take the first of several symbols that do the same."""
    found = value[0] if isinstance(value, list) else value
    return None if found is None else int(found)
