"""Which phrases are offered beside the right ones; apart from offering them, which needs numpy."""

from __future__ import annotations

from dataclasses import dataclass

from quoth.constraints import AtLeastOne, AtLeastZero, CheckedConfig


@dataclass(frozen=True, slots=True)
class NegativesConfig(CheckedConfig, title="negatives"):
    """Which columns are offered beside the phrases of the batch, which always are."""

    pre_batch: AtLeastZero = 0
    """Columns of the batch before that are kept, at most; their vectors carry no gradient."""

    prefixes: bool = True
    """Offer what the right phrase begins with."""

    self_retrieval: bool = True
    """Offer the right phrase with what follows it in its own text."""

    corpus_retrieval: bool = False
    """Offer the right phrase with what follows it elsewhere in the corpus."""

    generation: bool = True
    """Offer the right phrase with what the untouched language model writes after it."""

    extension: AtLeastOne = 4
    """Most subwords by which a phrase is extended."""

    single_subwords: bool = False
    """Offer prefixes of one subword as well, beside the subword that says the same."""

    mask_valid_alternatives: bool = False
    """Where a plain subword is right, take out phrases that spell the text that follows."""
