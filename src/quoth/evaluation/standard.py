"""The standard measures of a ranking, defined as trec_eval defines them.

They need no package beyond Python, so that every machine can evaluate, and gives the same figures.
Each takes the documents of one query in order, their grades, and what the name of a measure may
carry: a cut-off `k`, the least grade `rel` that counts as relevant, other `gains` for grades.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import Any

from quoth.errors import EvaluationError

Grades = Mapping[str, int]


def ndcg(
    docids: Sequence[str],
    grades: Grades,
    *,
    k: int | None = None,
    gains: Mapping[int, int] | None = None,
) -> float:
    """Normalised discounted cumulated gain: a document at rank r counts for gain / log2(r + 1).

    >>> ndcg(["x", "a"], {"a": 1, "x": 0}, k=10) == 1 / log2(3)
    True
    """
    gain_of = gains or {}
    gain_by_docid = {docid: max(gain_of.get(g, g), 0) for docid, g in grades.items()}
    ideal = _discounted(sorted(gain_by_docid.values(), reverse=True)[:k])
    found = _discounted([gain_by_docid.get(docid, 0) for docid in docids[:k]])
    return found / ideal if ideal else 0.0


def reciprocal_rank(
    docids: Sequence[str], grades: Grades, *, k: int | None = None, rel: int = 1
) -> float:
    """Return 1 over the rank of the first relevant document, or 0 where the top k have none.

    >>> reciprocal_rank(["x", "a"], {"a": 1})
    0.5
    """
    for rank, docid in enumerate(docids[:k], 1):
        if grades.get(docid, 0) >= rel:
            return 1 / rank
    return 0.0


def average_precision(
    docids: Sequence[str], grades: Grades, *, k: int | None = None, rel: int = 1
) -> float:
    """Average the precision at the rank of each relevant document; one not found counts as 0.

    >>> average_precision(["a", "x", "b"], {"a": 1, "b": 1, "c": 1}) == (1 + 2 / 3) / 3
    True
    """
    found, total = 0, 0.0
    for rank, docid in enumerate(docids[:k], 1):
        if grades.get(docid, 0) >= rel:
            found += 1
            total += found / rank
    relevant = _num_relevant(grades, rel)
    return total / relevant if relevant else 0.0


def precision(docids: Sequence[str], grades: Grades, *, k: int, rel: int = 1) -> float:
    """Return the share of relevant documents in the top k, however few were found."""
    return _num_found(docids[:k], grades, rel) / k


def recall(docids: Sequence[str], grades: Grades, *, k: int, rel: int = 1) -> float:
    """Return the share of the relevant documents that are in the top k."""
    relevant = _num_relevant(grades, rel)
    return _num_found(docids[:k], grades, rel) / relevant if relevant else 0.0


def r_precision(docids: Sequence[str], grades: Grades, *, rel: int = 1) -> float:
    """Return the precision at as many documents as are relevant."""
    relevant = _num_relevant(grades, rel)
    return precision(docids, grades, k=relevant, rel=rel) if relevant else 0.0


def success(docids: Sequence[str], grades: Grades, *, k: int, rel: int = 1) -> float:
    """Return 1 if a relevant document is in the top k, else 0."""
    return float(_num_found(docids[:k], grades, rel) > 0)


def judged(docids: Sequence[str], grades: Grades, *, k: int | None = None) -> float:
    """Return the share of the top k, or of all that was found if that is less, with a grade."""
    top = docids[:k]
    return sum(docid in grades for docid in top) / len(top) if top else 0.0


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a measure is computed, and which parameters its name may carry."""

    score: Callable[..., float]
    needs_cut_off: bool = False
    takes_cut_off: bool = True
    parameters: frozenset[str] = frozenset({"rel", "judged_only"})


