"""Score a run against qrels, per query and on average.

Measures carry the names of ir-measures (nDCG@10, RR@10, R@100, AP, P(rel=2)@10, Judged@10, …). The
standard ones are computed here (`evaluation.standard`), two more are our own: NCG@k as the GLOW
paper defines it, and Hits@k, the name under which the PIXAR paper reports what ir-measures calls
Success@k. All others are left to ir-measures and trec_eval's code, where they are installed.

The order of hits is the ranking: a run's own scores are replaced by ones that fall strictly, since
trec_eval, MS MARCO's script and the others behind ir-measures break ties each in its own way, and
trec_eval in single precision.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import fmean
from typing import Any

from quoth.errors import EvaluationError
from quoth.evaluation import standard
from quoth.evaluation.escape import escape
from quoth.evaluation.extra import eval_extra
from quoth.evaluation.files import MAX_GRADE
from quoth.records import Qrels, Run

logger = logging.getLogger(__name__)

_PROVIDERS = ("pytrec_eval", "judged", "msmarco", "compat")
"""What computes ir-measures' measures, whatever else is installed; none starts a process."""

_CUT_OFF = re.compile(r"(?P<name>[^@(]*)@(?P<k>[1-9][0-9]{0,8})")
_LARGEST = {"cutoff": 999_999_999, "rel": MAX_GRADE}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a run scored.

    `scores` is measure → qid → score, for every query that has qrels; `means` averages over them
    all. Judged queries that the run has no hits for (`num_absent_queries` of them) score 0; queries
    of the run without qrels (`num_unjudged_queries`) do not count. `drop_same_id` says whether hits
    with docid equal to qid were dropped.
    """

    run_name: str
    scores: Mapping[str, Mapping[str, float]]
    means: Mapping[str, float]
    num_queries: int
    num_absent_queries: int
    num_unjudged_queries: int
    drop_same_id: bool


def evaluate_run(
    run: Run, qrels: Qrels, measures: Sequence[str], *, drop_same_id: bool = False
) -> Evaluation:
    """Score a run by each of the measures.

    `drop_same_id` drops hits whose docid equals the qid before anything is counted: in ArguAna and
    Quora each query is itself a document of the corpus, and BEIR's figures leave it out. Elsewhere
    equal keys mean nothing.
    """
    _check_qrels(qrels)
    docids_by_qid = {
        qid: _ranked_docids(run, qid, drop_same_id=drop_same_id) for qid in qrels.grades
    }
    scores = _score_all(docids_by_qid, qrels, list(dict.fromkeys(measures)))
    absent = sum(not docids for docids in docids_by_qid.values())
    if absent:
        logger.warning("run %s has no hits for %d judged queries: scored 0", run.name, absent)
    return Evaluation(
        run_name=run.name,
        scores=scores,
        means={measure: fmean(by_qid.values()) for measure, by_qid in scores.items()},
        num_queries=len(qrels.grades),
        num_absent_queries=absent,
        num_unjudged_queries=len(run.hits.keys() - qrels.grades.keys()),
        drop_same_id=drop_same_id,
    )


def check_measures(measures: Iterable[str]) -> None:
    """Raise for the measures that `evaluate_run` could not compute, all at once."""
    names = list(measures)
    problems = [problem for name in names if (problem := _find_problem(name)) is not None]
    if not names:
        problems = ["no measure was named; expected at least one, such as nDCG@10"]
    if problems:
        raise EvaluationError("\n".join(problems))


def ncg(docids: Sequence[str], grades: Mapping[str, int], *, k: int) -> float:
    """Normalised cumulated gain: the grades in the top k over the k largest, in any order.

    >>> ncg(["a", "x", "b"], {"a": 1, "b": 2, "c": 3}, k=2) == 1 / (3 + 2)
    True
    """
    gains = [max(grades.get(docid, 0), 0) for docid in docids[:k]]
    ideal_gains = sorted((max(grade, 0) for grade in grades.values()), reverse=True)[:k]
    return sum(gains) / sum(ideal_gains) if any(ideal_gains) else 0.0


def hits(docids: Sequence[str], grades: Mapping[str, int], *, k: int) -> float:
    """Return 1 if a relevant document is in the top k, else 0; the same as Success@k.

    >>> [hits(["x", "a"], {"a": 1, "x": 0}, k=k) for k in (1, 2)]
    [0.0, 1.0]
    """
    return standard.success(docids, grades, k=k)


_OWN: Mapping[str, Callable[..., float]] = {"NCG": ncg, "Hits": hits}

_OWN_NAMES = (*_OWN, *standard.NAMES)
_WHERE_MORE_ARE = "(ir-measures has more, and is not installed)"

_DocidsByQid = Mapping[str, Sequence[str]]


def _score_all(
    docids_by_qid: _DocidsByQid, qrels: Qrels, measures: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Share the measures out between us and ir-measures; keep the order asked for."""
    check_measures(measures)
    scores: dict[str, dict[str, float]] = {measure: {} for measure in measures}
    for measure in measures:
        if (score := _own(measure)) is not None:
            scores[measure] = {
                qid: score(docids, qrels.grades[qid]) for qid, docids in docids_by_qid.items()
            }
    rest = [measure for measure in measures if _own(measure) is None]
    return scores | (_score_others(docids_by_qid, qrels, rest) if rest else {})


