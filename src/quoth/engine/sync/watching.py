"""Say when a sync is due: at first, after changes have settled, and now and then anyway.

The system announces changes (watchfiles); what it does not announce (network drives, folders that
are mounted later, a queue that overflowed) is found by looking at all files every few minutes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from quoth.errors import MissingExtra
from quoth.text.folders.config import FolderConfig

_SOON_SECONDS = 10.0
"""A folder that is missing, or a sync that failed, is looked at again so soon."""

_TICK_SECONDS = 1.0
_MOST_STEPS = 10  # changes that never settle are seen to after so many times the settling


class Watcher:
    """Watches folders until it is told to stop; `retry` asks for another sync soon."""

    def __init__(
        self, collection: Path, list_folders: Callable[[], Sequence[str]], stop: threading.Event
    ) -> None:
        require_watchfiles()
        self._own = str(collection.resolve())
        self._list_folders = list_folders
        self._stop = stop
        self._is_soon = False
        self._last = 0.0

    def retry(self) -> None:
        """Sync again soon, whether anything changes or not."""
        self._is_soon = True

    def due(self, config: FolderConfig) -> Iterator[None]:
        """Yield whenever a sync is due; ends when told to stop."""
        yield from self._sync()
        while not self._stop.is_set():
            folders = self._there()
            if folders:
                yield from self._watch(folders, config)
            else:
                self._stop.wait(_TICK_SECONDS)
                if self._is_late(config):
                    yield from self._sync()

    def _watch(self, folders: Sequence[str], config: FolderConfig) -> Iterator[None]:
        """Follow folders as long as they are there; what changes during a sync is not lost."""
        from watchfiles import watch

        step = max(1, int(config.settle_seconds * 1000))
        changes = watch(
            *folders,
            watch_filter=lambda _kind, path: self._counts(path),
            debounce=_MOST_STEPS * step,
            step=step,
            stop_event=self._stop,
            rust_timeout=int(_TICK_SECONDS * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        is_first = True  # between the last sync and the first tick nobody watched
        with contextlib.closing(changes), contextlib.suppress(FileNotFoundError):
            for found in changes:
                if found or is_first or self._is_late(config):
                    yield from self._sync()
                is_first = False
                if self._there() != folders:
                    return

    def _sync(self) -> Iterator[None]:
        if not self._stop.is_set():
            self._is_soon = False
            yield
            self._last = time.monotonic()

    def _there(self) -> list[str]:
        return [each for each in self._list_folders() if os.path.isdir(each)]

    def _is_late(self, config: FolderConfig) -> bool:
        """Whether it is time to look at all files, whatever the system announced."""
        is_soon = self._is_soon or len(self._there()) < len(self._list_folders())
        wait = min(_SOON_SECONDS, config.rescan_seconds) if is_soon else config.rescan_seconds
        return time.monotonic() - self._last >= wait

    def _counts(self, path: str) -> bool:
        """Whether a change matters; those of the collection itself would never end."""
        real = os.path.realpath(path)
        is_own = real == self._own or real.startswith(self._own + os.sep)
        return not is_own and ".git" not in real.split(os.sep)


def require_watchfiles() -> None:
    """Say what to install where changes cannot be watched."""
    try:
        import watchfiles  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            'watching folders needs watchfiles; run pip install "quoth[watch]"'
        ) from error
