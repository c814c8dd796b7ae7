"""The network: a causal language model whose tables are extended by vectors of phrases.

Follows "Generation with Dynamic Vocabulary": a causal encoder reads a phrase by itself; what its
last state becomes is the phrase's row of the input and of the output table, so that a phrase is one
token, one position and one cache entry.

Departures. The encoder starts as the first layers of the language model itself, over the same
frozen weights where adapters are trained, rather than as another GPT-2. With `vectors` shared, a
phrase's vector is

    scale · (mean of its subwords' embeddings + MLP(last state))

with the MLP's last layer at zero: an untrained phrase is what multi-word tokens are started with,
not noise. What the MLP says is divided by the width: a step of Adam moves all of its last layer's
weights alike, which would move a phrase by more than its own length. `scale` is trained; it
starts at 1, or lower where phrases would be longer than the output table's rows. Where both tables
are one, an untrained phrase then scores the mean of its subwords' scores, and never wins over the
best subword.

With `vectors` separate, a phrase has two vectors, side by side in one row of 2 D numbers:

    written by  scale · (output row of its first subword + MLP(last state))
    read by     scale · (embedding of its last subword + MLP(last state))

with a scale and an MLP of their own. A language model's state says which subword comes next, and
its attention finds again what followed the last one: so an untrained phrase is written as often as
its first subword would be, and what follows it is predicted as after its last.

Tensors in, tensors out. Ids below `num_subwords` are subwords, V + row is a phrase.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from quoth.errors import ConfigError
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.llama import CausalLlama, LlamaCache
from quoth.models.kernels import steady_kernels
from quoth.models.lora import add_adapters, merge_adapters

_LAYERS = ("layers", "h")  # where Llama and GPT-2 keep them


class Norms(NamedTuple):
    """Mean lengths of the two kinds of rows; phrases far longer win every comparison."""

    phrases: float
    subwords: float


class PhraseEncoder(nn.Module):
    """Reads phrases by themselves, from position 0, and gives a row for each prefix."""

    def __init__(self, backbone: nn.Module, config: DynamicLMConfig, *, width: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.is_separate = config.vectors == "separate"
        self.reach = config.reach
        parts = 2 if self.is_separate else 1
        self.projection = nn.Sequential(
            nn.LayerNorm(width, elementwise_affine=False),
            nn.Dropout(config.encoder_dropout),
            nn.Linear(width, parts * width),
            nn.GELU(),
            nn.Linear(parts * width, parts * width),
        )
        self.scale = nn.Parameter(torch.ones(parts) if self.is_separate else torch.ones(()))
        table: nn.Embedding = backbone.get_input_embeddings()  # type: ignore[operator]
        self.projection.to(table.weight.dtype)  # not the backbone: its rotations stay in fp32
        self.scale.data = self.scale.data.to(table.weight.dtype)

    def start(self, generator: torch.Generator) -> None:
        """Draw the projection's first layer; its last one is zero."""
        first, last = cast(nn.Linear, self.projection[2]), cast(nn.Linear, self.projection[4])
        bound = first.in_features**-0.5
        with torch.no_grad():
            for tensor in (first.weight, first.bias):
                drawn = torch.rand(tensor.shape, generator=generator) * (2 * bound) - bound
                tensor.copy_(drawn)
            last.weight.zero_()
            last.bias.zero_()

    def forward(self, subword_ids: Tensor, mask: Tensor, *, output: Tensor) -> Tensor:
        """Encode every prefix of every row, (R, T, D) or (R, T, 2 D); padding's mean nothing.

        `output` is the language model's output table, (V, D).
        """
        table: nn.Module = self.backbone.get_input_embeddings()  # type: ignore[operator]
        embedded: Tensor = table(subword_ids)
        states = run_backbone(self.backbone, embedded, mask=mask, cache=None)
        found: Tensor = self.projection(states) * (self.reach / embedded.shape[-1])
        if not self.is_separate:
            vectors: Tensor = self.scale * (prefix_means(embedded, mask) + found)
            return vectors
        first = output[subword_ids[:, :1]].to(embedded.dtype).expand_as(embedded)
        scale = self.scale.repeat_interleave(embedded.shape[-1])
        return scale * (torch.cat((first, embedded), -1) + found)


