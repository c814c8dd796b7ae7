"""Text to tensors, the one way, for training and search alike: subwords, fields and word weights.

Weights belong to words, as the analyser finds them; every subword that lies in a word shares its
weight, unknown ones included (GLOW's whole-word sharing, without its trouble with [UNK]). What
exceeds a cap is cut and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from quoth.errors import ConfigError
from quoth.models.glow.config import NUM_FIELDS, GlowConfig
from quoth.models.glow.weights import CountedWords, WordCounts, WordWeights, spread
from quoth.text.words import Analyser, Word

if TYPE_CHECKING:
    from quoth.models.glow.network import TokenBatch

Fields = Mapping[str, Sequence[str]]
"""The texts of one document or passage, by field."""

_URL_SEPARATORS = re.compile(r"[/:?&=._\-%#+]+")
_SPECIAL = (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[PAD]", "<pad>"))
_WORD_MARKS = "▁Ġ"  # before subwords that begin a word, in vocabularies of SentencePiece and BPE


@dataclass(frozen=True, slots=True)
class SubwordSequence:
    """One sequence before padding, and how many subwords of the text found no room."""

    subword_ids: list[int]
    weights: list[float]
    field_ids: list[int]
    num_cut: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A tokenised field: its subwords and the word each lies in (−1 for none), and the words."""

    field: str
    subword_ids: list[int]
    word_of: list[int]
    terms: list[str]

    def cut(self, cap: int) -> _Piece:
        return _Piece(self.field, self.subword_ids[:cap], self.word_of[:cap], self.terms)


@dataclass(frozen=True, slots=True)
class SurfaceWords:
    """The words of a sequence as they are written, and which of them each subword lies in."""

    words: tuple[str, ...]
    word_of: tuple[int, ...]  # (T,), -1 for special subwords


