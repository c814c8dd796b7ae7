"""What BM25 weights are made of, stored per subword: any weighting is computed where it runs.

A table of weights per variant would weigh more than the text. Each subword keeps the document
frequency of its word as one byte (0 outside words), and how often the word stands in each of the
two fields; each sequence keeps its field lengths. From these, `weigh` computes what
`quoth.models.glow.weights` computes from text (within the byte's rounding: 2 % of the frequency).
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoth.models.glow.config import GlowConfig
from quoth.models.glow.weights import AVERAGE_QUERY_LENGTH, CODE_DOCUMENT_LENGTH, FIELD_B

CLS, SEP = 101, 102
_STEPS = 15.0  # of the byte per doubling of the frequency
_LOWEST, _HIGHEST = 1e-3, 20.0
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 3, "lp": 1, "pb": 1}]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Factors:
    """Many sequences of one or two fields, without special subwords, end to end."""

    ids: NDArray[np.uint16]  # (all subwords,)
    df: Bytes  # (all,) code of the document frequency, 0 outside words
    tf: Bytes  # (all, 2) occurrences of the word in the first and second field, whole text
    kept: Bytes  # (N, 2) subwords kept of each field
    words: NDArray[np.uint16]  # (N, 2) words of each field, whole text

    def __len__(self) -> int:
        return len(self.kept)


@dataclass(frozen=True)
class Laid:
    """Sequences with their special subwords, ready to be batched."""

    ids: NDArray[np.uint16]
    offsets: NDArray[np.int64]  # (N + 1,)
    field_ids: Bytes
    weights: Floats


def encode_df(df: NDArray[Any]) -> Bytes:
    """Turn document frequencies into bytes; 0 (a word no document holds) counts as 1."""
    return np.asarray(1 + np.round(_STEPS * np.log2(np.maximum(df, 1)))).astype(np.uint8)


def decode_df(code: Bytes) -> NDArray[np.float64]:
    """Turn bytes back into document frequencies."""
    return np.asarray(2.0 ** ((code.astype(np.float64) - 1) / _STEPS))


def lay_out(
    factors: Factors, config: GlowConfig, *, averages: tuple[float, float], queries: bool = False
) -> Laid:
    """Add the special subwords and weigh every subword as a configuration says."""
    inner = config.layout == "fields" and not queries
    body = factors.kept.sum(1, dtype=np.int64)
    offsets = _offsets(body + 2 + inner)
    starts = _offsets(body)
    row = np.repeat(np.arange(len(factors)), body)
    within = np.arange(len(row)) - starts[row]
    second = within >= factors.kept[row, 0]
    place = offsets[row] + 1 + within + (second if inner else 0)
    ids = np.full(offsets[-1], SEP, dtype=np.uint16)
    ids[offsets[:-1]] = CLS
    ids[place] = factors.ids
    field_ids = np.zeros(offsets[-1], dtype=np.uint8)
    if inner and config.field_embeddings == "per_field":
        field_ids[offsets[1:] - 1] = 1
        field_ids[place] = second
    weights = np.ones(offsets[-1], dtype=np.float32)
    if config.weighting != "none":
        weights[place] = weigh(factors, config, row=row, averages=averages, queries=queries)
    return Laid(ids, offsets, field_ids, weights)


def weigh(
    factors: Factors,
    config: GlowConfig,
    *,
    row: NDArray[np.int64],
    averages: tuple[float, float],
    queries: bool,
) -> Floats:
    """Weigh every subword; those outside words weigh one."""
    if config.statistics == "subwords":
        factors = as_subwords(factors, row)
        averages = (float(factors.words[:, 0].mean()), float(factors.words[:, 1].mean()))
    inside = factors.df > 0
    df = decode_df(factors.df)
    idf = np.log((1e8 - df + 0.5) / (df + 0.5))
    words = factors.words.astype(np.float64)
    tf = factors.tf.astype(np.float64)
    total = words.sum(1)[row]
    if config.weights == "idf":
        raw = idf
    elif config.preset == "code":
        average = AVERAGE_QUERY_LENGTH if queries else CODE_DOCUMENT_LENGTH
        length = total + (3 if config.layout == "fields" and not queries else 2)
        raw = idf * _saturate_share(tf.sum(1) / length, length / average)
    elif queries:
        raw = idf * _saturate(tf.sum(1), total / AVERAGE_QUERY_LENGTH)
    elif config.layout == "joined":
        raw = idf * _saturate(tf.sum(1) / _norm(total / sum(averages)), None)
    else:
        joined = sum(tf[:, at] / _norm(words[row, at] / (averages[at] or 1.0)) for at in range(2))
        raw = idf * _saturate(joined, None)
    if config.mean_one:
        sums = np.bincount(row, weights=raw * inside, minlength=len(factors))
        counts = np.bincount(row, weights=inside, minlength=len(factors))
        raw = raw / (sums / np.maximum(counts, 1))[row].clip(1e-9)
    final = np.where(inside, 1.0 + config.strength * (raw - 1.0), 1.0)
    return np.clip(final, _LOWEST, _HIGHEST).astype(np.float32)


def as_subwords(factors: Factors, row: NDArray[np.int64]) -> Factors:
    """Count subwords as if they were words (GLOW_tw), over the part of each text that is kept."""
    ids = factors.ids.astype(np.int64)
    starts = _offsets(factors.kept.sum(1, dtype=np.int64))
    field = np.arange(len(row)) - starts[row] >= factors.kept[row, 0]
    held, of = np.unique(row * 65536 + ids, return_inverse=True)
    df = np.bincount(held % 65536, minlength=65536)
    tf = np.stack([np.bincount(of, weights=field == at)[of] for at in (0, 1)], axis=1)
    return Factors(
        factors.ids,
        encode_df(df[ids]),
        np.minimum(tf, 255).astype(np.uint8),
        factors.kept,
        factors.kept.astype(np.uint16),
    )


def save_pack(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays, each compressed by itself, behind a JSON header."""
    with ThreadPoolExecutor(2) as pool:
        blocks = list(pool.map(_compress, arrays.values()))
    header = {
        "facts": facts,
        "arrays": {
            name: {"dtype": str(array.dtype), "shape": list(array.shape), "bytes": len(block)}
            for (name, array), block in zip(arrays.items(), blocks, strict=True)
        },
    }
    head = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(blocks))


