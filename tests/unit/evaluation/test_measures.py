"""Scores equal their formulas, and those of a brute-force implementation."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import EvaluationError
from quoth.evaluation import measures as measures_module
from quoth.evaluation.measures import check_measures, evaluate_run, hits, ncg
from quoth.records import Hit, Qrels, Run

Grades = Mapping[str, int]


def run_of(**docids_by_qid: Sequence[str]) -> Run:
    """Rank documents as given, all with the same score."""
    return Run("r", {qid: tuple(Hit(d, 1.0) for d in ds) for qid, ds in docids_by_qid.items()})


def dcg(grades: Sequence[int]) -> float:
    return sum(max(grade, 0) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def brute_ndcg(docids: Sequence[str], grades: Grades, k: int) -> float:
    ideal = dcg(sorted(grades.values(), reverse=True)[:k])
    return dcg([grades.get(docid, 0) for docid in docids[:k]]) / ideal if ideal else 0.0


def brute_rr(docids: Sequence[str], grades: Grades, k: int) -> float:
    ranks = [rank for rank, docid in enumerate(docids[:k], 1) if grades.get(docid, 0) > 0]
    return 1 / ranks[0] if ranks else 0.0


def brute_recall(docids: Sequence[str], grades: Grades, k: int) -> float:
    relevant = {docid for docid, grade in grades.items() if grade > 0}
    return len(relevant & set(docids[:k])) / len(relevant) if relevant else 0.0


def brute_ap(docids: Sequence[str], grades: Grades, k: int) -> float:
    relevant = {docid for docid, grade in grades.items() if grade > 0}
    precisions = [
        len(relevant & set(docids[:rank])) / rank
        for rank, docid in enumerate(docids, 1)
        if docid in relevant
    ]
    return sum(precisions) / len(relevant) if relevant else 0.0


BRUTE: Mapping[str, Callable[[Sequence[str], Grades, int], float]] = {
    "nDCG@3": brute_ndcg,
    "RR@3": brute_rr,
    "R@3": brute_recall,
    "AP": brute_ap,
    "Hits@3": lambda docids, grades, k: float(brute_rr(docids, grades, k) > 0),
    "Success@3": lambda docids, grades, k: float(brute_rr(docids, grades, k) > 0),
}


def import_trec_eval() -> Any:
    """Import ir-measures with trec_eval's code, which Linux on ARM has no package of."""
    reason = "ir-measures and pytrec_eval are not installed"
    pytest.importorskip("pytrec_eval", reason=reason)
    return pytest.importorskip("ir_measures", reason=reason)


KEYS = st.sampled_from(["a", "b", "c", "d", "e f", "50%", "x\x00y", "x\x00z", "\ud800", "é"])
GRADES = st.dictionaries(KEYS, st.integers(-1, 4), max_size=6)
RANKINGS = st.lists(
    st.tuples(KEYS, st.sampled_from([0.0, 1.0])), max_size=6, unique_by=lambda t: t[0]
)


@given(
    grades=st.dictionaries(KEYS, GRADES, min_size=1, max_size=4),
    rankings=st.dictionaries(KEYS, RANKINGS, max_size=4),
)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_same_as_brute_force(
    grades: dict[str, Grades], rankings: dict[str, list[tuple[str, float]]]
) -> None:
    run = Run("r", {qid: tuple(Hit(*pair) for pair in pairs) for qid, pairs in rankings.items()})
    evaluation = evaluate_run(run, Qrels(grades), list(BRUTE))
    for measure, brute in BRUTE.items():
        expected = {
            qid: brute([docid for docid, _ in rankings.get(qid, [])], by_docid, 3)
            for qid, by_docid in grades.items()
        }
        assert evaluation.scores[measure] == pytest.approx(expected)
        assert evaluation.means[measure] == pytest.approx(sum(expected.values()) / len(expected))


def test_arithmetic() -> None:
    qrels = Qrels({"q": {"a": 2, "b": 1, "c": 3, "x": 0}})
    scores = evaluate_run(
        run_of(q=["x", "a", "y", "b"]), qrels, ["nDCG@10", "RR@10", "P@5", "Judged@10", "NCG@4"]
    ).means
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert scores["nDCG@10"] == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert scores["RR@10"] == 1 / 2
    assert scores["P@5"] == 2 / 5
    assert scores["Judged@10"] == 3 / 4
    assert scores["NCG@4"] == (2 + 1) / (3 + 2 + 1)


