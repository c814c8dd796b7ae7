"""A causal query generator that scores queries, by ONNX Runtime in int8, which is faster.

Reads a passage and the query after it in one go, and returns the log-probability of each of the
query's subwords. For processors that multiply int8 in hardware; writing queries, and everything on
other processors, is done by `CausalNetwork`, from whose merged weights this one is made.

A few numbers of a language model's states are so large that rounding by them would lose the rest.
All states are therefore turned by a rotation, which spreads them and is made part of the weights
(Ashkboos et al. 2024, QuaRot): in fp32 nothing changes. What enters `down_proj` cannot be turned
so, and stays in fp32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from quoth.models.dynamic_lm.llama import LlamaShape, rotations
from quoth.models.onnx_graph import MICROSOFT, OnnxGraph
from quoth.models.onnx_int8 import multiply_rounded, open_session, round_states
from quoth.models.processor import num_threads
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.tensor_files import Floats

_AFTER = {
    "input_layernorm": [f"self_attn.{name}_proj" for name in ("q", "k", "v")],
    "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"],
}
"""The matrices after each norm of a layer."""
_PART = 64  # numbers of a state that are turned among themselves, before parts are


class OnnxCausal:
    """The layers and the output table of a causal generator, in int8."""

    def __init__(self, network: CausalNetwork) -> None:
        """Write down a network whose adapters are merged."""
        self.prefix = network.prefix
        tensors = turn_states(network.state_dict(), network.shape)
        self._words = tensors["embed_tokens.weight"]
        self._kept = network.shape.num_key_heads, 0, network.shape.head_width
        model = _Writer(tensors, network.shape).write()
        self._session = open_session(model, threads=num_threads())

    def log_probs(
        self, passages: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[float]:
        """Return log p(target | passage) of each pair, summed over the target's subwords."""
        read = [
            [*passage, *self.prefix, *target[:-1]]
            for passage, target in zip(passages, targets, strict=True)
        ]
        lengths = np.array([len(each) for each in read], np.int32)
        ids = np.zeros((len(read), int(lengths.max())), np.int64)
        rows: list[int] = []
        for row, (own, target) in enumerate(zip(read, targets, strict=True)):
            ids[row, : len(own)] = own
            end = row * ids.shape[1] + len(own)
            rows.extend(range(end - len(target), end))
        feed = {
            "embedded": self._words[ids],
            "past": np.zeros((len(read), *self._kept), np.float32),
            "ends": lengths - 1,
            "length": np.array(ids.shape[1], np.int32),
            "rows": np.array(rows),
            "targets": np.array([each for own in targets for each in own])[:, None],
        }
        (found,) = self._session.run(None, feed)
        sizes = np.cumsum([len(each) for each in targets])[:-1]
        return [float(own.sum()) for own in np.split(found[:, 0], sizes)]


class _Writer:
    """Writes the network down."""

    def __init__(self, tensors: Mapping[str, Floats], shape: LlamaShape) -> None:
        """`tensors` by the names that the network gives them, the output table as `head`."""
        self._tensors = tensors
        self._shape = shape
        self._graph = OnnxGraph()

    def write(self) -> bytes:
        """Return the model: embedded subwords in, log-probabilities of targets out."""
        graph = self._graph
        states = graph.input("embedded", "float32", 3)
        graph.input("past", "float32", 4)
        graph.input("ends", "int32", 1)
        graph.input("length", "int32", 0)
        graph.input("rows", "int64", 1)
        graph.input("targets", "int64", 2)
        for number in range(self._shape.num_layers):
            states = self._read_layer(f"layers.{number}.", states)
        return graph.model([(self._look_up(states), "float32", 2)])

    def _read_layer(self, within: str, states: str) -> str:
        """Attend, then transform each subword; both are added to what was read."""
        graph = self._graph
        inner = self._normalise(f"{within}input_layernorm", states)
        found = self._attend(f"{within}self_attn.", inner)
        (attended,) = self._multiply([f"{within}self_attn.o_proj"], found)
        states = graph.add("Add", [states, attended])
        inner = self._normalise(f"{within}post_attention_layernorm", states)
        gate, up = self._multiply([f"{within}mlp.{name}_proj" for name in ("gate", "up")], inner)
        gate = graph.add("Mul", [gate, graph.add("Sigmoid", [gate])])
        inner = graph.add("Mul", [gate, up])
        name = f"{within}mlp.down_proj.weight"
        inputs = [inner, graph.constant(name, self._tensors[name])]
        transformed = graph.add("FusedMatMul", inputs, domain=MICROSOFT, transB=1)
        return graph.add("Add", [states, transformed])

    def _attend(self, within: str, states: str) -> str:
        """Let each subword look at those before it."""
        graph, shape = self._graph, self._shape
        cosines, sines = _rotations(shape)
        inputs = [
            *self._multiply([f"{within}{name}_proj" for name in ("q", "k", "v")], states),
            *("past", "past", "ends", "length"),
            graph.constant("cosines", cosines),
            graph.constant("sines", sines),
        ]
        found, _keys, _values = graph.add_many(
            "GroupQueryAttention",
            inputs,
            3,
            domain=MICROSOFT,
            num_heads=shape.num_heads,
            kv_num_heads=shape.num_key_heads,
            do_rotary=1,
        )
        return found

    def _look_up(self, states: str) -> str:
        """Return the log-probability of each target after the subword of its row."""
        graph = self._graph
        width = self._tensors["head.weight"].shape[1]
        flat = graph.add("Reshape", [states, graph.constant("states", np.array([-1, width]))])
        chosen = self._normalise("norm", graph.add("Gather", [flat, "rows"], axis=0))
        (logits,) = self._multiply(["head"], chosen)
        given = graph.add("LogSoftmax", [logits], axis=-1)
        return graph.add("GatherElements", [given, "targets"], axis=1)

    def _multiply(self, names: Sequence[str], states: str) -> list[str]:
        """Multiply states, rounded once, by each of some matrices."""
        matrices = [self._tensors[f"{name}.weight"] for name in names]
        rounded = round_states(self._graph, states, matrices[0].shape[1])
        return [
            multiply_rounded(self._graph, name, matrix, *rounded)
            for name, matrix in zip(names, matrices, strict=True)
        ]

    def _normalise(self, name: str, states: str) -> str:
        weight = self._graph.constant(f"{name}.weight", self._tensors[f"{name}.weight"])
        return self._graph.add(
            "SimplifiedLayerNormalization",
            [states, weight],
            epsilon=self._shape.norm_epsilon,
            axis=-1,
        )


