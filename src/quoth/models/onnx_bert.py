"""BERT to read with, by ONNX Runtime: half a second after the start instead of several.

Where a processor multiplies int8 in hardware, a quick network has matrices of int8 with a scale per
row, and rounds each subword's state before a product by its own range: what is read together with a
text changes nothing about it. The rest, and everything on other processors, is fp32. Words are
looked up here, as a whole table of them need not be loaded for a few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from quoth.models.bert_files import ATTENDED, EMBEDDED, TRANSFORMED, BertShape
from quoth.models.onnx_graph import MICROSOFT, OnnxGraph
from quoth.models.onnx_int8 import multiply_int8, open_session
from quoth.models.processor import has_fast_int8, num_threads
from quoth.models.tensor_files import Floats


class OnnxBert:
    """The transformer without its pooler: subwords in, states out."""

    def __init__(self, tensors: Mapping[str, Floats], shape: BertShape, *, quick: bool) -> None:
        """`tensors` by the names that transformers gives them."""
        self.shape = shape
        self._words, self._positions, self._fields = (
            tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        model = BertWriter(tensors, shape, int8=quick and has_fast_int8()).write()
        self._session = open_session(model, threads=num_threads())

    def states(
        self,
        subword_ids: NDArray[np.int64],
        lengths: NDArray[np.int64],
        field_ids: NDArray[np.int64] | None = None,
        *,
        first: int | None = None,
    ) -> Floats:  # (B, T), (B,) -> (B, T, D)
        """Read sequences of these lengths; what fills them up may be any subword.

        Without `field_ids`, everything is of the first kind. Only the states of the `first`
        subwords are returned (None: all), which spares most of the last layer.
        """
        longest = subword_ids.shape[1]
        kinds = self._fields[0] if field_ids is None else self._fields[field_ids]
        embedded = self._words[subword_ids] + kinds + self._positions[:longest]
        feed = {
            "embedded": np.asarray(embedded, np.float32),
            "lengths": lengths.astype(np.int32),
            "kept": np.array([longest if first is None else first]),
        }
        (states,) = self._session.run(None, feed)
        return states  # type: ignore[no-any-return]


class BertWriter:
    """Writes the network down, or the layers of one like it."""

    def __init__(self, tensors: Mapping[str, Floats], shape: BertShape, *, int8: bool) -> None:
        self._tensors = tensors
        self._shape = shape
        self._int8 = int8
        self._graph = OnnxGraph()

    def write(self) -> bytes:
        """Return the model: embedded subwords and lengths in, states out."""
        graph, last = self._graph, self._shape.num_layers - 1
        embedded = graph.input("embedded", "float32", 3)
        graph.input("lengths", "int32", 1)
        graph.input("kept", "int64", 1)
        states = self._normalise(EMBEDDED, embedded)
        for layer in range(last + 1):
            states = self._read_layer(f"encoder.layer.{layer}.", states, is_last=layer == last)
        return graph.model([(states, "float32", 3)])

    def read_all(self, embedded: str, num_layers: int) -> list[str]:
        """Return the states of the embeddings and of every layer, of all subwords."""
        states = [self._normalise(EMBEDDED, embedded)]
        for layer in range(num_layers):
            states.append(self._read_layer(f"encoder.layer.{layer}.", states[-1], is_last=False))
        return states

    def _read_layer(self, within: str, states: str, *, is_last: bool) -> str:
        """Attend, then transform each subword that is kept; both are added to what was read."""
        graph = self._graph
        kept = self._keep(states) if is_last else states
        found = self._attend(f"{within}attention.self.", states, kept if is_last else None)
        attended = self._project([f"{within}attention.output.dense"], found)
        states = self._normalise(within + ATTENDED, graph.add("Add", [attended, kept]))
        inner = self._multiply([f"{within}intermediate.dense"], states)
        bias = self._bias([f"{within}intermediate.dense"])
        inner = graph.add("BiasGelu", [inner, bias], domain=MICROSOFT)
        transformed = self._project([f"{within}output.dense"], inner)
        return self._normalise(within + TRANSFORMED, graph.add("Add", [transformed, states]))

    def _keep(self, states: str) -> str:
        """Take the first subwords, as many as are asked for."""
        ends = [self._whole("zero", [0]), "kept", self._whole("one", [1])]
        return self._graph.add("Slice", [states, *ends])

    def _attend(self, within: str, states: str, kept: str | None) -> str:
        """Let subwords look at all; those that are kept, where they are told."""
        names = [f"{within}{name}" for name in ("query", "key", "value")]
        if kept is None:
            parts = self._split(self._multiply(names, states), 3)
        else:
            parts = [self._multiply(names[:1], kept)]
            parts += self._split(self._multiply(names[1:], states), 2)
        inputs = [*parts, self._bias(names), "lengths"]
        heads = self._shape.num_heads
        return self._graph.add("MultiHeadAttention", inputs, domain=MICROSOFT, num_heads=heads)

    def _split(self, joined: str, count: int) -> list[str]:
        return self._graph.add_many("Split", [joined], count, axis=2, num_outputs=count)

    def _project(self, names: Sequence[str], states: str) -> str:
        return self._graph.add("Add", [self._multiply(names, states), self._bias(names)])

    def _multiply(self, names: Sequence[str], states: str) -> str:
        """Multiply states by the matrices of some layers, side by side."""
        matrix = np.concatenate([self._tensors[f"{name}.weight"] for name in names])
        if not self._int8:
            weight = self._graph.constant(f"{names[0]}.weight", matrix)
            return self._graph.add("FusedMatMul", [states, weight], domain=MICROSOFT, transB=1)
        return multiply_int8(self._graph, names[0], matrix, states)

    def _bias(self, names: Sequence[str]) -> str:
        bias = np.concatenate([self._tensors[f"{name}.bias"] for name in names])
        return self._graph.constant(f"{names[0]}.bias", bias)

    def _normalise(self, name: str, states: str) -> str:
        parts = [
            self._graph.constant(f"{name}.{part}", self._tensors[f"{name}.{part}"])
            for part in ("weight", "bias")
        ]
        epsilon = self._shape.norm_epsilon
        return self._graph.add("LayerNormalization", [states, *parts], epsilon=epsilon, axis=-1)

    def _whole(self, name: str, values: Sequence[int]) -> str:
        return self._graph.constant(name, np.array(values, np.int64))