def _own(measure: str) -> Callable[[Sequence[str], Mapping[str, int]], float] | None:
    """Find what computes a measure here; None if nothing does.

    >>> _own("NCG@10")(["a"], {"a": 1}), _own("nDCG@10")(["a"], {"a": 1}), _own("ERR@10")
    (1.0, 1.0, None)
    """
    match = _CUT_OFF.fullmatch(measure)
    if match and match["name"] in _OWN:
        return partial(_OWN[match["name"]], k=int(match["k"]))
    return standard.parse(measure, max_grade=MAX_GRADE)


def _score_others(
    docids_by_qid: _DocidsByQid, qrels: Qrels, measures: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Have ir-measures compute its measures.

    Keys are escaped: trec_eval's code ends the process at a lone surrogate, and cuts a key at a
    NUL. Queries without hits are left out (some providers divide by their number) and given 0 here.
    """
    grades = {
        escape(qid): {escape(docid): int(grade) for docid, grade in by_docid.items()}
        for qid, by_docid in qrels.grades.items()
    }
    ranking = {
        escape(qid): _falling_scores(docids) for qid, docids in docids_by_qid.items() if docids
    }
    parsed = {measure: _parse(measure) for measure in measures}
    value_by_key = {
        (str(metric.measure), metric.query_id): float(metric.value)
        for metric in _pipeline().iter_calc(list(parsed.values()), grades, ranking)
    }
    return {
        name: {qid: value_by_key.get((str(measure), escape(qid)), 0.0) for qid in docids_by_qid}
        for name, measure in parsed.items()
    }


def _falling_scores(docids: Sequence[str]) -> dict[str, float]:
    """Score by position, in whole numbers, which single precision holds exactly.

    >>> _falling_scores(["b", "a"])
    {'b': 2.0, 'a': 1.0}
    """
    return {escape(docid): float(len(docids) - i) for i, docid in enumerate(docids)}


def _ranked_docids(run: Run, qid: str, *, drop_same_id: bool) -> list[str]:
    docids = [hit.docid for hit in run.hits.get(qid, ())]
    if len(set(docids)) != len(docids):
        raise EvaluationError(f"run {run.name!r} ranks a document twice for the query {qid!r}")
    return [docid for docid in docids if docid != qid] if drop_same_id else docids


def _check_qrels(qrels: Qrels) -> None:
    if not qrels.grades:
        raise EvaluationError("the qrels hold no queries; expected at least one")
    for qid, grades in qrels.grades.items():
        for docid, grade in grades.items():
            if abs(grade) > MAX_GRADE:
                raise EvaluationError(
                    f"query {qid!r} grades the document {docid!r} as {grade}; "
                    f"expected from -{MAX_GRADE} to {MAX_GRADE}"
                )


def _pipeline() -> Any:
    with eval_extra("evaluating a run"):
        import ir_measures

        import_module("pytrec_eval")
    registry: Mapping[str, Any] = ir_measures.providers.registry
    fallback: Any = ir_measures.providers.FallbackProvider
    return fallback([registry[name] for name in _PROVIDERS])


def _parse(measure: str) -> Any:
    with eval_extra("evaluating a run"):
        import ir_measures
    with warnings.catch_warnings():
        # ir-measures names classes of `ast` that newer Pythons deprecate.
        warnings.simplefilter("ignore", DeprecationWarning)
        return ir_measures.parse_measure(measure)


def _find_problem(name: str) -> str | None:
    """Say why a measure cannot be computed, or None."""
    try:
        if _own(name) is not None:
            return None
    except EvaluationError as error:
        return str(error)
    base = re.split("[@(]", name)[0]
    if base in _OWN:
        return f"{name} is not a measure; expected {base}@k with a whole number k from 1"
    if find_spec("ir_measures") is None:
        return f"{name} is not computed here; {_suggest(base, _OWN_NAMES)} {_WHERE_MORE_ARE}"
    if base not in _known_names():
        return f"{name} is not a measure; {_suggest(base, _known_names())}"
    try:
        measure = _parse(name)
        measure.validate_params()
    except (ValueError, TypeError, SyntaxError, AssertionError):
        return f"{name} lacks a parameter or has a wrong one; expected as in nDCG@10, P(rel=2)@10"
    if not all(_is_usable(key, value) for key, value in measure.params.items()):
        return f"{name} has a parameter out of range; cut-offs and rel are whole numbers from 1"
    if not _pipeline().supports(measure):
        return f"{name} is known to ir-measures, but not computed by {', '.join(_PROVIDERS)}"
    return None


def _is_usable(key: str, value: object) -> bool:
    """Refuse values on which trec_eval's code would end the process.

    >>> _is_usable("cutoff", 10), _is_usable("cutoff", 0), _is_usable("gains", {1: 3})
    (True, False, True)
    """
    if key in _LARGEST:
        return type(value) is int and 1 <= value <= _LARGEST[key]
    if isinstance(value, dict):
        return all(type(gain) is int and 0 <= gain <= MAX_GRADE for gain in value.values())
    return True


def _known_names() -> Collection[str]:
    with eval_extra("evaluating a run"):
        import ir_measures
    names: Mapping[str, object] = ir_measures.measures.registry
    return [*_OWN_NAMES, *names]


def _suggest(name: str, known: Collection[str]) -> str:
    """Name what may have been meant.

    >>> _suggest("ndgc", ["nDCG", "AP"])
    'did you mean nDCG?'
    """
    spelling_by_lower = {spelling.lower(): spelling for spelling in reversed(list(known))}
    close = get_close_matches(name.lower(), spelling_by_lower, n=3)
    if not close:
        return f"expected one of {', '.join(sorted(set(known)))}"
    return f"did you mean {', '.join(spelling_by_lower[lower] for lower in close)}?"
