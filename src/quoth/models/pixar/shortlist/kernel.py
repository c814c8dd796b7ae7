"""The inner loop: rows of a head, wherever they lie, times the vectors of one query.

A framework first copies the wanted rows together and then multiplies them; the copy is the cost.
Here each row is read once, straight into registers, while the next ones are on their way. The
product is written with explicit vectors, since a compiler left alone makes half as wide ones of it
and spells the integer product out; it is the same on every processor, only slower without them.

Rows come in four codes, told apart by their dtype:

    float32   as they are
    uint16    bfloat16: the upper half of a float32
    int8      whole numbers, one scale per row
    uint8     two signed 4-bit numbers per byte: the lower half holds the first D/2 columns

Whole numbers are multiplied with vectors in int16, and summed up exactly, in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

VECTORS_AT_ONCE = 4
"""The number of vectors is a multiple of this."""

COLUMNS_AT_ONCE = 64
"""The number of columns is a multiple of this."""

_ROWS_AT_ONCE = 2
_PRODUCTS = _ROWS_AT_ONCE * VECTORS_AT_ONCE
_AHEAD = 8  # rows between the one computed and the one asked for
_LINE = 64  # bytes that memory gives at once
_LANES = 16

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_FLOAT = ir.FloatType()


def _long(value: int) -> Any:
    return ir.Constant(_LONG, value)


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """Return the address `offset` bytes after the start of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _BYTE.as_pointer()), [offset])


def _load(builder: Any, address: Any, element: Any, count: int) -> Any:
    pointer = builder.bitcast(address, ir.VectorType(element, count).as_pointer())
    return builder.load(pointer, align=1)


def _variable(builder: Any, start: Any) -> Any:
    variable = cgutils.alloca_once(builder, start.type)  # type: ignore[no-untyped-call]
    builder.store(start, variable)  # here, not once: the function may be called in a loop
    return variable


def _call(builder: Any, name: str, result: Any, arguments: list[Any], **options: Any) -> Any:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, name
    )
    return builder.call(function, arguments, **options)


def _generate_prefetch(_typing: Any, array: Any, offset: Any) -> Any:
    """Ask for the memory `offset` bytes after the start of an array, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        options = [ir.Constant(_INT, value) for value in (0, 2, 1)]  # to read, near, data
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [address, *options])
        return context.get_dummy_value()

    return types.void(array, offset), generate


prefetch: Any = intrinsic(_generate_prefetch)


def _generate_count(_typing: Any, word: Any) -> Any:
    """Count the bits that are set in a word of 64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


count_ones: Any = intrinsic(_generate_count)


def _read_row(builder: Any, code: Any, address: Any) -> list[Any]:
    """Read some columns of a row as numbers; of 4-bit numbers, those of both halves."""
    wide = ir.VectorType(_INT, 2 * _LANES)
    if code == types.int8:
        return [builder.sext(_load(builder, address, _BYTE, 2 * _LANES), wide)]
    if code == types.uint8:
        packed = _load(builder, address, _BYTE, 2 * _LANES)
        four = ir.Constant(packed.type, [4] * (2 * _LANES))
        halves = (builder.ashr(builder.shl(packed, four), four), builder.ashr(packed, four))
        return [builder.sext(each, wide) for each in halves]
    if code == types.uint16:
        raised = builder.zext(_load(builder, address, _SHORT, _LANES), ir.VectorType(_INT, _LANES))
        raised = builder.shl(raised, ir.Constant(raised.type, [16] * _LANES))
        return [builder.bitcast(raised, ir.VectorType(_FLOAT, _LANES))]
    return [_load(builder, address, _FLOAT, _LANES)]


def _read_vector(builder: Any, address: Any, *, whole: bool) -> Any:
    if whole:
        numbers = _load(builder, address, _SHORT, 2 * _LANES)
        return builder.sext(numbers, ir.VectorType(_INT, 2 * _LANES))
    return _load(builder, address, _FLOAT, _LANES)


def _add_product(builder: Any, total: Any, row: Any, vector: Any, *, whole: bool) -> None:
    """Add a product to 16 running sums; in this form processors have one instruction for it."""
    if whole:
        product = builder.mul(row, vector)
        nothing = ir.Constant(product.type, ir.Undefined)
        even, odd = (
            builder.shuffle_vector(
                product,
                nothing,
                ir.Constant(ir.VectorType(_INT, _LANES), list(range(first, 2 * _LANES, 2))),
            )
            for first in (0, 1)
        )
        builder.store(builder.add(builder.load(total), builder.add(even, odd)), total)
    else:
        new = _call(builder, "llvm.fma.v16f32", row.type, [row, vector, builder.load(total)])
        builder.store(new, total)


def _add_up(builder: Any, total: Any, *, whole: bool) -> Any:
    """Return the sum of 16 running sums as a float32."""
    lanes = builder.load(total)
    if whole:
        return builder.sitofp(
            _call(builder, "llvm.vector.reduce.add.v16i32", _INT, [lanes]), _FLOAT
        )
    start = ir.Constant(_FLOAT, 0.0)
    name = "llvm.vector.reduce.fadd.v16f32"
    return _call(builder, name, _FLOAT, [start, lanes], fastmath=("reassoc",))


