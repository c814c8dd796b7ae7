"""A query as the lexical index understands it: weighted clauses over terms.

A clause is matched in its first view and scored in all of them: for free text the first view is the
whole document, and a document that holds the term in any field holds it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from quoth.text.query_syntax import Occur


@dataclass(frozen=True, slots=True)
class Clause:
    """One term, or several as a phrase, with its weight in each view."""

    terms: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]
    occur: Occur = "should"

    @property
    def view(self) -> str:
        """The view in which the clause is matched."""
        return self.weights[0][0]


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """All clauses of one query; it can find something only if one of them is wanted."""

    clauses: tuple[Clause, ...]

    @property
    def wanted(self) -> tuple[Clause, ...]:
        """Clauses that score."""
        return tuple(clause for clause in self.clauses if clause.occur != "must_not")

    def terms(self) -> Iterator[tuple[str, str]]:
        """Yield every (view, term) that scoring looks at."""
        for clause in self.wanted:
            for view, _weight in clause.weights:
                for term in clause.terms:
                    yield view, term


def join_repeats(clauses: Iterable[Clause]) -> LexicalQuery:
    """Let a clause that is asked n times count n times in one clause.

    >>> twice = join_repeats([Clause(("owl",), (("*", 1.0),)), Clause(("owl",), (("*", 1.0),))])
    >>> twice.clauses
    (Clause(terms=('owl',), weights=(('*', 2.0),), occur='should'),)
    """
    counts: dict[Clause, int] = {}
    for clause in clauses:
        counts[clause] = counts.get(clause, 0) + 1
    return LexicalQuery(
        tuple(
            clause if n == 1 else replace(clause, weights=_scaled(clause.weights, n))
            for clause, n in counts.items()
        )
    )


def _scaled(weights: Iterable[tuple[str, float]], factor: int) -> tuple[tuple[str, float], ...]:
    return tuple((view, factor * weight) for view, weight in weights)
