"""Normalise, split, stem: the Analyser, the one way from text to terms.

A word is a run of letters and digits with the marks that belong to them; an apostrophe between
letters stays inside it, an underscore does not. Text written without spaces (Han, Kana, Thai, Lao,
Khmer, Myanmar) is cut into overlapping pairs of characters. A term is the word in compatibility
form, case-folded, stemmed by Snowball, and stripped of Latin, Greek and Cyrillic accents. Where
compounds are split, the parts of a word follow it. Queries and documents take the same way.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, compress
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from quoth.compiled import is_compiled
from quoth.constraints import CheckedConfig, Names
from quoth.text.compounds import CompoundSplitter

if TYPE_CHECKING:
    from quoth.native import Words

_MAX_TERM_LENGTH = 100
_MAX_CACHED_WORDS = 300_000  # some 45 MB
_ACCENTS = re.compile("[\u0300-\u036f]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*")
_LOOSE_APOSTROPHE = re.compile(r"'(?:(?![A-Za-z0-9])|(?<![A-Za-z0-9]'))")
_LONGEST_CHUNK = 60  # characters; longer ones hardly come again
_LOWERED = bytes(
    byte if chr(byte).isalnum() or byte == ord("'") else ord(" ") for byte in range(128)
).lower() + bytes(range(128, 256))
_EUROPEAN_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_BEYOND_EUROPEAN = re.compile("[\u0300-\u1dff\u2c00-\U0010ffff]")  # marks, or no spaces
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3005\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


class _Language:
    """Accepts what the stemmers know; they are asked only for other languages than English."""

    @property
    def expected(self) -> str:
        return f"one of {', '.join(languages())}"

    def accepts(self, value: str) -> bool:
        return value == "english" or value in languages()


@dataclass(frozen=True, slots=True)
class AnalyserConfig(CheckedConfig, title="analyser"):
    """Settings of the analyser; an index carries them, so nobody can search with others."""

    language: Annotated[str, _Language()] = "english"
    """Snowball stemmer: english, german, french, …, or none for no stemming."""

    fold_accents: bool = True
    """Match words with and without accents (café, cafe)."""

    compounds: Names = ()
    """Words to split compounds into: with haus and tür, Haustür matches Tür."""


class Word(NamedTuple):
    """A term and where the word it comes from stands in the text."""

    term: str
    start: int
    end: int


PlacedTerm = tuple[int, int, str]
"""Start and end of a word, and its term; unlike `Word`, it costs next to nothing to make."""


class Analyser:
    """Turns text into terms, with or without their places."""

    def __init__(self, config: AnalyserConfig) -> None:
        self.config = config
        self._cache = _shared_cache(config)
        self._chunks = _shared_chunks(config)
        self._plain = _shared_words(config)
        self._splitter = _shared_splitter(config) if config.compounds else None

    def terms(self, text: str) -> list[str]:
        """List the terms of a text in order.

        >>> Analyser(AnalyserConfig()).terms("The Café's waiters, waiting_for 3 orders")
        ['the', 'cafe', 'waiter', 'wait', 'for', '3', 'order']
        """
        if self._splitter is not None:
            return [word.term for word in self.words(text)]
        return self.whole_terms(text)

    def whole_terms(self, text: str) -> list[str]:
        """List the terms of a text in order, without the parts of compounds."""
        if text.isascii():
            if self._plain is not None:
                return self._plain.terms(text)
            return list(map(self._cache.__getitem__, _split_ascii(text)))
        pattern, is_full = _pattern_for(text)
        if not is_full:
            return list(chain.from_iterable(map(self._chunks.__getitem__, _lower(text).split())))
        if _unspaced_pattern().search(text):
            return [word.term for word in self._whole_words(text)]
        return list(map(self._cache.__getitem__, pattern.findall(text)))

    def words(self, text: str) -> Iterator[Word]:
        """Yield each term with the span of its word: the same terms in the same order as `terms`.

        >>> list(Analyser(AnalyserConfig()).words("東京へ go"))  # doctest: +NORMALIZE_WHITESPACE
        [Word(term='東京', start=0, end=2), Word(term='京へ', start=1, end=3),
         Word(term='go', start=4, end=6)]
        >>> german = AnalyserConfig("german", compounds=("haus", "tür"))
        >>> [(word.term, word.start) for word in Analyser(german).words("die Haustür")]
        [('die', 0), ('haustur', 4), ('haus', 4), ('tur', 8)]
        """
        for word in self._whole_words(text):
            yield word
            if self._splitter is not None:
                for start, end in self._splitter.split(text[word.start : word.end]):
                    first, last = word.start + start, word.start + end
                    yield Word(self._cache[text[first:last]], first, last)

    def chunk_terms(self, chunk: str, is_full: bool, /) -> list[str]:
        """List the terms of a stretch that no word goes beyond, by the full or European pattern.

        >>> Analyser(AnalyserConfig()).chunk_terms("l’œuvre", False)
        ["l'œuvr"]
        """
        if is_full:
            return [word.term for word in self._match_words(chunk, _full_pattern(), is_full)]
        return list(map(self._cache.__getitem__, _EUROPEAN_WORD.findall(chunk)))

    def word_terms(self, words: list[str], /) -> list[str]:
        """List the terms of plain words in lower case, for who remembers them.

        >>> Analyser(AnalyserConfig()).word_terms(["owls", "hunting"])
        ['owl', 'hunt']
        """
        return self._cache.plain_terms(words)

    def _whole_words(self, text: str) -> Iterator[Word]:
        return self._match_words(text, *_pattern_for(text))

    def _match_words(self, text: str, pattern: re.Pattern[str], is_full: bool) -> Iterator[Word]:
        cache = self._cache
        is_unspaced: Callable[[str], object] = _unspaced_pattern().match if is_full else _never
        for match in pattern.finditer(text):
            start, end = match.span()
            if is_unspaced(match[0]):
                for at in range(start, max(start + 1, end - 1)):
                    yield Word(cache[text[at : at + 2][: end - at]], at, min(at + 2, end))
            else:
                yield Word(cache[match[0]], start, end)

    def is_spaced(self, text: str) -> bool:
        """Whether white space always parts the words of a text, so that it can be cut there."""
        return not _pattern_for(text)[1]

    def find(self, text: str, wanted: Collection[str]) -> list[Word]:
        """List the words of a text whose terms are wanted.

        >>> Analyser(AnalyserConfig()).find("An owl hunts owls", {"owl"})
        [Word(term='owl', start=3, end=6), Word(term='owl', start=13, end=17)]
        """
        return [Word(term, start, end) for start, end, term in self.place(text, wanted)]

    def place(self, text: str, wanted: Collection[str]) -> list[PlacedTerm]:
        """List what `find` does as plain tuples.

        >>> Analyser(AnalyserConfig()).place("An owl hunts owls", {"owl"})
        [(3, 6, 'owl'), (13, 17, 'owl')]
        """
        if self._splitter is None and text.isascii():
            return self._place_ascii(text, wanted)
        if self._splitter is not None or not self.is_spaced(text):
            return [(start, end, term) for term, start, end in self.words(text) if term in wanted]
        return self._place_european(text, frozenset(wanted))

    def place_known(
        self, text: str, wanted: Collection[str], *, keys: bytes, wanted_keys: bytes
    ) -> list[PlacedTerm]:
        """List what `place` does, sooner where the CRC-32 of each term of the text is known."""
        if keys and self._plain is not None and self._splitter is None and text.isascii():
            found = self._plain.place_known(text, wanted, keys, wanted_keys)
            if found is not None:
                return found
        return self.place(text, wanted)

    def _place_ascii(self, text: str, wanted: Collection[str]) -> list[PlacedTerm]:
        """Find words in plain text: first which of them are wanted, then where those stand."""
        if self._plain is not None:
            return self._plain.place(text, wanted)
        lowered, end, placed = f" {_lower_ascii(text)} ", 0, []
        words = lowered.split()
        terms = list(map(self._cache.__getitem__, words))
        pairs = zip(words, terms, strict=True)
        for word, term in compress(pairs, map(wanted.__contains__, terms)):
            start = lowered.find(f" {word} ", end)  # all of the same word before it were found
            end = start + len(word)
            placed.append((start, end, term))
        return placed

    def _place_european(self, text: str, wanted: frozenset[str]) -> list[PlacedTerm]:
        """Find words in text with spaces: first what stands between spaces and holds some."""
        lowered, end, placed = f" {_lower(text)} ", 0, []
        chunks = lowered.split(" ")  # at no other white space: they are looked for with spaces
        found = list(map(self._chunks.__getitem__, chunks))
        pairs = zip(chunks, found, strict=True)
        for chunk, terms in compress(pairs, map(not_, map(wanted.isdisjoint, found))):
            start = lowered.find(f" {chunk} ", end)  # all of the same chunk before it were found
            end = start + len(chunk)
            if chunk.isalnum():  # one word, as good as always
                placed.append((start, end, terms[0]))
                continue
            for match, term in zip(_EUROPEAN_WORD.finditer(chunk), terms, strict=True):
                if term in wanted:
                    placed.append((start + match.start(), start + match.end(), term))
        return placed

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which terms come out, to be kept with an index."""
        own: dict[str, Any] = asdict(self.config)
        words = own.pop("compounds")  # an index made before there were any has no such key
        if words:
            own["compounds"] = hashlib.sha256("\n".join(words).encode()).hexdigest()
        return {**own, "stemmer": f"snowball {_stemmers().version()}"}


