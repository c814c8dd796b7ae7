"""Texts to subwords and back, the one way, for training, encoding phrases and answering alike.

Text is text: where a passage or a question writes `<|im_end|>` it is read as those characters, not
as the special subword; only templates put special subwords down. Spans of subwords are characters
of the text and keep the space that a subword begins with, so that a phrase cut out by them is
encoded with the very subwords it has in its context.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.pretrained import load_tokenizer

_OPENINGS = ("<s>", "<|begin_of_text|>")
_CHAT = ("<|im_start|>", "<|im_end|>")
_ENDS = ("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>", "<|end_of_text|>", "<eos>")
_TASK = "Answer the question in the words of the passages."


class TokenisedText(NamedTuple):
    """A text in subwords; subword i is text[starts[i] : ends[i]], its leading space included."""

    subword_ids: list[int]
    starts: list[int]
    ends: list[int]


class PaddedTokens(NamedTuple):
    """Sequences of tokens as one batch."""

    ids: Tensor  # (B, T) int64
    mask: Tensor  # (B, T) bool, True where there is a token


class DynamicLMInputs:
    """Turns texts into subwords, questions and passages into prompts, and subwords into text."""

    def __init__(
        self, tokenizer: Tokenizer, config: DynamicLMConfig, *, max_positions: int
    ) -> None:
        """`max_positions` is what the model can read; a prompt takes three quarters at most."""
        self.tokenizer = plain_reader(tokenizer)
        self.max_prompt_subwords = min(config.max_prompt_subwords, 3 * max_positions // 4)
        self._template = config.template
        special = _special(tokenizer)
        self.special_ids = frozenset(special.values())
        self.opening = tuple(special[each] for each in _OPENINGS if each in special)[:1]
        self.end_ids = tuple(special[each] for each in _ENDS if each in special)
        self._chat = tuple(special[each] for each in _CHAT if each in special)
        if config.template == "chat" and len(self._chat) < len(_CHAT):
            raise ConfigError(
                f"the tokenizer has no {' and '.join(_CHAT)}, which the chat template is written"
                " with; set template to plain"
            )
        if not self.end_ids:
            raise ConfigError(
                f"the tokenizer has none of the subwords that end a text ({', '.join(_ENDS)});"
                " name another language model"
            )

    @property
    def end_id(self) -> int:
        """The subword that ends an answer; generation stops at any of `end_ids`."""
        return self._chat[1] if self._template == "chat" else self.end_ids[-1]

    def tokenise(self, text: str) -> TokenisedText:
        """Tokenise one text."""
        return self.tokenise_all([text])[0]

    def tokenise_all(self, texts: Sequence[str]) -> list[TokenisedText]:
        """Tokenise texts, with the characters that each subword covers."""
        found = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            TokenisedText(each.ids, [start for start, _end in offsets], [end for _, end in offsets])
            for each in found
            for offsets in (each.offsets,)
        ]

    def mark(self, subword_ids: Sequence[int], *, passage: int) -> list[int]:
        """Append a passage's marker to a phrase: the subwords of `[2]` for the second, row 1."""
        return [*subword_ids, *self._ids(f"[{passage + 1}]")]

    def prompt(self, question: str, passages: Sequence[str]) -> list[int]:
        """Write the prompt: passages numbered from [1], the question, and room for an answer.

        What is too long is cut: the question to a quarter of the room, then passages evenly.
        """
        head, tail = self._frame()
        asked = self._ids(f"Question: {question}")[: self.max_prompt_subwords // 4]
        task = self._ids(f"{_TASK}\n\n")
        room = self.max_prompt_subwords - sum(map(len, (head, task, asked, tail)))
        ends = self._ids("\n\n")
        numbered = [self._ids(f"[{at}] {text}") for at, text in enumerate(passages, start=1)]
        lengths = share_room([len(each) + len(ends) for each in numbered], room=room)
        body = [
            token
            for ids, length in zip(numbered, lengths, strict=True)
            if length > len(ends)
            for token in (*ids[: length - len(ends)], *ends)
        ]
        return [*head, *task, *body, *asked, *tail]

    def text(self, subword_ids: Sequence[int]) -> str:
        """Write subwords as text, special ones left out."""
        plain = [each for each in subword_ids if each not in self.special_ids]
        return str(self.tokenizer.decode(plain, skip_special_tokens=False))

    def pad(self, sequences: Sequence[Sequence[int]], *, side: str = "right") -> PaddedTokens:
        """Pad sequences of tokens to the longest of them, on the left to write on from them."""
        size = (len(sequences), max(map(len, sequences), default=0))
        ids, mask = np.full(size, self.end_ids[-1], dtype=np.int64), np.zeros(size, dtype=bool)
        for row, each in enumerate(sequences):
            place = slice(size[1] - len(each), None) if side == "left" else slice(len(each))
            ids[row, place] = each
            mask[row, place] = True
        return PaddedTokens(torch.from_numpy(ids), torch.from_numpy(mask))

    def _frame(self) -> tuple[list[int], list[int]]:
        """Return what stands before and after the text of a prompt."""
        if self._template == "plain":
            return list(self.opening), self._ids("\nAnswer:")
        start, end = self._chat
        before = [*self.opening, start, *self._ids("user\n")]
        return before, [end, *self._ids("\n"), start, *self._ids("assistant\n")]

    def _ids(self, text: str) -> list[int]:
        return self.tokenise(text).subword_ids


def share_room(lengths: Sequence[int], *, room: int) -> list[int]:
    """Cut lengths so that they fit: none is cut while a longer one is left.

    >>> share_room([2, 9, 5], room=10), share_room([2, 3], room=10), share_room([4, 4], room=-1)
    ([2, 4, 4], [2, 3], [0, 0])
    """
    left, shares = max(room, 0), [0] * len(lengths)
    shortest_first = sorted(range(len(lengths)), key=lambda at: (lengths[at], at))
    for done, at in enumerate(shortest_first):
        shares[at] = min(lengths[at], left // (len(lengths) - done))
        left -= shares[at]
    return shares


def _special(tokenizer: Tokenizer) -> dict[str, int]:
    added = tokenizer.get_added_tokens_decoder()
    return {each.content: number for number, each in added.items() if each.special}


def load_plain_tokenizer(folder: Path) -> Tokenizer:
    """Load a tokenizer that reads all text as text and gives whole offsets."""
    tokenizer = load_tokenizer(folder)
    _make_plain(tokenizer)
    return tokenizer


def plain_reader(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a tokenizer to read plainly; one that does is taken as it is, since copying is slow."""
    changes = (tokenizer.padding, tokenizer.truncation, tokenizer.post_processor)
    if tokenizer.encode_special_tokens and not any(each is not None for each in changes):
        return tokenizer
    plain = Tokenizer.from_str(tokenizer.to_str())
    _make_plain(plain)
    return plain


def _make_plain(tokenizer: Tokenizer) -> None:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # which means: as text
    tokenizer.post_processor = None  # it would cut leading spaces off the spans