def test_relevance_level() -> None:
    qrels = Qrels({"q": {"a": 1, "b": 2}})
    means = evaluate_run(run_of(q=["a", "b"]), qrels, ["P(rel=2)@2", "P@2"]).means
    assert means == {"P(rel=2)@2": 1 / 2, "P@2": 2 / 2}


def test_judged_only() -> None:
    qrels = Qrels({"q": {"a": 1}})
    means = evaluate_run(run_of(q=["x", "a"]), qrels, ["P(judged_only=True)@1", "P@1"]).means
    assert means == {"P(judged_only=True)@1": 1 / 1, "P@1": 0 / 1}


def test_names_are_kept_as_written_and_in_order() -> None:
    measures = ["MRR@10", "Hits@1", "RR@10", "Hits@1"]
    evaluation = evaluate_run(run_of(q=["x", "a"]), Qrels({"q": {"a": 1}}), measures)
    assert list(evaluation.means.items()) == [("MRR@10", 1 / 2), ("Hits@1", 0.0), ("RR@10", 1 / 2)]


def test_absent_queries_score_zero_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    qrels = Qrels({"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}})
    run = run_of(q1=["a"], q2=[], other=["a"])
    measures = ["nDCG@10", "RR@10", "AP", "R@5", "Judged@5", "NCG@5", "Hits@5"]
    with caplog.at_level(logging.WARNING):
        evaluation = evaluate_run(run, qrels, measures)
    assert evaluation.means == pytest.approx({measure: 1 / 3 for measure in measures})
    assert evaluation.scores["AP"] == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert (evaluation.num_queries, evaluation.num_absent_queries) == (3, 2)
    assert evaluation.num_unjudged_queries == 1
    assert "no hits for 2 judged queries" in caplog.text


def test_ir_measures_scores_absent_queries_zero_by_itself() -> None:
    ir_measures = import_trec_eval()
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}}
    values = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10, ir_measures.RR @ 10], qrels, {"q1": {"a": 1.0}}
    )
    assert set(values.values()) == {1 / 2}


def test_drop_same_id() -> None:
    run, qrels = run_of(a=["a", "b"]), Qrels({"a": {"b": 1}})
    kept = evaluate_run(run, qrels, ["RR@10", "Hits@1"])
    dropped = evaluate_run(run, qrels, ["RR@10", "Hits@1"], drop_same_id=True)
    assert (kept.means["RR@10"], kept.means["Hits@1"], kept.drop_same_id) == (1 / 2, 0.0, False)
    assert (dropped.means["RR@10"], dropped.means["Hits@1"], dropped.drop_same_id) == (1, 1.0, True)


