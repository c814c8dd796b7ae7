"""Subword vocabularies to compare phrases with: BPE, Unigram, and the encoder's own WordPiece.

Trained by Hugging Face `tokenizers` on the same normalised texts, to the same size, and used
through the same interface (`IdentifierVocabulary`). BPE works on bytes, with the space
before a word as part of it; Unigram on characters, with bytes for those it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from quoth.errors import ConfigError, MissingExtra
from quoth.vocabulary.phrases.text import normalise
from quoth.vocabulary.phrases.vocabulary import PhraseSequences

if TYPE_CHECKING:
    import tokenizers

_TEXTS_AT_ONCE = 20_000
_UNKNOWN = "<unk>"
_BYTES = [f"<0x{value:02X}>" for value in range(256)]


class IdentifierVocabulary(Protocol):
    """What cuts identifiers into numbered symbols: phrases, or a rival's subwords."""

    def __len__(self) -> int:
        """Count the symbols."""

    def segment(self, texts: Sequence[str]) -> PhraseSequences:
        """Cut texts into symbols."""

    def join(self, ids: Iterable[int]) -> str:
        """Put a text together again."""

    def text_of(self, phrase_id: int) -> str:
        """Return the text of one symbol."""


class RivalVocabulary:
    """A subword tokenizer behind the interface of a phrase vocabulary."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, *, lowercase: bool) -> None:
        self._tokenizer = tokenizer
        self._lowercase = lowercase

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def segment(self, texts: Sequence[str]) -> PhraseSequences:
        """Normalise texts as for phrases and cut them into subwords, none added at either end."""
        found: list[list[int]] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            block = texts[start : start + _TEXTS_AT_ONCE]
            normal = [normalise(text, lowercase=self._lowercase) for text in block]
            encoded = self._tokenizer.encode_batch_fast(normal, add_special_tokens=False)
            found += [each.ids for each in encoded]
        offsets = np.zeros(len(found) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in found], out=offsets[1:])
        every = (subword_id for each in found for subword_id in each)
        return PhraseSequences(np.fromiter(every, np.int32, count=int(offsets[-1])), offsets)

    def join(self, ids: Iterable[int]) -> str:
        """Put a text together again, as well as the tokenizer can."""
        text: str = self._tokenizer.decode([int(each) for each in ids], skip_special_tokens=False)
        return text.removeprefix(" ")

    def text_of(self, phrase_id: int) -> str:
        """Return a subword as the tokenizer writes it."""
        text = self._tokenizer.id_to_token(phrase_id)
        if text is None:
            raise IndexError(f"subword {phrase_id} of {len(self)}")
        return str(text)


def train_bpe(
    texts: Iterable[str], *, size: int, min_count: int = 2, lowercase: bool = True
) -> RivalVocabulary:
    """Train byte-pair encoding."""
    kit = _import_tokenizers()
    tokenizer = kit.Tokenizer(kit.models.BPE())
    tokenizer.pre_tokenizer = kit.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = kit.decoders.ByteLevel()
    trainer = kit.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        show_progress=False,
        initial_alphabet=kit.pre_tokenizers.ByteLevel.alphabet(),
    )
    normal = (normalise(text, lowercase=lowercase) for text in texts)
    tokenizer.train_from_iterator(normal, trainer)
    return RivalVocabulary(tokenizer, lowercase=lowercase)


def train_unigram(texts: Iterable[str], *, size: int, lowercase: bool = True) -> RivalVocabulary:
    """Train a unigram language model of subwords."""
    kit = _import_tokenizers()
    tokenizer = kit.Tokenizer(kit.models.Unigram())
    tokenizer.pre_tokenizer = kit.pre_tokenizers.Metaspace()
    trainer = kit.trainers.UnigramTrainer(
        vocab_size=size, show_progress=False, unk_token=_UNKNOWN, special_tokens=[_UNKNOWN, *_BYTES]
    )
    normal = (normalise(text, lowercase=lowercase) for text in texts)
    tokenizer.train_from_iterator(normal, trainer)
    return RivalVocabulary(_with_byte_fallback(tokenizer), lowercase=lowercase)


def open_wordpiece(path: Path, *, lowercase: bool = True) -> RivalVocabulary:
    """Open the encoder's own tokenizer, from its `tokenizer.json`; it neither pads nor cuts off."""
    kit = _import_tokenizers()
    if not path.is_file():
        raise ConfigError(f"{path} is missing: expected the tokenizer.json of an encoder")
    tokenizer = kit.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return RivalVocabulary(tokenizer, lowercase=lowercase)


def _with_byte_fallback(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Let a trained Unigram model spell characters it does not know as bytes, and undo it."""
    kit = _import_tokenizers()
    content = json.loads(tokenizer.to_str())
    content["model"]["byte_fallback"] = True
    content["added_tokens"] = []  # bytes are subwords of the model, not marks to look for in texts
    changed: tokenizers.Tokenizer = kit.Tokenizer.from_str(json.dumps(content))
    changed.decoder = kit.decoders.Sequence([kit.decoders.ByteFallback(), kit.decoders.Metaspace()])
    return changed


def _import_tokenizers() -> ModuleType:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise MissingExtra(
            'subword vocabularies need tokenizers: pip install "quoth[neural]"'
        ) from error
    return tokenizers