class DynamicNetwork(nn.Module):
    """A causal language model of transformers, and the encoder of the phrases it may write."""

    def __init__(
        self,
        language_model: nn.Module,
        config: DynamicLMConfig,
        *,
        generator: torch.Generator,
        encoder: nn.Module | None = None,
    ) -> None:
        """Join them; `encoder` is a backbone that was saved, None starts one from the model."""
        super().__init__()
        self.language_model = language_model
        self.num_subwords = len(self._output.weight)
        self.width = int(self._output.weight.shape[1])
        backbone = encoder or first_layers(
            language_model.base_model,  # type: ignore[arg-type]
            config.encoder_layers,
            is_shared=config.tuning == "lora",
        )
        self._is_separate = config.vectors == "separate"
        self.encoder = PhraseEncoder(backbone, config, width=self.width)
        self.encoder.start(generator)
        if config.tuning == "lora":
            for model in (language_model.base_model, backbone):
                add_adapters(
                    cast(nn.Module, model),
                    rank=config.lora_rank,
                    alpha=config.lora_alpha,
                    dropout=config.lora_dropout,
                    generator=generator,
                )
            self._output.requires_grad_(False)  # not the backbone's where it is not tied

    @property
    def phrase_width(self) -> int:
        """The length of a phrase's row: D, or 2 D where its two vectors are separate."""
        return (2 if self._is_separate else 1) * self.width

    def encode_prefixes(
        self, subword_ids: Tensor, *, mask: Tensor
    ) -> Tensor:  # (R, T, phrase_width)
        """Encode all prefixes of phrases in one causal pass; [r, t] is that of t + 1 subwords.

        `mask` (R, T) is True where there are subwords; rows are padded on the right.
        """
        vectors: Tensor = self.encoder(subword_ids, mask, output=self._output.weight)
        return vectors

    def embed(self, token_ids: Tensor, *, phrase_vectors: Tensor) -> Tensor:  # (B, T, D)
        """Look tokens up in the extended input table; phrase_vectors is (C, phrase_width)."""
        is_phrase = token_ids >= self.num_subwords
        embedded: Tensor = self._input(token_ids.masked_fill(is_phrase, 0))
        if not len(phrase_vectors):
            return embedded
        rows = (token_ids - self.num_subwords).clamp_min(0)
        chosen = phrase_vectors[:, -self.width :][rows].to(embedded.dtype)
        return torch.where(is_phrase[..., None], chosen, embedded)

    def states(
        self,
        embedded: Tensor,
        *,
        mask: Tensor,
        cache: Any = None,
        positions: Tensor | None = None,
    ) -> Tensor:  # (B, T, D)
        """Return the final hidden states of (B, T, D) embedded tokens.

        `mask` (B, T_all) covers what the cache holds as well; padding is on the left or the right.
        Positions count what is not padding, unless given (B, T); then `mask` (B, 1, T, T) may say
        what each token sees. A cache from `new_cache` is extended in place.
        """
        backbone = cast(nn.Module, self.language_model.base_model)
        return run_backbone(backbone, embedded, mask=mask, cache=cache, positions=positions)

    def new_cache(self) -> Any:
        """Start what `states` keeps of the tokens it was given."""
        if isinstance(self.language_model, CausalLlama):
            return LlamaCache()
        from transformers import DynamicCache

        return DynamicCache()

    def subword_scores(self, states: Tensor) -> Tensor:  # (…, V)
        """Score all subwords as what follows states (…, D)."""
        scores: Tensor = self._output(states)
        return scores

    def phrase_scores(self, states: Tensor, phrase_vectors: Tensor) -> Tensor:  # (…, C)
        """Score phrases as what follows states (…, D); comparable with subwords' scores."""
        return states @ phrase_vectors[:, : self.width].to(states.dtype).T

    @torch.no_grad()
    def calibrate(self, subword_ids: Tensor, mask: Tensor) -> None:
        """Set the scale so that these phrases are not longer, on average, than the output's rows.

        It is never above 1: scaled up to equal length, untrained phrases win most comparisons.
        All prefixes of two subwords or more count; (R, T) both, padded on the right. Separate
        vectors start as rows of the tables, and need no scale.
        """
        if self._is_separate:
            return
        was_training, device = self.training, self.encoder.scale.device
        self.eval()
        vectors = self.encode_prefixes(subword_ids.to(device), mask=mask.to(device))
        norms = self.norms((vectors / self.encoder.scale)[:, 1:][mask[:, 1:].to(device)])
        self.train(was_training)
        self.encoder.scale.fill_(min(1.0, norms.subwords / max(norms.phrases, 1e-12)))

    @torch.no_grad()
    def norms(self, phrase_vectors: Tensor) -> Norms:
        """Measure how phrases are written, and the rows of the output table."""
        written = phrase_vectors[:, : self.width]
        lengths = (written.float().norm(dim=1), self._output.weight.float().norm(dim=1))
        phrases, subwords = (float(each.mean()) for each in lengths)
        return Norms(phrases, subwords)

    def merge(self) -> None:
        """Merge all adapters into weights of their own: quicker, and no longer trainable."""
        merge_adapters(self.language_model)
        merge_adapters(self.encoder.backbone)
        self.requires_grad_(False)

    @property
    def _input(self) -> nn.Embedding:
        return self.language_model.get_input_embeddings()  # type: ignore[operator,no-any-return]

    @property
    def _output(self) -> nn.Linear:
        return self.language_model.get_output_embeddings()  # type: ignore[operator,no-any-return]


