"""Routes that change a collection or work on it for long: files, jobs, and who may use them."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request

from quoth.errors import CorpusError
from quoth.server.access.policy import declares, may_write
from quoth.server.background.runner import JobRunner
from quoth.server.collections import addresses_from
from quoth.server.schemas import (
    AccessResponse,
    JobResponse,
    PostedFile,
    PostedJob,
    UploadedResponse,
)
from quoth.server.service import Service


def add_managing(app: FastAPI, service: Service, jobs: JobRunner) -> None:
    """Add the routes."""

    @app.get("/access", response_model=AccessResponse)
    @declares("read")
    async def access(request: Request) -> dict[str, Any]:
        """Say what this client may do, and which collections this server has."""
        found = addresses_from(request.scope)
        return {"writes": may_write(request.scope), "collections": [asdict(each) for each in found]}

    @app.post("/files", response_model=UploadedResponse)
    @declares("write")
    async def upload(posted: PostedFile) -> dict[str, Any]:
        """Read a file as quoth add does, and add its documents; say what was skipped."""
        try:
            data = base64.b64decode(posted.content, validate=True)
        except ValueError as error:
            raise CorpusError(f"content is not base64 ({error})") from error
        return await service.add_file(posted.name, data)

    @app.get("/job", response_model=JobResponse)
    @declares("read")
    async def job() -> dict[str, Any]:
        """Say how the latest job stands."""
        return asdict(jobs.state)

    @app.post("/job", response_model=JobResponse)
    @declares("write")
    async def start(posted: PostedJob) -> dict[str, Any]:
        """Start encoding or learning; one job at a time."""
        given = [] if posted.minutes is None else [{"learn": {"minutes": posted.minutes}}]
        settings = given if posted.kind == "learn" else []
        return asdict(await asyncio.to_thread(jobs.start, posted.kind, settings))

    @app.delete("/job", response_model=JobResponse)
    @declares("write")
    async def cancel() -> dict[str, Any]:
        """Cancel the running job; started again, it resumes."""
        return asdict(jobs.cancel())
