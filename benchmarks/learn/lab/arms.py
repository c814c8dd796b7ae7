"""What an encoder is trained on in the laboratory, and the losses that are compared.

Every arm sees the same pseudo-queries, each with its own passage and others that the hybrid found.
*plain*: the own passage against those of the batch. *rumbart*: −log Σ p(z|x) p(x|z) over the
candidates, the query generator frozen, and a share of the contrastive loss. *gpl*: margins follow
the reranker's. *residual*: InfoNCE over what the product would fuse, BM25's part detached.
*distilled*: a list as the reranker would order it. *tsdae* rebuilds passages and reads no query.
The last two and *both* replay natural pairs in a quarter of each batch and keep near the old
encoder's scores.
"""

from __future__ import annotations

import copy
import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.learn.lab.collection import Collection
from benchmarks.learn.lab.fusion import Side, Weighing, fuse
from benchmarks.learn.lab.models import MAX_QUERY, Texts
from benchmarks.learn.rivals import _squeeze, start_decoder
from quoth.models.glow.network import GlowNetwork
from quoth.training.retriever.retriever import prepare_network

ARMS = ("residual", "distilled", "both", "rumbart", "plain", "gpl", "tsdae")
REPLAYING = ("residual", "distilled", "both")
_FIRST, _SECOND = 20, 50
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Settings:
    """How an arm is trained."""

    passages: int = 1200
    per_passage: int = 2
    held_out: int = 200
    near: int = 6
    far: int = 3
    steps: int = 60
    batch: int = 32
    learning_rate: float = 2e-5
    subwords: int = 128
    scale: float = 20.0
    sharpness: float = 10.0  # of fused scores
    teacher: float = 3.0  # the reranker's scores are divided by this
    tempering: float = 0.25
    replay: float = 0.25
    kept: float = 0.5  # of the distance to the old encoder's scores
    missed: float = 2.0  # weight of queries that BM25 alone misses
    seed: int = 0


@dataclass(frozen=True)
class Material:
    """What a collection is trained on."""

    texts: list[str]
    queries: Texts
    candidates: Tensor  # (Q, C) passages, the query's own first
    lexical: Tensor  # (Q, C) as fused
    offsets: Tensor  # (Q, 1) cosine at the depth of fusion
    relevance: Tensor  # (Q, C)
    likelihood: Tensor  # (Q, C)
    weights: Tensor  # (Q,)
    natural: tuple[Texts, Texts]
    how: Weighing
    written: dict[int, list[str]]


def write(collection: Collection, settings: Settings) -> dict[int, list[str]]:
    """Write pseudo-queries: some for held-out documents, which become queries to judge by."""
    chance = random.Random(settings.seed)
    items = collection.groups.get("items")
    held = {row for row, _overlap in items.targets} if items else set()
    if not held:
        held = set(chance.sample(range(collection.num_documents), settings.held_out))
    rows: dict[bool, list[int]] = {True: [], False: []}
    for unit, (row, _title, text) in enumerate(collection.units):
        if len(text.split()) >= 8:
            rows[row in held].append(unit)
    asked = chance.sample(rows[False], min(settings.passages, len(rows[False])))
    kept = chance.sample(rows[True], min(settings.held_out, len(rows[True])))
    every = [*asked, *kept]
    texts = [
        f"{title}\n{text}".strip() for _row, title, text in map(collection.units.__getitem__, every)
    ]
    written = collection.models.generator.generate(
        texts, per_passage=settings.per_passage, temperature=0.7, seed=settings.seed
    )
    found = dict(zip(every, written, strict=True))
    judged = [(found[unit][0], collection.units[unit][0]) for unit in kept if found[unit]]
    collection.add_held_out([text for text, _row in judged], [row for _text, row in judged])
    return {unit: found[unit] for unit in asked}


