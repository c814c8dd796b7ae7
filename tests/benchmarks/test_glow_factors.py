"""The benchmark's weights, computed from packed factors, are those that the inputs compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.glow.factors import (
    decode_df,
    encode_df,
    factors_from_arrays,
    factors_to_arrays,
    lay_out,
    load_pack,
    save_pack,
)
from benchmarks.glow.pack import Counting, averages
from tiny_encoder import make_tokenizer

from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs
from quoth.text.words import Analyser, AnalyserConfig

ANALYSER = Analyser(AnalyserConfig())
TEXTS = [
    ("Barn owl", "the barn owl hunts at night, over one field; owls sleep"),
    ("", "a raven, two ravens and the hen"),
    ("The swift", "sleeps on the wing at dusk"),
]
QUERIES = ["night owl owl", "unknownword of the swift?"]
ROW = GlowConfig(weighting="row", fields=("title", "text"), max_subwords=27, max_query_subwords=8)


class Counts:
    """Document frequencies as the pack's byte keeps them."""

    num_documents = len(TEXTS)

    def __init__(self, means: Mapping[str, float]) -> None:
        self._means = means
        terms = Counter(t for text in TEXTS for t in set(ANALYSER.terms(" ".join(text))))
        codes = decode_df(encode_df(np.array(list(terms.values()))))
        self._df = dict(zip(terms, codes.tolist(), strict=True))

    def document_frequencies(self, view: str, terms: Iterable[str]) -> Mapping[str, int]:
        return {term: self._df[term] for term in terms if term in self._df}

    def average_lengths(self) -> Mapping[str, float]:
        return self._means


@pytest.mark.parametrize("layout", ["joined", "fields"])
@pytest.mark.parametrize(
    "others",
    [
        {},
        {"weights": "idf"},
        {"preset": "code"},
        {"mean_one": True},
        {"strength": 0.25},
        {"field_embeddings": "one"},
    ],
    ids=str,
)
def test_packed_weights_equal_those_of_the_inputs(layout: str, others: dict[str, object]) -> None:
    cap = 27 if layout == "joined" else 28
    config = replace(ROW, layout=layout, max_subwords=cap, **others)  # type: ignore[arg-type]
    counting = Counting(make_tokenizer(), ANALYSER)
    documents = counting.read(TEXTS, cap=25, count=True)
    queries = counting.read((("", text) for text in QUERIES), cap=6, count=False)
    done = counting.finish(documents)
    title, text = averages(done)
    counts = Counts(
        {"text": title + text} if layout == "joined" else {"title": title, "text": text}
    )
    inputs = GlowInputs(make_tokenizer(), config, analyser=ANALYSER)
    fields = [{"title": [each[0]], "text": [each[1]]} for each in TEXTS]
    for factors, sequences, are_queries in (
        (done, inputs.documents(fields, counts), False),
        (counting.finish(queries), inputs.queries(QUERIES, counts), True),
    ):
        laid = lay_out(factors, config, averages=(title, text), queries=are_queries)
        expected = np.concatenate([each.weights for each in sequences])
        np.testing.assert_allclose(laid.weights, expected, rtol=1e-5)
        inner = ~np.isin(laid.ids, (101, 102))
        assert (
            laid.ids[inner].tolist()
            == np.concatenate([np.array(each.subword_ids) for each in sequences])[inner].tolist()
        )
        assert laid.field_ids.tolist() == np.concatenate([s.field_ids for s in sequences]).tolist()


def test_a_frequency_survives_its_byte_within_three_percent() -> None:
    df = np.array([1, 2, 17, 1_000, 80_000])
    np.testing.assert_allclose(decode_df(encode_df(df)), df, rtol=0.03)
    assert encode_df(np.array([0])).tolist() == [1]


def test_a_pack_comes_back(tmp_path: Path) -> None:
    counting = Counting(make_tokenizer(), ANALYSER)
    factors = counting.finish(counting.read(TEXTS, cap=25, count=True))
    halves = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float16)
    arrays = factors_to_arrays("a.documents", factors) | {"base": halves}
    save_pack(tmp_path / "pack.bin", arrays, {"pairs": 3})
    found, facts = load_pack(tmp_path / "pack.bin")
    assert facts == {"pairs": 3}
    assert found["base"].tolist() == halves.tolist()
    back = factors_from_arrays("a.documents", found)
    for name in ("ids", "df", "tf", "kept", "words"):
        np.testing.assert_array_equal(getattr(back, name), getattr(factors, name))