class GlowInputs:
    """Turns queries and fielded documents into token batches."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        config: GlowConfig,
        *,
        analyser: Analyser | None,
        subword_counts: WordCounts | None = None,
    ) -> None:
        """Use a tokenizer; the analyser finds the words that weighted attention needs.

        Counts that bring the analyser of their collection (`CountedWords`) go by that one.
        Where weights go by subwords, their own counts take the place of a collection's words.
        """
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._config = config
        self._analyser = analyser
        self._subword_counts = subword_counts if config.statistics == "subwords" else None
        self._cls, self._sep, self._pad = (_special_id(tokenizer, names) for names in _SPECIAL)

    def has_word(self, word: str) -> bool:
        """Whether a lower-case word is one subword of the vocabulary."""
        found = self._tokenizer.encode(word, add_special_tokens=False).tokens
        return len(found) == 1 and found[0].lstrip(_WORD_MARKS) == word

    def queries(self, texts: Sequence[str], counts: WordCounts | None) -> list[SubwordSequence]:
        """Tokenise queries; `counts` are needed where attention is weighted."""
        cap = self._config.max_query_subwords - 2
        weights = self._word_weights(counts)
        sequences = []
        for piece in self._tokenise([("query", text) for text in texts], counts):
            found: list[float] | None = None
            kept = piece.cut(cap)
            if weights is not None:
                words = Counter(piece.terms)
                table = {("query", term): each for term, each in weights.query(words).items()}
                unknown = weights.unknown_in_query(words) if self._weighs_special else 1.0
                found = self._finish([kept], table, unknown=unknown)
            sequences.append(self._assemble([kept], found, num_whole=len(piece.subword_ids)))
        return sequences

    def documents(
        self, documents: Sequence[Fields], counts: WordCounts | None
    ) -> list[SubwordSequence]:
        """Tokenise documents, field by field in the configured order."""
        weights = self._word_weights(counts)
        texts = [self._texts(fields) for fields in documents]
        pieces = iter(self._tokenise([each for own in texts for each in own], counts))
        sequences = []
        for own in texts:
            whole = [next(pieces) for _ in own]
            kept = self._fit(whole)
            found: list[float] | None = None
            if weights is not None:
                words = [(piece.field, Counter(piece.terms)) for piece in whole]
                unknown = weights.unknown_in_document(words) if self._weighs_special else 1.0
                found = self._finish(kept, weights.document(words), unknown=unknown)
            num_whole = sum(len(piece.subword_ids) for piece in whole)
            sequences.append(self._assemble(kept, found, num_whole=num_whole))
        return sequences

    def query_words(self, text: str) -> SurfaceWords:
        """Find the written word of each subword of a query."""
        return self._surface([("query", text)], caps=[self._config.max_query_subwords - 2])

    def document_words(self, fields: Fields) -> SurfaceWords:
        """Find the written word of each subword of a document."""
        texts = self._texts(fields)
        kept = self._fit(list(self._tokenise(texts, None)))
        return self._surface(texts, caps=[len(piece.subword_ids) for piece in kept])

    def pad(self, sequences: Sequence[SubwordSequence]) -> TokenBatch:
        """Pad sequences to the longest of them."""
        from quoth.models.glow.network import TokenBatch  # torch, which not everybody needs

        size = (len(sequences), max(len(each.subword_ids) for each in sequences))
        ids = np.full(size, self._pad, dtype=np.int64)
        mask = np.zeros(size, dtype=bool)
        weights = np.ones(size, dtype=np.float32)
        field_ids = np.zeros(size, dtype=np.int64)
        for row, each in enumerate(sequences):
            length = len(each.subword_ids)
            ids[row, :length] = each.subword_ids
            mask[row, :length] = True
            weights[row, :length] = each.weights
            field_ids[row, :length] = each.field_ids
        return TokenBatch.of(ids, mask, weights, field_ids)

    @property
    def pad_id(self) -> int:
        """The subword that fills up sequences; RoBERTa counts positions by it."""
        return self._pad

    def _word_weights(self, counts: WordCounts | None) -> WordWeights | None:
        if self._config.weighting == "none":
            return None
        counts = self._subword_counts or counts
        if counts is None or self._analyser is None:
            raise ConfigError("weighted attention needs an analyser and word statistics")
        return WordWeights(self._config, counts)

    def _texts(self, fields: Fields) -> list[tuple[str, str]]:
        """List the texts of a document in the configured order, empty where a field is missing."""
        limit = self._config.max_instances
        names = self._config.fields
        if fields and not any(name in fields for name in names):
            # Nothing that is usually encoded: better all than nothing, as far as there is room.
            names = tuple(fields)[: self._config.max_subwords // 2]
        found = [
            (name, " ".join(_readable(name, text) for text in list(fields.get(name, ()))[:limit]))
            for name in names
        ]
        if self._config.layout == "joined":
            return [(names[-1], " ".join(text for _name, text in found if text))]
        return found

    def _tokenise(
        self, texts: Sequence[tuple[str, str]], counts: WordCounts | None
    ) -> Iterator[_Piece]:
        plain = [text for _field, text in texts]
        encodings = self._tokenizer.encode_batch(plain, add_special_tokens=False)
        for (field, text), encoding in zip(texts, encodings, strict=True):
            if self._config.weighting == "none":
                yield _Piece(field, encoding.ids, [], [])
            elif self._config.statistics == "subwords":
                yield _Piece(field, encoding.ids, list(range(len(encoding.ids))), encoding.tokens)
            else:
                analyser = counts.analyser if isinstance(counts, CountedWords) else self._analyser
                assert analyser is not None
                words = list(analyser.words(text))
                word_of = _align(words, encoding.offsets)
                yield _Piece(field, encoding.ids, word_of, [word.term for word in words])

    def _surface(self, texts: Sequence[tuple[str, str]], *, caps: Sequence[int]) -> SurfaceWords:
        """Join subwords by the tokenizer's word numbers, laid out as `_assemble` lays them out."""
        words: list[str] = []
        word_of = [-1]
        plain = [text for _field, text in texts]
        encodings = self._tokenizer.encode_batch(plain, add_special_tokens=False)
        for text, encoding, cap in zip(plain, encodings, caps, strict=True):
            span_by_number: dict[int | None, tuple[int, int]] = {None: (0, 0)}
            for number, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
                first, _last = span_by_number.setdefault(number, (start, end))
                span_by_number[number] = (first, end)
            kept = encoding.word_ids[:cap]
            place_by_number = {
                number: len(words) + at for at, number in enumerate(dict.fromkeys(kept))
            }
            words += [text[slice(*span_by_number[number])].strip() for number in place_by_number]
            word_of += [*(place_by_number[number] for number in kept), -1]
        return SurfaceWords(tuple(words), tuple(word_of))

    def _fit(self, pieces: list[_Piece]) -> list[_Piece]:
        """Cut each field to its cap; together they leave room for the special subwords."""
        room = self._config.max_subwords - 1 - len(pieces)
        kept = []
        for piece in pieces:
            kept.append(piece.cut(min(room, self._config.field_caps.get(piece.field, room))))
            room -= len(kept[-1].subword_ids)
        return kept

    def _finish(
        self, kept: Sequence[_Piece], table: Mapping[tuple[str, str], float], *, unknown: float
    ) -> list[float]:
        """Give every subword the weight of its word, special ones what the policy says."""
        own: list[float | None] = [None]
        for piece in kept:
            for word in piece.word_of:
                own.append(table.get((piece.field, piece.terms[word])) if word >= 0 else None)
            own.append(None)
        return spread(own, self._config, unknown=unknown)

    def _assemble(
        self, kept: Sequence[_Piece], weights: list[float] | None, *, num_whole: int
    ) -> SubwordSequence:
        ids, field_ids = [self._cls], [0]
        for at, piece in enumerate(kept):
            ids += [*piece.subword_ids, self._sep]
            field_ids += [self._field_id(at)] * (len(piece.subword_ids) + 1)
        num_cut = num_whole - sum(len(piece.subword_ids) for piece in kept)
        return SubwordSequence(ids, weights or [1.0] * len(ids), field_ids, num_cut)

    @property
    def _weighs_special(self) -> bool:
        return self._config.special_weight == "unknown"

    def _field_id(self, at: int) -> int:
        if self._config.layout == "joined" or self._config.field_embeddings == "one":
            return 0
        return min(at, NUM_FIELDS - 1)


def _align(words: Sequence[Word], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Find the word that each subword lies in, −1 where in none.

    >>> _align([Word("owl", 0, 4), Word("hen", 5, 8)], [(0, 2), (2, 4), (4, 5), (5, 8)])
    [0, 0, -1, 1]
    """
    word_of, at = [], 0
    for start, end in offsets:
        while at < len(words) and words[at].end <= start:
            at += 1
        inside = at < len(words) and words[at].start < end
        word_of.append(at if inside else -1)
    return word_of


def _readable(name: str, text: str) -> str:
    """Split an address into its words; leave other text alone.

    >>> _readable("url", "https://a.org/barn-owls?page=2")
    'https a org barn owls page 2'
    """
    return _URL_SEPARATORS.sub(" ", text).strip() if name == "url" else text


def _special_id(tokenizer: Any, names: Sequence[str]) -> int:
    for name in names:
        found = tokenizer.token_to_id(name)
        if found is not None:
            return int(found)
    raise ConfigError(f"the tokenizer has none of {', '.join(names)}: it is not of the BERT kind")
