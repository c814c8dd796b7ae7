"""One encoder for all threads of a server: queries that come while it works are encoded together.

Nobody waits for company: the first query is encoded at once, and whoever comes meanwhile forms the
next batch. So one client pays nothing, and many clients share calls.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quoth.models.glow.encoded import Encoded, Encoder, Vectors
from quoth.models.glow.inputs import Fields, SubwordSequence
from quoth.models.glow.weights import WordCounts
from quoth.server.monitoring.timings import StageTimes


@dataclass(slots=True)
class _WaitingQueries:
    texts: tuple[str, ...]
    encoded: Encoded | None = None
    error: BaseException | None = None


class BatchingEncoder:
    """An encoder that joins the queries of several threads into one call."""

    def __init__(self, encoder: Encoder, stages: StageTimes) -> None:
        self.name = encoder.name
        self.config = encoder.config
        self.width = encoder.width
        self.inputs = encoder.inputs
        self._encoder = encoder
        self._stages = stages
        self._list_lock = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[_WaitingQueries] = []

    def encode_subwords(self, sequences: Sequence[SubwordSequence]) -> list[Vectors] | None:
        """Return a vector of unit length for each subword of each sequence."""
        return self._encoder.encode_subwords(sequences)

    def look(self, sequence: SubwordSequence, *, is_query: bool) -> Sequence[float] | None:
        """Return the share of each subword in the looks that end in the vector."""
        return self._encoder.look(sequence, is_query=is_query)

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which vectors come out."""
        return self._encoder.identity()

    def encode_documents(
        self, documents: Sequence[Fields], *, counts: WordCounts | None = None
    ) -> Encoded:
        """Encode documents or passages, in their order."""
        return self._encoder.encode_documents(documents, counts=counts)

    def encode_queries(self, texts: Sequence[str], *, counts: WordCounts | None = None) -> Encoded:
        """Encode queries, in their order, perhaps together with those of others.

        Where attention is weighted, each thread has its own counts, so its queries go alone.
        """
        with self._stages.timed("encode"):
            if counts is not None:
                with self._turn:
                    return self._encoder.encode_queries(texts, counts=counts)
            return self._encode_together(_WaitingQueries(tuple(texts)))

    def _encode_together(self, asked: _WaitingQueries) -> Encoded:
        with self._list_lock:
            self._waiting.append(asked)
        with self._turn:  # whoever had the turn before may have encoded these, too
            if asked.encoded is None and asked.error is None:
                self._encode_waiting()
        if asked.error is not None:
            raise asked.error
        assert asked.encoded is not None
        return asked.encoded

    def _encode_waiting(self) -> None:
        with self._list_lock:
            batch, self._waiting = self._waiting, []
        texts = [text for asked in batch for text in asked.texts]
        try:
            together = self._encoder.encode_queries(texts)
        except BaseException as error:
            for asked in batch:
                asked.error = error
            return
        start = 0
        for asked in batch:
            end = start + len(asked.texts)
            asked.encoded = Encoded(
                together.vectors[start:end], together.lengths[start:end], together.cuts[start:end]
            )
            start = end