def prepare(
    collection: Collection, written: dict[int, list[str]], how: Weighing, settings: Settings
) -> Material:
    """Find what each pseudo-query is compared with, and let the teachers speak."""
    models, device = collection.models, collection.models.device
    pairs = [(text, unit) for unit, own in written.items() for text in own if text.strip()]
    random.Random(settings.seed).shuffle(pairs)
    pairs = pairs[: math.ceil(1.5 * settings.steps * settings.batch)]
    texts, sources = [text for text, _unit in pairs], torch.tensor([u for _t, u in pairs])
    sources = sources.to(device)
    queries = models.tokenise(texts, MAX_QUERY - 2)
    parts = [
        _mine(collection, slice(at, at + 512), texts, queries, sources, how, settings)
        for at in range(0, len(texts), 512)
    ]
    kept, candidates, lexical, offsets, weights = (
        torch.cat(each) for each in zip(*parts, strict=True)
    )
    count = min(len(kept), math.ceil(settings.steps * settings.batch))
    kept, candidates, lexical = kept[:count], candidates[:count], lexical[:count]
    own = Texts(queries.ids[kept], queries.lengths[kept])
    rows = torch.arange(count, device=device)[:, None].expand_as(candidates)
    pairs3 = torch.stack([rows, candidates, candidates], 2).reshape(-1, 3)
    relevance = models.read((own, collection.title, collection.text), pairs3)
    likelihood = models.likelihoods(own, [collection.title, collection.text], candidates)
    return Material(
        [texts[at] for at in kept.tolist()],
        own,
        candidates,
        lexical,
        offsets[:count],
        relevance.reshape(candidates.shape),
        likelihood,
        weights[:count],
        _natural(collection, list(written), settings),
        how,
        written,
    )


def _mine(
    collection: Collection,
    own: slice,
    texts: list[str],
    queries: Texts,
    sources: Tensor,
    how: Weighing,
    settings: Settings,
) -> tuple[Tensor, ...]:
    """Search for some pseudo-queries as the product would; keep those whose source is near."""
    models = collection.models
    asked = Texts(queries.ids[own], queries.lengths[own])
    vectors = models.encode(models.encoder, [asked], most=MAX_QUERY, is_query=True)
    cosines = vectors @ collection.base.T
    lexical = Side(collection.score_words(texts[own]), is_lexical=True)
    dense = Side(collection.dense(cosines), is_lexical=False)
    fused = fuse(lexical, dense, how)
    source = sources[own]
    documents = collection.owner[source]
    ranks = (fused > fused.gather(1, documents[:, None])).sum(1)
    by_words = (lexical.scores > lexical.scores.gather(1, documents[:, None])).sum(1)
    kept = (ranks < _FIRST).nonzero()[:, 0]
    others = fused[kept].scatter(1, documents[kept, None], -1.0)
    rows = others.topk(min(_SECOND, others.shape[1] - 1), dim=1).indices
    chance = torch.rand(rows.shape, device=rows.device, generator=_generator(settings, rows.device))
    near = chance[:, :_FIRST].topk(settings.near, dim=1).indices
    far = chance[:, _FIRST:].topk(settings.far, dim=1).indices + _FIRST
    chosen = rows.gather(1, torch.cat([near, far], 1))
    units = collection.nearest(cosines[kept], chosen)
    candidates = torch.cat([source[kept, None], units], 1)
    widths = how.widths or (None, None)
    scaled = lexical.scaled(widths[0])[kept].gather(1, collection.owner[candidates])
    weights = torch.where(by_words[kept] >= _FIRST, settings.missed, 1.0)
    start = own.start + kept
    return start, candidates, scaled, dense.offsets()[0][kept], weights


