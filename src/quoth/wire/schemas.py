"""What hits, answers and citations look like as JSON, wherever they come from.

`start` and `end` always count characters of one instance of one field of a document, half-open.
Places in an answer are called `answer_start` and `answer_end`. docs/data_model.md describes all of
it; the server makes its OpenAPI from these, MCP the schemas of its tools.
"""

from __future__ import annotations

from pydantic import BaseModel

Scalar = bool | int | float | str


class PassageBody(BaseModel):
    """A stretch of one field of a document; characters start to end of that field's instance.

    `place` says where it stands, such as "p. 12", "slide 3", "line 40" or "§ Aims", if known.
    """

    field: str
    instance: int
    start: int
    end: int
    text: str
    place: str = ""


class SnippetBody(BaseModel):
    """What is shown of a passage; highlights count from the snippet's own start."""

    text: str
    start: int
    end: int
    highlights: list[tuple[int, int]]


class StandingBody(BaseModel):
    """Where one searcher has a document."""

    rank: int
    score: float


class PartBody(BaseModel):
    """One line of an explanation: a value, and the parts that it is the sum of."""

    label: str
    value: float
    parts: list[PartBody] = []


class WordShareBody(BaseModel):
    """A word, and its share of the attention."""

    word: str
    share: float


class AttentionBody(BaseModel):
    """The words that the encoder looked at most."""

    query: list[WordShareBody]
    document: list[WordShareBody]


class HitBody(BaseModel):
    """A document that was found; explanation and attention where they were asked for.

    `also` lists the docids of near-identical documents that were found as well.
    """

    rank: int
    docid: str
    score: float
    title: str
    passage: PassageBody | None
    snippet: SnippetBody | None
    metadata: dict[str, Scalar | list[Scalar]]
    found_by: dict[str, StandingBody]
    explanation: PartBody | None = None
    attention: AttentionBody | None = None
    also: list[str] = []


class OutOfReachBody(BaseModel):
    """A shard of the collection that did not answer, so that its documents were not searched."""

    shard: int
    documents: int
    why: str


class SearchResponse(BaseModel):
    """Hits, best first; a server adds how long each stage took.

    `reranked_by` says who put the best of them into a new order, if anybody did; `unreachable`
    names the shards that the hits cannot be from. `did_you_mean` is the query with corrections for
    words that no document has; empty without any. `incomplete` says how much was searched by
    vectors while not all are there; empty otherwise.
    """

    query: str
    searcher: str
    reranked_by: str = ""
    offset: int
    k: int
    hits: list[HitBody]
    did_you_mean: str = ""
    incomplete: str = ""
    seconds: dict[str, float] = {}
    unreachable: list[OutOfReachBody] = []


class AnswerSpanBody(BaseModel):
    """A stretch of an answer."""

    answer_start: int
    answer_end: int


class CitationBody(AnswerSpanBody):
    """A quotation: where it stands in the answer, and where in a document.

    `sentence` is the whole of the sentences that it stands in, `sentence_start` counts as `start`.
    """

    number: int
    docid: str
    field: str
    instance: int
    start: int
    end: int
    quoted: str
    sentence: str
    sentence_start: int
    place: str = ""


class ShortAnswerBody(AnswerSpanBody):
    """The few words of an answer that answer the question, and how probable they are."""

    text: str
    probability: float


class AnswerResponse(BaseModel):
    """An answer with a citation for every quotation, and the passages it was made from.

    `marked` is the text with the number of a source after each quotation, `unquoted` what no
    citation covers. `confidence` says in words how sure it is: "probably", "not sure" or "the
    documents do not say"; `disagrees` whether the quotations give different answers. `incomplete`
    is as in a search; `did_you_mean` is the question with corrections for words that no document
    has, empty without any. A server adds how long each stage took.
    """

    question: str
    text: str
    marked: str
    abstained: bool
    support: float
    confidence: str
    disagrees: bool
    short: ShortAnswerBody | None = None
    notice: str
    citations: list[CitationBody]
    unquoted: list[AnswerSpanBody]
    passages: list[HitBody]
    searcher: str
    incomplete: str = ""
    did_you_mean: str = ""
    seconds: dict[str, float] = {}
    unreachable: list[OutOfReachBody] = []


class ContinuationResponse(AnswerResponse):
    """A text that continues another, the prefix; its quotations are cited as in an answer."""

    prefix: str
