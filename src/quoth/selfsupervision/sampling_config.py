"""Which stretches of texts become phrases; apart from cutting them, which needs numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from quoth.constraints import AtLeastOne, CheckedConfig, Range

Sampling = Literal["n_words", "n_ids", "fmm"]
SAMPLINGS: tuple[Sampling, ...] = ("n_words", "n_ids", "fmm")


@dataclass(frozen=True, slots=True)
class PhraseSamplingConfig(CheckedConfig, title="sampling"):
    """Settings that decide which stretches become phrases."""

    method: Sampling = "n_words"
    """n_words samples runs of words, n_ids runs of subwords, fmm runs found in other texts."""

    min_length: AtLeastOne = 2
    """Minimum words per phrase; with n_ids, subwords."""

    max_length: AtLeastOne = 5
    """Maximum words per phrase; with n_ids, subwords. fmm has its own limit."""

    max_subwords: Annotated[int, Range(2)] = 16
    """Maximum subwords per phrase; a longer one loses words at its end."""

    gap_min: AtLeastOne = 5
    """Minimum subwords between two phrases: 5 in the paper, 8 in its authors' framework."""

    gap_max: AtLeastOne = 10
    """Maximum subwords to skip (12 in that framework); a phrase then begins at the next word."""

    fmm_max_words: AtLeastOne = 16
    """Maximum words per phrase with fmm."""

    def conflicts(self) -> Iterator[str]:
        """Say where a least is above its most."""
        for least, most in (
            ("min_length", "max_length"),
            ("gap_min", "gap_max"),
            ("min_length", "fmm_max_words"),
        ):
            if getattr(self, least) > getattr(self, most):
                yield f"{least} is {getattr(self, least)}, above {most} ({getattr(self, most)})"
