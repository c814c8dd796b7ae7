"""A query as the lexical index understands it: weighted clauses over terms.

A clause is matched in its first view and scored in all of them: for free text the first view is the
whole document, and a document that holds the term in any field holds it there.
"""

from __future__ import annotations

from dataclasses import dataclass

from quoth.text.query_syntax import Occur


@dataclass(frozen=True, slots=True)
class Clause:
    """One term, or several as a phrase, with its weight in each view."""

    terms: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]
    occur: Occur = "should"

    def __hash__(self) -> int:
        """Tell clauses apart without their weights, which are many, and mostly the same."""
        return hash((self.terms, self.occur))

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


def scale(weights: tuple[tuple[str, float], ...], times: int) -> tuple[tuple[str, float], ...]:
    """Let a clause that is asked for several times count as often.

    >>> scale((("*", 1.0), ("title", 0.3)), 2)
    (('*', 2.0), ('title', 0.6))
    """
    return weights if times == 1 else tuple((view, times * weight) for view, weight in weights)
