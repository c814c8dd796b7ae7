"""A query generator ready for use: network, inputs and files joined. Texts in, queries out."""

from __future__ import annotations

import functools
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quoth.errors import ConfigError
from quoth.interruption import check_interruption
from quoth.models.batching import BATCH_SUBWORDS, batches_by_length
from quoth.models.pretrained import DEFAULT_NAME, EncoderSource, find_folder, find_shipped
from quoth.models.processor import has_fast_bf16, has_fast_int8, has_onnx
from quoth.models.query_generator.causal import CausalNetwork
from quoth.models.query_generator.causal_files import KIND as CAUSAL
from quoth.models.query_generator.config import CausalGeneratorConfig, QueryGeneratorConfig
from quoth.models.query_generator.decoding import (
    DecodingRules,
    beam,
    distinct,
    draw_uniforms,
    greedy,
    nucleus,
)
from quoth.models.query_generator.foreign import ForeignNetwork
from quoth.models.query_generator.inputs import QueryGeneratorInputs
from quoth.models.query_generator.loading import (
    GeneratorConfig,
    GeneratorParts,
    Network,
    load_parts,
    save_parts,
    start_causal_parts,
    start_parts,
)
from quoth.models.query_generator.saved import KIND

if TYPE_CHECKING:
    from quoth.models.query_generator.onnx_causal import OnnxCausal

SHIPPED = KIND
SHIPPED_NAMES = (SHIPPED, CAUSAL)
"""The small one, and the one that shares the language model of answers: larger and slower."""
METHODS = ("nucleus", "greedy", "beam")
BEAM_WIDTH = 4
_MOST_ROWS = 512
_CUDA_TIMES = 8  # as many at once on a GPU
_ROUNDS = 4
_QUICK_SUBWORDS = 1024  # of a batch that is scored in int8

Scores = NDArray[np.float32]


