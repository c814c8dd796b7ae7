"""Text to subwords: fields, caps, what is cut, and the weights that subwords share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import log

import pytest
from tiny_encoder import make_tokenizer

from quoth.errors import ConfigError
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.inputs import GlowInputs, SubwordSequence
from quoth.models.glow.weights import CountedWords
from quoth.text.words import Analyser, AnalyserConfig

TOKENIZER = make_tokenizer()
FIELDS = GlowConfig(layout="fields", fields=("url", "title", "text"))
UNKNOWN = log((1e8 - 0.5) / 1.5)


class Counts:
    num_documents = 10

    def document_frequencies(self, _view: str, terms: Iterable[str]) -> Mapping[str, int]:
        return {term: 5 for term in terms if term in ("owl", "barn")}

    def average_lengths(self) -> Mapping[str, float]:
        return {}


IDF = log((1e8 - 5 + 0.5) / 5.5)


def _inputs(config: GlowConfig) -> GlowInputs:
    return GlowInputs(make_tokenizer(), config, analyser=Analyser(AnalyserConfig()))


def _document(config: GlowConfig, **fields: tuple[str, ...]) -> SubwordSequence:
    counts = None if config.weighting == "none" else Counts()
    return _inputs(config).documents([fields], counts)[0]


def _query(config: GlowConfig, text: str) -> SubwordSequence:
    counts = None if config.weighting == "none" else Counts()
    return _inputs(config).queries([text], counts)[0]


def _show(sequence: SubwordSequence) -> str:
    return " ".join(TOKENIZER.id_to_token(each) for each in sequence.subword_ids)


# --- words ----------------------------------------------------------------------------------------


def test_counts_bring_the_analyser_that_found_their_words() -> None:
    counts = CountedWords(Counts(), Analyser(AnalyserConfig(language="none")))
    config = GlowConfig(weighting="row")
    (stemmed,), (plain,) = (_inputs(config).queries(["owls"], each) for each in (Counts(), counts))
    assert stemmed.weights[1] < plain.weights[1]  # "owls" itself is in no document


# --- fields ---------------------------------------------------------------------------------------


def test_fields_stand_in_the_configured_order_each_closed_by_a_separator() -> None:
    found = _document(FIELDS, text=("a mouse",), title=("barn owl",), url=("owl.in/barn",))
    assert _show(found) == "[CLS] owl in barn [SEP] barn owl [SEP] a mouse [SEP]"
    assert found.field_ids == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.num_cut == 0 and found.weights == [1.0] * 11


def test_a_missing_field_leaves_an_empty_segment() -> None:
    found = _document(FIELDS, title=("owl",), lang=("night",))
    assert _show(found) == "[CLS] [SEP] owl [SEP] [SEP]"
    assert found.field_ids == [0, 0, 1, 1, 2]


def test_one_field_embedding_for_all_is_an_ablation() -> None:
    found = _document(replace(FIELDS, field_embeddings="one"), title=("owl",), text=("barn",))
    assert set(found.field_ids) == {0}


def test_only_the_first_instances_of_a_repeated_field_are_read() -> None:
    found = _document(
        FIELDS, title=tuple(["owl", "barn", "night", "hen", "swift", "raven", "mouse"])
    )
    assert _show(found) == "[CLS] [SEP] owl barn night hen swift [SEP] [SEP]"
    assert _show(_document(replace(FIELDS, max_instances=1), text=("owl", "hen"))).endswith(
        "[SEP] [SEP] owl [SEP]"
    )


def test_an_address_is_split_into_words() -> None:
    found = _document(FIELDS, url=("owl://barn.night/hen-swift_raven?mouse=one&two%20three",))
    expected = "owl barn night hen swift raven mouse one two 2 ##0 ##t ##h ##r ##e ##e"
    assert _show(found) == f"[CLS] {expected} [SEP] [SEP] [SEP]"


def test_joined_fields_equal_the_plain_concatenation() -> None:
    config = GlowConfig(fields=("title", "text"))
    found = _document(config, text=("an owl, in a barn!", "night"), title=("Barn-owl",), x=("no",))
    plain = TOKENIZER.encode("Barn-owl an owl, in a barn! night").ids
    assert found.subword_ids == plain and set(found.field_ids) == {0}


def test_a_document_without_any_configured_field_is_read_whole() -> None:
    assert _show(_document(GlowConfig(), name2=("owl",), other=("barn",))) == "[CLS] owl barn [SEP]"
    assert _show(_document(FIELDS, other=("barn",))) == "[CLS] barn [SEP]"
    assert _show(_document(GlowConfig())) == "[CLS] [SEP]"
    assert _show(_document(FIELDS)) == "[CLS] [SEP] [SEP] [SEP]"


# --- cutting --------------------------------------------------------------------------------------


def test_caps_cut_each_field_and_the_rest_is_counted() -> None:
    config = replace(FIELDS, field_caps={"url": 2, "title": 1}, max_subwords=10)
    found = _document(config, url=("owl barn night",), title=("hen owl",), text=("owl " * 9,))
    assert _show(found) == "[CLS] owl barn [SEP] hen [SEP] owl owl owl [SEP]"
    assert found.num_cut == 1 + 1 + 6


@pytest.mark.parametrize("layout", ["joined", "fields"])
@pytest.mark.parametrize("size", [8, 9, 17])
def test_no_sequence_exceeds_its_limit_and_nothing_goes_uncounted(layout: str, size: int) -> None:
    config = replace(FIELDS, layout=layout, max_subwords=size, max_query_subwords=size)
    for count in range(0, 25, 3):
        text = "owl " * count
        found = _document(config, url=(text,), title=(text,), text=(text,))
        special = 2 if layout == "joined" else 4
        assert len(found.subword_ids) == min(size, 3 * count + special)
        assert found.num_cut == 3 * count + special - len(found.subword_ids)
        asked = _query(config, text)
        assert len(asked.subword_ids) == min(size, count + 2)
        assert asked.num_cut == max(0, count + 2 - size)


def test_many_unexpected_fields_do_not_exceed_the_limit() -> None:
    config = replace(FIELDS, max_subwords=8)
    found = _document(config, **{f"f{at}": ("owl barn night",) for at in range(30)})
    assert len(found.subword_ids) == 8
    assert len(found.subword_ids) == len(found.weights) == len(found.field_ids)


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    with pytest.raises(ConfigError, match="not of the BERT kind"):
        GlowInputs(Tokenizer(WordLevel({"a": 0}, unk_token="a")), GlowConfig(), analyser=None)


# --- weights --------------------------------------------------------------------------------------

BY_IDF = GlowConfig(weighting="row", weights="idf", fields=("text",))


def test_the_subwords_of_a_word_share_its_weight_unknown_ones_included() -> None:
    found = _document(BY_IDF, text=("owl zyx, ☃ barn's",))
    assert _show(found) == "[CLS] owl z ##y ##x , [UNK] barn ' s [SEP]"
    known = {0: 1.0, 5: 1.0, 6: 1.0, 10: 1.0}  # special, comma, and a sign that is no word
    rest = [IDF, UNKNOWN, UNKNOWN, UNKNOWN, IDF, IDF, IDF]
    expected = [known[at] if at in known else rest.pop(0) for at in range(11)]
    assert found.weights == pytest.approx(expected)


def test_a_word_that_becomes_unknown_keeps_its_own_weight() -> None:
    found = _document(BY_IDF, text=("barn сова owl 梟",))
    assert _show(found) == "[CLS] barn [UNK] owl [UNK] [SEP]"
    assert found.weights == pytest.approx([1.0, IDF, UNKNOWN, IDF, UNKNOWN, 1.0])


def test_words_are_weighed_by_their_stem() -> None:
    found = _query(BY_IDF, "Owls barns")
    assert _show(found) == "[CLS] owl ##s barn ##s [SEP]"
    assert found.weights == pytest.approx([1.0, IDF, IDF, IDF, IDF, 1.0])


def test_a_cut_text_is_weighed_as_the_whole() -> None:
    config = replace(BY_IDF, weights="bm25", max_subwords=8, max_query_subwords=8)
    long = _document(config, text=("owl " * 30,))
    tf = 30.0  # no average is known: the text is as long as the mean
    assert long.weights[1] == pytest.approx(IDF * tf / (2 + tf)) and long.num_cut == 24
    query = _query(config, "owl " * 30)
    norm = 2 * (0.25 + 0.75 * 30 / 6)
    assert query.weights[1] == pytest.approx(IDF * 30 / (30 + norm))


def test_special_subwords_follow_the_policy() -> None:
    config = replace(BY_IDF, special_weight="unknown")
    assert _query(config, "owl, owl").weights == pytest.approx(
        [UNKNOWN, IDF, UNKNOWN, IDF, UNKNOWN]
    )
    mean = replace(BY_IDF, special_weight="mean")
    assert _query(mean, "owl").weights == pytest.approx([IDF] * 3)


def test_subwords_may_be_counted_as_words() -> None:
    found = _query(replace(BY_IDF, statistics="subwords"), "owl, zx")
    assert found.weights == pytest.approx([1.0, IDF, UNKNOWN, UNKNOWN, UNKNOWN, 1.0])


def test_weighting_without_statistics_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs an analyser and word statistics"):
        _inputs(BY_IDF).queries(["owl"], None)


# --- padding --------------------------------------------------------------------------------------


def test_padding_is_masked_and_weighs_one() -> None:
    config = replace(FIELDS, weighting="row", weights="idf")
    inputs = _inputs(config)
    sequences = inputs.documents([{"text": ["owl barn"]}, {"title": ["hen"]}], Counts())
    batch = inputs.pad(sequences)
    assert batch.subword_ids.shape == (2, 6)
    assert batch.mask.tolist() == [[True] * 6, [True] * 5 + [False]]
    assert batch.weights[1, 5] == 1.0 and batch.field_ids[1].tolist() == [0, 0, 1, 1, 2, 0]
    assert batch.subword_ids[1, 5] == TOKENIZER.token_to_id("[PAD]")
    for row, sequence in enumerate(sequences):
        length = len(sequence.subword_ids)
        assert batch.subword_ids[row, :length].tolist() == sequence.subword_ids
        assert batch.weights[row, :length].tolist() == pytest.approx(sequence.weights)
