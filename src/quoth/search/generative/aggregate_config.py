"""Settings of aggregation; apart from it, so that `--help` needs no numba."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.errors import ConfigError

METHODS = ("max", "logsumexp", "seal", "rank")
POSTINGS = ("ignore", "divide")


@dataclass(frozen=True, slots=True)
class AggregateConfig:
    """How identifiers with scores become rows with scores."""

    method: str = "max"
    """max, logsumexp, seal (log-odds, repetition discounted) or rank (reciprocal ranks)."""

    posting: str = "ignore"
    """Whether owners share an identifier's evidence: ignore how many there are, or divide."""

    temperature: float = 1.0
    """With method = logsumexp: scores are divided by it and the sum multiplied; the higher, the
    more identifiers count beside the best."""

    alpha: float = 2.0
    """With method = seal: log-odds count to this power."""

    beta: float = 0.8
    """With method = seal: share of an identifier's weight that its new phrases earn."""

    lift: float = 0.0
    """With method = seal: added to each score; whole sequences are less likely than their prior."""

    constant: int = 60
    """With method = rank: an identifier adds 1 / (constant + rank)."""

    def __post_init__(self) -> None:
        problems = []
        if self.method not in METHODS:
            problems.append(f'method is "{self.method}", expected one of {", ".join(METHODS)}')
        if self.posting not in POSTINGS:
            problems.append(f'posting is "{self.posting}", expected one of {", ".join(POSTINGS)}')
        if not 0.0 < self.temperature <= 1e3:
            problems.append(f"temperature is {self.temperature}, expected above 0, at most 1000")
        if not 0.0 < self.alpha <= 10.0:
            problems.append(f"alpha is {self.alpha}, expected above 0, at most 10")
        if not 0.0 <= self.beta <= 1.0:
            problems.append(f"beta is {self.beta}, expected 0 to 1")
        if not -1e3 <= self.lift <= 1e3:
            problems.append(f"lift is {self.lift}, expected -1000 to 1000")
        if self.constant < 0:
            problems.append(f"constant is {self.constant}, expected 0 or more")
        if problems:
            raise ConfigError(f"aggregate: {'; '.join(problems)}")
