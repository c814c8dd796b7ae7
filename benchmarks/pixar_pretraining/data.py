"""The packed pairs on a device: queries, the identifiers of passages, and what a teacher says.

A pair is a query and a passage; a passage has identifiers, each a sequence of phrases of one
vocabulary. Everything is padded once and stays on the device, so that a batch is a few gathers.
"""

from __future__ import annotations

import io
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pixar.network import PixarNetwork, QueryBatch

LONGEST = 32  # phrases of an identifier; the rest is cut
SLOTS = 24
QUERY_ROOM, PHRASE_ROOM = 40, 14  # subwords
HELD_OUT = 2_000


@dataclass(frozen=True)
class Padded:
    """Sequences of subwords or phrases, padded to one width."""

    ids: Tensor  # (N, T)
    lengths: Tensor  # (N,)

    def batch(self, rows: Tensor) -> QueryBatch:
        """Take some, padded to the longest of them."""
        lengths = self.lengths[rows]
        width = int(lengths.max())
        mask = torch.arange(width, device=rows.device) < lengths[:, None]
        return QueryBatch(self.ids[rows, :width].long(), mask)


@dataclass(frozen=True)
class Pairs:
    """Everything that is trained on."""

    queries: Padded
    passage_of: Tensor  # (pairs,)
    sources: Tensor  # (pairs,)
    phrases: Padded  # subwords of each phrase
    identifiers: Padded  # phrases of each identifier
    starts: Tensor  # (passages + 1,) identifiers of each passage
    is_title: Tensor  # (identifiers,)
    uses: Tensor  # (phrases,)
    source_names: list[str]
    training: Tensor
    held_out: Tensor


def read_pairs(folder: Path, inputs: PixarInputs, device: torch.device, *, most: int = 0) -> Pairs:
    """Read what was packed; `most` pairs, for a trial."""
    texts: dict[str, Any] = json.loads(lzma.decompress((folder / "train.json.xz").read_bytes()))
    content = io.BytesIO(lzma.decompress((folder / "train.npz.xz").read_bytes()))
    with np.load(content) as arrays:
        found = {name: torch.from_numpy(arrays[name].astype(np.int64)) for name in arrays.files}
    count = len(found["pair_passage"])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    held = min(HELD_OUT, count // 10)
    if most:
        order = order[: most + held]
    starts = torch.zeros(int(found["owner"].max()) + 2, dtype=torch.int64)
    starts[1:] = torch.bincount(found["owner"]).cumsum(0)
    return Pairs(
        _pad(inputs.queries(texts["queries"]), QUERY_ROOM, device, inputs.pad_id),
        found["pair_passage"].to(device),
        found["pair_source"].to(device),
        _pad(inputs.queries(texts["phrases"]), PHRASE_ROOM, device, inputs.pad_id),
        _pad_flat(found["ids"], found["lens"], LONGEST, device),
        starts.to(device),
        found["is_title"].bool().to(device),
        found["uses"].to(device),
        texts["sources"],
        order[held:].to(device),
        order[:held].to(device),
    )


def _pad(sequences: list[list[int]], room: int, device: torch.device, fill: int) -> Padded:
    cut = [each if len(each) <= room else [*each[: room - 1], each[-1]] for each in sequences]
    lengths = np.array([len(each) for each in cut])
    ids = np.full((len(cut), room), fill, dtype=np.int32)
    ids[np.arange(room) < lengths[:, None]] = np.concatenate([np.array(each) for each in cut])
    return Padded(torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device))


def _pad_flat(flat: Tensor, lengths: Tensor, room: int, device: torch.device) -> Padded:
    starts = lengths.cumsum(0) - lengths
    places = starts[:, None] + torch.arange(room)
    short = lengths.clamp(max=room)
    is_there = torch.arange(room) < short[:, None]
    ids = torch.where(is_there, flat[places.clamp(max=len(flat) - 1)], -1)
    return Padded(ids.to(torch.int32).to(device), short.to(device))


@dataclass(frozen=True)
class Field:
    """The passages that held-out queries search."""

    place: Tensor  # (queries,) of each one's own passage
    identifiers: Tensor  # (I,)
    owner: Tensor  # (I,)
    counts: Tensor  # (passages,) identifiers of each

    def ways(self, sheet: Tensor, *, heats: tuple[float, ...] = ()) -> dict[str, Tensor]:
        """Make scores of passages of those of identifiers (B, I), in several ways."""
        empty = torch.zeros(len(sheet), len(self.counts), device=sheet.device)
        best = (empty - 1e9).index_reduce(1, self.owner, sheet, "amax")
        mean = empty.index_add(1, self.owner, sheet) / self.counts
        ways = {"max": best, "max+mean": best + mean, "max+mean/2": best + mean / 2}
        for heat in heats:
            scale = 20.0 / heat
            shifted = (scale * (sheet - best.amax(1, keepdim=True))).exp()
            ways[f"logsumexp {heat}"] = (
                empty.index_add(1, self.owner, shifted).clamp_min(1e-30).log()
            )
        return ways


def held_out_field(pairs: Pairs, num_passages: int) -> Field:
    """Return the passages of held-out queries and so many others, with their identifiers."""
    own = pairs.passage_of[pairs.held_out].unique()
    chance = torch.Generator().manual_seed(1)
    others = torch.randperm(len(pairs.starts) - 1, generator=chance)[:num_passages]
    passages = torch.cat((own, others.to(own.device))).unique()
    counts = pairs.starts.diff()[passages]
    owner = torch.repeat_interleave(torch.arange(len(passages), device=own.device), counts)
    within = torch.arange(len(owner), device=own.device) - (counts.cumsum(0) - counts)[owner]
    place = torch.searchsorted(passages, pairs.passage_of[pairs.held_out])
    return Field(place, pairs.starts[passages][owner] + within, owner, counts)


