"""The HTTP server: `create_app(engine, config)` makes it, and nothing happens before.

Routes hold no logic: each is one call on the service. Every error is answered alike; what is ours
with its message, what nobody foresaw without details.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from quoth import __version__
from quoth.errors import NotFound, QuothError
from quoth.server.access.keys import Keys
from quoth.server.access.policy import (
    AccessPolicy,
    EarlyGuards,
    GuardedForeignRoute,
    GuardedRoute,
    declares,
    require_declared,
)
from quoth.server.background.runner import JobRunner
from quoth.server.direct import serve_directly
from quoth.server.early_refusals import EarlyRefusals
from quoth.server.errors import (
    RequestError,
    describe_invalid,
    describe_refusal,
    error_record,
    headers_of,
    status_of,
)
from quoth.server.managing import add_managing
from quoth.server.mcp.server import METHODS, create_mcp, make_routes
from quoth.server.middleware import Middleware
from quoth.server.monitoring.exposition import CONTENT_TYPE
from quoth.server.openapi import STATUSES, describe
from quoth.server.pages import REVALIDATE, docs_page, index_of, read_assets, send_asset
from quoth.server.schemas import (
    ErrorResponse,
    ExplainResponse,
    PostedDocids,
    PostedDocuments,
    PostedQuestion,
    PostedSearch,
    RemovedResponse,
    StoredResponse,
    WrittenResponse,
)
from quoth.server.service import Service
from quoth.server.watching import FolderWatch
from quoth.server.workers.processes import SearchProcesses
from quoth.settings.server import LIMITS, MAX_DOCID_CHARS, ServerConfig
from quoth.shards.opening import OpenedEngine
from quoth.wire.schemas import AnswerResponse, SearchResponse

if TYPE_CHECKING:
    from mcp.server import MCPServer

_KINDS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "TooLarge",
    415: "UnsupportedMediaType",
    422: "ValidationError",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {each: {"model": ErrorResponse} for each in STATUSES}
_ABOUT = (
    "Search your own documents without a single label.\n\n"
    + "Limits: "
    + ", ".join(f"{name.replace('_', ' ')} {most:,}" for name, most in LIMITS.items())
    + ". Too many requests at a time are answered 429 with Retry-After."
)
_COMPRESS_FROM_BYTES = 1_000
_SEARCH = "/search"
_logger = logging.getLogger(__name__)
_Docid = Annotated[str, Query(min_length=1, max_length=MAX_DOCID_CHARS)]


def create_app(
    engine: OpenedEngine,
    config: ServerConfig | None = None,
    *,
    keys: Keys | None = None,
    allow_writes: bool = False,
    mcp: bool = False,
    watch: bool = False,
    processes: SearchProcesses | None = None,
) -> FastAPI:
    """Make the application that serves a collection; the engine says which, and with what settings.

    Without keys it answers only to host names of this computer. Writes are refused unless allowed,
    and need a key for writing where there are keys. With `mcp` it speaks the Model Context Protocol
    at /mcp, too. With `watch` it keeps the collection in step with the folders that the collection
    remembers. Searches are done in `processes` where they are given, else in threads.
    """
    config = config or ServerConfig()
    service = Service(engine, config, processes)
    watching = FolderWatch(service, engine) if watch else None
    jobs = JobRunner(engine.folder, engine.given_settings)
    assistants = create_mcp(service.on_reader, service.on_answerer) if mcp else None
    app = FastAPI(
        title="Quoth",
        version=__version__,
        description=_ABOUT,
        lifespan=_lifespan(service, assistants, jobs, watching),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        responses=_RESPONSES,
    )
    app.router.route_class = GuardedRoute
    _add_pages(app)
    _add_reading(app, service)
    _add_answering(app, service)
    _add_writing(app, service)
    add_managing(app, service, jobs)
    _add_health(app, service)
    _add_errors(app)
    hosts = config.own_names() if keys is None else None
    if assistants is not None:
        own = None if hosts is None else sorted(hosts)
        made = make_routes(assistants, hosts=own)
        app.router.routes.extend(
            GuardedForeignRoute(route, "read", methods=METHODS) for route in made
        )
    require_declared(app.routes)
    policy = AccessPolicy(hosts, keys, allow_writes, config.requests_per_minute)
    _add_layers(app, config, policy, service)
    return app


def _add_layers(app: FastAPI, config: ServerConfig, policy: AccessPolicy, service: Service) -> None:
    """Put around the routes what every request passes, the innermost first."""
    serve_directly(app, _SEARCH, model=PostedSearch, answer=service.search)
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESS_FROM_BYTES)
    if config.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    # What is refused early has no headers for pages of other origins, which then could not read it.
    early = EarlyGuards(() if config.origins else app.routes)
    app.state.early = EarlyRefusals(early, policy, service.metrics)
    app.add_middleware(Middleware, policy=policy, metrics=service.metrics, early=early)


def _lifespan(
    service: Service, assistants: MCPServer | None, jobs: JobRunner, watching: FolderWatch | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if assistants is not None:
                await stack.enter_async_context(assistants.session_manager.run())
            warming = asyncio.create_task(_warm_up(app, service))
            if watching is not None:
                watching.start()
            yield
            warming.cancel()
            if watching is not None:
                await asyncio.to_thread(watching.stop)
            await asyncio.to_thread(jobs.close)
            await asyncio.to_thread(service.close)

    return live


async def _warm_up(app: FastAPI, service: Service) -> None:
    """Load models; where the process is for the server alone, they are never looked at as garbage.

    A full collection of garbage visits every object that was loaded, and nobody is answered
    meanwhile.
    """
    await service.warm_up()
    if getattr(app.state, "has_process", False):
        gc.collect()
        gc.freeze()


def _add_pages(app: FastAPI) -> None:
    assets = read_assets()

    @app.get("/", include_in_schema=False)
    @declares("open")
    async def page(request: Request) -> Response:
        return send_asset(index_of(assets), request)

    @app.get("/assets/{name}", include_in_schema=False)
    @declares("open")
    async def asset(name: str, request: Request) -> Response:
        if name not in assets:
            raise NotFound(f"there is no asset {name!r}")
        return send_asset(assets[name], request)

    @app.get("/docs", include_in_schema=False)
    @declares("open")
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(describe(app)), headers=REVALIDATE)

    @app.get("/openapi.json", include_in_schema=False)
    @declares("open")
    async def description() -> dict[str, Any]:
        return describe(app)

    @app.get("/limits")
    @declares("open")
    async def limits() -> dict[str, int]:
        """Say what a request may hold at most."""
        return LIMITS


def _add_reading(app: FastAPI, service: Service) -> None:
    @app.post(_SEARCH, response_model=SearchResponse)
    @declares("read", admits=service.admit_search)
    async def search(posted: PostedSearch) -> Response:
        """Find documents, best first, with the words that matched."""
        return Response(await service.search(posted), media_type="application/json")

    @app.post("/explain", response_model=ExplainResponse)
    @declares("read", admits=service.admit_search)
    async def explain(posted: PostedDocids) -> ExplainResponse:
        """Say what the scores of documents are made of."""
        return await service.explain(posted)

    @app.get("/documents/{docid:path}", response_model=StoredResponse)
    @declares("read")
    async def document(docid: str) -> dict[str, Any]:
        """Fetch a document."""
        return await service.document(docid)

    @app.get("/documents", response_model=StoredResponse)
    @declares("read")
    async def document_named(docid: _Docid) -> dict[str, Any]:
        """Fetch a document whose docid may be no part of a path, such as ".."."""
        return await service.document(docid)

    @app.get("/status")
    @declares("read")
    async def status() -> dict[str, Any]:
        """Describe the collection: sizes, fields, settings, and how current each index is."""
        return await service.status()

    @app.get("/report")
    @declares("read")
    async def report() -> dict[str, Any]:
        """Return the report of the last learning."""
        return await service.report()


def _add_answering(app: FastAPI, service: Service) -> None:
    @app.post(
        "/answer",
        response_model=AnswerResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    @declares("read", admits=service.admit_answer)
    async def answer(posted: PostedQuestion, request: Request) -> Any:
        """Answer in the documents' own words, with a citation for every quotation.

        With "stream", events `token` come as the text is written, then `answer` with all of it, or
        `error`.
        """
        if not posted.stream:
            return await service.answer(posted)
        events = service.answer_events(posted)
        first = await anext(events)
        return StreamingResponse(
            _stream(first, events, request.state.request_id), media_type="text/event-stream"
        )


async def _stream(
    first: tuple[str, dict[str, Any]],
    events: AsyncIterator[tuple[str, dict[str, Any]]],
    request_id: str,
) -> AsyncIterator[str]:
    yield _event(*first)
    try:
        async for event in events:
            yield _event(*event)
    except (QuothError, RequestError) as error:
        yield _event("error", error_record(type(error).__name__, str(error), request_id))


def _event(name: str, record: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(record, ensure_ascii=False)}\n\n"


def _add_writing(app: FastAPI, service: Service) -> None:
    @app.post("/documents", response_model=WrittenResponse)
    @declares("write")
    async def add(posted: PostedDocuments) -> dict[str, Any]:
        """Add documents, or update those whose content changed; durable when answered."""
        return await service.add(posted)

    @app.delete("/documents/{docid:path}", response_model=RemovedResponse)
    @declares("write")
    async def remove(docid: str) -> dict[str, Any]:
        """Remove a document."""
        return await service.remove(docid)

    @app.delete("/documents", response_model=RemovedResponse)
    @declares("write")
    async def remove_named(docid: _Docid) -> dict[str, Any]:
        """Remove a document whose docid may be no part of a path, such as ".."."""
        return await service.remove(docid)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/health/live")
    @declares("open")
    async def live() -> dict[str, str]:
        """Say that the server runs."""
        return {"status": "live"}

    @app.get("/health/ready")
    @declares("open")
    async def ready() -> dict[str, str]:
        """Say that a search would be answered now; 503 where it would not."""
        await service.require_ready()
        return {"status": "ready"}

    @app.get("/stats")
    @declares("observe")
    async def stats() -> dict[str, Any]:
        """Return p50, p95 and p99 of each stage in seconds, the queues, and memory."""
        return service.metrics.stats(await service.state(_connections(app)))

    @app.get("/metrics", response_class=PlainTextResponse)
    @declares("observe")
    async def metrics() -> Response:
        """Return the same for Prometheus."""
        text = service.metrics.exposition(await service.state(_connections(app)))
        return Response(text, media_type=CONTENT_TYPE)


def _connections(app: FastAPI) -> int | None:
    """Return how many connections are open, None where nothing counts them."""
    count: Callable[[], int] | None = getattr(app.state, "count_connections", None)
    return None if count is None else count()


def _add_errors(app: FastAPI) -> None:
    def respond(
        request: Request, status: int, kind: str, message: str, error: Exception
    ) -> Response:
        request.state.kind = kind
        record = error_record(kind, message, request.state.request_id)
        return JSONResponse(record, status, headers_of(status, error))

    @app.exception_handler(QuothError)
    @app.exception_handler(RequestError)
    async def own(request: Request, error: Exception) -> Response:
        assert isinstance(error, QuothError | RequestError)
        if status_of(error) == 500:
            _logger.warning("request %s: %s", request.state.request_id, error)
        return respond(request, status_of(error), type(error).__name__, str(error), error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problems = (describe_invalid(each) for each in error.errors()[:20])
        return respond(request, 422, "ValidationError", "; ".join(problems), error)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = _KINDS.get(error.status_code, "HTTPError")
        headers = error.headers or {}
        message = describe_refusal(
            request.method,
            error.status_code,
            detail=str(error.detail),
            allowed=headers.get("Allow", ""),
        )
        response = respond(request, error.status_code, kind, message, error)
        response.headers.update(headers)
        return response
