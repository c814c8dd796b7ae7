"""PIXAR's network: subwords of queries in, one pooled vector and one vector per slot out.

The pooled vector x₀ ranks the phrases of a whole identifier and chooses the shortlist; slot vector
x_t ranks those at place t. The paper reads slots off the encoder's positions; here they may also be
mask subwords, or a small decoder with a learned question per slot, the default, whose output starts
at nothing, so that every slot starts as the pooled vector. Vectors meet the head's rows by dot
product. All vectors of a query are found at once, whatever stands beside it in the batch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from quoth.models.kernels import steady_kernels
from quoth.models.pixar.config import PixarConfig

_WORD_START = 0.1  # vectors of subwords start as their states, which are longer than unit ones


class QueryBatch(NamedTuple):
    """Padded subwords of queries; padding stands at the end."""

    subword_ids: Tensor  # (B, T) int64
    mask: Tensor  # (B, T) bool, False where padded
    weights: Tensor | None = None  # (B, T) of words, for an encoder that weighs attention

    def to(self, device: torch.device) -> QueryBatch:
        """Move all tensors."""
        weights = None if self.weights is None else self.weights.to(device)
        return QueryBatch(self.subword_ids.to(device), self.mask.to(device), weights)


class TokenStates(Protocol):
    """An encoder as PIXAR sees it: a batch becomes one state per subword.

    One that weighs attention (GLOW) reads the batch's weights; as a module it is trained along.
    """

    def __call__(self, batch: QueryBatch, /) -> Tensor:  # (B, T, D)
        """Return the states."""
        ...


class EncoderStates(nn.Module):
    """The last states of a Hugging Face encoder."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, batch: QueryBatch) -> Tensor:  # (B, T, D)
        """Return the states."""
        output: Any = self.encoder(input_ids=batch.subword_ids, attention_mask=batch.mask.long())
        states: Tensor = output.last_hidden_state
        return states


class PixarVectors(NamedTuple):
    """What a query becomes."""

    pooled: Tensor  # (B, D)
    slots: Tensor  # (B, S, D)
    words: Tensor | None = None  # (B, T, D) beside x₀ of unit length, zero where padded


class SlotLayer(nn.Module):
    """Slots look at each other, then at the query, then each thinks for itself."""

    def __init__(self, width: int, *, num_heads: int) -> None:
        super().__init__()
        self.own_norm, self.cross_norm, self.inner_norm = (nn.LayerNorm(width) for _ in range(3))
        self.own = nn.MultiheadAttention(width, num_heads, batch_first=True)
        self.cross = nn.MultiheadAttention(width, num_heads, batch_first=True)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, hidden: Tensor, states: Tensor, hidden_from: Tensor) -> Tensor:  # (B, S, D)
        """Return the next states of slots; `hidden_from` (B, T) is True where nothing is read."""
        normed = self.own_norm(hidden)
        found, _ = self.own(normed, normed, normed, need_weights=False)
        hidden = hidden + self.dropout(found)
        found, _ = self.cross(
            self.cross_norm(hidden),
            states,
            states,
            key_padding_mask=hidden_from,
            need_weights=False,
        )
        hidden = hidden + self.dropout(found)
        inner = functional.gelu(self.expand(self.inner_norm(hidden)))
        joined: Tensor = hidden + self.dropout(self.contract(inner))
        return joined


class SlotDecoder(nn.Module):
    """A learned question per slot, answered from the query's states."""

    def __init__(self, width: int, *, num_slots: int, num_layers: int, num_heads: int) -> None:
        super().__init__()
        self.questions = nn.Parameter(torch.randn(num_slots, width))
        self.layers = nn.ModuleList(
            SlotLayer(width, num_heads=num_heads) for _ in range(num_layers)
        )
        self.output_norm = nn.LayerNorm(width)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:  # (B, S, D)
        """Return the states of slots."""
        hidden = self.questions.expand(len(states), -1, -1)
        for layer in self.layers:
            hidden = layer(hidden, states, ~mask)
        normed: Tensor = self.output_norm(hidden)
        return normed


