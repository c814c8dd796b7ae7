"""BM25 and BM25F against their formulas written out, and lengths against the byte they fit in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.vocabulary.weighting import (
    K1,
    B,
    bm25f_tf,
    inverse_document_frequency,
    length_norm,
    quantise_length,
    saturate,
)


def bm25(tf: float, *, df: int, dl: float, avgdl: float, num_documents: int) -> float:
    idf = inverse_document_frequency(df, num_documents=num_documents)
    return idf * saturate(tf, length_norm(dl, avgdl))


counts = st.integers(1, 1000)
lengths = st.integers(1, 10_000)


def _kept_lengths() -> list[int]:
    """The 256 lengths one byte can hold: 0 to 23, then 24 + a float of 3 mantissa bits."""
    kept = list(range(24)) + [24 + mantissa for mantissa in range(8)]
    for exponent in range(28):
        kept += [24 + (8 + mantissa) * 2**exponent for mantissa in range(8)]
    return kept


def test_there_are_as_many_lengths_as_a_byte_has_values() -> None:
    assert len(_kept_lengths()[:256]) == 256
    assert _kept_lengths()[:256] == sorted(set(_kept_lengths()[:256]))


@given(st.integers(0, 2**31))
def test_a_length_is_rounded_down_to_the_nearest_kept_one(length: int) -> None:
    assert quantise_length(length) == max(kept for kept in _kept_lengths()[:256] if kept <= length)


def test_every_kept_length_stays_as_it_is() -> None:
    assert [quantise_length(kept) for kept in _kept_lengths()[:256]] == _kept_lengths()[:256]


def test_lengths_up_to_forty_are_exact() -> None:
    assert [quantise_length(length) for length in range(41)] == list(range(41))
    assert quantise_length(41) == 40


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_rounding_keeps_the_order_and_loses_at_most_an_eighth(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert quantise_length(low) <= quantise_length(high) <= high
    assert high - quantise_length(high) <= high / 8


@pytest.mark.parametrize(("df", "total"), [(0, 1), (1, 1), (1, 2), (3, 10), (10, 10)])
def test_idf_is_the_non_negative_form(df: int, total: int) -> None:
    expected = math.log(1 + (total - df + 0.5) / (df + 0.5))
    assert inverse_document_frequency(df, num_documents=total) == pytest.approx(expected)
    assert expected > 0


@given(st.integers(0, 500), st.integers(500, 1000))
def test_a_rarer_term_weighs_more(df: int, total: int) -> None:
    rarer = inverse_document_frequency(df, num_documents=total)
    assert rarer > inverse_document_frequency(df + 1, num_documents=total)


def test_bm25_is_its_formula() -> None:
    score = bm25(3, df=2, dl=20, avgdl=15.0, num_documents=9)
    idf = math.log(1 + (9 - 2 + 0.5) / (2 + 0.5))
    assert score == pytest.approx(idf * 3 * 2.2 / (3 + 1.2 * (1 - 0.75 + 0.75 * 20 / 15)))
    assert (K1, B) == (1.2, 0.75)


def test_no_occurrence_scores_nothing_and_an_empty_collection_has_a_norm() -> None:
    assert bm25(0, df=0, dl=0, avgdl=0.0, num_documents=0) == 0
    assert length_norm(5, 0.0) == 1.0


@given(st.floats(0, 1e6), st.floats(0.25, 100), st.floats(0, 3))
def test_saturation_grows_towards_its_limit(tf: float, norm: float, k1: float) -> None:
    assert 0 <= saturate(tf, norm, k1=k1) <= k1 + 1
    assert saturate(tf, norm, k1=k1) <= saturate(tf + 1, norm, k1=k1) + 1e-9
    assert saturate(tf, norm, k1=0) == pytest.approx(1 if tf else 0)  # presence alone


@given(counts, lengths, st.floats(1, 1000), st.floats(0, 1), st.floats(0.1, 3))
def test_bm25f_of_one_field_of_weight_one_is_bm25(
    tf: int, dl: int, avgdl: float, b: float, k1: float
) -> None:
    joined = bm25f_tf([tf], lengths=[dl], averages=[avgdl], weights=[1.0], bs=[b])
    plain = saturate(tf, length_norm(dl, avgdl, b=b), k1=k1)
    assert saturate(joined, 1.0, k1=k1) == pytest.approx(plain)


def test_bm25f_joins_fields_before_saturating() -> None:
    joined = bm25f_tf([1, 2], lengths=[4, 30], averages=[2, 20], weights=[3, 1], bs=[0.5, 0.75])
    assert joined == pytest.approx(3 * 1 / (0.5 + 0.5 * 4 / 2) + 1 * 2 / (0.25 + 0.75 * 30 / 20))


def test_fields_of_different_number_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        bm25f_tf([1, 2], lengths=[4], averages=[2], weights=[3], bs=[0.5])