@functools.cache
def _shared_cache(config: AnalyserConfig) -> _TermCache:
    """Return the words that this process has met; all analysers of one kind share them."""
    stemmer = None if config.language == "none" else _stemmers().Stemmer(config.language, 0)
    return _TermCache(stemmer, fold_accents=config.fold_accents)


@functools.cache
def _shared_chunks(config: AnalyserConfig) -> _ChunkCache:
    """Return what this process has met between spaces, shared likewise."""
    return _ChunkCache(_shared_cache(config))


@functools.cache
def _shared_words(config: AnalyserConfig) -> Words | None:
    """Return what finds the words of plain text in compiled code, where there is any."""
    if not is_compiled():
        return None
    from quoth.native import Words

    return Words(_shared_cache(config).__getitem__, _MAX_CACHED_WORDS)


@functools.cache
def _shared_splitter(config: AnalyserConfig) -> CompoundSplitter:
    """Return what splits compounds; all analysers of one kind share it."""
    return CompoundSplitter(config.compounds, _shared_cache(config).__getitem__)


@functools.cache
def languages() -> tuple[str, ...]:
    """List the languages that can be stemmed, and `none`."""
    return (*sorted(set(_stemmers().algorithms()) - {"porter"}), "none")


def _stemmers() -> Any:
    """Import the stemmers when needed: machines that only train have none."""
    import Stemmer

    return Stemmer