def run_backbone(
    backbone: nn.Module,
    embedded: Tensor,
    *,
    mask: Tensor,
    cache: Any,
    positions: Tensor | None = None,
) -> Tensor:  # (B, T, D)
    """Run a causal transformer over embedded tokens; `cache` may be None."""
    if positions is None:
        mask, positions = mask.long(), positions_of(mask)[:, -embedded.shape[1] :]
    with steady_kernels(embedded.device):
        found = backbone(
            inputs_embeds=embedded,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
        )
    states: Tensor = found.last_hidden_state
    return states


def positions_of(mask: Tensor) -> Tensor:  # (B, T)
    """Count what is not padding, from 0; padding gets any position.

    >>> positions_of(torch.tensor([[False, True, True], [True, True, False]])).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return (mask.long().cumsum(1) - 1).clamp_min(0)


def prefix_means(embedded: Tensor, mask: Tensor) -> Tensor:  # (R, T, D)
    """Average the first t + 1 vectors of every row, padding left out.

    >>> embedded = torch.tensor([[[2.0], [4.0]]])
    >>> prefix_means(embedded, torch.tensor([[True, True]])).flatten().tolist()
    [2.0, 3.0]
    """
    counts = mask.long().cumsum(1).clamp_min(1)
    total = embedded.masked_fill(~mask[..., None], 0.0).float().cumsum(1)
    return (total / counts[..., None]).to(embedded.dtype)


def first_layers(backbone: nn.Module, count: int, *, is_shared: bool) -> nn.Module:
    """Copy a transformer's structure with its first layers, 0 for all.

    Its tensors are those of the original where they are shared, and copies where they are not.
    """
    name = next((each for each in _LAYERS if hasattr(backbone, each)), None)
    if name is None:
        raise ConfigError(
            f"a {type(backbone).__name__} cannot start a phrase encoder: its layers were not found;"
            " name a model of the Llama or GPT-2 family"
        )
    layers = cast(nn.ModuleList, getattr(backbone, name))
    if count > len(layers):
        raise ConfigError(
            f"the language model has {len(layers)} layers, encoder_layers is {count}; lower it"
        )
    tensors = [*backbone.parameters(), *backbone.buffers()]
    kept: dict[int, Any] = {id(each): each for each in tensors} if is_shared else {}
    dropped = list(layers[count:]) if count else []
    kept |= {id(layer): nn.Identity() for layer in dropped}  # not copied, only to be left out
    copied = copy.deepcopy(backbone, kept)
    if count:
        setattr(copied, name, nn.ModuleList(list(getattr(copied, name))[:count]))
        copied.config.num_hidden_layers = count  # type: ignore[union-attr]
    return copied