# --- the teacher ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Teacher:
    """An untrained encoder's vectors of queries and identifiers, and BM25 over subwords."""

    query_vectors: Tensor  # (pairs, D) fp16
    identifier_vectors: Tensor  # (identifiers, D) fp16
    words: Padded  # subwords of each identifier
    idf: Tensor  # (V,)
    mean_length: float
    queries: Padded

    def cosines(self, pairs: Tensor, identifiers: Tensor) -> Tensor:  # (B, I)
        """Compare queries with identifiers as vectors."""
        return (self.query_vectors[pairs] @ self.identifier_vectors[identifiers].T).float()

    def bm25(self, pairs: Tensor, identifiers: Tensor) -> Tensor:  # (B, I)
        """Compare queries with identifiers as bags of subwords."""
        asked = self.queries.batch(pairs)
        sheet = torch.zeros(len(pairs), len(self.idf), device=pairs.device, dtype=torch.float32)
        sheet.scatter_(1, asked.subword_ids, asked.mask.float())
        batch = self.words.batch(identifiers)
        counts = torch.zeros(len(identifiers), len(self.idf), device=pairs.device)
        counts.scatter_add_(1, batch.subword_ids, batch.mask.float())
        norm = 0.3 + 0.9 * self.words.lengths[identifiers] / self.mean_length
        weights = 2.2 * counts / (counts + norm[:, None]) * self.idf
        return (sheet.half() @ weights.half().T).float()


@torch.no_grad()
def make_teacher(network: PixarNetwork, pairs: Pairs, special: list[int]) -> Teacher:
    """Encode all queries and identifiers with a network that was not trained yet."""
    device = pairs.starts.device
    words = _spell(pairs, special)
    idf = torch.zeros(40_000, device=device)
    inside = torch.arange(words.ids.shape[1], device=device) < words.lengths[:, None]
    for start in range(0, len(words.ids), 100_000):
        some, mask = words.ids[start : start + 100_000].long(), inside[start : start + 100_000]
        ordered = some.masked_fill(~mask, 39_999).sort(1).values
        is_new = torch.ones_like(ordered, dtype=torch.bool)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        idf += torch.bincount(ordered[is_new], minlength=40_000)
    total = len(words.ids)
    idf = torch.log1p((total - idf + 0.5).clamp_min(0) / (idf + 0.5))
    idf[special] = 0.0
    return Teacher(
        encode_all(network, pairs.queries),
        encode_all(network, words),
        words,
        idf,
        float(words.lengths.float().mean()),
        pairs.queries,
    )


def _spell(pairs: Pairs, special: list[int]) -> Padded:
    """Write identifiers as subwords again, those of their phrases between the opening and end."""
    room, device = 56, pairs.starts.device
    opening, end = special[0], special[1]
    inner, sizes = pairs.phrases.ids[:, 1:], (pairs.phrases.lengths - 2).clamp_min(0)
    found_ids, found_lengths = [], []
    for start in range(0, len(pairs.identifiers.ids), 50_000):
        own = pairs.identifiers.ids[start : start + 50_000].long()
        is_there = own >= 0
        lengths = torch.where(is_there, sizes[own.clamp_min(0)], 0)
        offsets = lengths.cumsum(1) - lengths + 1
        ids = torch.zeros(len(own), room, dtype=torch.int32, device=device)
        for place in range(int(lengths.max())):
            at = offsets + place
            is_kept = (place < lengths) & (at < room - 1)
            row, column = is_kept.nonzero(as_tuple=True)
            ids[row, at[row, column]] = inner[own[row, column], place].int()
        total = (lengths.sum(1) + 2).clamp(max=room)
        ids[:, 0] = opening
        ids[torch.arange(len(own), device=device), total - 1] = end
        found_ids.append(ids)
        found_lengths.append(total)
    return Padded(torch.cat(found_ids), torch.cat(found_lengths))


@torch.no_grad()
def encode_all(network: PixarNetwork, texts: Padded, *, rows: bool = False) -> Tensor:  # (N, D)
    """Encode texts by length, in fp16; as rows of phrases where that is asked for."""
    order = texts.lengths.argsort()
    found = torch.zeros(len(order), network.width, dtype=torch.float16, device=order.device)
    width = 65_536 if order.device.type == "cuda" else 4_096
    start = 0
    while start < len(order):
        size = max(1, width // int(texts.lengths[order[min(start + width // 4, len(order) - 1)]]))
        some = order[start : start + size]
        with torch.autocast(order.device.type, dtype=torch.bfloat16, enabled=order.is_cuda):
            batch = texts.batch(some)
            made = network.row_vectors(batch) if rows else network.sentence_vectors(batch)
        found[some] = made.half()
        start += size
    return found


def find_neighbours(pairs: Pairs, teacher: Teacher, *, count: int) -> Tensor:  # (passages, count)
    """List for each passage others that are near, by the mean of their identifiers' vectors."""
    device, num = pairs.starts.device, len(pairs.starts) - 1
    owner = torch.repeat_interleave(torch.arange(num, device=device), pairs.starts.diff())
    means = torch.zeros(num, teacher.identifier_vectors.shape[1], device=device)
    means.index_add_(0, owner, teacher.identifier_vectors.float())
    means = torch.nn.functional.normalize(means, dim=1).half()
    found = []
    for start in range(0, num, 2_048):
        near = means[start : start + 2_048] @ means.T
        near[near > 0.97] = -1.0  # itself, and copies
        found.append(near.topk(count, 1).indices)
    return torch.cat(found)