def turn_states(tensors: Mapping[str, Tensor], shape: LlamaShape) -> dict[str, Floats]:
    """Return weights under which all states are turned, and what each head finds in itself.

    Norms become part of the matrices after them: what is left of a norm is not changed by turning.
    """
    turned = {name: _array(each) for name, each in tensors.items()}
    words = turned["embed_tokens.weight"]
    width, head = words.shape[1], shape.head_width
    inner = _rotation(head)
    ones = np.ones(width, np.float32)
    for layer in range(shape.num_layers):
        within = f"layers.{layer}."
        for norm, names in _AFTER.items():
            weight = turned[f"{within}{norm}.weight"]
            for name in names:
                matrix = f"{within}{name}.weight"
                turned[matrix] = turn_rows(turned[matrix] * weight)
            turned[f"{within}{norm}.weight"] = ones
        for name in (f"{within}self_attn.o_proj.weight", f"{within}mlp.down_proj.weight"):
            turned[name] = np.ascontiguousarray(turn_rows(turned[name].T).T)
        values, found = (f"{within}self_attn.{name}_proj.weight" for name in ("v", "o"))
        turned[values] = (inner @ turned[values].reshape(-1, head, width)).reshape(-1, width)
        turned[found] = (turned[found].reshape(width, -1, head) @ inner.T).reshape(width, -1)
    table = words if shape.is_tied else turned["head.weight"]
    turned["head.weight"] = turn_rows(table * turned["norm.weight"])
    return turned | {"embed_tokens.weight": turn_rows(words), "norm.weight": ones}


def turn_rows(matrix: Floats) -> Floats:
    """Turn each row by a rotation that is a product of two small ones: within parts, and of them.

    >>> rows = np.float32([[3, 0, 0, 4] * 48, [1, 2, 3, 4] * 48])
    >>> turned = turn_rows(rows)
    >>> bool(np.allclose(turned @ turned.T, rows @ rows.T)), bool(np.allclose(turned, rows))
    (True, False)
    """
    count, width = matrix.shape
    part = math.gcd(width, _PART)
    within = np.ascontiguousarray(matrix).reshape(-1, part) @ _rotation(part)
    parts = _rotation(width // part) @ within.reshape(count, -1, part)
    return np.asarray(parts, np.float32).reshape(count, width)


@functools.cache
def _rotation(width: int) -> Floats:
    """Return a rotation of so many numbers, always the same."""
    turn, _rest = np.linalg.qr(np.random.default_rng(width).standard_normal((width, width)))
    return np.asarray(turn, np.float32)


def _rotations(shape: LlamaShape) -> tuple[Floats, Floats]:
    """Return cosines and sines for every place, of half of a head's numbers each."""
    places = torch.arange(shape.max_position_embeddings)[None]
    cosines, sines = rotations(places, shape, like=torch.zeros(1))
    half = shape.head_width // 2
    flat = [each.reshape(-1, each.shape[-1])[:, :half] for each in (cosines, sines)]
    return _array(flat[0]), _array(flat[1])


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().float().contiguous().numpy()
