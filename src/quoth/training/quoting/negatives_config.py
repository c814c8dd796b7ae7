"""Which phrases are offered beside the right ones; apart from offering them, which needs numpy."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig


@dataclass(frozen=True, slots=True)
class NegativesConfig(CheckedConfig, title="negatives"):
    """Which columns are offered beside the phrases of the batch, which always are."""

    pre_batch: AtLeastZero = 0
    """Maximum columns kept from the previous batch; their vectors carry no gradient."""

    prefixes: bool = True
    """Add prefixes of the right phrase."""

    self_retrieval: bool = True
    """Add the right phrase extended by what follows it in its own text."""

    corpus_retrieval: bool = False
    """Add the right phrase extended by what follows it elsewhere in the corpus."""

    generation: bool = True
    """Add the right phrase extended by what the base language model writes after it."""

    extension: AtLeastOne = 4
    """Maximum subwords by which a phrase is extended."""

    single_subwords: bool = False
    """Also add prefixes of a single subword, which duplicate an entry of the subword vocabulary."""

    mask_valid_alternatives: bool = False
    """Where a plain subword is right, mask phrases that spell out the text that follows."""
