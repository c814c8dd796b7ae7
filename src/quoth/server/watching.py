"""`quoth serve --watch`: keep a served collection in step with its folders.

A thread waits for changes; the work itself is done by the server's one writer, between the writes
of others, so there is never a second writer. A long sync is done piece by piece, so that nobody
waits for the whole of it.
"""

from __future__ import annotations

import logging
import threading
import time

from quoth.collection.sources import open_sources
from quoth.engine.sync.sync import SyncOptions, SyncReport
from quoth.engine.sync.watching import Watcher
from quoth.errors import QuothError
from quoth.records import Problem
from quoth.server.service import Service
from quoth.shards.opening import OpenedEngine
from quoth.text.folders.config import FolderConfig

_PIECE_SECONDS = 5.0
_logger = logging.getLogger(__name__)


class FolderWatch:
    """Watches the folders of one served collection."""

    def __init__(self, service: Service, engine: OpenedEngine) -> None:
        """Complain where the collection remembers no folder, or nothing can be watched."""
        self._service = service
        self._folder = engine.folder
        self._config: FolderConfig = engine.plan_sync().config
        self._stop = threading.Event()
        self._watcher = Watcher(engine.folder, self._list_folders, self._stop)
        self._thread = threading.Thread(target=self._run, name="quoth-watch", daemon=True)
        self._told: set[str] = set()

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; a file that is being read is read to its end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _list_folders(self) -> list[str]:
        return [each.path for each in open_sources(self._folder).folders]

    def _run(self) -> None:
        for _ in self._watcher.due(self._config):
            try:
                while not self._sync_some().is_complete and not self._stop.is_set():
                    pass
            except QuothError as error:
                _logger.warning("not in step: %s; trying again", error)
                self._watcher.retry()

    def _sync_some(self) -> SyncReport:
        """Have the writer sync for a few seconds."""

        def work(engine: OpenedEngine) -> SyncReport:
            until = time.monotonic() + _PIECE_SECONDS
            return engine.sync(
                options=SyncOptions(hold=True),
                report=self._tell,
                is_to_stop=lambda: self._stop.is_set() or time.monotonic() >= until,
            )

        report = self._service.submit_write(work).result()
        if report.added or report.updated or report.removed:
            counts = (report.added, report.updated, report.removed)
            _logger.info("in step: added %d, updated %d, removed %d", *counts)
        for line in report.held:
            self._say_once(f'waiting for "quoth sync {self._folder} --yes": {line}')
        return report

    def _tell(self, problem: Problem) -> None:
        self._say_once(f"skipped {problem}")

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            _logger.warning("%s", line)
