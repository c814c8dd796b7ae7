"""A reader at work: questions and passages in, readings out, on a CPU or a GPU.

Needs no transformers, whose loading takes longer than reading. Sequences of like length are read
together; a text that was read in several windows gets, for each subword, the scores of the window
in which it has more text around it. A reader is also a reranker: `score` reads each passage once,
for its relevance alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary

import numpy as np
import torch

from quoth.interruption import check_interruption
from quoth.models.batching import batches_by_length
from quoth.models.bert import Bert, pad
from quoth.models.pretrained import find_shipped, load_tokenizer
from quoth.models.quick_bert import quicken
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import SavedReader, load_tensors, read_saved
from quoth.models.reader.inputs import ReaderInputs, SubwordSequence, TitledText, Window
from quoth.models.reader.network import ReaderScores, SequenceBatch, score_states
from quoth.models.reader.spans import Reading

SHIPPED = "reader"
_BUDGET = 1024  # subwords of a batch; what more need leaves the caches of a CPU


class Reader:
    """Reads passages for questions."""

    _loaded: ClassVar[WeakValueDictionary[tuple[str, str, bool], Reader]] = WeakValueDictionary()
    _loading: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, network: Bert, heads: dict[str, torch.Tensor], inputs: ReaderInputs) -> None:
        self._network = network
        self._heads = heads
        self._inputs = inputs

    @classmethod
    def load(cls, name: str = SHIPPED, *, quick: bool = True) -> Reader:
        """Load a reader: the shipped one, or one's folder; exact in fp32 unless `quick`.

        Whoever answers and whoever reranks share one, for as long as either keeps it.
        """
        folder = Path(name) if Path(name).is_dir() else find_shipped(name)
        saved = read_saved(folder)
        key = str(folder.resolve()), saved.sha256, quick
        with cls._loading:
            reader = cls._loaded.get(key)
            if reader is None:
                reader = cls._loaded[key] = _load(folder, saved, quick=quick)
        return reader

    @property
    def config(self) -> ReaderConfig:
        """How questions and passages are cut."""
        return self._inputs.config

    def read(self, question: str, passages: Sequence[TitledText]) -> list[Reading]:
        """Read passages for one question."""
        return self.read_all([question], [passages])[0]

    def read_all(
        self, questions: Sequence[str], passages: Sequence[Sequence[TitledText]]
    ) -> list[list[Reading]]:
        """Read the passages of each question, all questions' together."""
        windows = [
            self._inputs.windows(question, own)
            for question, own in zip(questions, passages, strict=True)
        ]
        scores = self._score([window for own in windows for window in own])
        readings, at = [], 0
        for own, texts in zip(windows, passages, strict=True):
            read = list(zip(own, scores[at : at + len(own)], strict=True))
            at += len(own)
            readings.append([_join(read, number) for number in range(len(texts))])
        return readings

    def score(
        self, queries: Sequence[str], passages: Sequence[TitledText], *, most: int | None = None
    ) -> list[float]:
        """Return how relevant each passage is to the query beside it.

        What does not fit into `most` subwords, of query, title and text, is not read.
        """
        sequences = self._inputs.pairs(queries, passages, most=most)
        found = [0.0] * len(sequences)
        for rows, batch in _batches(sequences):
            for row, score in zip(rows, self._relevance(batch), strict=True):
                found[row] = score
        return found

    @torch.inference_mode()
    def _relevance(self, batch: SequenceBatch) -> list[float]:
        ids, fields, mask = batch
        scores = score_states(self._network.states(ids, mask, fields, first=1), self._heads)
        return [float(each) for each in scores.relevance]

    @torch.inference_mode()
    def _score(self, windows: Sequence[Window]) -> list[ReaderScores]:
        found: list[ReaderScores | None] = [None] * len(windows)
        for rows, (ids, fields, mask) in _batches([window.sequence for window in windows]):
            scores = score_states(self._network.states(ids, mask, fields), self._heads)
            for at, row in enumerate(rows):
                found[row] = ReaderScores(*(part[at].cpu() for part in scores))
        return [each for each in found if each is not None]


def _load(folder: Path, saved: SavedReader, *, quick: bool) -> Reader:
    base = saved.encoder.find(folder)
    tensors, shape = load_tensors(folder, saved, base=base)
    heads = {name: tensors.pop(name) for name in list(tensors) if _is_head(name)}
    network = quicken(tensors, shape) if quick else Bert(tensors, shape)
    return Reader(network, heads, ReaderInputs(load_tokenizer(base), saved.config))


def _batches(sequences: Sequence[SubwordSequence]) -> Iterator[tuple[list[int], SequenceBatch]]:
    """Put sequences of like length together; yields which they are."""
    for rows in batches_by_length([len(each.subword_ids) for each in sequences], budget=_BUDGET):
        check_interruption()
        ids, mask = pad([sequences[row].subword_ids.tolist() for row in rows])
        seconds = torch.tensor([sequences[row].second for row in rows])
        yield (
            rows,
            SequenceBatch(ids, (torch.arange(ids.shape[1]) >= seconds[:, None]).long(), mask),
        )


def _is_head(name: str) -> bool:
    return name.startswith(("places.", "relevance."))


def _join(read: Sequence[tuple[Window, ReaderScores]], number: int) -> Reading:
    """Join the windows of one passage; of a subword read twice, the deeper inside counts."""
    own = [(window, scores) for window, scores in read if window.passage == number]
    length = max((window.start + len(window.spans) for window, _scores in own), default=0)
    spans = np.zeros((length, 2), dtype=np.int64)
    places, depths = np.zeros((3, length)), np.full(length, -1)
    for window, scores in own:
        count, first = len(window.spans), window.sequence.text
        part = slice(window.start, window.start + count)
        depth = np.minimum(np.arange(count), np.arange(count)[::-1])
        deeper = depth > depths[part]
        found = torch.stack(scores[:3]).double().numpy()[:, first : first + count]
        places[:, part] = np.where(deeper, found, places[:, part])
        depths[part] = np.maximum(depth, depths[part])
        spans[part] = window.spans
    silences = [float(scores.starts[0] + scores.ends[0]) for _window, scores in own]
    relevances = [float(scores.relevance) for _window, scores in own]
    starts, ends, evidence = places
    silence, relevance = min(silences, default=0.0), max(relevances, default=-np.inf)
    return Reading(spans, starts, ends, evidence, silence, relevance)
