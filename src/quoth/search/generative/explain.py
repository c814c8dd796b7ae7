"""Say what a score of generative search is made of: identifiers, and the phrases of these.

Where a document scores as its best identifier, the score is a sum over phrases, and each is a part;
the mean of all its identifiers, where it counts beside the best, is one more.
Other ways of aggregating are no sums over phrases: there each identifier is a part, and what its
phrases scored stands in its label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quoth.index.trie.trie import Trie
from quoth.records import Part
from quoth.search.generative.added import PhraseTexts
from quoth.search.generative.aggregate import Contribution
from quoth.search.generative.aggregate_config import AggregateConfig
from quoth.search.generative.decode.config import BY_POOLED, COSINES, DecodeConfig
from quoth.search.generative.decode.score_table import BagNorms, PhraseScores, uses_end
from quoth.vocabulary.identifiers import PhraseIds

NAME = "generative"
_POWERS = {"none": 0.0, "mean": 1.0, "end": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class Grounds:
    """What the identifiers of one query were scored by."""

    trie: Trie
    scores: PhraseScores
    decoding: DecodeConfig
    aggregation: AggregateConfig
    norms: BagNorms


def explain_document(
    contributions: Sequence[Contribution],
    grounds: Grounds,
    texts: PhraseTexts,
    *,
    mean: Part | None = None,
) -> Part:
    """Explain a document's score by the identifiers that make it up, and the mean of all."""
    if not contributions:
        return Part(f"{NAME}: no identifier found", 0.0)
    splits = grounds.aggregation.method == "max" and grounds.aggregation.posting == "ignore"
    parts = tuple(_explain(each, grounds, texts, splits=splits) for each in contributions)
    parts += () if mean is None else (mean,)
    return Part(NAME, math.fsum(part.value for part in parts), parts)


def _explain(found: Contribution, grounds: Grounds, texts: PhraseTexts, *, splits: bool) -> Part:
    phrase_ids = grounds.trie.sequences(np.array([found.row])).ids
    label = f'identifier "{texts.join(phrase_ids)}"'
    leaves = score_phrases(phrase_ids, found.row, grounds=grounds, texts=texts)
    if not leaves:
        leaves = (Part(f"each phrase by the slot that suits it: {found.score:.4f}", found.score),)
    if splits:
        return Part(label, math.fsum(leaf.value for leaf in leaves), leaves)
    scored = "; ".join(f"{leaf.label} gives {leaf.value:.4f}" for leaf in leaves)
    method = grounds.aggregation.method
    return Part(f"{label} scores {found.score:.4f} ({scored}), by {method}", found.share)


def score_phrases(
    phrase_ids: PhraseIds, row: int, *, grounds: Grounds, texts: PhraseTexts
) -> tuple[Part, ...]:
    """Split an identifier's score among its phrases; nothing where slots are dealt out freely."""
    config, count = grounds.decoding, len(phrase_ids)
    if config.order == "perm_slots":
        return ()
    gains = _find_gains(phrase_ids, grounds.scores, config)
    weights = [1.0] * count
    divisor = count ** _POWERS.get(config.length, config.alpha)
    if config.order in COSINES:
        is_listed = np.isin(phrase_ids, grounds.scores.phrase_ids)  # the floor is not weighted
        weights = np.where(is_listed, grounds.norms.phrase_weights[phrase_ids], 1.0).tolist()
        divisor = float(grounds.norms.norms[row])
    leaves = []
    for phrase_id, gain, weight in zip(phrase_ids.tolist(), gains, weights, strict=True):
        text = texts.text_of(phrase_id).strip()
        label = f'phrase "{text}": {gain:.4f} · {weight:.2f} / {divisor:.3f}'
        leaves.append(Part(label, gain * weight / divisor))
    if uses_end(config) and grounds.scores.end_scores is not None:
        leaves.append(Part(f"end after {count}", float(grounds.scores.end_scores[count])))
    return tuple(leaves)


def _find_gains(phrase_ids: PhraseIds, scores: PhraseScores, config: DecodeConfig) -> list[float]:
    """Return what each phrase of an identifier scored; outside the shortlist, the floor."""
    gains = []
    for slot, phrase_id in enumerate(phrase_ids.tolist()):
        place = int(np.searchsorted(scores.phrase_ids, phrase_id))
        if place == len(scores.phrase_ids) or scores.phrase_ids[place] != phrase_id:
            gains.append(config.floor)
        elif scores.slot_scores is None or config.order in BY_POOLED:
            assert scores.pooled_scores is not None
            gains.append(float(scores.pooled_scores[place]))
        elif config.order == "ordered":
            gains.append(float(scores.slot_scores[slot, place]))
        else:
            gains.append(float(scores.slot_scores[:, place].max()))
    return gains