class QueryGenerator:
    """Writes queries for passages, and says how likely a query is given a passage."""

    def __init__(
        self,
        name: str,
        network: Network,
        inputs: QueryGeneratorInputs,
        config: GeneratorConfig,
        *,
        encoder: EncoderSource | None,
        identity: dict[str, Any],
    ) -> None:
        """Join the parts.

        `encoder` is what they were made for: for a causal generator the language model, None for
        another's model, which has its own.
        """
        self.name = name
        self.network = network.eval()
        self.inputs = inputs
        self.config = config
        self.encoder = encoder
        self._identity = identity
        self._has_scorer = False

    @classmethod
    def load(
        cls, name: str = SHIPPED, *, device: torch.device | None = None, fast: bool = True
    ) -> Self:
        """Load a generator: a shipped one by its name, a folder, or a hub's BART or T5.

        `fast` uses bf16 where the processor has it, for writing and scoring, and merges adapters:
        such a generator cannot be trained or saved. On a GPU only causal generators use bf16;
        another's model always stays in fp32. Where the processor has int8 instead, causal
        generators score with it.
        """
        is_shipped = name in SHIPPED_NAMES and not Path(name).is_dir()
        folder = (
            find_shipped(name)
            if is_shipped
            else find_folder(name, kind="query generator", embedded=" or ".join(SHIPPED_NAMES))
        )
        made = cls._of(name, load_parts(name, folder))
        if device is not None:
            made.network.to(device)
        if fast and isinstance(made.network, CausalNetwork):
            made.network.merge()
        if fast and _suits_bf16(made.network, device):
            made.network.use_bf16()  # type: ignore[operator]
        elif fast:
            made._has_scorer = _suits_int8(made.network, device)
        return made

    @classmethod
    def start(
        cls, encoder: str = DEFAULT_NAME, *, config: QueryGeneratorConfig | None = None
    ) -> Self:
        """Make an untrained generator from an encoder, by folder or name."""
        return cls._of("untrained", start_parts(encoder, config or QueryGeneratorConfig()))

    @classmethod
    def start_causal(
        cls, base: Path, *, config: CausalGeneratorConfig | None = None, seed: int = 0
    ) -> Self:
        """Make an untrained generator over a causal language model, by its folder."""
        parts = start_causal_parts(base, config or CausalGeneratorConfig(), seed)
        return cls._of("untrained", parts)

    @classmethod
    def _of(cls, name: str, parts: GeneratorParts) -> Self:
        network, inputs, config, encoder, identity = parts
        return cls(name, network, inputs, config, encoder=encoder, identity=identity)

    def identity(self) -> dict[str, Any]:
        """Describe everything that decides which queries and scores come out."""
        return dict(self._identity)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    @property
    def likelihood_factor(self) -> float:
        """What its scores count for beside a cross-encoder's, as training queries chose."""
        return 0.4 if isinstance(self.network, CausalNetwork) else 0.1

    @property
    def is_exact(self) -> bool:
        """Whether all weights are as they were trained, so that they can be trained and saved."""
        if isinstance(self.network, CausalNetwork) and self.network.is_merged:
            return False
        return all(each.dtype == torch.float32 for each in self.network.parameters())

    def save(self, folder: Path, *, dtype: str = "int8") -> None:
        """Write the generator; another's model in its own layout and precision.

        Of a causal generator the adapters are written, always in bf16.
        """
        if not self.is_exact:
            raise ConfigError(
                "a generator in bf16 or with merged adapters cannot be saved;"
                " load it with fast=False"
            )
        parts = GeneratorParts(
            self.network, self.inputs, self.config, self.encoder, self.identity()
        )
        save_parts(folder, parts, dtype=dtype)

    @torch.inference_mode()
    def generate(
        self,
        passages: Sequence[str],
        *,
        method: str = "nucleus",
        per_passage: int = 1,
        seed: int = 0,
        top_p: float = 0.92,
        temperature: float = 1.0,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[str]]:
        """Write distinct queries for each passage; `progress` is told the passages done.

        Nucleus sampling may find fewer than `per_passage` that differ, after a few rounds. What
        is sampled depends on the seed and the passage's text, not on the passages beside it.
        """
        _check_method(method, per_passage)
        sequences = self.inputs.passages(passages)
        found: list[list[str]] = [[] for _ in passages]
        done = 0
        times = _CUDA_TIMES if self.device.type == "cuda" else 1
        most = max(1, times * _MOST_ROWS // per_passage)
        lengths = [len(each) for each in sequences]
        for rows in batches_by_length(lengths, budget=times * BATCH_SUBWORDS, most=most):
            check_interruption()
            states, mask = self._states([sequences[row] for row in rows])
            if method == "nucleus":
                texts = [passages[row] for row in rows]
                sampled = _Sampling(self, texts, seed, top_p=top_p, temperature=temperature)
                queries = sampled.write(states, mask, per_passage)
            else:
                queries = self._search(states, mask, method, per_passage)
            for row, own in zip(rows, queries, strict=True):
                found[row] = own
            done += len(rows)
            if progress is not None:
                progress(done)
        return found

    def score(
        self, queries: Sequence[str], passages: Sequence[str], *, per_token: bool = False
    ) -> Scores:
        """Return log p(query | passage) of pairs, summed over tokens or as their mean.

        A passage that occurs in several pairs is read once.
        """
        if len(queries) != len(passages):
            raise ConfigError(
                f"{len(queries)} queries cannot be paired with {len(passages)} passages"
            )
        pairs_by_passage: dict[str, list[int]] = defaultdict(list)
        for at, passage in enumerate(passages):
            pairs_by_passage[passage].append(at)
        targets = self.inputs.queries(queries)
        if self._has_scorer:
            found = self._score_quickly(targets, passages)
            lengths = np.array([len(each) for each in targets], np.float32)
            return found / lengths if per_token else found
        return self._score(targets, pairs_by_passage, per_token=per_token)

    def _score_quickly(self, targets: Sequence[list[int]], passages: Sequence[str]) -> Scores:
        """Read each passage with its query behind it, those of like length together."""
        scores = np.zeros(len(targets), dtype=np.float32)
        sequences = self.inputs.passages(passages)
        lengths = [len(own) + len(query) for own, query in zip(sequences, targets, strict=True)]
        for rows in batches_by_length(lengths, budget=_QUICK_SUBWORDS):
            check_interruption()
            scores[rows] = self._scorer.log_probs(
                [sequences[row] for row in rows], [targets[row] for row in rows]
            )
        return scores

    @torch.inference_mode()
    def _score(
        self,
        targets: list[list[int]],
        pairs_by_passage: dict[str, list[int]],
        *,
        per_token: bool,
    ) -> Scores:
        scores = np.zeros(len(targets), dtype=np.float32)
        sequences = self.inputs.passages(list(pairs_by_passage))
        pairs = list(pairs_by_passage.values())
        for rows in batches_by_length([len(each) for each in sequences], most=_MOST_ROWS):
            states, mask = self._states([sequences[row] for row in rows])
            own = [(at, pair) for at, row in enumerate(rows) for pair in pairs[row]]
            for start in range(0, len(own), _MOST_ROWS):
                check_interruption()
                some = own[start : start + _MOST_ROWS]
                places = torch.tensor([at for at, _pair in some], device=states.device)
                numbers = [pair for _at, pair in some]
                batch = self.inputs.pad([targets[pair] for pair in numbers]).to(states.device)
                log_probs = self.network.log_probs(batch, states[places], mask[places])
                found = log_probs.float().sum(1)
                scores[numbers] = (found / batch.mask.sum(1) if per_token else found).cpu().numpy()
        return scores

    @functools.cached_property
    def _scorer(self) -> OnnxCausal:
        from quoth.models.query_generator.onnx_causal import OnnxCausal

        assert isinstance(self.network, CausalNetwork)
        return OnnxCausal(self.network)

    def _states(self, sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        batch = self.inputs.pad(sequences).to(self.device)
        return self.network.encode(batch), batch.mask

    def _search(
        self, states: Tensor, mask: Tensor, method: str, per_passage: int
    ) -> list[list[str]]:
        """Write by greedy or beam search."""
        if method == "greedy":
            step = self.network.begin(states, mask)
            written = greedy(step, len(states), self.rules(), states.device)
            return [[text] for text in self.inputs.texts(written)]
        width = max(BEAM_WIDTH, per_passage)
        step = self.network.begin(states, mask, per_passage=width)
        best = beam(step, len(states), self.rules(), states.device, width=width)
        return [distinct(self.inputs.texts(own), count=per_passage) for own in best]

    def rules(self) -> DecodingRules:
        """Say what queries of this generator may look like."""
        symbols = self.inputs.symbols
        return DecodingRules(
            prefix=self.network.prefix,
            end=symbols.end,
            max_length=self.config.max_query_subwords,
            banned=symbols.banned,
            banned_first=symbols.continuing,
        )


class _Sampling:
    """Nucleus sampling for the passages of one batch."""

    def __init__(
        self,
        generator: QueryGenerator,
        texts: Sequence[str],
        seed: int,
        *,
        top_p: float,
        temperature: float,
    ) -> None:
        self._generator = generator
        self._keys = [_key(text) for text in texts]
        self._seed = seed
        self._top_p, self._temperature = top_p, temperature

    def write(self, states: Tensor, mask: Tensor, count: int) -> list[list[str]]:
        """Sample in rounds until each passage has enough queries that differ, or long enough."""
        each = count if count == 1 else math.ceil(1.25 * count)
        found: list[list[str]] = [[] for _ in self._keys]
        for number in range(_ROUNDS):
            short = [at for at, own in enumerate(found) if len(own) < count]
            if not short:
                break
            places = torch.tensor(short, device=states.device)
            texts = self._round(states[places], mask[places], short, each, number)
            for at, own in zip(short, texts, strict=True):
                found[at] = distinct([*found[at], *own], count=count)
        return found

    def _round(
        self, states: Tensor, mask: Tensor, rows: list[int], each: int, number: int
    ) -> list[list[str]]:
        rules = self._generator.rules()
        uniforms = torch.cat(
            [
                draw_uniforms(each, rules.max_length, seed=(self._seed, number, self._keys[row]))
                for row in rows
            ]
        ).to(states.device)
        step = self._generator.network.begin(states, mask, per_passage=each)
        written = nucleus(step, uniforms, rules, top_p=self._top_p, temperature=self._temperature)
        texts = self._generator.inputs.texts(written)
        return [texts[at : at + each] for at in range(0, len(texts), each)]


def _suits_bf16(network: Network, device: torch.device | None) -> bool:
    """Whether to compute in bf16; on a GPU the small network is quick without."""
    if isinstance(network, ForeignNetwork):
        return False
    if device is None:
        return has_fast_bf16()
    return device.type == "cuda" and isinstance(network, CausalNetwork)


def _suits_int8(network: Network, device: torch.device | None) -> bool:
    """Whether to score in int8: a causal network, on a CPU that has it."""
    on_cpu = device is None or device.type == "cpu"
    has_both = has_fast_int8() and has_onnx()
    return on_cpu and has_both and _has_suitable_heads(network)


def _has_suitable_heads(network: Network) -> bool:
    """Whether ONNX Runtime can turn the heads of a network: only those of certain widths."""
    return isinstance(network, CausalNetwork) and network.shape.head_width % 16 == 0


def _check_method(method: str, per_passage: int) -> None:
    problems = []
    if method not in METHODS:
        problems.append(f"method is {method!r}, expected one of {', '.join(METHODS)}")
    if per_passage < 1:
        problems.append(f"per_passage is {per_passage}, expected ≥ 1")
    if method == "greedy" and per_passage > 1:
        problems.append("greedy writes one query per passage; ask for nucleus or beam")
    if problems:
        raise ConfigError("query generator: " + "; ".join(problems))


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest())
