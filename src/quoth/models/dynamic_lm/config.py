"""What a dynamic language model is: its base, how it is tuned, how phrases are read."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

TUNINGS = ("lora", "full")
PHRASE_INPUTS = ("vector", "unfold")
MARKERS = ("none", "text")
VECTORS = ("separate", "shared")
TEMPLATES = ("chat", "plain")


@dataclass(frozen=True, slots=True)
class DynamicLMConfig:
    """Settings of a dynamic language model; they are saved with it."""

    base: str = "SmolLM2-135M-Instruct"
    """The causal model it starts from: embedded by name, a folder, or a hub's as owner/name."""

    tuning: str = "lora"
    """What is trained: adapters over frozen weights (lora), or all weights (full)."""

    lora_rank: int = 8
    """Rank of the adapters; the language model and the phrase encoder have their own."""

    lora_alpha: float = 32.0
    """Adapters are multiplied by alpha / rank."""

    lora_dropout: float = 0.1
    """Share of an adapter's inputs that is dropped in training."""

    encoder_layers: int = 0
    """Layers of the phrase encoder, the first of the language model; 0 takes all of them."""

    encoder_dropout: float = 0.1
    """Share of a phrase's last state that is dropped in training, before its projection."""

    vectors: str = "separate"
    """Whether a phrase has a vector to be written by and one to be read by (separate), which start
    at its first and at its last subword, or one for both (shared, as in the paper), which starts at
    the mean of its subwords."""

    phrase_input: str = "vector"
    """What follows a chosen phrase reads: its vector, one position (vector), or its subwords
    (unfold; phrases then only extend the output table, an ablation)."""

    marker: str = "none"
    """Whether a phrase is encoded bare (none) or with its passage's number, "phrase[2]" (text)."""

    reach: float = 3.0
    """How far the encoder moves a phrase: what its projection says is multiplied by reach / width.
    3 is about the length of the language models' own rows."""

    max_phrase_subwords: int = 8
    """Most subwords of a phrase that is offered."""

    max_prompt_subwords: int = 1536
    """Most subwords of a prompt; passages are cut evenly to fit, the question to a quarter."""

    template: str = "chat"
    """How a prompt is written: <|im_start|>user … (chat), or as text (plain)."""

    def __post_init__(self) -> None:
        problems = [*self._wrong_choices(), *self._wrong_numbers()]
        if problems:
            raise ConfigError("dynamic language model: " + "; ".join(problems))

    def _wrong_choices(self) -> list[str]:
        choices = (
            ("tuning", self.tuning, TUNINGS),
            ("phrase_input", self.phrase_input, PHRASE_INPUTS),
            ("marker", self.marker, MARKERS),
            ("vectors", self.vectors, VECTORS),
            ("template", self.template, TEMPLATES),
        )
        return [
            f"{name} is {value!r}, expected one of {', '.join(known)}"
            for name, value, known in choices
            if value not in known
        ]

    def _wrong_numbers(self) -> list[str]:
        problems = []
        if not self.base:
            problems.append("base is empty, expected the name or folder of a causal model")
        if self.lora_rank < 1:
            problems.append(f"lora_rank is {self.lora_rank}, expected ≥ 1")
        if not self.lora_alpha > 0:
            problems.append(f"lora_alpha is {self.lora_alpha}, expected > 0")
        for name, share in (
            ("lora_dropout", self.lora_dropout),
            ("encoder_dropout", self.encoder_dropout),
        ):
            if not 0 <= share < 1:
                problems.append(f"{name} is {share}, expected ≥ 0 and < 1")
        if not self.reach > 0:
            problems.append(f"reach is {self.reach}, expected > 0")
        if self.encoder_layers < 0:
            problems.append(f"encoder_layers is {self.encoder_layers}, expected ≥ 0")
        if self.max_phrase_subwords < 2:
            problems.append(f"max_phrase_subwords is {self.max_phrase_subwords}, expected ≥ 2")
        if self.max_prompt_subwords < 64:
            problems.append(f"max_prompt_subwords is {self.max_prompt_subwords}, expected ≥ 64")
        return problems