_KINDS: Mapping[str, _Kind] = {
    "nDCG": _Kind(ndcg, parameters=frozenset({"dcg", "gains", "judged_only"})),
    "RR": _Kind(reciprocal_rank),
    "AP": _Kind(average_precision),
    "P": _Kind(precision, needs_cut_off=True),
    "R": _Kind(recall, needs_cut_off=True),
    "Rprec": _Kind(r_precision, takes_cut_off=False),
    "Success": _Kind(success, needs_cut_off=True),
    "Judged": _Kind(judged, parameters=frozenset()),
}
_ALIASES = {
    "NDCG": "nDCG",
    "MRR": "RR",
    "MAP": "AP",
    "Precision": "P",
    "Recall": "R",
    "RPrec": "Rprec",
}
NAMES = (*_KINDS, *_ALIASES)
"""Names of the measures computed here."""

_FORM = re.compile(r"(?P<name>\w+)(?:\((?P<parameters>.*)\))?(?:@(?P<k>[0-9]+))?", re.DOTALL)
_LARGEST_CUT_OFF = 999_999_999


def parse(name: str, *, max_grade: int) -> Callable[[Sequence[str], Grades], float] | None:
    """Read a name such as P(rel=2)@10 as what computes it; None if it is no measure of ours.

    >>> parse("P(rel=2)@2", max_grade=9)(["a", "b"], {"a": 1, "b": 2}), parse("ERR@3", max_grade=9)
    (0.5, None)
    """
    base = re.split("[@(]", name)[0]
    kind = _KINDS.get(_ALIASES.get(base, base))
    if kind is None:
        return None
    match = _FORM.fullmatch(name)
    parameters = _read_parameters(match["parameters"] or "") if match else None
    if match is None or parameters is None or not _fits(kind, parameters, match["k"]):
        raise EvaluationError(
            f"{name} lacks a parameter or has a wrong one; expected as in nDCG@10, P(rel=2)@10"
        )
    if match["k"]:
        parameters["k"] = int(match["k"])
    if not _in_range(parameters, max_grade):
        raise EvaluationError(
            f"{name} has a parameter out of range; cut-offs and rel are whole numbers from 1"
        )
    parameters.pop("dcg", None)
    judged_only = parameters.pop("judged_only", False)
    score = partial(kind.score, **parameters)
    return partial(_score_judged, score) if judged_only else score


def _score_judged(score: Callable[..., float], docids: Sequence[str], grades: Grades) -> float:
    return score([docid for docid in docids if docid in grades], grades)


def _read_parameters(text: str) -> dict[str, Any] | None:
    """Read what stands in the brackets of a measure.

    >>> _read_parameters("rel=2, judged_only=True"), _read_parameters("2")
    ({'rel': 2, 'judged_only': True}, None)
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        read = {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}
        return read if len(read) == len(call.keywords) else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _fits(kind: _Kind, parameters: Mapping[str, Any], k: str | None) -> bool:
    """Whether a kind of measure has these parameters; exp-log2 is left to other programs."""
    if (k and not kind.takes_cut_off) or (not k and kind.needs_cut_off):
        return False
    return (
        parameters.keys() <= kind.parameters
        and isinstance(parameters.get("judged_only", False), bool)
        and isinstance(parameters.get("gains", {}), dict)
        and parameters.get("dcg", "log2") == "log2"
    )


def _in_range(parameters: Mapping[str, Any], max_grade: int) -> bool:
    k, rel = parameters.get("k", 1), parameters.get("rel", 1)
    gains: Mapping[object, object] = parameters.get("gains", {})
    return (
        1 <= k <= _LARGEST_CUT_OFF
        and type(rel) is int
        and 1 <= rel <= max_grade
        and all(type(gain) is int and 0 <= gain <= max_grade for gain in gains.values())
    )


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1) if gain)


def _num_relevant(grades: Grades, rel: int) -> int:
    return sum(grade >= rel for grade in grades.values())


def _num_found(docids: Sequence[str], grades: Grades, rel: int) -> int:
    return sum(grades.get(docid, 0) >= rel for docid in docids)
