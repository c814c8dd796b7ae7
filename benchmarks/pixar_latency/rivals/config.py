"""Settings of the rivals: those of a shortlist, and what only rivals need."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.models.pixar.shortlist.config import ShortlistConfig

RIVALS = ("svd", "hire_low_rank", "hire_quantised", "projection", "fast_vocabulary", "l2s")


@dataclass(frozen=True, slots=True)
class RivalConfig(ShortlistConfig):
    """Settings of a rival.

    `list_length`, with l2s, is the mean over queries' vectors; `depth`, with fast_vocabulary and
    l2s, the best phrases taken of each training vector; `iterations`, with l2s, also decides how
    often it alternates: a fifth as often.
    """

    window: int = 96
    """Columns of the cheap copy of svd and hire_low_rank; an eighth of the width is usual."""

    copy: str = "int4"
    """The cheap copy of hire_quantised: int8 or int4."""

    def __post_init__(self) -> None:
        assert self.method in RIVALS
