"""A reader at work: questions and passages in, readings out, on a CPU.

Needs neither torch nor transformers, whose loading takes longer than reading. Sequences of like
length are read together; a text that was read in several windows gets, for each subword, the scores
of the window in which it has more text around it. A reader is also a reranker: `score` reads each
passage once, for its relevance alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from quoth.interruption import check_interruption
from quoth.models.batching import batches_by_length
from quoth.models.bert import Ids, ReadsBert, open_bert, pad
from quoth.models.pretrained import find_shipped, load_tokenizer
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import SavedReader, load_tensors, read_saved
from quoth.models.reader.inputs import ReaderInputs, SubwordSequence, TitledText, Window
from quoth.models.reader.spans import Reading
from quoth.models.tensor_files import Floats

SHIPPED = "reader"
Heads = Mapping[str, Floats]
_BUDGET = 768  # subwords of a batch; what more need leaves the caches of a CPU


class _Batch(NamedTuple):
    """Padded sequences of subwords."""

    subword_ids: Ids  # (B, T)
    lengths: Ids  # (B,)
    field_ids: Ids  # (B, T), 0 for the question


class _Scores(NamedTuple):
    """What is said of each subword of a sequence, and of the whole."""

    places: Floats  # (3, T): as the first of an answer, as its last, as evidence
    relevance: float


class Reader:
    """Reads passages for questions."""

    _loaded: ClassVar[WeakValueDictionary[tuple[str, str, bool], Reader]] = WeakValueDictionary()
    _loading: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, network: ReadsBert, heads: Heads, inputs: ReaderInputs) -> None:
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

    def _relevance(self, batch: _Batch) -> list[float]:
        states = self._network.states(*batch, first=1)
        return [float(each) for each in _project(states[:, 0], self._heads, "relevance")[:, 0]]

    def _score(self, windows: Sequence[Window]) -> list[_Scores]:
        found: dict[int, _Scores] = {}
        for rows, batch in _batches([window.sequence for window in windows]):
            states = self._network.states(*batch)
            places = _project(states, self._heads, "places")
            relevance = _project(states[:, 0], self._heads, "relevance")
            for at, row in enumerate(rows):
                found[row] = _Scores(places[at].T, float(relevance[at, 0]))
        return [found[row] for row in range(len(windows))]


def _load(folder: Path, saved: SavedReader, *, quick: bool) -> Reader:
    base = saved.encoder.find(folder)
    tensors, shape = load_tensors(folder, saved, base=base)
    heads = {name: tensors.pop(name) for name in list(tensors) if _is_head(name)}
    network = open_bert(tensors, shape, quick=quick)
    return Reader(network, heads, ReaderInputs(load_tokenizer(base), saved.config))


def _project(states: Floats, heads: Heads, name: str) -> Floats:
    return states @ heads[f"{name}.weight"].T + heads[f"{name}.bias"]


def _batches(sequences: Sequence[SubwordSequence]) -> Iterator[tuple[list[int], _Batch]]:
    """Put sequences of like length together; yields which they are."""
    for rows in batches_by_length([len(each.subword_ids) for each in sequences], budget=_BUDGET):
        check_interruption()
        ids, lengths = pad([sequences[row].subword_ids for row in rows])
        seconds = np.array([sequences[row].second for row in rows])
        fields = (np.arange(ids.shape[1]) >= seconds[:, None]).astype(np.int64)
        yield rows, _Batch(ids, lengths, fields)


def _is_head(name: str) -> bool:
    return name.startswith(("places.", "relevance."))


def _join(read: Sequence[tuple[Window, _Scores]], number: int) -> Reading:
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
        found = scores.places[:, first : first + count]
        places[:, part] = np.where(deeper, found, places[:, part])
        depths[part] = np.maximum(depth, depths[part])
        spans[part] = window.spans
    silences = [float(scores.places[0, 0] + scores.places[1, 0]) for _window, scores in own]
    relevances = [scores.relevance for _window, scores in own]
    starts, ends, evidence = places
    silence, relevance = min(silences, default=0.0), max(relevances, default=-np.inf)
    return Reading(spans, starts, ends, evidence, silence, relevance)
