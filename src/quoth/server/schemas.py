"""What requests and responses hold; FastAPI checks the ones and describes both at /openapi.json."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quoth.settings.server import (
    MAX_CONDITION_CHARS,
    MAX_CONDITIONS,
    MAX_DOCID_CHARS,
    MAX_DOCUMENTS,
    MAX_K,
    MAX_QUERY_CHARS,
    MAX_QUESTION_CHARS,
    MAX_REACH,
)

SearcherName = Literal["auto", "lexical", "dense", "hybrid", "generative"]
Docid = Annotated[str, Field(min_length=1, max_length=MAX_DOCID_CHARS)]
Scalar = bool | int | float | str
Count = Annotated[int, Field(ge=1, le=MAX_K, strict=True)]


class _Asked(BaseModel):
    """A request: a field that nobody knows is an error, since it would do nothing."""

    model_config = ConfigDict(extra="forbid")


class SearchRequest(_Asked):
    """A query, and which of its hits are wanted."""

    query: str = Field(max_length=MAX_QUERY_CHARS)
    k: Count = 10
    offset: Annotated[int, Field(ge=0, lt=MAX_REACH, strict=True)] = 0
    searcher: SearcherName = "auto"
    where: list[Annotated[str, Field(max_length=MAX_CONDITION_CHARS)]] = Field(
        default=[],
        max_length=MAX_CONDITIONS,
        description='Conditions on metadata that must all hold, as "year > 2000".',
    )
    explain: bool = False

    @model_validator(mode="after")
    def _check_reach(self) -> Self:
        if self.offset + self.k > MAX_REACH:
            raise ValueError(f"offset + k is {self.offset + self.k}, expected at most {MAX_REACH}")
        return self


class AnswerRequest(_Asked):
    """A question, and how it is to be answered."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARS)
    k: Count = 3
    searcher: SearcherName = "auto"
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None,
        description="Say that there is no answer where that is more probable; null: as set.",
    )
    phrases: bool = Field(default=True, description="Whether documents may be quoted.")
    stream: bool = Field(default=False, description="Send the answer as it is written.")


class ExplainRequest(_Asked):
    """Documents whose scores are to be explained."""

    query: str = Field(max_length=MAX_QUERY_CHARS)
    docids: list[Docid] = Field(min_length=1, max_length=MAX_K)
    searcher: SearcherName = "auto"


class DocumentBody(_Asked):
    """A document: texts by field, a text or several, and metadata to filter on."""

    docid: Docid
    fields: dict[str, str | list[str]]
    metadata: dict[str, Scalar | list[Scalar]] = {}


class DocumentsRequest(_Asked):
    """Documents to add, or to update where their docid is known."""

    documents: list[DocumentBody] = Field(min_length=1, max_length=MAX_DOCUMENTS)


class PassageBody(BaseModel):
    """A stretch of one field of a document; characters start to end of that field's instance."""

    field: str
    instance: int
    start: int
    end: int
    text: str


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


class HitBody(BaseModel):
    """A document that was found."""

    rank: int
    docid: str
    score: float
    title: str
    passage: PassageBody | None
    snippet: SnippetBody | None
    metadata: dict[str, Scalar | list[Scalar]]
    found_by: dict[str, StandingBody]
    explanation: PartBody | None = None


class OutOfReachBody(BaseModel):
    """A shard of the collection that did not answer, so that its documents were not searched."""

    shard: int
    documents: int
    why: str


class SearchResponse(BaseModel):
    """Hits, best first, and how long each stage took; `unreachable` where they are not of all."""

    query: str
    searcher: str
    seconds: dict[str, float]
    offset: int
    k: int
    hits: list[HitBody]
    unreachable: list[OutOfReachBody] = []


class CitationBody(BaseModel):
    """A quotation: characters start to end of the answer, and where they stand in a document.

    `sentence_start` counts in the document's field, like `document_start`.
    """

    number: int
    start: int
    end: int
    docid: str
    field: str
    instance: int
    document_start: int
    document_end: int
    quoted: str
    sentence: str
    sentence_start: int


class AnswerResponse(BaseModel):
    """An answer with a citation for every quotation, and the passages it was made from."""

    question: str
    text: str
    abstained: bool
    support: float
    notice: str
    citations: list[CitationBody]
    passages: list[HitBody]
    searcher: str
    seconds: dict[str, float]
    unreachable: list[OutOfReachBody] = []


class WordShareBody(BaseModel):
    """A word, and its share of the attention."""

    word: str
    share: float


class AttentionBody(BaseModel):
    """The words that the encoder looked at most."""

    query: list[WordShareBody]
    document: list[WordShareBody]


class ExplanationBody(BaseModel):
    """What the score of one document is made of."""

    docid: str
    part: PartBody
    attention: AttentionBody | None


class ExplainResponse(BaseModel):
    """Explanations in the order of the docids asked for."""

    query: str
    searcher: str
    explanations: list[ExplanationBody]


class WrittenResponse(BaseModel):
    """What became of documents; they are durable and can be found."""

    added: int
    updated: int
    unchanged: int


class RemovedResponse(BaseModel):
    """A document that is gone."""

    removed: str


class StoredResponse(BaseModel):
    """A document as it is kept."""

    docid: str
    fields: dict[str, list[str]]
    metadata: dict[str, Scalar | list[Scalar]]


class ErrorBody(BaseModel):
    """What went wrong, and the request it belongs to."""

    kind: str
    message: str
    request_id: str


class ErrorResponse(BaseModel):
    """Every error looks like this."""

    error: ErrorBody
