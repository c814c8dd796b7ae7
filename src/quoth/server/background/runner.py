"""One job at a time for a served collection: started, watched and cancelled from outside.

A job has a process of its own, so that searching goes on beside it and cancelling ends it whatever
it does. Encoding and learning keep what they have done, so a cancelled job resumes when it is
started again.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quoth.errors import Busy, NotFound
from quoth.settings.config import Values

IDLE, RUNNING, FINISHED, CANCELLED, FAILED = (
    "idle",
    "running",
    "finished",
    "cancelled",
    "failed",
)
_CANCELLED = "cancelled; started again, it resumes"
_PATIENCE_SECONDS = 60.0
_WORKER = "quoth.server.background.worker"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobState:
    """What became of the latest job, or how far it has come."""

    state: str = IDLE
    kind: str = ""
    what: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    message: str = ""


class JobRunner:
    """Runs the jobs of one collection."""

    def __init__(self, folder: Path, settings: Sequence[Values]) -> None:
        self._folder = folder
        self._settings = list(settings)
        self._lock = threading.Lock()
        self._state = JobState()
        self._begun = 0.0
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._is_ending = False
        """Whether the running job was told to end, which may meet it at any line, imports too."""

    @property
    def state(self) -> JobState:
        """How the latest job stands."""
        with self._lock:
            if self._state.state != RUNNING:
                return self._state
            return replace(self._state, seconds=time.monotonic() - self._begun)

    def start(self, kind: str, settings: Sequence[Values] = ()) -> JobState:
        """Start a job; `Busy` while another one runs."""
        request = {
            "kind": kind,
            "folder": str(self._folder),
            "settings": [*self._settings, *settings],
        }
        with self._lock:
            if self._state.state == RUNNING:
                raise Busy(f"{self._state.kind} is running; wait for it, or cancel it")
            self._process = subprocess.Popen(
                [sys.executable, "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # a Ctrl-C for the server is passed on by `close`
            )
            self._state, self._begun = JobState(RUNNING, kind, "starting"), time.monotonic()
            self._is_ending = False
            self._thread = threading.Thread(
                target=self._follow, args=(self._process, json.dumps(request)), daemon=True
            )
            self._thread.start()
        return self.state

    def cancel(self) -> JobState:
        """Tell the running job to end; what it has done is kept."""
        with self._lock:
            process = self._process if self._state.state == RUNNING else None
        if process is None:
            raise NotFound("no job is running")
        self._end(process)
        return self.state

    def close(self) -> None:
        """End the running job and wait for it."""
        if self._process is not None and self._process.poll() is None:
            self._end(self._process)
        if self._thread is not None:
            self._thread.join()

    # Inner workings --------------------------------------------------------------------------

    def _end(self, process: subprocess.Popen[str]) -> None:
        self._is_ending = True
        process.send_signal(signal.SIGINT)
        timer = threading.Timer(_PATIENCE_SECONDS, process.kill)
        timer.daemon = True
        timer.start()

    def _follow(self, process: subprocess.Popen[str], request: str) -> None:
        assert process.stdin is not None and process.stdout is not None
        with process:
            try:
                process.stdin.write(request)
                process.stdin.close()
                for line in process.stdout:
                    self._note(json.loads(line))
            except (OSError, ValueError) as error:
                _logger.warning("a job's process broke off: %s", error)
        self._settle(process.returncode)

    def _note(self, record: dict[str, Any]) -> None:
        if record.get("traceback"):
            _logger.error("a job failed: %s", record["traceback"])
        with self._lock:
            known = {key: record[key] for key in ("what", "done", "total") if key in record}
            self._state = replace(self._state, **known)
            if "note" in record:
                self._state = replace(self._state, message=str(record["note"]))
            if "finished" in record:
                self._over(FINISHED, str(record["finished"]))
            elif "cancelled" in record or ("failed" in record and self._is_ending):
                self._over(CANCELLED, _CANCELLED)
            elif "failed" in record:
                self._over(FAILED, str(record["failed"]))

    def _settle(self, code: int | None) -> None:
        """Say what became of a process that ended without a word."""
        with self._lock:
            if self._state.state == RUNNING:
                killed = code in (-signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM, 130)
                if killed or self._is_ending:
                    self._over(CANCELLED, _CANCELLED)
                else:
                    lost = f"its process ended with code {code}; started again, it resumes"
                    self._over(FAILED, lost)

    def _over(self, state: str, message: str) -> None:
        seconds = time.monotonic() - self._begun
        self._state = replace(self._state, state=state, seconds=seconds, message=message)
