"""From what the user typed to weighted clauses over terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quoth.index.lexical.query import Clause, LexicalQuery, scale
from quoth.text.query_syntax import Occur, QueryClause
from quoth.text.words import Analyser


def make_query(
    parts: Sequence[QueryClause], anywhere: tuple[tuple[str, float], ...], analyser: Analyser
) -> LexicalQuery:
    """Make a query of its parts; `anywhere` are the weights of views for parts without a field."""
    repeats: Counter[tuple[tuple[str, ...], str | None, Occur]] = Counter()
    for part in parts:
        is_signed = part.occur != "should" and not part.is_phrase
        analyse = analyser.whole_terms if is_signed else analyser.terms
        terms = analyse(part.text)  # -Haustür must not exclude every Haus
        groups = [tuple(terms)] if part.is_phrase and terms else [(term,) for term in terms]
        repeats.update((group, part.field, part.occur) for group in groups)
    return LexicalQuery(
        tuple(
            Clause(group, scale(anywhere if name is None else ((name, 1.0),), times), occur)
            for (group, name, occur), times in repeats.items()
        )
    )
