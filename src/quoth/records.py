"""What flows between rooms: frozen records, named by the glossary.

No record holds a row: rows are an index's own business and never leave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quoth.notebook import answer_html, hit_html, hits_html, part_html

Scalar = str | int | float | bool
"""A metadata value that can be compared and filtered on."""


TITLES = ("title", "name")
"""The fields that may hold a document's title, the first one that has text."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters.

    >>> "a quotation"[Span(2, 7).start : Span(2, 7).end]
    'quota'
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A unit of the corpus: an opaque, stable key, texts by field, and what can be filtered on.

    A field may repeat (several anchors, several keywords): its instances are kept apart and in
    order.
    """

    docid: str
    fields: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)

    @property
    def title_field(self) -> str:
        """The field that holds the title; empty where the document has none."""
        return next((name for name in TITLES if any(self.fields.get(name, ()))), "")

    @property
    def title(self) -> str:
        """The title, empty where the document has none.

        >>> Document("d", {"name": ("Barn owl",), "text": ("It hunts at night.",)}).title
        'Barn owl'
        """
        for name in TITLES:
            texts = self.fields.get(name)
            if texts and any(texts):
                return " ".join(texts)
        return ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the input something stands; `line` counts from 1, None for the file as a whole.

    >>> str(Place("notes/a.jsonl", 3)), str(Place("b.pdf"))
    ('notes/a.jsonl:3', 'b.pdf')
    """

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Located:
    """A document as it was read, with the place it was read from."""

    document: Document
    place: Place


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the input that was skipped, and why."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one instance of one field of one document.

    `text` always equals `document.fields[field][instance][span.start : span.end]`. `place` says
    where it stands for people, such as "p. 12", "slide 3", "line 40" or "§ Aims", if that is known.
    """

    docid: str
    field: str
    span: Span
    text: str
    instance: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """What the user asks, and its key."""

    qid: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved document; a higher score is better, and comparable within one searcher only."""

    docid: str
    score: float
    passage: Passage | None = None

    def _repr_html_(self) -> str:
        return hit_html(self)


@dataclass(frozen=True, slots=True)
class Run:
    """Ranked hits for a set of queries: best first, ties broken by docid."""

    name: str
    hits: Mapping[str, tuple[Hit, ...]]


@dataclass(frozen=True, slots=True)
class Qrels:
    """Judged relevance: qid → docid → grade, where 0 means judged not relevant."""

    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Snippet:
    """What the page shows of a passage: a stretch of its text and the spans to highlight in it.

    `text` is a literal stretch of the field; `span` says which, `highlights` count from its start.
    """

    text: str
    span: Span
    highlights: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One line of an explanation: a value and the parts it is made of.

    Where there are parts, the value is their sum; a leaf's label says how its value came about.
    """

    label: str
    value: float
    parts: tuple[Part, ...] = ()

    def _repr_html_(self) -> str:
        return part_html(self)


@dataclass(frozen=True, slots=True)
class WordShare:
    """A word and the share of attention it received, from 0 to 1."""

    word: str
    share: float


@dataclass(frozen=True, slots=True)
class Attention:
    """Where an encoder looked while it read a query and a document: most looked-at words first.

    It explains vectors, not scores: nothing here adds up to one.
    """

    query: tuple[WordShare, ...]
    document: tuple[WordShare, ...]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is asked of a collection: the query, which of its hits, and what is shown of them.

    The searcher `auto` is the best that the collection has. Without `syntax`, the query is plain
    words. With `rerank`, a model that reads puts the best hits into a new order; None leaves that
    to `auto`. Without `feedback`, hits are not raised for being like the best ones. A snippet of 0
    characters is none. Passages are taken from fields in `besides` only where a document has no
    other: titles are shown anyway. Where `distinct`, near-identical documents are shown once; None
    leaves that to the settings.
    """

    query: str
    k: int = 10
    offset: int = 0
    where: str = ""
    searcher: str = "auto"
    syntax: bool = True
    rerank: bool | None = None
    explain: bool = False
    attention: bool = False
    snippet_chars: int = 240
    besides: tuple[str, ...] = TITLES
    distinct: bool | None = None
    feedback: bool = True

    @property
    def reach(self) -> int:
        """How many of the best hits have to be found."""
        return self.offset + self.k