def _generate_multiply(
    _typing: Any,
    codes: Any,
    first: Any,
    second: Any,
    vectors: Any,
    start: Any,
    width: Any,
    sums: Any,
) -> Any:
    """Write the products of two rows with four vectors: sums[:4] and sums[4:].

    `first`, `second` and `start` are places in the flat arrays; `width` is the vectors' length.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = signature.args[0].dtype
        whole = code in (types.int8, types.uint8)
        step = 2 * _LANES if whole else _LANES
        width = arguments[5]
        read = builder.udiv(width, _long(2)) if code == types.uint8 else width  # codes of a row
        zero = ir.Constant(ir.VectorType(_INT if whole else _FLOAT, _LANES), None)
        totals = [_variable(builder, zero) for _ in range(_PRODUCTS)]

        def address(which: int, place: Any) -> Any:
            offset = builder.mul(place, _long(signature.args[which].dtype.bitwidth // 8))
            return _address(context, builder, signature.args[which], arguments[which], offset)

        with cgutils.for_range(builder, builder.udiv(read, _long(step))) as loop:
            column = builder.mul(loop.index, _long(step))
            rows = [
                _read_row(builder, code, address(0, builder.add(row, column)))
                for row in arguments[1:3]
            ]
            for part in range(len(rows[0])):
                place = builder.add(arguments[4], column)
                place = builder.add(place, builder.mul(read, _long(part)))
                for at in range(VECTORS_AT_ONCE):
                    own = builder.add(place, builder.mul(width, _long(at)))
                    vector = _read_vector(builder, address(3, own), whole=whole)
                    for row, total in zip(rows, totals[at::VECTORS_AT_ONCE], strict=True):
                        _add_product(builder, total, row[part], vector, whole=whole)
        for at, total in enumerate(totals):
            target = builder.bitcast(address(6, _long(at)), _FLOAT.as_pointer())
            builder.store(_add_up(builder, total, whole=whole), target)
        return context.get_dummy_value()

    return types.void(codes, first, second, vectors, start, width, sums), generate


_multiply: Any = intrinsic(_generate_multiply)


@njit(cache=True, nogil=True)
def score_rows(
    codes: NDArray[Any],  # (V, columns)
    labels: NDArray[np.float32],  # (V, 2): scale and bias
    places: NDArray[np.int32],  # (M,)
    positions: NDArray[np.int32],  # (M,)
    vectors: NDArray[Any],  # (S, D)
    lengths: NDArray[np.float32],  # (S,)
    scores: NDArray[np.float32],  # (M, S), written
) -> None:
    """Write row · vector · scale · length + bias for the rows at some places.

    The scores of `places[i]` go to `scores[positions[i]]`. Arrays are whole: a thread is given its
    part of `places` and `positions`, and writes to rows of its own.
    """
    count, (num_vectors, width) = len(places), vectors.shape
    columns = codes.shape[1]
    size = columns * codes.itemsize
    sums = np.empty(_PRODUCTS, dtype=np.float32)
    for at in range(0, count, _ROWS_AT_ONCE):
        last = min(at + 1, count - 1)
        for ahead in range(at + _AHEAD, min(at + _AHEAD + _ROWS_AT_ONCE, count)):
            place = np.int64(places[ahead])
            prefetch(labels, place * 8)
            for offset in range(0, size, _LINE):
                prefetch(codes, place * size + offset)
        one, two = np.int64(places[at]), np.int64(places[last])
        for start in range(0, num_vectors, VECTORS_AT_ONCE):
            _multiply(codes, one * columns, two * columns, vectors, start * width, width, sums)
            for each in range(VECTORS_AT_ONCE):
                length = lengths[start + each]
                scores[positions[at], start + each] = (
                    sums[each] * labels[one, 0] * length + labels[one, 1]
                )
                scores[positions[last], start + each] = (
                    sums[VECTORS_AT_ONCE + each] * labels[two, 0] * length + labels[two, 1]
                )


@njit(cache=True, nogil=True)
def transpose(
    scores: NDArray[np.float32],  # (M, S or more)
    turned: NDArray[np.float32],  # (S, M), written
    start: int,
    stop: int,
) -> None:
    """Write the scores of some rows as columns."""
    for at in range(start, stop):
        for each in range(len(turned)):
            turned[each, at] = scores[at, each]


@njit(cache=True, nogil=True)
def mark(places: NDArray[np.int32], words: NDArray[np.uint64]) -> None:
    """Set the bit of each place."""
    for place in places:
        words[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@njit(cache=True, nogil=True)
def list_marked(words: NDArray[np.uint64]) -> NDArray[np.int32]:
    """List the places whose bits are set, in order."""
    count = np.int64(0)
    for word in words:
        count += np.int64(count_ones(word))
    places = np.empty(count, dtype=np.int32)
    one = np.uint64(1)
    found = 0
    for at in range(len(words)):
        word = words[at]
        while word:
            places[found] = at * 64 + np.int64(count_ones((word & (~word + one)) - one))
            found += 1
            word &= word - one
    return places


@njit(cache=True, nogil=True)
def find_ranks(ids: NDArray[np.int32], limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sort distinct numbers below a limit: the numbers, and the position of each among them."""
    words = np.zeros((limit >> 6) + 1, dtype=np.uint64)
    before = np.empty(len(words), dtype=np.int32)
    mark(ids, words)
    total = np.int64(0)
    for at in range(len(words)):
        before[at] = total
        total += np.int64(count_ones(words[at]))
    positions = np.empty(len(ids), dtype=np.int32)
    one = np.uint64(1)
    for at, number in enumerate(ids):
        below = words[number >> 6] & ((one << np.uint64(number & 63)) - one)
        positions[at] = before[number >> 6] + np.int64(count_ones(below))
    return list_marked(words), positions
