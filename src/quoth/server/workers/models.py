"""Engines for the threads of a server; models are shared, each loaded by who needs it first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from quoth.engine.models import LoadedModels
from quoth.server.monitoring.timings import StageTimes
from quoth.settings.server import MAX_QUESTION_CHARS
from quoth.shards.opening import OpenedEngine

if TYPE_CHECKING:
    from quoth.engine.language_model import OpenedModel
    from quoth.models.glow.encoded import Encoder
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.models.reader.reader import Reader
    from quoth.search.generative.files import GenerativeModel

_LIMITS = {"answer": {"max_question_chars": MAX_QUESTION_CHARS}}
"""The server's limit on questions stands in place of the command line's."""


def share_engine(first: OpenedEngine, stages: StageTimes) -> Callable[[], OpenedEngine]:
    """Return what opens an engine for a thread; all of them share models."""
    models = SharedModels(stages)
    return lambda: first.beside(
        models, open_model=models.language_model, timed=stages.timed, settings=[_LIMITS]
    )


class SharedModels(LoadedModels):
    """Models for several engines."""

    def __init__(self, stages: StageTimes) -> None:
        super().__init__()
        self._stages = stages
        self._lock = threading.Lock()
        self._language_models: WeakValueDictionary[str, OpenedModel] = WeakValueDictionary()
        self.turn: AbstractContextManager[object] = threading.RLock()

    def encoder(self, name: str) -> Encoder:
        """Return an encoder that joins the queries of several threads."""
        with self._lock:
            loaded = super().encoder(name)
            from quoth.server.workers.batching_encoder import BatchingEncoder

            if not isinstance(loaded, BatchingEncoder):
                loaded = BatchingEncoder(loaded, self._stages)
                self._encoders[name] = loaded
            return loaded

    def generator(self, name: str) -> QueryGenerator:
        """Return a query generator."""
        with self._lock:
            return super().generator(name)

    def reader(self, name: str) -> Reader:
        """Return a reader, the same one as for answers."""
        with self._lock:
            return super().reader(name)

    def generative(self, folder: Path) -> GenerativeModel:
        """Return a model for generative search."""
        with self._lock:
            return super().generative(folder)

    def language_model(self, name: str) -> OpenedModel:
        """Return a language model, kept for as long as an engine answers with it."""
        from quoth.engine.language_model import open_language_model

        with self._lock:
            opened = self._language_models.get(name)
            if opened is None:
                opened = self._language_models[name] = open_language_model(name)
            return opened
