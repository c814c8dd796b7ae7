"""Make known-item queries: stretches of documents, each asking for the document it is from.

Azzopardi et al. 2007 simulate such queries from a model; here they are titles, headings, sentences,
and spans of content words as they stand. Each item lists what must be held out for the search to be
honest: the stretch and its verbatim copies, since anyone finds a document that still holds its
query. `hold_out` removes them; `overlap` tells how much of the query the rest repeats.

A *content term* occurs in at most one in five of the sampled documents: no list of stop words, so
any language. Left out is what would fit two documents: a title that two documents of the stream
share, a heading or sentence that two documents of the sample share. The sample is the documents
whose seeded hash is smallest: a reservoir that does not depend on the order of the stream.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from quoth.errors import ConfigError, EvaluationError
from quoth.records import Document, Passage, Query, Span
from quoth.text.blocks import count_words, split_sentences

if TYPE_CHECKING:  # an analyser is given; a machine that only trains has no stemmer
    from quoth.text.words import Analyser, Word

ORIGINS = ("title", "heading", "sentence", "span")

_TITLE = "title"
_NUM_WORDS = {"title": range(2, 26), "heading": range(2, 26), "sentence": range(6, 26)}
_SPAN_WORDS = range(4, 9)
_MIN_CONTENT_TERMS = 2
_MIN_REST_TERMS = 5  # terms left when the query is held out
_MIN_COPY_WORDS = 4  # a shorter stretch is copied only where it fills a line
_SAMPLE_PER_ITEM = 2
_MIN_SAMPLE = 200  # fewer documents tell too little about which terms are common
_TITLE_PLACES = 1 << 24


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A query made from a document.

    `held_out` is what it was taken from, and every verbatim copy, in the document's order;
    `overlap` is the share of its content terms that occur in the rest of the document. The query is
    free text: signs in it mean nothing.
    """

    query: Query
    docid: str
    origin: str
    held_out: tuple[Passage, ...]
    overlap: float


def make_known_items(
    documents: Iterable[Document],
    *,
    analyser: Analyser,
    count: int,
    seed: int,
    origins: Sequence[str] = ORIGINS,
) -> tuple[KnownItem, ...]:
    """Make up to `count` items, as evenly over the origins as the documents allow.

    Documents are read once, and 2 · count (at least 200) of them kept. A document gives one item,
    and further ones, each of another origin, only where there are too few documents.
    """
    _check_request(count, origins)
    titles = _TitleCounts(analyser)
    size = max(_SAMPLE_PER_ITEM * count, _MIN_SAMPLE)
    sample = _draw_sample(map(titles.note, documents), size=size, seed=seed)
    maker = _Maker(sample, analyser=analyser, titles=titles, seed=seed)
    return tuple(_deal(sample, maker, count=count, origins=origins))


def hold_out(document: Document, item: KnownItem) -> Document:
    """Return the document without what the item's query was taken from.

    >>> held_out = Passage("d", "text", Span(2, 7), "raven")
    >>> item = KnownItem(Query("q", "raven"), "d", "span", (held_out,), 0.0)
    >>> hold_out(Document("d", {"text": ("A raven spoke",)}), item).fields
    {'text': ('A   spoke',)}
    """
    spans: dict[tuple[str, int], list[Span]] = {}
    for passage in item.held_out:
        _check_passage(document, passage)
        spans.setdefault((passage.field, passage.instance), []).append(passage.span)
    fields = {}
    for field, instances in document.fields.items():
        cut = (_cut_out(text, spans.get((field, at), ())) for at, text in enumerate(instances))
        if kept := tuple(text for text in cut if text.strip()):
            fields[field] = kept
    return Document(document.docid, fields, document.metadata)


# --- sampling and dealing ------------------------------------------------------------------------


def _draw_sample(documents: Iterable[Document], *, size: int, seed: int) -> tuple[Document, ...]:
    """Keep the documents with the smallest hashes, smallest first."""
    heap: list[tuple[int, int, Document]] = []  # the largest hash first
    for at, document in enumerate(documents):
        entry = (-_hash(f"{seed} {document.docid}"), at, document)
        if len(heap) < size:
            heapq.heappush(heap, entry)
        elif entry[0] > heap[0][0]:
            heapq.heapreplace(heap, entry)
    return tuple(document for _, _, document in sorted(heap, reverse=True))


def _deal(
    sample: Sequence[Document], maker: _Maker, *, count: int, origins: Sequence[str]
) -> Iterator[KnownItem]:
    """Go through the sample round by round; each document gives of the origin least used so far."""
    untried = {document.docid: list(dict.fromkeys(origins)) for document in sample}
    made: Counter[str] = Counter()
    for _ in origins:
        for document in sample:
            for origin in sorted(untried[document.docid], key=made.__getitem__):
                if made.total() == count:
                    return
                untried[document.docid].remove(origin)
                if item := maker.make(document, origin):
                    made[origin] += 1
                    yield item
                    break


