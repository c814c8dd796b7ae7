"""A reader at work: questions and passages in, readings out, on a CPU or a GPU.

Needs no transformers, whose loading takes longer than reading. Sequences of like length are read
together; a text that was read in several windows gets, for each subword, the scores of the window
in which it has more text around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from quoth.models.batching import batches_by_length
from quoth.models.bert import Bert, pad
from quoth.models.pretrained import find_shipped, load_tokenizer
from quoth.models.quick_bert import quicken
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import load_tensors, read_saved
from quoth.models.reader.inputs import ReaderInputs, TitledText, Window
from quoth.models.reader.network import ReaderScores, score_states
from quoth.models.reader.spans import Reading

SHIPPED = "reader"
_BUDGET = 4096  # subwords of a batch; more do not fit into the caches of a CPU


class Reader:
    """Reads passages for questions."""

    def __init__(self, network: Bert, heads: dict[str, torch.Tensor], inputs: ReaderInputs) -> None:
        self._network = network
        self._heads = heads
        self._inputs = inputs

    @classmethod
    def load(cls, name: str = SHIPPED, *, quick: bool = True) -> Self:
        """Load a reader: the shipped one, or one's folder; exact in fp32 unless `quick`."""
        folder = Path(name) if Path(name).is_dir() else find_shipped(name)
        saved = read_saved(folder)
        base = saved.encoder.find(folder)
        tensors, shape = load_tensors(folder, saved, base=base)
        heads = {name: tensors.pop(name) for name in list(tensors) if _is_head(name)}
        network = quicken(tensors, shape) if quick else Bert(tensors, shape)
        return cls(network, heads, ReaderInputs(load_tokenizer(base), saved.config))

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

    def score(self, queries: Sequence[str], passages: Sequence[TitledText]) -> list[float]:
        """Return how relevant each passage is to the query beside it."""
        found = self.read_all(queries, [[each] for each in passages])
        return [own[0].relevance for own in found]

    @torch.inference_mode()
    def _score(self, windows: Sequence[Window]) -> list[ReaderScores]:
        sequences = [window.sequence for window in windows]
        found: list[ReaderScores | None] = [None] * len(sequences)
        lengths = [len(each.subword_ids) for each in sequences]
        for rows in batches_by_length(lengths, budget=_BUDGET):
            ids, mask = pad([sequences[row].subword_ids.tolist() for row in rows])
            seconds = torch.tensor([sequences[row].second for row in rows])
            fields = (torch.arange(ids.shape[1]) >= seconds[:, None]).long()
            scores = score_states(self._network.states(ids, mask, fields), self._heads)
            for at, row in enumerate(rows):
                found[row] = ReaderScores(*(part[at].cpu() for part in scores))
        return [each for each in found if each is not None]


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