class PixarNetwork(nn.Module):
    """An encoder and what turns its states into the pooled vector and slot vectors."""

    def __init__(
        self,
        encoder: TokenStates,
        config: PixarConfig,
        *,
        width: int,
        num_heads: int,
        slot_id: int,
    ) -> None:
        """Join the parts; `width` and `num_heads` are the encoder's.

        `slot_id` is the subword at slots and where queries are filled up; that of a mask, since
        some encoders give all padding one position.
        """
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.slot_id = slot_id
        self.width = config.head_width or width
        start = torch.tensor(config.scale).log() if config.scale else None
        self.log_scale = None if start is None else nn.Parameter(start)
        self.projection = nn.Linear(width, self.width, bias=False) if config.head_width else None
        self.decoder = None
        if config.slots == "decoder":
            self.decoder = SlotDecoder(
                width,
                num_slots=config.num_slots,
                num_layers=config.slot_layers,
                num_heads=num_heads,
            )
        self.output = nn.Linear(width, self.width)
        self.lengths = nn.Linear(width, 1) if config.row_lengths else None
        self.words = nn.Linear(width, self.width, bias=False) if config.word_vectors else None
        self._start()

    def forward(self, batch: QueryBatch) -> PixarVectors:
        """Return the vectors of queries, in fp32."""
        with steady_kernels(batch.mask.device):
            states, slot_states = self._read(batch)
        pooled = self.scaled(self.pool(states, batch.mask))
        slots = self.output(slot_states).float()
        if self.config.residual:
            slots = slots + pooled[:, None]
        return PixarVectors(pooled, slots, self._word_vectors(states, batch.mask))

    def sentence_vectors(self, batch: QueryBatch) -> Tensor:  # (B, encoder's width)
        """Return the unit vectors that the encoder alone makes of texts."""
        with steady_kernels(batch.mask.device):
            states = self._states(batch)
        return functional.normalize(self.pool(states, batch.mask).float(), dim=-1)

    def row_vectors(self, batch: QueryBatch) -> Tensor:  # (B, encoder's width)
        """Return the rows that phrases start from: unit vectors, or as long as they are telling."""
        vectors = self.sentence_vectors(batch)
        if self.lengths is None:
            return vectors
        return vectors * functional.softplus(self.lengths(vectors).float())

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:  # (B, D)
        """Turn token states into one vector per query."""
        if self.config.pooling == "cls":
            return states[:, 0]
        kept = states[:, : mask.shape[1]].masked_fill(~mask[..., None], 0.0)
        return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)

    def scaled(self, pooled: Tensor) -> Tensor:  # (B, D)
        """Bring pooled vectors to the head's width, and to their learned length."""
        if self.projection is not None:
            pooled = self.projection(pooled)
        if self.log_scale is None:
            return pooled.float()
        return functional.normalize(pooled.float(), dim=-1) * self.log_scale.exp()

    def use_bf16(self) -> None:
        """Compute in bf16 from now on; the length of the pooled vector stays exact."""
        exact = None if self.log_scale is None else self.log_scale.data.clone()
        self.to(torch.bfloat16)
        if self.log_scale is not None and exact is not None:
            self.log_scale.data = exact

    def train(self, mode: bool = True) -> PixarNetwork:
        """Switch dropout on or off; a frozen encoder never drops anything."""
        super().train(mode)
        if not self.config.train_encoder and isinstance(self.encoder, nn.Module):
            self.encoder.eval()
        return self

    def _word_vectors(self, states: Tensor, mask: Tensor) -> Tensor | None:  # (B, T, D)
        """Return what each subword adds to the pooled vector, nothing where padded."""
        if self.words is None:
            return None
        found: Tensor = self.words(states[:, : mask.shape[1]]).float()
        return found.masked_fill(~mask[..., None], 0.0)

    def _states(self, batch: QueryBatch) -> Tensor:
        trains = self.config.train_encoder
        with torch.set_grad_enabled(torch.is_grad_enabled() and trains):
            return self.encoder(batch)

    def _read(self, batch: QueryBatch) -> tuple[Tensor, Tensor]:
        """Return the states of the query's subwords and those of the slots."""
        count = self.config.num_slots
        if self.decoder is not None:
            states = self._states(batch)
            return states, self.decoder(states, batch.mask)
        if self.config.slots == "input":
            states = self._states(fill_up(batch, count + 1, filler=self.slot_id))
            return states, states[:, 1 : count + 1]
        longer, places = append_slots(batch, count, slot_id=self.slot_id)
        states = self._states(longer)
        return states, states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))

    @torch.no_grad()
    def start_projection(self, directions: Tensor) -> None:  # (D, encoder's width)
        """Let all vectors start along some directions of the encoder's."""
        if self.projection is not None:
            self.projection.weight.copy_(directions)
        if not self.config.residual:
            self.output.weight.copy_(directions)

    def _start(self) -> None:
        """Let slots add nothing at first, or, without the pooled vector, be states themselves."""
        nn.init.zeros_(self.output.bias)
        nn.init.zeros_(self.output.weight)
        if self.lengths is not None:
            nn.init.zeros_(self.lengths.weight)
            nn.init.constant_(self.lengths.bias, math.log(math.e - 1))  # softplus makes it 1
        directions = torch.eye(self.output.in_features)
        if self.words is not None:
            with torch.no_grad():
                self.words.weight.copy_(_WORD_START * directions[: self.width])
        if self.projection is not None:
            directions = nn.init.orthogonal_(self.projection.weight).detach()
        self.start_projection(directions)
        if isinstance(self.encoder, nn.Module):
            self.encoder.requires_grad_(self.config.train_encoder)


