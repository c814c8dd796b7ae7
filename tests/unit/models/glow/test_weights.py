"""Word weights against their formulas, written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import log

import pytest

from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.weights import WordWeights, spread

N = 1e8


class Counts:
    """A collection's counts, made up."""

    num_documents = 100

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        self.frequencies = frequencies

    def document_frequencies(self, view: str, terms: Iterable[str]) -> Mapping[str, int]:
        assert view == "*"
        return {term: self.frequencies[term] for term in terms if term in self.frequencies}

    def average_lengths(self) -> Mapping[str, float]:
        return {"title": 4.0, "text": 20.0, "*": 24.0}


COUNTS = Counts({"owl": 10, "the": 90})


def _weights(**settings: object) -> WordWeights:
    return WordWeights(GlowConfig(weighting="row", **settings), COUNTS)  # type: ignore[arg-type]


def _idf(df: int) -> float:
    return log((N - df + 0.5) / (df + 0.5))


def test_queries_follow_equation_6() -> None:
    found = _weights().query(Counter({"owl": 2, "the": 1}))
    norm = 2 * (1 - 0.75 + 0.75 * 3 / 6)
    assert found == pytest.approx(
        {"owl": _idf(10) * 2 / (2 + norm), "the": _idf(90) * 1 / (1 + norm)}
    )


def test_queries_are_as_long_as_those_that_were_trained_with() -> None:
    found = _weights(query_length=2.0).query(Counter({"owl": 1, "the": 1}))
    assert found["owl"] == pytest.approx(_idf(10) / (1 + 2 * (1 - 0.75 + 0.75 * 2 / 2)))


def test_documents_follow_equations_7_and_8_summed_over_fields() -> None:
    fields = [("title", Counter({"owl": 1, "the": 1})), ("text", Counter({"owl": 3, "the": 27}))]
    found = _weights(field_weights={"title": 2.0}).document(fields)
    in_title = 2.0 * 1 / (1 + 0.75 * (2 / 4 - 1))
    in_text = 1.0 * 3 / (1 + 0.75 * (30 / 20 - 1))
    expected = _idf(10) * (in_title + in_text) / (2 + in_title + in_text)
    assert found["title", "owl"] == pytest.approx(expected)
    assert found["text", "owl"] == pytest.approx(expected)


def test_documents_follow_equations_7_and_8_in_each_field() -> None:
    fields = [("title", Counter({"owl": 1, "the": 1})), ("text", Counter({"owl": 3, "the": 27}))]
    found = _weights(field_weights={"title": 2.0}, bm25f="per_field").document(fields)
    in_title = 2.0 * 1 / (1 + 0.75 * (2 / 4 - 1))
    in_text = 1.0 * 3 / (1 + 0.75 * (30 / 20 - 1))
    assert found["title", "owl"] == pytest.approx(_idf(10) * in_title / (2 + in_title))
    assert found["text", "owl"] == pytest.approx(_idf(10) * in_text / (2 + in_text))


def test_idf_alone_forgets_how_often_a_word_stands() -> None:
    found = _weights(weights="idf").query(Counter({"owl": 5}))
    assert found == {"owl": pytest.approx(_idf(10))}
    documents = _weights(weights="idf").document([("text", Counter({"owl": 5}))])
    assert documents == {("text", "owl"): pytest.approx(_idf(10))}


TYPICAL = {3_000_000: (1.3, 0.5, 0.9), 300_000: (2.2, 0.9, 1.6), 10_000: (3.5, 1.4, 2.5)}


@pytest.mark.parametrize(("df", "expected"), [*TYPICAL.items(), (100, (5.3, 2.1, 3.7))])
def test_the_released_codes_weights_are_as_computed_for_the_paper(
    df: int, expected: tuple[float, float, float]
) -> None:
    """The digest's table: a query of 6 words; a document of 25 in two fields, once and twice."""
    weights = WordWeights(
        GlowConfig(weighting="row", preset="code"), Counts({"a": df, "filler": 1})
    )
    query = weights.query(Counter({"a": 1, "filler": 5}))["a"]
    url = ("url", Counter({"filler": 10}))
    once = weights.document([url, ("title", Counter({"a": 1, "filler": 14}))])
    twice = weights.document([url, ("title", Counter({"a": 2, "filler": 13}))])
    found = (query, once["title", "a"], twice["title", "a"])
    assert tuple(round(each, 1) for each in found) == expected