def load_pack(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read arrays and facts back."""
    content = memoryview(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8 : 8 + size]))
    at, pieces = 8 + size, {}
    for name, entry in header["arrays"].items():
        pieces[name] = (entry, content[at : at + entry["bytes"]])
        at += entry["bytes"]
    with ThreadPoolExecutor(8) as pool:
        arrays = dict(zip(pieces, pool.map(_decompress, pieces.values()), strict=True))
    return arrays, header["facts"]


def factors_to_arrays(prefix: str, factors: Factors) -> dict[str, NDArray[Any]]:
    """Name the arrays of one set of sequences."""
    return {
        f"{prefix}.{name}": getattr(factors, name) for name in ("ids", "df", "tf", "kept", "words")
    }


def factors_from_arrays(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Factors:
    """Find the arrays of one set of sequences."""
    names = ("ids", "df", "tf", "kept", "words")
    return Factors(**{name: arrays[f"{prefix}.{name}"] for name in names})


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _norm(relative: Any, b: float = FIELD_B) -> Any:
    return 1.0 - b + b * relative


def _saturate(tf: Any, relative: Any, k1: float = 2.0) -> Any:
    """Return tf / (tf + k1 · norm); without a length the norm is one."""
    return tf / (tf + k1 * (1.0 if relative is None else _norm(relative)))


def _saturate_share(share: Any, relative: Any, k1: float = 0.25) -> Any:
    """Return the released code's saturation of a relative frequency."""
    return share * (k1 + 1.0) / (share + k1 * _norm(relative, 0.4))


def _compress(array: NDArray[Any]) -> bytes:
    plain = np.ascontiguousarray(array)
    if plain.dtype == np.float16:  # apart, the bytes with the exponents compress a little
        plain = plain.reshape(-1).view(np.uint8).reshape(-1, 2).T.copy()
    elif plain.ndim == 2 and plain.dtype == np.uint8:
        plain = plain.T.copy()
    return lzma.compress(plain.tobytes(), format=lzma.FORMAT_XZ, filters=_FILTERS)


def _decompress(piece: tuple[dict[str, Any], memoryview]) -> NDArray[Any]:
    entry, block = piece
    content = lzma.decompress(block)
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if dtype == np.float16:
        planes = np.frombuffer(content, dtype=np.uint8).reshape(2, -1).T
        return np.ascontiguousarray(planes).view(np.float16).reshape(shape)
    if len(shape) == 2 and dtype == np.uint8:
        return np.ascontiguousarray(np.frombuffer(content, dtype=dtype).reshape(shape[::-1]).T)
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()