def _generator(settings: Settings, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(settings.seed)


def _natural(collection: Collection, units: list[int], settings: Settings) -> tuple[Texts, Texts]:
    """Take natural pairs from passages: a title and its text, or a first sentence and the rest."""
    pairs = []
    for unit in units:
        _row, title, text = collection.units[unit]
        first, *rest = _SENTENCE.split(text, maxsplit=1)
        if title:
            pairs.append((title, text))
        elif rest:
            pairs.append((first, rest[0]))
    pairs = pairs or [(text, text) for *_, text in collection.units[:64]]
    tokenise = collection.models.tokenise
    return (
        tokenise([query for query, _text in pairs], 32),
        tokenise([text for _query, text in pairs], settings.subwords - 2),
    )


def train(arm: str, collection: Collection, material: Material, settings: Settings) -> GlowNetwork:
    """Train a copy of the encoder."""
    models = collection.models
    torch.manual_seed(settings.seed)
    network = prepare_network(models.encoder, projection=0, dropout=0.1, device=models.device)
    network.train()
    parameters: list[Any] = [each for each in network.parameters() if each.requires_grad]
    decoder: Any = None
    if arm == "tsdae":
        decoder = start_decoder(network, models.folder).to(models.device)
        parameters += list(decoder.parameters())
    fused = models.device.type == "cuda"
    optimiser = torch.optim.AdamW(
        parameters, lr=settings.learning_rate, weight_decay=0.01, fused=fused
    )
    for step, rows in enumerate(_batches(arm, material, settings)):
        rate = min((step + 1) / 6, 1.0) * (1 - step / settings.steps)
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * rate
        with models.autocast():
            if decoder is not None:
                loss = _rebuild(network, decoder, collection, settings, step)
            else:
                loss = _loss(arm, network, collection, material, rows, settings, step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    return network.eval()


def adapt_reader(collection: Collection, material: Material, settings: Settings) -> Any:
    """Train a copy of the reranker to tell each pseudo-query's passage from what was found."""
    models = collection.models
    torch.manual_seed(settings.seed)
    reader = copy.deepcopy(models.reader).train()
    parameters = [each for each in reader.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=0.01)
    for step, rows in enumerate(_batches("reader", material, settings)):
        rows = rows[: settings.batch // 2]
        candidates = material.candidates[rows]
        asked = rows[:, None].expand_as(candidates).reshape(-1)
        flat = candidates.reshape(-1)
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * (1 - step / settings.steps)
        with models.autocast():
            parts = (material.queries, collection.title, collection.text)
            scores = reader(models.pair(*parts, (asked, flat, flat))).relevance
        log_probs = torch.log_softmax(scores.reshape(candidates.shape), 1)[:, 0]
        loss = -(material.weights[rows] * log_probs).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    return reader.eval()


def _batches(arm: str, material: Material, settings: Settings) -> Iterator[Tensor]:
    size = settings.batch
    if arm in REPLAYING:
        size = round(size * (1 - settings.replay))
    device = material.candidates.device
    generator = _generator(settings, device)
    order = torch.empty(0, dtype=torch.long, device=device)
    for _ in range(settings.steps):
        if len(order) < size:
            order = torch.randperm(len(material.texts), generator=generator, device=device)
        yield order[:size]
        order = order[size:]


def _loss(
    arm: str,
    network: GlowNetwork,
    collection: Collection,
    material: Material,
    rows: Tensor,
    settings: Settings,
    step: int,
) -> Tensor:
    models = collection.models
    queries = network.encode_queries(models.enclose([material.queries], [rows], MAX_QUERY))
    candidates = material.candidates[rows]
    if arm == "plain":
        candidates = candidates[:, :1]
    elif arm == "gpl":
        other = 1 + step % (candidates.shape[1] - 1)
        candidates = candidates[:, [0, other]]
    flat = candidates.reshape(-1)
    parts = [collection.title, collection.text]
    vectors = network.encode_documents(models.enclose(parts, [flat, flat], settings.subwords))
    own = vectors.reshape(*candidates.shape, -1)
    cosines = torch.einsum("bd,bcd->bc", queries.float(), own.float())
    weights = material.weights[rows] / material.weights[rows].mean()
    if arm == "plain":
        scores = settings.scale * queries.float() @ vectors.float().T
        return functional.cross_entropy(scores, torch.arange(len(rows), device=scores.device))
    if arm == "gpl":
        width = (material.how.widths or (0.0, 0.3))[1]
        wanted = (material.relevance[rows, 0] - material.relevance[rows, other]) / 16.0
        return functional.mse_loss((cosines[:, 0] - cosines[:, 1]) / width, wanted)
    if arm == "rumbart":
        log_prior = torch.log_softmax(settings.scale * cosines, dim=1)
        marginal = torch.logsumexp(log_prior + settings.tempering * material.likelihood[rows], 1)
        scores = settings.scale * queries.float() @ own[:, 0].float().T
        target = torch.arange(len(rows), device=scores.device)
        return 0.3 * functional.cross_entropy(scores, target) - marginal.mean()
    loss = torch.zeros((), device=queries.device)
    if arm in ("residual", "both"):
        width = (material.how.widths or (0.0, 0.3))[1]
        share = material.how.weights[1] or 0.5
        fused = (1 - share) * material.lexical[rows] + share * (
            cosines - material.offsets[rows]
        ) / width
        loss = loss - (weights * torch.log_softmax(settings.sharpness * fused, 1)[:, 0]).mean()
    if arm in ("distilled", "both"):
        teacher = torch.softmax(material.relevance[rows] / settings.teacher, 1)
        student = torch.log_softmax(settings.scale * cosines, 1)
        loss = loss + (weights * -(teacher * student).sum(1)).mean()
    return loss + _stay(network, collection, material, queries, vectors, rows, flat, settings)


def _stay(
    network: GlowNetwork,
    collection: Collection,
    material: Material,
    queries: Tensor,
    vectors: Tensor,
    rows: Tensor,
    flat: Tensor,
    settings: Settings,
) -> Tensor:
    """Replay natural pairs, and keep near the old encoder's scores inside the batch."""
    models = collection.models
    asked, texts = material.natural
    count = settings.batch - len(rows)
    drawn = torch.randint(len(asked), (count,), device=queries.device)
    own = network.encode_queries(models.enclose([asked], [drawn], MAX_QUERY))
    found = network.encode_documents(models.enclose([texts], [drawn], settings.subwords))
    scores = settings.scale * own.float() @ torch.cat([found, vectors]).float().T
    replay = functional.cross_entropy(scores, torch.arange(count, device=scores.device))
    with torch.no_grad():
        old_queries = models.encode(
            models.encoder,
            [Texts(material.queries.ids[rows], material.queries.lengths[rows])],
            most=MAX_QUERY,
            is_query=True,
        )
        old = torch.softmax(settings.scale * old_queries @ collection.base[flat].T, 1)
    new = torch.log_softmax(settings.scale * queries.float() @ vectors.float().T, 1)
    distance = functional.kl_div(new, old, reduction="batchmean")
    return settings.replay * replay + settings.kept * distance


def _rebuild(
    network: GlowNetwork, decoder: Any, collection: Collection, settings: Settings, step: int
) -> Tensor:
    """Rebuild passages from one vector of what is left of them (TSDAE)."""
    device = collection.models.device
    drawn = torch.randint(len(collection.units), (settings.batch,), device=device)
    parts = [collection.title, collection.text]
    batch = collection.models.enclose(parts, [drawn, drawn], settings.subwords)
    keep = (torch.rand(batch.mask.shape, device=device) >= 0.6) & batch.mask
    keep[:, 0] = True
    vectors = network.encode_documents(_squeeze(batch, keep))
    logits = decoder(
        input_ids=batch.subword_ids[:, :-1],
        attention_mask=batch.mask[:, :-1].long(),
        encoder_hidden_states=vectors[:, None, :],
    ).logits
    wanted = batch.subword_ids[:, 1:].masked_fill(~batch.mask[:, 1:], -100)
    return functional.cross_entropy(
        logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=-100
    )
