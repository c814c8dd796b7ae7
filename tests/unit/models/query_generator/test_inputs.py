"""Texts to subwords and back: cut lengths, symbols, and what a query may not hold."""

from __future__ import annotations

import pytest
from tiny_generator import CONFIG, save_foreign
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from quoth.errors import ConfigError
from quoth.models.pretrained import load_tokenizer
from quoth.models.query_generator.config import QueryGeneratorConfig
from quoth.models.query_generator.generator import QueryGenerator
from quoth.models.query_generator.inputs import QueryGeneratorInputs, find_symbols

CLS, SEP, PAD = 2, 3, 0


def test_passages_are_opened_and_ended(generator: QueryGenerator) -> None:
    (ids,) = generator.inputs.passages(["barn owl"])
    vocabulary = generator.inputs.tokenizer.get_vocab()
    assert ids == [CLS, vocabulary["barn"], vocabulary["owl"], SEP]


def test_queries_are_ended_only(generator: QueryGenerator) -> None:
    (ids,) = generator.inputs.queries(["Barn owl"])
    vocabulary = generator.inputs.tokenizer.get_vocab()
    assert ids == [vocabulary["barn"], vocabulary["owl"], SEP]


def test_what_is_cut_still_ends(generator: QueryGenerator) -> None:
    (passage,) = generator.inputs.passages(["owl " * 100])
    (query,) = generator.inputs.queries(["owl " * 100])
    assert len(passage) == CONFIG.max_passage_subwords and passage[-1] == SEP
    assert len(query) == CONFIG.max_query_subwords and query[-1] == SEP


def test_batches_are_padded(generator: QueryGenerator) -> None:
    batch = generator.inputs.pad([[5, 6, 7], [8]])
    assert batch.subword_ids.tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]


def test_texts_come_back(generator: QueryGenerator) -> None:
    queries = ["barn owls", "the raven"]
    assert generator.inputs.texts(generator.inputs.queries(queries)) == queries


def test_queries_never_hold_special_symbols(generator: QueryGenerator) -> None:
    symbols = generator.inputs.symbols
    vocabulary = generator.inputs.tokenizer.get_vocab()
    special = {vocabulary[each] for each in ("[PAD]", "[UNK]", "[CLS]", "[MASK]")}
    assert special == set(symbols.banned) and SEP not in symbols.banned
    assert set(symbols.continuing) == {at for each, at in vocabulary.items() if each[:2] == "##"}


@pytest.mark.parametrize(("kind", "opening"), [("bart", (0,)), ("t5", ())])
def test_other_tokenizers_are_known(
    kind: str, opening: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = save_foreign(tmp_path_factory.mktemp("foreign") / kind, kind)
    symbols = find_symbols(load_tokenizer(folder))
    assert (symbols.opening, symbols.end, symbols.pad) == (opening, 2, 1)
    assert symbols.banned == (0, 1, 3)  # <s> or another special symbol, <pad>, <unk>


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    tokenizer = Tokenizer(WordLevel({"<|endoftext|>": 0}, unk_token="<|endoftext|>"))
    with pytest.raises(ConfigError, match="not of the BERT, BART or T5 kind; name another model"):
        QueryGeneratorInputs(tokenizer, CONFIG)


def test_impossible_settings_are_all_named() -> None:
    with pytest.raises(ConfigError, match=r"num_layers is 0.*max_passage.*max_query_subwords is 2"):
        QueryGeneratorConfig(num_layers=0, max_passage_subwords=1, max_query_subwords=2)
