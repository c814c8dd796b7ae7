"""Look at the best hits a second time: one reading of their passages, two voices.

The query generator reads a passage by the states of a sentence encoder, and says how likely it is
that somebody who wants the passage asks this query: log p(query | passage) (Ponte and Croft 1998).
The same states, compared with the query's subword by subword, are late interaction (`late.py`).
Either alone gains little; together they gain beyond chance (`benchmarks.learn.ranking`). Reading
ten passages so takes about half as long as the cross-encoder takes for thirty, so this is used once
a collection has learned (`learn.second_look`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from quoth.search.standings import Look

if TYPE_CHECKING:
    from quoth.models.query_generator.scoring import QueryScorer
    from quoth.search.rerank import ReadPassage
    from quoth.text.words import Analyser


def look_again(
    scorer: QueryScorer,
    text: str,
    passages: Sequence[ReadPassage],
    *,
    weights: Mapping[str, float],
    analyser: Analyser,
) -> list[Look]:
    """Read passages for a query; `weights` has the idf of its terms.

    Where no subword of the query weighs anything, late interaction is silent.
    """
    from quoth.models.glow.config import GlowConfig
    from quoth.models.glow.inputs import GlowInputs
    from quoth.search.late import max_similarity, weigh_subwords
    from quoth.search.rerank import join_passage

    found = scorer.read(text, [join_passage(each) for each in passages])
    inputs = GlowInputs(scorer.tokenizer, GlowConfig(), analyser=None)
    own = weigh_subwords(inputs.query_words(text), weights, analyser)
    if not own.any():
        return [Look(likelihood=each) for each in found.log_probs]
    query = scorer.states(inputs.queries([text], None)[0].subword_ids)
    return [
        Look(max_similarity(query, states, own), likelihood)
        for states, likelihood in zip(found.states, found.log_probs, strict=True)
    ]