class _TitleCounts:
    """Counts titles over the whole stream, in a table of fixed size.

    Titles that share a place by chance look repeated, which loses one in seventeen among a million;
    a repeated one never looks unique.
    """

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self._counts = bytearray(_TITLE_PLACES)

    def note(self, document: Document) -> Document:
        """Count the title of a document that comes by."""
        for title in document.fields.get(_TITLE, ())[:1]:
            place = self._place(title)
            self._counts[place] = min(2, self._counts[place] + 1)
        return document

    def is_unique(self, title: str) -> bool:
        return self._counts[self._place(title)] == 1

    def _place(self, title: str) -> int:
        return _key(self._analyser, title) % _TITLE_PLACES


class _Maker:
    """Makes items, knowing from the sample which terms are common and which stretches shared."""

    def __init__(
        self, sample: Sequence[Document], *, analyser: Analyser, titles: _TitleCounts, seed: int
    ) -> None:
        self._analyser = analyser
        self._titles = titles
        self._seed = seed
        self._most_documents = max(1, len(sample) // 5)  # that a content term may occur in
        self._frequencies: Counter[str] = Counter()
        self._num_holders: Counter[int] = Counter()
        for document in sample:
            self._frequencies.update(_all_terms(document, analyser))
            stretches = chain(find_headings(document), find_sentences(document))
            self._num_holders.update({_key(analyser, each.query) for each in stretches})

    def make(self, document: Document, origin: str) -> KnownItem | None:
        """Make an item of the first stretch, in an order left to chance, that will do."""
        generator = random.Random(f"{self._seed} {origin} {document.docid}")
        stretches = [each for each in _FINDERS[origin](document) if self._fits(each, origin)]
        generator.shuffle(stretches)
        for each in stretches:
            stretch = self._narrow(document, each, generator) if origin == "span" else each
            if item := stretch and self._finish(document, origin, stretch):
                return item
        return None

    def _fits(self, stretch: Stretch, origin: str) -> bool:
        if origin != "span" and count_words(stretch.query) not in _NUM_WORDS[origin]:
            return False
        if origin == "title":
            return self._titles.is_unique(stretch.query)
        return not stretch.is_first and self._num_holders[_key(self._analyser, stretch.query)] == 1

    def _narrow(
        self, document: Document, sentence: Stretch, generator: random.Random
    ) -> Stretch | None:
        """Take content words that follow each other, whatever stands between them."""
        text = document.fields[sentence.field][sentence.instance]
        words = self._content_words(text[sentence.span.start : sentence.span.end])
        if len(words) < _SPAN_WORDS.start:
            return None
        size = generator.randint(_SPAN_WORDS.start, min(_SPAN_WORDS.stop - 1, len(words)))
        start = generator.randint(0, len(words) - size)
        return _take_words(text, sentence, words[start : start + size])

    def _finish(self, document: Document, origin: str, stretch: Stretch) -> KnownItem | None:
        """Hold the stretch and its copies out, and see what is left."""
        terms = {word.term for word in self._content_words(stretch.query)}
        if len(terms) < _MIN_CONTENT_TERMS:
            return None
        query = Query(f"{origin}:{document.docid}", stretch.query)
        item = KnownItem(query, document.docid, origin, find_copies(document, stretch), 0.0)
        rest = _all_terms(hold_out(document, item), self._analyser)
        overlap = len(terms & rest) / len(terms)
        return replace(item, overlap=overlap) if len(rest) >= _MIN_REST_TERMS else None

    def _content_words(self, text: str) -> list[Word]:
        words = self._analyser.words(text)
        return [word for word in words if self._frequencies[word.term] <= self._most_documents]


def _take_words(text: str, sentence: Stretch, words: Sequence[Word]) -> Stretch:
    """Join words with a space; overlapping pairs of characters, as of Han, become one stretch."""
    pieces: list[list[int]] = []
    for word in words:
        start, end = sentence.span.start + word.start, sentence.span.start + word.end
        if pieces and start < pieces[-1][1]:
            pieces[-1][1] = end
        else:
            pieces.append([start, end])
    query = " ".join(text[start:end] for start, end in pieces)
    span = Span(pieces[0][0], pieces[-1][1])
    return Stretch(query, sentence.field, sentence.instance, span)


# --- stretches of a document ---------------------------------------------------------------------

_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(?P<heading>\S.*?)[ \t]*#*\s*")
_RULE = re.compile(r"\s*(?:={3,}|-{3,})\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")


class Stretch(NamedTuple):
    """A query's words, and the part of a document that they were taken from."""

    query: str
    field: str
    instance: int
    span: Span
    is_first: bool = False

    @classmethod
    def of(cls, text: str, field: str, instance: int, span: Span) -> Stretch:
        """Take a part of a field as it stands, white space aside."""
        literal = text[span.start : span.end]
        start = span.start + len(literal) - len(literal.lstrip())
        trimmed = Span(start, start + len(literal.strip()))
        return cls(" ".join(literal.split()), field, instance, trimmed, not text[:start].strip())


def find_titles(document: Document) -> Iterator[Stretch]:
    """Yield the first title, if there is one."""
    for title in document.fields.get(_TITLE, ())[:1]:
        yield Stretch.of(title, _TITLE, 0, Span(0, len(title)))


def find_headings(document: Document) -> Iterator[Stretch]:
    """Yield the headings inside the texts: lines marked by # or underlined, outside of code.

    >>> document = Document("d", {"text": ("# Ravens #\\n\\nThey fly.\\n\\nFood\\n----\\nSeeds",)})
    >>> [heading.query for heading in find_headings(document)]
    ['Ravens', 'Food']
    """
    for field, instance, text in _texts(document, but=_TITLE):
        for span in _outline(text)[0]:
            yield Stretch.of(text, field, instance, span)


def find_sentences(document: Document) -> Iterator[Stretch]:
    """Yield the sentences of the texts, headings and code left out.

    >>> document = Document("d", {"text": ("# Ravens\\n\\nThey speak.\\nThey steal. They fly.",)})
    >>> [sentence.query for sentence in find_sentences(document)]
    ['They speak.', 'They steal.', 'They fly.']
    """
    for field, instance, text in _texts(document, but=_TITLE):
        for block in _outline(text)[1]:
            for span in split_sentences(text[block.start : block.end]):
                shifted = Span(block.start + span.start, block.start + span.end)
                yield Stretch.of(text, field, instance, shifted)


_FINDERS: Mapping[str, Callable[[Document], Iterator[Stretch]]] = {
    "title": find_titles,
    "heading": find_headings,
    "sentence": find_sentences,
    "span": find_sentences,
}


def find_copies(document: Document, stretch: Stretch) -> tuple[Passage, ...]:
    """Find a stretch and its verbatim copies; a short one is a copy only where it fills a line."""
    whole = document.fields[stretch.field][stretch.instance]
    literal = whole[stretch.span.start : stretch.span.end]
    pattern = r"\s+".join(map(re.escape, literal.split()))
    fills_line = rf"(?m:^[ \t#]*)({pattern})(?m:[ \t#]*\r?$)"
    copy = re.compile(f"({pattern})" if count_words(literal) >= _MIN_COPY_WORDS else fills_line)
    passages: list[Passage] = []
    for field, instance, text in _texts(document):
        spans = {Span(*match.span(1)) for match in copy.finditer(text)}
        if (field, instance) == (stretch.field, stretch.instance):
            spans.add(stretch.span)
        passages += (
            Passage(document.docid, field, span, text[span.start : span.end], instance)
            for span in sorted(spans)
        )
    return tuple(passages)


def _texts(document: Document, *, but: str = "") -> Iterator[tuple[str, int, str]]:
    for field, instances in document.fields.items():
        if field != but:
            yield from ((field, instance, text) for instance, text in enumerate(instances))


def _outline(text: str) -> tuple[list[Span], list[Span]]:
    """Find the headings of a text, and its paragraphs: what stands between them and blank lines."""
    headings: list[Span] = []
    paragraphs: list[Span] = []
    at, is_open, is_code = 0, False, False
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        span = Span(at, at + len(line))
        at = span.end
        is_fence = _FENCE.match(line) is not None
        is_code ^= is_fence
        under = lines[number + 1] if number + 1 < len(lines) else ""
        if is_code or is_fence or not line.strip() or _RULE.fullmatch(line):
            is_open = False
        elif atx := _ATX.fullmatch(line):
            headings.append(
                Span(span.start + atx.start("heading"), span.start + atx.end("heading"))
            )
            is_open = False
        elif not is_open and _RULE.fullmatch(under):
            headings.append(span)
        elif is_open:
            paragraphs[-1] = Span(paragraphs[-1].start, span.end)
        else:
            paragraphs.append(span)
            is_open = True
    return headings, paragraphs


def _cut_out(text: str, spans: Iterable[Span]) -> str:
    """Put a space for each span, so that what stood around it does not grow together."""
    kept, at = "", 0
    for span in sorted(spans):
        kept += text[at : span.start] + " "
        at = max(at, span.end)
    return kept + text[at:]


def _all_terms(document: Document, analyser: Analyser) -> set[str]:
    texts = chain.from_iterable(document.fields.values())
    return set(chain.from_iterable(map(analyser.terms, texts)))


def _key(analyser: Analyser, text: str) -> int:
    return _hash(" ".join(analyser.terms(text)))


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _check_request(count: int, origins: Sequence[str]) -> None:
    problems = [] if count >= 1 else [f"count is {count}, expected at least 1"]
    if unknown := [origin for origin in origins if origin not in ORIGINS]:
        problems.append(
            f"origins names {', '.join(unknown)}, expected some of {', '.join(ORIGINS)}"
        )
    if not origins:
        problems.append(f"origins is empty, expected some of {', '.join(ORIGINS)}")
    if problems:
        raise ConfigError("known items: " + "; ".join(problems))


def _check_passage(document: Document, passage: Passage) -> None:
    instances = document.fields.get(passage.field, ())
    text = instances[passage.instance] if passage.instance < len(instances) else ""
    found = text[passage.span.start : passage.span.end]
    if passage.docid != document.docid or found != passage.text:
        raise EvaluationError(
            f"a query was made from {passage.text!r} in {passage.docid}, but {document.docid} has"
            f" {found!r} there: make the known items again from the documents as they are now"
        )
