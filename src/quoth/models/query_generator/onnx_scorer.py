"""The small query generator as a scorer, by ONNX Runtime: one graph reads and scores.

In int8 where the processor multiplies it in hardware, as the reader is, else in fp32. Words are
looked up here. The encoder's states come out beside log p, for late interaction.

Shapes: B passages of T subwords, one query of L, which every passage is asked to have led to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from quoth.errors import Damaged
from quoth.interruption import check_interruption
from quoth.models.batching import batches_by_length
from quoth.models.bert import pad
from quoth.models.bert_files import BertShape, read_shape, read_weights
from quoth.models.onnx_bert import BertWriter
from quoth.models.onnx_graph import MICROSOFT
from quoth.models.onnx_int8 import open_session
from quoth.models.processor import has_fast_int8, num_threads
from quoth.models.query_generator.heard import Heard, Vectors, cut_where_read
from quoth.models.query_generator.saved import DECODER_FILE, read_saved
from quoth.models.tensor_files import Floats, read_sealed_arrays, widen

_MIX = "memory.mix"
_BUDGET = 400  # subwords of a batch; what more need leaves the caches of a CPU


def open_onnx_scorer(folder: Path, base: Path, *, int8: bool | None = None) -> OnnxScorer | None:
    """Open the generator in a folder over its encoder; None where that is no plain BERT."""
    saved, shape = read_saved(folder), read_shape(base)
    whole = None if shape is None else read_weights(base, shape)
    if shape is None or whole is None:
        return None
    tensors = whole | widen(read_sealed_arrays(folder / DECODER_FILE, sha256=saved.sha256))
    if (f"{_MIX}.weight" in tensors) != (saved.config.memory == "layers"):
        raise Damaged(f"{folder / DECODER_FILE} does not fit its settings; copy the folder anew")
    quick = has_fast_int8() if int8 is None else int8
    return OnnxScorer(tensors, shape, num_layers=saved.config.num_layers, int8=quick)


class OnnxScorer:
    """Encoder and decoder: passages and a query in, states and log p out."""

    def __init__(
        self, tensors: Mapping[str, Floats], shape: BertShape, *, num_layers: int, int8: bool
    ) -> None:
        self._words, self._positions, self._fields = (
            tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        self._places = tensors["positions.weight"]
        model = _Writer(tensors, shape, int8=int8).write_scorer(num_layers)
        self._session = open_session(model, threads=num_threads())

    def read(self, passages: Sequence[Sequence[int]], query: Sequence[int]) -> Heard:
        """Read passages, `[CLS] … [SEP]`, for a query that ends with `[SEP]`."""
        states: list[Vectors] = [self._words[:0]] * len(passages)
        log_probs = [0.0] * len(passages)
        lengths = [len(each) for each in passages]
        for rows in batches_by_length(lengths, budget=_BUDGET):
            check_interruption()
            last, scores = self._run([passages[row] for row in rows], query)
            own = cut_where_read(last, [lengths[row] for row in rows])
            for row, each, score in zip(rows, own, scores.sum(1).tolist(), strict=True):
                states[row], log_probs[row] = each, score
        return Heard(states, log_probs)

    def _run(
        self, passages: Sequence[Sequence[int]], query: Sequence[int]
    ) -> tuple[Vectors, Vectors]:
        ids, lengths = pad(passages)
        embedded = self._words[ids] + self._fields[0] + self._positions[: ids.shape[1]]
        written = np.array([passages[0][0], *query[:-1]])  # begins with what opens a passage
        asked = self._words[written] + self._places[: len(written)]
        count = len(passages)
        feed = {
            "embedded": np.asarray(embedded, np.float32),
            "lengths": lengths.astype(np.int32),
            "asked": np.repeat(np.asarray(asked, np.float32)[None], count, 0),
            "targets": np.repeat(np.array(query, np.int64)[None, :, None], count, 0),
        }
        last, scores = self._session.run(None, feed)
        return last, scores[..., 0]


class _Writer(BertWriter):
    """Writes encoder and decoder down."""

    def write_scorer(self, num_layers: int) -> bytes:
        """Return the model: embedded subwords in, states and log-probabilities out."""
        graph = self._graph
        embedded = graph.input("embedded", "float32", 3)
        graph.input("lengths", "int32", 1)
        asked = graph.input("asked", "float32", 3)
        graph.input("targets", "int64", 3)
        layers = self.read_all(embedded, self._shape.num_layers)
        memory = self._remember(layers)
        hidden = self._normalise("embedding_norm", asked)
        for layer in range(num_layers):
            hidden = self._write_layer(f"layers.{layer}.", hidden, memory)
        return graph.model([(layers[-1], "float32", 3), (self._look_up(hidden), "float32", 3)])

    def _remember(self, layers: Sequence[str]) -> str:
        """Join the states of a passage to what the decoder reads, as `Memory` does."""
        if f"{_MIX}.weight" not in self._tensors:
            return layers[-1]
        chosen = [layers[0], layers[len(layers) // 2]]
        earlier = self._graph.add("Concat", chosen, axis=-1)
        return self._graph.add("Add", [layers[-1], self._project([_MIX], earlier)])

    def _write_layer(self, within: str, hidden: str, memory: str) -> str:
        """Look back, look at the passage, transform; each is added to what there was."""
        graph = self._graph
        found = self._look(f"{within}attention.", hidden, None)
        hidden = self._normalise(f"{within}attention_norm", graph.add("Add", [found, hidden]))
        found = self._look(f"{within}cross_attention.", hidden, memory)
        hidden = self._normalise(f"{within}cross_norm", graph.add("Add", [found, hidden]))
        inner = [self._multiply([f"{within}expand"], hidden), self._bias([f"{within}expand"])]
        raised = graph.add("BiasGelu", inner, domain=MICROSOFT)
        added = graph.add("Add", [self._project([f"{within}contract"], raised), hidden])
        return self._normalise(f"{within}output_norm", added)

    def _look(self, within: str, hidden: str, memory: str | None) -> str:
        """Let what is written look at what stands before it, or at a passage."""
        names = [f"{within}{name}" for name in ("query", "key", "value")]
        if memory is None:
            parts = self._split(self._multiply(names, hidden), 3)
            rest: dict[str, int] = {"unidirectional": 1}
            masks: list[str] = []
        else:
            parts = [self._multiply(names[:1], hidden)]
            parts += self._split(self._multiply(names[1:], memory), 2)
            rest, masks = {}, ["lengths"]
        found = self._graph.add(
            "MultiHeadAttention",
            [*parts, self._bias(names), *masks],
            domain=MICROSOFT,
            num_heads=self._shape.num_heads,
            **rest,
        )
        return self._project([f"{within}output"], found)

    def _look_up(self, hidden: str) -> str:
        """Return the log-probability of each subword of the query."""
        graph = self._graph
        normed = self._normalise("head_norm", hidden)
        logits = self._multiply(["embeddings.word_embeddings"], normed)
        bias = graph.constant("head", self._tensors["head_bias"])
        logits = graph.add("Add", [logits, bias])
        given = graph.add("LogSoftmax", [logits], axis=-1)
        return graph.add("GatherElements", [given, "targets"], axis=2)
