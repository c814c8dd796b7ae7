"""What requests and responses hold; FastAPI checks the ones and describes both at /openapi.json."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quoth.settings.server import (
    MAX_BODY_BYTES,
    MAX_CONDITION_CHARS,
    MAX_CONDITIONS,
    MAX_DOCID_CHARS,
    MAX_DOCUMENTS,
    MAX_K,
    MAX_QUERY_CHARS,
    MAX_QUESTION_CHARS,
    MAX_REACH,
)
from quoth.wire.schemas import AttentionBody, PartBody, Scalar

SearcherName = Literal["auto", "lexical", "dense", "hybrid", "generative"]
Docid = Annotated[str, Field(min_length=1, max_length=MAX_DOCID_CHARS)]
Count = Annotated[int, Field(ge=1, le=MAX_K, strict=True)]


class _Posted(BaseModel):
    """A request: a field that nobody knows is an error, since it would do nothing."""

    model_config = ConfigDict(extra="forbid")


class PostedSearch(_Posted):
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
    rerank: bool | None = Field(
        default=None,
        description="Whether a model reads the best hits and puts them into a new order; null: as"
        " the searcher auto does.",
    )
    explain: bool = False
    distinct: bool | None = Field(
        default=None,
        description="Whether near-identical documents are shown once, with their other places in"
        " `also`; null: as the server is set up.",
    )

    @model_validator(mode="after")
    def _check_reach(self) -> Self:
        if self.offset + self.k > MAX_REACH:
            raise ValueError(f"offset + k is {self.offset + self.k}, expected at most {MAX_REACH}")
        return self


class PostedQuestion(_Posted):
    """A question, and how it is to be answered."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARS)
    k: Count = 5
    searcher: SearcherName = "auto"
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None,
        description="Say that there is no answer where that is more probable; null: as set.",
    )
    phrases: bool = Field(default=True, description="Whether documents may be quoted.")
    stream: bool = Field(default=False, description="Send the answer as it is written.")


class PostedDocids(_Posted):
    """Documents whose scores are to be explained."""

    query: str = Field(max_length=MAX_QUERY_CHARS)
    docids: list[Docid] = Field(min_length=1, max_length=MAX_K)
    searcher: SearcherName = "auto"
    rerank: bool | None = Field(
        default=None,
        description="Whether a model reads the best hits and puts them into a new order; null: as"
        " the searcher auto does.",
    )


class DocumentBody(_Posted):
    """A document: texts by field, a text or several, and metadata to filter on."""

    docid: Docid
    fields: dict[str, str | list[str]]
    metadata: dict[str, Scalar | list[Scalar]] = {}


class PostedDocuments(_Posted):
    """Documents to add, or to update where their docid is known."""

    documents: list[DocumentBody] = Field(min_length=1, max_length=MAX_DOCUMENTS)


class PostedFile(_Posted):
    """A file to add: its name, whose ending says its format, and its bytes in base64."""

    name: str = Field(min_length=1, max_length=MAX_DOCID_CHARS)
    content: str = Field(max_length=MAX_BODY_BYTES)


class PostedJob(_Posted):
    """Work on the whole collection, in the background."""

    kind: Literal["encode", "learn"]
    minutes: Annotated[float, Field(gt=0, le=10_080, strict=True)] | None = Field(
        default=None, description="With learn: about how long it may take; null: as set."
    )


class UploadedResponse(BaseModel):
    """What became of the documents of a file, and what of it was skipped, and why."""

    added: int
    updated: int
    unchanged: int
    skipped: list[str]


class JobResponse(BaseModel):
    """The latest job: idle (none yet), running, finished, cancelled or failed."""

    state: str
    kind: str
    what: str = Field(description="What it is doing.")
    done: int
    total: int = Field(description="0 where nobody knows.")
    seconds: float
    message: str


class CollectionBody(BaseModel):
    """A collection of this server, and its address relative to this one."""

    name: str
    address: str
    current: bool


class AccessResponse(BaseModel):
    """What the client may do here; `collections` is empty where there is only this one."""

    writes: bool
    collections: list[CollectionBody]


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
