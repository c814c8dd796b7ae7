"""Another's encoder–decoder as a query generator: any Hugging Face BART or T5.

Offers what `QueryGeneratorNetwork` offers. These models take one mask for all layers, so a bias per
layer and head reaches cross-attention by a hook on each layer. Their heads know no gathering of
positions: logits are made for padding too, and only then dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from quoth.errors import ConfigError
from quoth.models.query_generator.network import TextBatch, cross_entropy, decoder_inputs, spread

KINDS = ("bart", "t5")


class ForeignNetwork(nn.Module):
    """A BART or T5 for conditional generation, all of it trainable."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        settings = model.config
        if settings.model_type not in KINDS:
            raise ConfigError(
                f"a query generator may be of the kinds {', '.join(KINDS)}, not"
                f" {settings.model_type}; name another model"
            )
        self.model = model
        is_bart = settings.model_type == "bart"
        self.num_decoder_layers: int = (
            settings.decoder_layers if is_bart else settings.num_decoder_layers
        )
        self.num_heads: int = settings.decoder_attention_heads if is_bart else settings.num_heads
        start = settings.decoder_start_token_id
        # BART was trained to write its opening symbol first; here that is part of the start.
        self.prefix: tuple[int, ...] = (start, settings.bos_token_id) if is_bart else (start,)
        self.train_encoder = True
        self._is_bart = is_bart

    @property
    def encoder(self) -> nn.Module:
        """The part that reads passages."""
        found: nn.Module = self.model.get_encoder()
        return found

    def encode(self, passages: TextBatch) -> Tensor:  # (B, T, D)
        """Return the states of passages."""
        output = self.encoder(input_ids=passages.subword_ids, attention_mask=passages.mask.long())
        return output.last_hidden_state  # type: ignore[no-any-return]

    def decode(
        self, inputs: Tensor, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L, V)
        """Return the logits after each decoder input; inputs begin with `prefix`."""
        per_passage = inputs.shape[0] // states.shape[0]
        if per_passage > 1:
            states, mask = (each.repeat_interleave(per_passage, 0) for each in (states, mask))
        with self._biased(states, mask, bias):
            output = self.model(
                encoder_outputs=_as_output(states),
                attention_mask=mask.long(),
                decoder_input_ids=inputs,
                use_cache=False,
            )
        return output.logits  # type: ignore[no-any-return]

    def log_probs(
        self, targets: TextBatch, states: Tensor, mask: Tensor, *, bias: Tensor | None = None
    ) -> Tensor:  # (B, L)
        """Return log p(target | earlier targets, states), 0 where padded."""
        return -self.target_losses(targets, states, mask, bias=bias)

    def target_losses(
        self,
        targets: TextBatch,
        states: Tensor,
        mask: Tensor,
        *,
        bias: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:  # (B, L)
        """Return the cross-entropy of each target, 0 where padded."""
        inputs = decoder_inputs(targets.subword_ids, self.prefix)
        logits = self.decode(inputs, states, mask, bias=bias)[:, len(self.prefix) - 1 :]
        losses = cross_entropy(
            logits[targets.mask],
            targets.subword_ids[targets.mask],
            label_smoothing=label_smoothing,
        )
        return spread(losses, targets.mask)

    def begin(self, states: Tensor, mask: Tensor, *, per_passage: int = 1) -> ForeignDecoding:
        """Begin to write `per_passage` queries for each passage, step by step."""
        states, mask = (each.repeat_interleave(per_passage, 0) for each in (states, mask))
        return ForeignDecoding(self.model, states, mask)

    @contextmanager
    def _biased(self, states: Tensor, mask: Tensor, bias: Tensor | None) -> Iterator[None]:
        """Add a bias to the cross-attention of each layer while the context lasts."""
        if bias is None:
            yield
            return
        shape = (self.num_decoder_layers, states.shape[0], self.num_heads, states.shape[1])
        hidden = ~mask[:, None, None, :]
        whole = bias.float().expand(shape)[:, :, :, None, :].masked_fill(hidden, float("-inf"))
        handles = [
            module.register_forward_pre_hook(self._hook(whole[at]), with_kwargs=True)
            for at, module in enumerate(self._cross_attentions())
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, mask: Tensor) -> Any:
        """Put a mask in place of the common one; T5's other bias is recomputed (it is 0)."""
        name = "attention_mask" if self._is_bart else "mask"

        def replace(_module: nn.Module, given: Any, named: dict[str, Any]) -> Any:
            changed = {**named, name: mask.to(given[0].dtype)}
            if not self._is_bart:
                changed["position_bias"] = None
            return given, changed

        return replace

    def _cross_attentions(self) -> list[nn.Module]:
        decoder = self.model.get_decoder()
        if self._is_bart:
            return [layer.encoder_attn for layer in decoder.layers]
        return [block.layer[1].EncDecAttention for block in decoder.block]


class ForeignDecoding:
    """Queries half written by another's model, with its own kind of cache."""

    def __init__(self, model: Any, states: Tensor, mask: Tensor) -> None:
        self._model = model
        self._states = _as_output(states)
        self._mask = mask.long()
        self._kept: Any = None
        self.num_rows = states.shape[0]

    def __call__(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:  # (R, V)
        """Append a token to each row and give the logits of what follows."""
        if parents is not None and self._kept is not None:
            self._kept.reorder_cache(parents)
        output = self._model(
            encoder_outputs=self._states,
            attention_mask=self._mask,
            decoder_input_ids=tokens[:, None],
            past_key_values=self._kept,
            use_cache=True,
        )
        self._kept = output.past_key_values
        return output.logits[:, -1].float()  # type: ignore[no-any-return]


def load_foreign(folder: Path) -> ForeignNetwork:
    """Load another's model from a folder in the Hugging Face layout."""
    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(str(folder), dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{folder} is no query generator: neither one that Quoth wrote nor a BART or T5 in the"
            f" Hugging Face layout ({reason}); name another folder"
        ) from error
    return ForeignNetwork(model).eval()


def _as_output(states: Any) -> BaseModelOutput:
    return BaseModelOutput(last_hidden_state=states)  # releases ask for tensors of different types