class PhraseHead(nn.Module):
    """A row and a bias per phrase, then those of the end and of padding: what vectors meet."""

    def __init__(self, rows: Tensor, bias: Tensor, *, unit: bool) -> None:
        """Take rows (P + 2, D) and biases (P + 2,) as they are, to be trained."""
        super().__init__()
        self.rows = nn.Parameter(rows)
        self.bias = nn.Parameter(bias)
        self.unit = unit

    @torch.no_grad()
    def vectors(self) -> Tensor:  # (P + 2, D)
        """Return the rows as they are used."""
        return functional.normalize(self.rows, dim=-1) if self.unit else self.rows.clone()


def fill_up(batch: QueryBatch, length: int, *, filler: int) -> QueryBatch:
    """Make queries at least `length` positions long, all of which are read.

    >>> batch = QueryBatch(torch.tensor([[1, 7, 2, 0]]), torch.tensor([[True] * 3 + [False]]))
    >>> longer = fill_up(batch, 5, filler=0)
    >>> longer.subword_ids.tolist(), longer.mask.tolist()
    ([[1, 7, 2, 0, 0]], [[True, True, True, True, True]])
    """
    missing = max(0, length - batch.mask.shape[1])
    mask = functional.pad(batch.mask, (0, missing))
    read = mask | (torch.arange(mask.shape[1], device=mask.device) < length)
    ids = functional.pad(batch.subword_ids, (0, missing), value=filler)
    return QueryBatch(ids.masked_fill(~mask, filler), read, _pad_weights(batch, missing))


def append_slots(batch: QueryBatch, count: int, *, slot_id: int) -> tuple[QueryBatch, Tensor]:
    """Put slots right after each query, before its padding; give where they are, (B, S) int64.

    >>> batch = QueryBatch(torch.tensor([[1, 2, 0]]), torch.tensor([[True, True, False]]))
    >>> longer, places = append_slots(batch, 2, slot_id=9)
    >>> longer.subword_ids.tolist(), longer.mask.tolist(), places.tolist()
    ([[1, 2, 9, 9, 0]], [[True, True, True, True, False]], [[2, 3]])
    """
    lengths = batch.mask.sum(1, keepdim=True)
    places = lengths + torch.arange(count, device=lengths.device)
    ids = functional.pad(batch.subword_ids, (0, count)).scatter(1, places, slot_id)
    mask = functional.pad(batch.mask, (0, count)).scatter(1, places, True)
    return QueryBatch(ids, mask, _pad_weights(batch, count)), places


def _pad_weights(batch: QueryBatch, missing: int) -> Tensor | None:
    if batch.weights is None:
        return None
    return functional.pad(batch.weights, (0, missing), value=1.0)
