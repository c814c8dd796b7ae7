"""A packed collection on the device: its passages, what is asked, and how a state is judged."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.learn.lab.bm25 import Bm25
from benchmarks.learn.lab.fusion import (
    READ,
    Side,
    Weighing,
    choose_share,
    fuse,
    ndcg,
    rerank,
    weigh,
)
from benchmarks.learn.lab.models import MAX_QUERY, MAX_UNIT, Models, Texts
from quoth.models.glow.network import GlowNetwork

MOST_UNITS = 48  # of one document that are looked at for the nearest
TRIED, TRIED_DEPTH = 50, 20


@dataclass
class Asked:
    """Queries of one kind, BM25's scores for them, and what answers them."""

    strings: Sequence[str]
    texts: Texts
    lexical: Side
    grades: list[dict[int, int]]
    ideal: list[float]
    read: Tensor  # (Q, U), NaN where nobody has read yet
    targets: list[tuple[int, float]] = field(default_factory=list)
    left: tuple[Texts, Texts, Tensor] | None = None
    """Of known items: what is left of their documents, and whose each part is."""


@dataclass(frozen=True)
class Judged:
    """What a state scores: nDCG@10 of each query, by kind and ranking."""

    quality: dict[str, list[float]]
    weighing: Weighing


class Collection:
    """One development collection."""

    def __init__(self, path: Path, models: Models, *, most: int, queries: int, seed: int) -> None:
        content = json.loads(gzip.decompress(path.read_bytes()))
        arrays = np.load(path.with_name(path.name.replace(".json.gz", ".npz")))
        self.name, self.models = path.name.split(".")[0], models
        asked, items = content["queries"][:queries], content["items"][: queries + 100]
        keep = _choose(len(content["documents"]), [*asked, *items], most=most, seed=seed)
        self.place = np.full(len(content["documents"]), -1)
        self.place[keep] = np.arange(len(keep))
        self.num_documents = len(keep)
        documents = [content["documents"][row] for row in keep]
        units = [
            (row, " ".join(before), text)
            for row, (before, bodies) in enumerate(documents)
            for text in (bodies or [""])
        ]
        self.units = units
        self.owner = torch.tensor([row for row, *_ in units], device=models.device)
        self.title = models.tokenise([title for _row, title, _text in units], 64)
        self.text = models.tokenise([text for *_, text in units], 300)
        self.units_of = self._group()
        self.bm25 = Bm25(arrays, keep=keep, device=models.device)
        self.base = self.encode(models.encoder)
        self.groups = {"test": self._tests(asked)}
        if items:
            self.groups["items"] = self._items(items)

    def encode(self, network: GlowNetwork) -> Tensor:
        """Encode all passages."""
        return self.models.encode(network, [self.title, self.text], most=MAX_UNIT)

    def _group(self) -> Tensor:  # (N, M), −1 where a document has fewer passages
        rows: list[list[int]] = [[] for _ in range(self.num_documents)]
        for unit, (row, *_rest) in enumerate(self.units):
            rows[row].append(unit)
        width = min(MOST_UNITS, max(map(len, rows)))
        table = np.full((len(rows), width), -1)
        for row, own in enumerate(rows):
            table[row, : len(own[:width])] = own[:width]
        return torch.from_numpy(table).to(self.models.device)

    def ask(self, texts: Sequence[str], lexical: Tensor, grades: Any) -> Asked:
        """Put queries of one kind together; grades by row of the document."""
        tokens = self.models.tokenise(texts, 96)
        size = (len(texts), len(self.units))
        read = torch.full(size, torch.nan, device=self.models.device)
        own = [{row: grade for row, grade in each.items() if row >= 0} for each in grades]
        ideal = [_ideal(sorted(each.values(), reverse=True)) for each in own]
        return Asked(texts, tokens, Side(lexical, is_lexical=True), own, ideal, read)

    def _lexical(self, asked: Sequence[dict[str, Any]]) -> Tensor:
        scores = np.zeros((len(asked), self.num_documents), np.float32)
        for at, each in enumerate(asked):
            for row, score in each["lexical"]:
                if self.place[int(row)] >= 0:
                    scores[at, self.place[int(row)]] = score
        return torch.from_numpy(scores).to(self.models.device)

    def _tests(self, asked: Sequence[dict[str, Any]]) -> Asked:
        grades = [{int(self.place[int(r)]): g for r, g in q["grades"].items()} for q in asked]
        own = self.ask([q["text"] for q in asked], self._lexical(asked), grades)
        own.ideal = [_ideal(q["all_grades"]) for q in asked]
        return own

    def _items(self, items: Sequence[dict[str, Any]]) -> Asked:
        targets = [(int(self.place[item["row"]]), float(item["overlap"])) for item in items]
        grades = [{row: 1} for row, _overlap in targets]
        own = self.ask([i["text"] for i in items], self._lexical(items), grades)
        own.targets = targets
        parts = [
            (at, " ".join(item["left"][0]), text)
            for at, item in enumerate(items)
            for text in (item["left"][1] or [""])
        ]
        owners = torch.tensor([at for at, *_ in parts], device=self.models.device)
        titles = self.models.tokenise([title for _at, title, _text in parts], 64)
        own.left = titles, self.models.tokenise([text for *_, text in parts], 300), owners
        return own

    def add_held_out(self, texts: Sequence[str], rows: Sequence[int]) -> None:
        """Add generated queries that nothing is trained on, each with its document."""
        lexical = self.score_words(texts)
        self.groups["generated"] = self.ask(texts, lexical, [{row: 1} for row in rows])

    def score_words(self, texts: Sequence[str]) -> Tensor:  # (Q, N)
        """Score all documents by BM25."""
        return self.bm25.scores(texts)

    def dense(self, cosines: Tensor) -> Tensor:  # (Q, U) to (Q, N)
        """Let each document score as its best passage."""
        best = torch.full((len(cosines), self.num_documents), -2.0, device=cosines.device)
        return best.scatter_reduce_(1, self.owner.expand_as(cosines), cosines, "amax")

    def nearest(self, cosines: Tensor, rows: Tensor) -> Tensor:  # (Q, K) documents to passages
        """Return the passage of each document that is nearest to the query."""
        units = self.units_of[rows]  # (Q, K, M)
        found = cosines.gather(1, units.clamp_min(0).flatten(1)).reshape(units.shape)
        best = found.masked_fill(units < 0, -9.0).argmax(2, keepdim=True)
        return units.gather(2, best)[..., 0]

    def first_hits(self, how: Weighing) -> tuple[Tensor, Tensor, Tensor]:
        """Return fused scores, documents and nearest passages of the test queries' first hits."""
        group, network = self.groups["test"], self.models.encoder
        vectors = self.models.encode(network, [group.texts], most=MAX_QUERY, is_query=True)
        cosines = vectors @ self.base.T
        fused = fuse(group.lexical, Side(self.dense(cosines), is_lexical=False), how)
        scores, rows = fused.topk(min(READ, fused.shape[1]), dim=1)
        return scores, rows, self.nearest(cosines, rows)

    def judge(self, network: GlowNetwork, vectors: Tensor | None = None) -> Judged:
        """Search for everything with a state of the encoder, as the product would."""
        vectors = self.encode(network) if vectors is None else vectors
        cosines = {
            name: self.models.encode(network, [group.texts], most=MAX_QUERY, is_query=True)
            @ vectors.T
            for name, group in self.groups.items()
        }
        dense = {name: self.dense(own) for name, own in cosines.items()}
        own_left = None
        if items := self.groups.get("items"):
            own_left = self._score_left(items, network, dense["items"])
        sides = {name: Side(own, is_lexical=False) for name, own in dense.items()}
        how = Weighing((0.5, 0.5), None)
        if items:
            how = weigh(items.lexical, sides["items"], items.targets)
            how = self._with_share(items, sides["items"], cosines["items"], how, own_left)
        quality: dict[str, list[float]] = {}
        for name, group in self.groups.items():
            quality |= self._measure(name, group, sides[name], cosines[name], how)
        return Judged(quality, how)

    def _score_left(self, items: Asked, network: GlowNetwork, dense: Tensor) -> Tensor:
        """Let the documents of known items score as what is left of them; gives the best parts."""
        assert items.left is not None
        titles, texts, owners = items.left
        vectors = self.models.encode(network, [titles, texts], most=MAX_UNIT)
        queries = self.models.encode(network, [items.texts], most=MAX_QUERY, is_query=True)
        scores = (queries[owners] * vectors).sum(1)
        best = torch.full((len(items.texts),), -2.0, device=scores.device)
        best.scatter_reduce_(0, owners, scores, "amax")
        rows = torch.tensor([row for row, _overlap in items.targets], device=scores.device)
        dense[torch.arange(len(rows), device=scores.device), rows] = best
        parts = torch.zeros(len(rows), dtype=torch.long, device=scores.device)
        at = (scores == best[owners]).nonzero()[:, 0]
        parts[owners[at]] = at
        return parts

    def _with_share(
        self, items: Asked, dense: Side, cosines: Tensor, how: Weighing, parts: Tensor | None
    ) -> Weighing:
        """Calibrate the share of reranking as the product does."""
        assert parts is not None and items.left is not None
        step = max(1, len(items.texts) // TRIED)
        tried = torch.arange(0, len(items.texts), step, device=cosines.device)[:TRIED]
        fused = fuse(items.lexical, dense, how)[tried]
        scores, rows = fused.topk(min(TRIED_DEPTH, fused.shape[1]), dim=1)
        read = self.read(items, tried, cosines[tried], rows)
        titles, texts, _owners = items.left
        pairs = torch.stack([tried, parts[tried], parts[tried]], 1)
        own = self.models.read((items.texts, titles, texts), pairs)
        targets = [items.targets[at] for at in tried.tolist()]
        wanted = torch.tensor([row for row, _overlap in targets], device=rows.device)
        read = torch.where(rows == wanted[:, None], own[:, None], read)
        hits = [
            list(zip(r, s, strict=True))
            for r, s in zip(rows.tolist(), scores.tolist(), strict=True)
        ]
        share = choose_share(hits, read.tolist(), targets)
        return Weighing(how.weights, how.widths, share)

    def read(self, group: Asked, queries: Tensor, cosines: Tensor, rows: Tensor) -> Tensor:
        """Return the relevance of documents (B, K) to some queries (B,), each read once."""
        units = self.nearest(cosines, rows)
        asked = queries[:, None].expand_as(units)
        missing = torch.stack([asked.reshape(-1), units.reshape(-1)], 1)
        missing = missing[group.read[missing[:, 0], missing[:, 1]].isnan()]
        if len(missing):
            pairs = torch.stack([missing[:, 0], missing[:, 1], missing[:, 1]], 1)
            found = self.models.read((group.texts, self.title, self.text), pairs)
            group.read[missing[:, 0], missing[:, 1]] = found
        return group.read[asked, units]

    def _measure(
        self, name: str, group: Asked, dense: Side, cosines: Tensor, how: Weighing
    ) -> dict[str, list[float]]:
        """Return nDCG@10 of vectors alone, fused, and fused and reranked."""
        fused = fuse(group.lexical, dense, how)
        first, rows = fused.topk(min(READ, fused.shape[1]), dim=1)
        found = {"dense": dense.scores.topk(10, dim=1).indices.tolist(), "fused": rows.tolist()}
        if name != "items":
            every = torch.arange(len(rows), device=rows.device)
            read = self.read(group, every, cosines, rows).cpu().numpy()
            order = rerank(first.cpu().numpy(), read, how.share)
            found["reranked"] = np.take_along_axis(rows.cpu().numpy(), order, 1).tolist()
        return {
            f"{name} {ranking}": self.grade(group, own).round(5).tolist()
            for ranking, own in found.items()
        }

    def grade(self, group: Asked, rows: Sequence[Sequence[int]]) -> Any:
        """Return nDCG@10 of ranked documents."""
        grades = [
            [own.get(row, 0) for row in ranked[:10]]
            for own, ranked in zip(group.grades, rows, strict=True)
        ]
        return ndcg(np.array(grades, np.float64), np.array(group.ideal))


def _choose(count: int, asked: Sequence[dict[str, Any]], *, most: int, seed: int) -> Any:
    """Choose documents: those that are judged or found, and others by chance up to so many."""
    if count <= most:
        return np.arange(count)
    wanted = {int(row) for each in asked for row, _score in each["lexical"][:50]}
    wanted |= {int(row) for each in asked for row in each.get("grades", ())}
    wanted |= {int(each["row"]) for each in asked if "row" in each}
    others = [row for row in range(count) if row not in wanted]
    drawn = random.Random(seed).sample(others, max(0, min(len(others), most - len(wanted))))
    return np.array(sorted([*wanted, *drawn]))


def _ideal(grades: Sequence[int]) -> float:
    return float(sum(max(g, 0) / np.log2(2 + at) for at, g in enumerate(grades[:10])))
