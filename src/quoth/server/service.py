"""What each route does: one piece of work for a pool of workers, and the record of its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, TypeVar

from quoth.collection.content import find_problem
from quoth.collection.filter_syntax import join_conditions
from quoth.collection.store import Written
from quoth.errors import (
    ConfigError,
    CorpusError,
    MissingExtra,
    NoCollection,
    NotFound,
    QuothError,
)
from quoth.interruption import check_interruption
from quoth.jobs.job_folder import JobFolder
from quoth.records import SearchRequest
from quoth.server.monitoring.metrics import Metrics, ServerState
from quoth.server.monitoring.query_log import QueryLog
from quoth.server.readiness import WARM, Readiness
from quoth.server.records import document_of, document_record, explanation_body, token_record
from quoth.server.schemas import (
    ExplainResponse,
    PostedDocids,
    PostedDocuments,
    PostedQuestion,
    PostedSearch,
)
from quoth.server.uploads import read_upload
from quoth.server.workers.models import share_engine
from quoth.server.workers.pool import Job, WorkerPool, stopping
from quoth.server.workers.processes import SearchProcesses
from quoth.settings.config import build_config
from quoth.settings.server import ServerConfig
from quoth.shards.opening import OpenedEngine
from quoth.text.readers.config import ReaderConfig
from quoth.wire.writing import answer_response, search_json

Event = tuple[str, dict[str, Any]]
_LEARNING = "learning"  # where `jobs/learn/job.py` puts it, which needs torch
_LONG_CONDITION_CHARS = 200
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class Service:
    """A served collection: threads that search, filter and answer, and one that writes."""

    def __init__(
        self, engine: OpenedEngine, config: ServerConfig, processes: SearchProcesses | None = None
    ) -> None:
        """Search in threads of this process, or in others where they are given."""
        self.metrics = Metrics()
        self._processes = processes
        self._folder = engine.folder
        self._config = config
        self._queries = QueryLog(config.query_log)
        make = share_engine(engine, self.metrics.stages)
        self._readers = WorkerPool(
            "search",
            make,
            workers=config.workers,
            capacity=config.queue,
            patience=config.patience_seconds,
        )
        self._answerers = WorkerPool(
            "answer",
            make,
            workers=config.answer_workers,
            capacity=config.queue,
            patience=config.answer_patience_seconds,
        )
        self._filterers = WorkerPool(
            "filter", make, workers=1, capacity=config.queue, patience=config.patience_seconds
        )
        self._writer = WorkerPool("write", make, workers=1, capacity=config.queue)
        self._pools = (self._readers, self._filterers, self._answerers, self._writer)
        self._readiness = Readiness(self._readers, self._warm_search)

    # Life ------------------------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Load every model that can be, then be ready where the collection is."""
        try:
            if self._processes is not None:
                start = functools.partial(self._processes.warm_up, number=self._config.workers)
                await asyncio.to_thread(start, WARM)
            await asyncio.wrap_future(self._readers.submit(self._warm_search))
            await asyncio.wrap_future(self._answerers.submit(_warm_answer))
        except QuothError as error:
            _logger.warning("not ready: %s", error)
        finally:
            self._readiness.is_loaded = True

    async def require_ready(self) -> None:
        """Complain where a search would not be answered now."""
        await self._readiness.require()

    async def state(self, connections: int | None) -> ServerState:
        """Say how busy the server is, and whether it is ready."""
        is_ready = await self._readiness.is_ready()
        return ServerState(tuple(pool.state for pool in self._pools), is_ready, connections)

    def close(self) -> None:
        """Finish what was begun; what was acknowledged is on disk anyway."""
        for pool in self._pools:
            pool.close()
        if self._processes is not None:
            self._processes.close()

    def admit_search(self, ahead: int) -> None:
        """Complain where a search would be refused now, with so many ahead of it."""
        self._readers.admit(ahead)

    def admit_answer(self, ahead: int) -> None:
        """Complain where a question would be refused now, with so many ahead of it."""
        self._answerers.admit(ahead)

    # Reading ---------------------------------------------------------------------------------

    async def search(self, posted: PostedSearch) -> bytes:
        """Find a page of hits, as JSON.

        Searches with long conditions have a worker of their own, so that a few of them never keep
        all others waiting. While all workers are busy, nothing is reranked unless asked for.
        """

        if posted.offset == 0:
            self._queries.note(posted.query)
        request = SearchRequest(
            posted.query,
            k=posted.k,
            offset=posted.offset,
            where=join_conditions(posted.where),
            searcher=posted.searcher,
            rerank=posted.rerank,
            explain=posted.explain,
            distinct=posted.distinct,
        )
        is_long = sum(map(len, posted.where)) > _LONG_CONDITION_CHARS
        pool = self._filterers if is_long else self._readers
        if posted.rerank is None and pool.is_busy:
            request = replace(request, rerank=False)  # reading takes longer than all the rest
        return await pool.run(
            lambda engine: self._find(engine, request, gives_way=is_long),
            seconds=self._config.timeout_seconds,
        )

    async def explain(self, posted: PostedDocids) -> ExplainResponse:
        """Explain the scores of documents."""

        def work(engine: OpenedEngine) -> ExplainResponse:
            searcher, docids = engine.choose(posted.searcher), posted.docids
            parts = engine.explain(
                posted.query, docids, searcher=posted.searcher, rerank=posted.rerank
            )
            looks = engine.attention(posted.query, docids, searcher=searcher)
            told = zip(docids, parts, looks, strict=True)
            return ExplainResponse(
                query=posted.query,
                searcher=searcher,
                explanations=[explanation_body(*each) for each in told],
            )

        return await self.on_reader(work)

    async def document(self, docid: str) -> dict[str, Any]:
        """Fetch a document."""
        return document_record(await self.on_reader(lambda engine: engine.document(docid)))

    async def status(self) -> dict[str, Any]:
        """Describe the collection."""
        return await self.on_reader(lambda engine: engine.status())

    async def report(self) -> dict[str, Any]:
        """Return the report of what was learned."""

        def work(_engine: OpenedEngine) -> dict[str, Any]:
            folder = JobFolder(self._folder / _LEARNING)
            if not folder.is_finished:
                raise NotFound('nothing was learned yet; "quoth learn" writes a report')
            found: dict[str, Any] = json.loads(folder.report.read_text(encoding="utf-8"))
            return found

        return await self.on_reader(work)

    # Writing ---------------------------------------------------------------------------------

    async def add(self, posted: PostedDocuments) -> dict[str, Any]:
        """Add or update documents, none where one cannot be stored; durable when this returns."""
        documents = [document_of(each) for each in posted.documents]
        for document in documents:
            if problem := find_problem(document):
                raise CorpusError(f"document {document.docid!r} {problem}")
        done = await self._write(lambda engine: engine.add_documents(documents))
        return {"added": done.added, "updated": done.updated, "unchanged": done.unchanged}

    async def add_file(self, name: str, data: bytes) -> dict[str, Any]:
        """Add the documents of a file, which is read as `quoth add` reads it."""

        def work(engine: OpenedEngine) -> dict[str, Any]:
            read = read_upload(name, data, _reader_config(engine))
            done = engine.add_documents(read.documents) if read.documents else Written()
            skipped = [str(each) for each in read.problems]
            return {**asdict(done), "skipped": skipped}

        return await self._write(work)

    async def remove(self, docid: str) -> dict[str, Any]:
        """Remove a document."""
        if await self._write(lambda engine: engine.remove([docid])):
            raise NotFound(f"there is no document {docid!r}")
        return {"removed": docid}

    # Answering -------------------------------------------------------------------------------

    async def answer(self, posted: PostedQuestion) -> dict[str, Any]:
        """Answer a question."""
        self._queries.note(posted.question)

        def work(engine: OpenedEngine) -> dict[str, Any]:
            (*_tokens, (_name, record)) = self._answer_events(engine, posted)
            return record

        return await self.on_answerer(work)

    async def answer_events(self, posted: PostedQuestion) -> AsyncIterator[Event]:
        """Answer a question event by event; an error before the first one is raised."""
        self._queries.note(posted.question)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def put(event: Event | None) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        def work(engine: OpenedEngine) -> None:
            for event in self._answer_events(engine, posted):
                check_interruption()
                put(event)

        pool = self._answerers
        async with pool.waiting(self._config.answer_seconds) as interruption:
            job = pool.submit(stopping(work, interruption))
            job.add_done_callback(lambda _job: put(None))
            with pool.refusing_late(job), _cancelling(job):
                while (event := await events.get()) is not None:
                    yield event
                job.result()  # raises what the work raised

    async def on_reader(self, work: Callable[[OpenedEngine], _T], /) -> _T:
        """Do some work where searches are done."""
        return await self._readers.run(work, seconds=self._config.timeout_seconds)

    async def on_answerer(self, work: Callable[[OpenedEngine], _T], /) -> _T:
        """Do some work where questions are answered, so that one language model is loaded."""
        return await self._answerers.run(work, seconds=self._config.answer_seconds)

    def _find(
        self, engine: OpenedEngine, request: SearchRequest, *, gives_way: bool = False
    ) -> bytes:
        """Search, and write the hits as JSON."""
        stages = self.metrics.stages
        if self._processes is not None:
            outcome = self._processes.find(request, gives_way=gives_way)
            for name, seconds in outcome.seconds.items():
                stages.note(name, seconds)
            return outcome.body
        with stages.of_one_request() as taken:
            found = engine.find(request)
            return search_json(request, found, taken)

    def _warm_search(self, engine: OpenedEngine) -> None:
        """Search once, so that files are open and the encoder is loaded.

        Where there is no collection yet, the first documents make one.
        """
        with contextlib.suppress(NoCollection):
            self._find(engine, WARM)

    def _answer_events(self, engine: OpenedEngine, posted: PostedQuestion) -> Iterator[Event]:
        stages = self.metrics.stages
        with stages.of_one_request() as seconds:
            begun = time.perf_counter()
            asked = engine.ask(
                posted.question,
                k=posted.k,
                searcher=posted.searcher,
                threshold=posted.threshold,
                phrases=posted.phrases,
            )
            with stages.timed("answer"):
                for piece in asked:
                    yield "token", token_record(piece)
                shown = asked.shown()
            taken = {**seconds, "total": time.perf_counter() - begun}
            yield "answer", answer_response(shown, taken).model_dump()

    def submit_write(self, work: Callable[[OpenedEngine], _T]) -> Job[_T]:
        """Have the one writer do some work when its turn comes, and wait for it where you like."""
        return self._writer.submit(self._timed_write(work))

    async def _write(self, work: Callable[[OpenedEngine], _T]) -> _T:
        """Do some work of the writer; once begun, it is done to its end."""
        timed, seconds = self._timed_write(work), self._config.write_seconds
        return await self._writer.run(timed, seconds=seconds, may_stop=False)

    def _timed_write(self, work: Callable[[OpenedEngine], _T]) -> Callable[[OpenedEngine], _T]:
        def timed(engine: OpenedEngine) -> _T:
            with self.metrics.stages.timed("write"):
                return work(engine)

        return timed


@contextlib.contextmanager
def _cancelling(job: Job[None]) -> Iterator[None]:
    """Cancel the job that the block waits for when the block ends first."""
    try:
        yield
    finally:
        job.cancel()


def _reader_config(engine: OpenedEngine) -> ReaderConfig:
    """Read files as set; before the first document there is no collection to ask."""
    return build_config(*engine.given_settings).readers


def _warm_answer(engine: OpenedEngine) -> None:
    """Load the language model, where there is one."""
    try:
        engine.load_language_model()
    except (MissingExtra, ConfigError, NoCollection) as error:
        _logger.info("questions cannot be answered: %s", error)
