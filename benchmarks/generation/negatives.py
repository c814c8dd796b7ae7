"""The negatives that the paper compares, and the ways of cutting phrases."""

from __future__ import annotations

from collections.abc import Mapping

from quoth.selfsupervision.sampling_config import Sampling
from quoth.training.quoting.phrase_negatives import NegativesConfig

TABLE_5: Mapping[str, NegativesConfig] = {
    "in_batch": NegativesConfig(prefixes=False, self_retrieval=False, generation=False),
    "pre_batch": NegativesConfig(pre_batch=4096, self_retrieval=False, generation=False),
    "generation": NegativesConfig(self_retrieval=False),
    "corpus_retrieval": NegativesConfig(
        self_retrieval=False, corpus_retrieval=True, generation=False
    ),
    "self_retrieval": NegativesConfig(generation=False),
    "self_generation": NegativesConfig(),
}
"""The rows of the paper's Table 5; its pre-batch includes prefixes."""

SAMPLING_BY_KIND: Mapping[str, Sampling] = {"negatives": "n_words", "fmm": "fmm", "ids": "n_ids"}
"""How the kinds of arms that repeat its rows cut phrases."""