def test_the_released_code_counts_a_separator_per_field() -> None:
    weights = _weights(preset="code")
    one = weights.document([("text", Counter({"owl": 4}))])["text", "owl"]
    share, length = 4 / 6, 6  # [CLS] and one [SEP]
    norm = 1 - 0.4 + 0.4 * length / 25
    assert one == pytest.approx(_idf(10) * share * 1.25 / (share + 0.25 * norm))
    two = weights.document([("title", Counter()), ("text", Counter({"owl": 4}))])["text", "owl"]
    share, length = 4 / 7, 7
    norm = 1 - 0.4 + 0.4 * length / 25
    assert two == pytest.approx(_idf(10) * share * 1.25 / (share + 0.25 * norm))


def test_the_non_negative_idf_uses_the_collections_size() -> None:
    found = _weights(weights="idf", idf="non_negative").query(Counter({"the": 1, "owl": 1}))
    assert found["the"] == pytest.approx(log(1 + (100 - 90 + 0.5) / 90.5))
    assert 0 < found["the"] < found["owl"]


def test_the_scaled_idf_keeps_the_papers_ratio_to_the_collections_size() -> None:
    found = _weights(weights="idf", idf="scaled").query(Counter({"the": 1, "owl": 1, "new": 1}))
    assert found["owl"] == pytest.approx(log((3100 - 10 + 0.5) / 10.5))
    assert found["new"] == pytest.approx(log((3100 - 1 + 0.5) / 1.5))
    assert found["the"] > 3  # far from zero, even where nearly every document has it


def test_unknown_words_weigh_as_the_rarest_or_as_one() -> None:
    rarest = _weights(weights="idf").query(Counter({"zyzzyva": 1}))["zyzzyva"]
    assert rarest == pytest.approx(log((N - 1 + 0.5) / 1.5))
    one = _weights(weights="idf", unknown_words="one").query(Counter({"zyzzyva": 1, "owl": 1}))
    assert one["zyzzyva"] == 1.0 and one["owl"] == pytest.approx(_idf(10))


def test_special_subwords_may_weigh_as_an_unknown_word_that_stands_once() -> None:
    words = Counter({"owl": 2, "the": 1})
    weights = _weights()
    expected = log((N - 0.5) / 1.5) / (1 + 2 * (0.25 + 0.75 * 3 / 6))
    assert weights.unknown_in_query(words) == pytest.approx(expected)
    in_document = weights.unknown_in_document([("text", words)])
    atf = 1 / (0.25 + 0.75 * 3 / 20)
    assert in_document == pytest.approx(log((N - 0.5) / 1.5) * atf / (2 + atf))


def test_strength_takes_a_share_of_the_weight() -> None:
    assert spread([None, 5.0, 0.5], GlowConfig(strength=0.25), unknown=9.0) == [1.0, 2.0, 0.875]
    assert spread([None, 5.0, 0.5], GlowConfig(strength=0.0), unknown=9.0) == [1.0, 1.0, 1.0]


def test_mean_one_divides_by_the_mean_of_the_words() -> None:
    found = spread([None, 2.0, 4.0, None], GlowConfig(mean_one=True), unknown=9.0)
    assert found == pytest.approx([1.0, 2 / 3, 4 / 3, 1.0])
    assert spread([None, None], GlowConfig(mean_one=True), unknown=9.0) == [1.0, 1.0]


@pytest.mark.parametrize(("policy", "expected"), [("one", 1.0), ("mean", 3.0), ("unknown", 9.0)])
def test_special_subwords_take_the_policy(policy: str, expected: float) -> None:
    assert spread([None, 2.0, 4.0], GlowConfig(special_weight=policy), unknown=9.0) == [
        expected,
        2.0,
        4.0,
    ]


def test_weights_stay_where_attention_is_sane() -> None:
    assert spread([50.0, 0.0, -3.0], GlowConfig(), unknown=1.0) == [20.0, 1e-3, 1e-3]


def test_all_problems_of_a_configuration_are_reported_at_once() -> None:
    with pytest.raises(ConfigError, match=r"pooling.*weighting.*field_caps.*max_instances"):
        GlowConfig(pooling="max", weighting="rows", max_instances=0, field_caps={"title": -1})
    with pytest.raises(ConfigError, match="fields holds 0 names"):
        GlowConfig(fields=())
    with pytest.raises(ConfigError, match="fields holds 5 names"):
        GlowConfig(fields=tuple("abcde"), max_subwords=8)