class _TermCache(dict[str, str]):
    """Word → term, computed once per distinct word; emptied when it grows too large."""

    def __init__(self, stemmer: Any, *, fold_accents: bool) -> None:
        super().__init__()
        self._stemmer = stemmer
        self._fold_accents = fold_accents

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        self[word] = term = self._plain_term(word) if word.isascii() else self._term(word)
        return term

    def plain_terms(self, words: list[str]) -> list[str]:
        """Return what `_plain_term` does of each word in lower case, and keep nothing."""
        stemmed = words if self._stemmer is None else self._stemmer.stemWords(words)
        pairs = zip(stemmed, words, strict=True)
        return [(term or word)[:_MAX_TERM_LENGTH] for term, word in pairs]

    def _plain_term(self, word: str) -> str:
        """Return what `_term` does, sooner: plain letters are their own compatibility form."""
        lowered = word.lower()
        term = lowered if self._stemmer is None else self._stemmer.stemWord(lowered) or lowered
        return str(term[:_MAX_TERM_LENGTH])

    def _term(self, word: str) -> str:
        term = unicodedata.normalize("NFKC", word).casefold().replace("’", "'")
        if self._stemmer is not None:
            term = str(self._stemmer.stemWord(term)) or term
        if self._fold_accents and not term.isascii():
            bare = _ACCENTS.sub("", unicodedata.normalize("NFD", term))
            term = unicodedata.normalize("NFC", bare) or term
        # Compatibility forms may bring spaces in (⑴ → "(1)" does not, ﷺ does): a term has none.
        return "".join(term.split())[:_MAX_TERM_LENGTH] or word


class _ChunkCache(dict[str, tuple[str, ...]]):
    """What stands between spaces in European text → its terms; emptied when it grows too large."""

    def __init__(self, terms: _TermCache) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        terms = tuple(map(self._terms.__getitem__, _EUROPEAN_WORD.findall(chunk)))
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        if len(chunk) <= _LONGEST_CHUNK:
            self[chunk] = terms
        return terms


def _split_ascii(text: str) -> list[str]:
    """Split plain text into the words that `_ASCII_WORD` finds, in lower case; much faster.

    >>> _split_ascii("The owl's 'nest', rock''n_roll")
    ['the', "owl's", 'nest', 'rock', 'n', 'roll']
    """
    return _lower_ascii(text).split()


def _lower_ascii(text: str) -> str:
    """Put spaces for what is no part of a word, and the rest in lower case; all stays in place.

    >>> _lower_ascii("'Tis the owl's-nest!")
    " tis the owl's nest "
    """
    if "'" in text:
        text = _LOOSE_APOSTROPHE.sub(" ", text)
    return _lower(text)


def _lower(text: str) -> str:
    """Put spaces for plain characters that are no part of a word, and plain letters in lower case.

    >>> _lower("The Œuvre's_end")
    "the Œuvre's end"
    """
    return text.encode().translate(_LOWERED).decode()


def _pattern_for(text: str) -> tuple[re.Pattern[str], bool]:
    """Choose the cheapest pattern that finds the same words as the full one, and whether it is."""
    if text.isascii():
        return _ASCII_WORD, False
    if _BEYOND_EUROPEAN.search(text):
        return _full_pattern(), True
    return _EUROPEAN_WORD, False


def _never(_word: str) -> bool:
    return False


@functools.cache
def _full_pattern() -> re.Pattern[str]:
    inner = f"[^\\W_{_UNSPACED}]"
    tail = f"(?:{inner}|[{_marks()}])"
    word = f"{inner}{tail}*(?:['’]{inner}{tail}*)*"
    return re.compile(f"[{_UNSPACED}]+|{word}")


@functools.cache
def _unspaced_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


@functools.cache
def _marks() -> str:
    """List the combining marks of the basic plane as ranges of a character class."""
    marks = [code for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
