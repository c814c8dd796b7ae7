"""Products in int8 for ONNX Runtime: matrices by rows, states each by its own range.

What is read together with a state changes nothing about it, and neither do threads.
"""

from __future__ import annotations

import numpy as np
import onnxruntime

from quoth.models.onnx_graph import MICROSOFT, OnnxGraph
from quoth.models.tensor_files import Floats

_TINY = np.float32(np.finfo(np.float32).tiny)
_MIDDLE = 128  # what zero is rounded to


def multiply_int8(graph: OnnxGraph, name: str, matrix: Floats, states: str) -> str:
    """Round the matrix by rows and each state by its range, multiply, and scale both back."""
    return multiply_rounded(graph, name, matrix, *round_states(graph, states, matrix.shape[1]))


def multiply_rounded(graph: OnnxGraph, name: str, matrix: Floats, rounded: str, ranges: str) -> str:
    """Multiply states that were rounded before by a matrix."""
    scales = np.maximum(np.abs(matrix).max(1) / np.float32(127), _TINY)
    small = np.rint(matrix / scales[:, None]).astype(np.int8)
    inputs = [
        rounded,
        graph.constant(f"{name}.weight", small.T),
        graph.constant("whole", np.array(1, np.float32)),
        graph.constant(f"{name}.scales", scales),
        graph.constant("middle", np.array(_MIDDLE, np.uint8)),
    ]
    product = graph.add("MatMulIntegerToFloat", inputs, domain=MICROSOFT)
    return graph.add("Mul", [product, ranges])


def round_states(graph: OnnxGraph, states: str, width: int) -> tuple[str, str]:
    """Round each state to int8 by its largest number; returns how much one stands for."""
    sizes = graph.add("Abs", [states])
    last = graph.constant("last", np.array([-1], np.int64))
    largest = graph.add("ReduceMax", [sizes, last], keepdims=1)
    ranges = graph.add("Mul", [largest, graph.constant("step", np.array(1 / 127, np.float32))])
    ranges = graph.add("Max", [ranges, graph.constant("tiny", np.array(_TINY))])
    by_width = graph.constant(f"by {width}", np.array([-1, width], np.int64))
    flat = graph.add("Reshape", [states, by_width])
    own = graph.add("Reshape", [ranges, graph.constant("flat", np.array([-1], np.int64))])
    middle = graph.constant("middle", np.array(_MIDDLE, np.uint8))
    middles = graph.add("Expand", [middle, graph.add("Shape", [own])])
    rounded = graph.add("QuantizeLinear", [flat, own, middles], axis=0)
    return graph.add("Reshape", [rounded, graph.add("Shape", [states])]), ranges


def open_session(model: bytes, *, threads: int) -> onnxruntime.InferenceSession:
    """Open a model to be run by so many threads, which sleep while there is nothing to do."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leaves others alone
    return onnxruntime.InferenceSession(model, options)