@dataclass(frozen=True, slots=True)
class RankAndScore:
    """Where one searcher has a document."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with everything that is shown of it; its rank counts from 1 over all hits.

    `also` are the docids of near-identical documents that were found on the way. `signature` tells
    such documents, and is not shown.
    """

    rank: int
    hit: Hit
    title: str = ""
    metadata: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=dict)
    snippet: Snippet | None = None
    found_by: Mapping[str, RankAndScore] = field(default_factory=dict)
    explanation: Part | None = None
    attention: Attention | None = None
    signature: bytes = b""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A shard that did not answer, and how many documents were therefore not searched."""

    shard: int
    documents: int
    why: str

    def __str__(self) -> str:
        return f"shard {self.shard} with {self.documents} documents was not searched: {self.why}"


@dataclass(frozen=True, slots=True)
class ShownHits:
    """The hits of one request, best first, what found them, and the shards they cannot be from.

    `reranked_by` says who put the best of them into a new order; it is empty where nobody did.
    `suggestion` is the query with corrections for words that no document has, empty without any.
    `incomplete` says how much was searched by vectors, while not all are there; empty otherwise.
    """

    hits: tuple[ShownHit, ...]
    searcher: str
    unreachable: tuple[OutOfReach, ...] = ()
    reranked_by: str = ""
    suggestion: str = ""
    incomplete: str = ""

    def _repr_html_(self) -> str:
        by = f"{self.searcher}, reranked by {self.reranked_by}" if self.reranked_by else ""
        return hits_html(self.hits, f"{len(self.hits)} hits by {by or self.searcher}")


@dataclass(frozen=True, slots=True)
class Citation:
    """A link from a stretch of an answer to the stretch of the passage it quotes."""

    answer_span: Span
    passage: Passage
    passage_span: Span


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The few words of an answer that were asked for, and how probable it is that they are right.

    `text` equals `answer.text[span.start : span.end]`.
    """

    text: str
    span: Span
    probability: float


SURE = 0.6
"""The support from which on an answer is called probable."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Generated text with a citation for every quotation in it, in order and apart.

    `passages` are those it was made from, best hit first; `support` is the estimated probability
    that what is quoted answers the question (where a language model answers alone, that the
    passages hold an answer). Where it is too low, the answer abstains: the text says so.
    """

    text: str
    citations: tuple[Citation, ...]
    passages: tuple[Passage, ...] = ()
    support: float = 1.0
    abstained: bool = False
    short: ShortAnswer | None = None
    disagrees: bool = False
    """Whether what is quoted gives different answers, each of them probable."""

    @property
    def confidence(self) -> str:
        """Return how sure it is, in the words that users see.

        >>> [Answer("Owls.", (), support=each).confidence for each in (0.9, 0.5)]
        ['probably', 'not sure']
        >>> Answer("The documents do not say.", (), abstained=True).confidence
        'the documents do not say'
        """
        if self.abstained:
            return "the documents do not say"
        return "probably" if self.support >= SURE else "not sure"

    def _repr_html_(self) -> str:
        return answer_html(self)


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer with everything that is shown of it.

    `sources` are the hits of its passages, cut to what was read of them; `notice` is what a reader
    should know of the language model, `incomplete` is as in `ShownHits`. `suggestion` is the
    question with corrections for words that no document has, empty without any.
    """

    question: str
    answer: Answer
    sources: tuple[ShownHit, ...]
    searcher: str
    notice: str = ""
    unreachable: tuple[OutOfReach, ...] = ()
    incomplete: str = ""
    suggestion: str = ""

    def _repr_html_(self) -> str:
        return answer_html(self.answer)