def test_a_query_whose_only_hit_is_dropped_is_absent() -> None:
    evaluation = evaluate_run(
        run_of(a=["a"]), Qrels({"a": {"b": 1}}), ["Judged@10"], drop_same_id=True
    )
    assert (evaluation.means["Judged@10"], evaluation.num_absent_queries) == (0.0, 1)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("Hits@0", "Hits@0 is not a measure; expected Hits@k"),
        ("NCG", "NCG is not a measure; expected NCG@k"),
        ("P", "P lacks a parameter or has a wrong one"),
        ("nDCG@x", "nDCG@x lacks a parameter or has a wrong one"),
        ("nDCG(foo=1)@3", "lacks a parameter or has a wrong one"),
        ("P@", "P@ lacks a parameter or has a wrong one"),
        ("P@-1", "lacks a parameter or has a wrong one"),
        ("P@0", "P@0 has a parameter out of range"),
        ("nDCG@True", "nDCG@True lacks a parameter or has a wrong one"),
        ("nDCG(dcg='exp-log2')@3", "lacks a parameter or has a wrong one"),
        ("P(rel=2, rel=3)@3", "lacks a parameter or has a wrong one"),
        ("P(2)@3", "lacks a parameter or has a wrong one"),
        ("P(rel=x)@3", "lacks a parameter or has a wrong one"),
        ("Rprec@3", "lacks a parameter or has a wrong one"),
        ("RR(judged_only=1)@3", "lacks a parameter or has a wrong one"),
        ("AP(rel=0)", "out of range"),
        ("nDCG(gains={1: 'a'})@3", "out of range"),
        ("P@99999999999", "out of range"),
    ],
)
def test_measures_that_cannot_be_computed(measure: str, expected: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate_run(run_of(q=["a"]), Qrels({"q": {"a": 1}}), ["nDCG@10", measure])
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("ndgc@10", "did you mean nDCG"),
        ("Hit@5", "did you mean Hits?"),
        ("mrr@10", "did you mean MRR"),
        ("qqqq", "expected one of AP,"),
    ],
)
@pytest.mark.parametrize("more", [False, True])
def test_names_that_are_wrong(
    measure: str, expected: str, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if more:
        import_trec_eval()
    else:
        monkeypatch.setattr(measures_module, "find_spec", lambda name: None)
    with pytest.raises(EvaluationError) as caught:
        check_measures(["nDCG@10", measure])
    assert f"{measure} is not {'a measure' if more else 'computed here'}; {expected}" in str(
        caught.value
    )


def test_a_measure_of_ir_measures_that_needs_another_program() -> None:
    import_trec_eval()
    with pytest.raises(EvaluationError, match="ERR@10 is known to ir-measures, but not computed"):
        check_measures(["ERR@10"])


def test_measures_that_only_ir_measures_has() -> None:
    import_trec_eval()
    qrels = Qrels({"q": {"a": 1, "x": 0}, "r": {"a": 1}})
    evaluation = evaluate_run(run_of(q=["x", "a"]), qrels, ["SetP", "RR"])
    assert evaluation.scores == {"SetP": {"q": 1 / 2, "r": 0.0}, "RR": {"q": 1 / 2, "r": 0.0}}


def test_standard_measures_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures_module, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    run, qrels = run_of(q=["a"]), Qrels({"q": {"a": 1}})
    standard = ["nDCG@10", "MRR", "MAP", "P@1", "Recall@5", "Success@1", "Judged@1", "RPrec"]
    assert set(evaluate_run(run, qrels, standard).means.values()) == {1.0}
    with pytest.raises(EvaluationError, match=r"Bpref is not computed here.*ir-measures has more"):
        evaluate_run(run, qrels, ["Bpref"])


@given(
    grades=st.dictionaries(KEYS, GRADES, min_size=1, max_size=3),
    rankings=st.dictionaries(KEYS, RANKINGS, min_size=1, max_size=3),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_same_as_trec_eval(
    grades: dict[str, Grades], rankings: dict[str, list[tuple[str, float]]]
) -> None:
    import_trec_eval()
    names = ["nDCG", "nDCG@2", "nDCG(gains={1: 3})@3", "nDCG(judged_only=True)@2", "RR", "RR@2"]
    names += ["RR(rel=2)", "AP", "AP@2", "AP(rel=2, judged_only=True)", "P@2", "P(rel=2)@3", "R@2"]
    names += ["Rprec", "Rprec(rel=2)", "Success@2", "Success(rel=3)@2", "Judged@3"]
    run = Run("r", {qid: tuple(Hit(*pair) for pair in pairs) for qid, pairs in rankings.items()})
    qrels = Qrels({qid: {d: max(g, 0) for d, g in of.items()} for qid, of in grades.items()})
    docids = {qid: [hit.docid for hit in run.hits.get(qid, ())] for qid in qrels.grades}
    scores = evaluate_run(run, qrels, names).scores
    for name in names:  # one by one: together, ir-measures may lend the gains of one to another
        others = measures_module._score_others(docids, qrels, [name])
        assert scores[name] == pytest.approx(others[name]), name


def test_all_wrong_measures_are_reported_at_once() -> None:
    with pytest.raises(EvaluationError, match=r"(?s)ndgc.*\n.*qqqq"):
        check_measures(["ndgc@10", "AP", "qqqq"])
    with pytest.raises(EvaluationError, match="no measure was named"):
        check_measures([])


def test_what_cannot_be_evaluated() -> None:
    with pytest.raises(EvaluationError, match="hold no queries"):
        evaluate_run(run_of(q=["a"]), Qrels({}), ["AP"])
    with pytest.raises(EvaluationError, match="'r' ranks a document twice for the query 'q'"):
        evaluate_run(run_of(q=["a", "a"]), Qrels({"q": {"a": 1}}), ["AP"])
    with pytest.raises(EvaluationError, match="grades the document 'a' as 2147483648"):
        evaluate_run(run_of(q=["a"]), Qrels({"q": {"a": 2**31}}), ["AP"])


def test_ncg_ignores_order_and_negative_grades() -> None:
    grades = {"a": 3, "b": 1, "c": -2}
    assert ncg(["b", "a"], grades, k=2) == ncg(["a", "b"], grades, k=2) == (3 + 1) / (3 + 1)
    assert ncg(["b", "c"], grades, k=2) == 1 / (3 + 1)
    assert ncg(["a"], {"a": 0}, k=1) == 0.0


def test_hits_needs_a_positive_grade() -> None:
    assert hits(["a"], {"a": 0}, k=5) == hits(["a"], {"a": -1}, k=5) == hits([], {"a": 1}, k=5) == 0
