"""The networks of the laboratory, over matrices of subwords that lie on the device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.learn.generate import load as load_generator
from benchmarks.reader.train_gpu import open_network
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.glow.network import GlowNetwork, TokenBatch
from quoth.models.query_generator.network import TextBatch
from quoth.models.reader.network import SequenceBatch

MAX_UNIT, MAX_QUERY, MAX_TITLE, MAX_READ = 256, 64, 24, 192
_READER_ROOM, _MAX_QUESTION = 320, 96


class Texts:
    """Texts as a padded matrix of subwords, without special ones."""

    def __init__(self, ids: Tensor, lengths: Tensor) -> None:
        self.ids, self.lengths = ids, lengths

    def __len__(self) -> int:
        return len(self.lengths)


class Models:
    """Encoder, reader and query generator, on one device."""

    def __init__(self, encoder: Path, reader: Path, generator: Path) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loaded = GlowEncoder.load(str(encoder), fast=False)
        self.folder = encoder
        self.encoder: GlowNetwork = loaded.network.to(self.device)
        self.reader = open_network(encoder, reader)[0].eval().to(self.device)
        self.generator = load_generator(generator, encoder)
        self.writer: Any = self.generator.network
        self.tokenizer = loaded.tokenizer
        self.cls, self.sep = (self.tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]"))

    def autocast(self) -> Any:
        """Compute in bf16 where that is quick."""
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        )

    def tokenise(self, texts: Sequence[str], most: int) -> Texts:
        """Cut texts into at most so many subwords."""
        self.tokenizer.no_truncation()
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        kept = [each.ids[:most] for each in encodings]
        width = max(1, max(map(len, kept), default=1))
        ids = np.zeros((len(kept), width), np.int32)
        for row, own in enumerate(kept):
            ids[row, : len(own)] = own
        lengths = torch.tensor([len(own) for own in kept], dtype=torch.long)
        return Texts(torch.from_numpy(ids).to(self.device), lengths.to(self.device))

    def enclose(self, parts: Sequence[Texts], rows: Sequence[Tensor], most: int) -> TokenBatch:
        """Join parts of each row: [CLS] first second [SEP], cut to `most` subwords."""
        lengths = [part.lengths[own] for part, own in zip(parts, rows, strict=True)]
        total = torch.stack(lengths).sum(0).clamp_max(most - 2) + 2
        width = int(total.max())
        at = torch.arange(width, device=self.device)[None, :]
        ids = torch.zeros((len(total), width), dtype=torch.long, device=self.device)
        start = torch.ones_like(total)
        for part, own, length in zip(parts, rows, lengths, strict=True):
            place = at - start[:, None]
            inside = (place >= 0) & (place < length[:, None])
            found = part.ids[own].long().gather(1, place.clamp(0, part.ids.shape[1] - 1))
            ids = torch.where(inside, found, ids)
            start = start + length
        ids[:, 0] = self.cls
        ids = torch.where(at == total[:, None] - 1, self.sep, ids)
        mask = at < total[:, None]
        ids = ids * mask
        return TokenBatch(ids, mask, torch.ones_like(ids, dtype=torch.float), torch.zeros_like(ids))

    def pair(
        self, query: Texts, title: Texts, text: Texts, rows: Sequence[Tensor]
    ) -> SequenceBatch:
        """Put query, title and passage together as the reader reads them."""
        q, t = query.lengths[rows[0]].clamp_max(_MAX_QUESTION), title.lengths[rows[1]]
        t = t.clamp_max(MAX_TITLE)
        room = _READER_ROOM - q - t - torch.where(t > 0, 4, 3) - (_READER_ROOM - MAX_READ)
        x = torch.minimum(text.lengths[rows[2]], room.clamp_min(0))
        second = q + 2
        begin = second + torch.where(t > 0, t + 1, 0)
        total = begin + x + 1
        width = int(total.max())
        at = torch.arange(width, device=self.device)[None, :]
        ids = torch.full((len(total), width), self.sep, dtype=torch.long, device=self.device)
        for part, own, start, length in (
            (query, rows[0], torch.ones_like(q), q),
            (title, rows[1], second, t),
            (text, rows[2], begin, x),
        ):
            place = at - start[:, None]
            inside = (place >= 0) & (place < length[:, None])
            found = part.ids[own].long().gather(1, place.clamp(0, part.ids.shape[1] - 1))
            ids = torch.where(inside, found, ids)
        ids[:, 0] = self.cls
        mask = at < total[:, None]
        fields = ((at >= second[:, None]) & mask).long()
        return SequenceBatch(ids * mask, fields, mask)

    def encode(
        self, network: GlowNetwork, parts: Sequence[Texts], *, most: int, is_query: bool = False
    ) -> Tensor:  # (N, D)
        """Encode all rows of the parts, in batches of like length."""
        lengths = torch.stack([part.lengths for part in parts]).sum(0).clamp_max(most - 2)
        order = lengths.argsort(descending=True)
        budget = 400_000 if self.device.type == "cuda" else 8_192
        found = torch.zeros((len(lengths), 384), device=self.device)
        run = network.encode_queries if is_query else network.encode_documents
        at, sizes = 0, lengths[order].tolist()
        with torch.inference_mode(), self.autocast():
            while at < len(order):
                rows = order[at : at + max(1, budget // (sizes[at] + 2))]
                found[rows] = run(self.enclose(parts, [rows] * len(parts), most)).float()
                at += len(rows)
        return found

    def read(
        self, parts: tuple[Texts, Texts, Texts], rows: Tensor, network: Any = None
    ) -> Tensor:  # (P,)
        """Return the relevance of pairs: rows (P, 3) of query, title and passage."""
        query, title, text = parts
        reader = network or self.reader
        size = query.lengths[rows[:, 0]] + title.lengths[rows[:, 1]] + text.lengths[rows[:, 2]]
        size = size.clamp_max(MAX_READ)
        order = size.argsort(descending=True)
        budget = 400_000 if self.device.type == "cuda" else 8_192
        found = torch.zeros(len(rows), device=self.device)
        at, sizes = 0, size[order].tolist()
        with torch.inference_mode(), self.autocast():
            while at < len(order):
                own = order[at : at + max(1, budget // (sizes[at] + 5))]
                batch = self.pair(query, title, text, rows[own].unbind(1))
                found[own] = reader(batch).relevance.float()
                at += len(own)
        return found

    def likelihoods(self, queries: Texts, parts: Sequence[Texts], rows: Tensor) -> Tensor:  # (Q, C)
        """Return log p(query | passage) of each query's candidates, rows (Q, C)."""
        found = []
        with torch.inference_mode(), self.autocast():
            for at in range(0, len(rows), 64):
                own = rows[at : at + 64]
                flat = own.reshape(-1)
                batch = self.enclose(parts, [flat] * len(parts), 128)
                states = self.writer.encode(TextBatch(batch.subword_ids, batch.mask))
                target = torch.arange(at, at + len(own), device=self.device)
                target = target.repeat_interleave(own.shape[1])
                asked = self._targets(queries, target)
                logs = self.writer.log_probs(asked, states, batch.mask)
                found.append(logs.float().sum(1).reshape(own.shape))
        return torch.cat(found)

    def _targets(self, queries: Texts, rows: Tensor) -> TextBatch:
        length = queries.lengths[rows].clamp_max(31)
        width = int(length.max()) + 1
        at = torch.arange(width, device=self.device)[None, :]
        ids = queries.ids[rows][:, : width - 1].long()
        ids = torch.nn.functional.pad(ids, (0, width - ids.shape[1]))
        ids = torch.where(at == length[:, None], self.sep, ids)
        mask = at <= length[:, None]
        return TextBatch(ids * mask, mask)
