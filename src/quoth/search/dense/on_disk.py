"""What a collection has of the vectors of one encoder, told without the libraries they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quoth.artifact import FILE_NAME
from quoth.collection.store import Store
from quoth.errors import CollectionError, OutOfFiles
from quoth.index.dense.state import DenseState, read_state


class VectorsOnDisk:
    """The folder of a dense index."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self._store = store
        self._is_ours = False
        self._read: tuple[tuple[int, int, int], DenseState | None] | None = None

    @property
    def were_finished(self) -> bool:
        """Whether every document had its vectors at least once; writing keeps them in step.

        A damaged index counts as one; whoever uses it says so.
        """
        try:
            state = self._state()
        except OutOfFiles:
            raise
        except CollectionError:
            return True
        return state is not None and _was_finished(state)

    @property
    def are_usable(self) -> bool:
        """Whether there are vectors to search by: all, or some that an encoding has made so far."""
        if self.were_finished:
            return True
        state = self._state()
        if state is None:
            return False
        if not self._is_ours:  # else it stays so as long as the store is looked at
            from quoth.search.dense.record import EncodingRecord

            self._is_ours = EncodingRecord(self.folder).is_of_history(self._store)
        return self._is_ours

    def are_current(self, change: int) -> bool:
        """Whether everything up to a change is encoded."""
        state, log = self._state(), self._store.log_digest(change)
        return state is not None and (state.change, state.log) == (change, log)

    def model(self) -> dict[str, Any] | None:
        """Describe the model that made the vectors; None without any."""
        state = self._state()
        return None if state is None else dict(state.model)

    def _state(self) -> DenseState | None:
        """Read the recorded state, again where its file is another."""
        try:
            found = (self.folder / FILE_NAME).stat()
        except OSError:  # reading says what is wrong, if anything is
            return read_state(self.folder)
        file = (found.st_ino, found.st_mtime_ns, found.st_size)
        if self._read is None or self._read[0] != file:
            self._read = file, read_state(self.folder)
        return self._read[1]


def _was_finished(state: DenseState) -> bool:
    return state.change > 0 or not state.segments
