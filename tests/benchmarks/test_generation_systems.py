"""The generation benchmark's batched code against the package's and against brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.generation.baselines import (
    Datastore,
    frequent_pairs,
    make_datastore,
    merge_pairs,
    open_static,
    start_static,
    train_static,
)
from benchmarks.generation.decoding import (
    Method,
    Phrases,
    decode,
    encode,
    find_phrases,
    make_offer,
)
from benchmarks.generation.prompts import PromptSet, open_prompts, read_subwords, save_prompts
from tiny_language_model import TEXTS, make_dynamic_lm
from transformers.utils import logging
from unfolding import unfold

from quoth.answer.config import DecodingConfig
from quoth.answer.generate import Prompt, generate
from quoth.errors import Damaged
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.quoting.set import make_table
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DynamicLM:
    return make_dynamic_lm(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def documents(model: DynamicLM) -> list[SubwordText]:
    return [read_subwords(text, model.inputs) for text in TEXTS]


def _spelled(phrases: Phrases) -> list[tuple[int, ...]]:
    return [tuple(int(i) for i in row if i >= 0) for row in phrases.subword_ids]


def test_phrases_are_all_stretches_between_words(documents: list[SubwordText]) -> None:
    expected = set()
    for document in documents:
        ids = document.subword_ids.tolist()
        bounds = [*np.flatnonzero(document.word_starts).tolist(), len(ids)]
        expected |= {
            tuple(ids[start:end]) for start in bounds for end in bounds if 2 <= end - start <= 8
        }
    found = _spelled(find_phrases(documents))
    assert set(found) == expected
    assert len(found) == len(expected)
    assert found != _spelled(find_phrases(documents, seed=1))


def test_vectors_are_those_of_the_package(model: DynamicLM, documents: list[SubwordText]) -> None:
    phrases = find_phrases(documents)
    spelled = _spelled(phrases)
    expected = model.encode_phrases(spelled, lengths=[[len(each)] for each in spelled])
    found = encode(model.network, phrases, device=CPU)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("phrase_input", ["vector", "unfold"])
def test_greedy_texts_are_those_of_the_package(
    phrase_input: str, tmp_path: Path, documents: list[SubwordText]
) -> None:
    config = DynamicLMConfig(base=str(tmp_path), phrase_input=phrase_input)
    model = make_dynamic_lm(tmp_path, config)
    own = [documents[:1], documents[1:]]
    prefixes = [model.inputs.tokenise(text).subword_ids[:6] for text in TEXTS[:2]]
    found = [find_phrases(each) for each in own]
    vectors = [3.0 * encode(model.network, each, device=CPU) for each in found]
    written = decode(
        model.network,
        torch.tensor(prefixes),
        method=Method(unfold=phrase_input == "unfold"),
        num_subwords=24,
        offer=make_offer(list(zip(found, vectors, strict=True)), device=CPU),
        forbidden_ids=sorted(model.inputs.special_ids - set(model.inputs.end_ids)),
    )
    prompts = [
        Prompt(
            tuple(prefix),
            DynamicVocabulary.of(Candidate(str(ids), ids, ()) for ids in _spelled(phrases)),
            encoded,
        )
        for prefix, phrases, encoded in zip(prefixes, found, vectors, strict=True)
    ]
    expected = generate(model, prompts, config=DecodingConfig(max_subwords=64))
    lengths = [length for each in written for length in each.unit_lengths]
    assert max(lengths) > 1  # phrases were chosen
    for mine, theirs in zip(written, expected, strict=True):
        units = _units(mine.subword_ids, mine.unit_lengths)
        ends = [at for at, unit in enumerate(units) if unit[0] in model.inputs.end_ids]
        size = min([len(units), *ends])
        assert size >= 3
        assert units[:size] == [token.subword_ids for token in theirs][:size]
        assert len(mine.subword_ids) >= 24 > sum(mine.unit_lengths[:-1])


def _units(ids: list[int], lengths: list[int]) -> list[tuple[int, ...]]:
    ends = np.cumsum(lengths).tolist()
    return [tuple(ids[end - size : end]) for end, size in zip(ends, lengths, strict=True)]


def test_a_batch_gives_what_each_text_gets_alone(
    model: DynamicLM, documents: list[SubwordText]
) -> None:
    prefixes = torch.tensor([model.inputs.tokenise(text).subword_ids[:6] for text in TEXTS])
    found = [(each, encode(model.network, each, device=CPU)) for each in map(_one, documents)]
    together = decode(
        model.network,
        prefixes,
        method=Method(),
        num_subwords=20,
        offer=make_offer(found, device=CPU),
    )
    alone = [
        decode(
            model.network,
            prefixes[[at]],
            method=Method(),
            num_subwords=20,
            offer=make_offer([found[at]], device=CPU),
        )[0]
        for at in range(len(TEXTS))
    ]
    assert together == alone


def _one(document: SubwordText) -> Phrases:
    return find_phrases([document])


def test_growth_offers_a_share_at_a_time() -> None:
    method = Method(first_share=0.7, growth_share=0.05, growth_every=10)
    shares = [method.share(num_tokens) for num_tokens in (0, 9, 10, 59, 60, 200)]
    assert shares == pytest.approx([0.7, 0.7, 0.75, 0.95, 1.0, 1.0])


def test_a_phrase_that_is_not_offered_yet_is_not_chosen(
    model: DynamicLM, documents: list[SubwordText]
) -> None:
    phrases = find_phrases(documents)
    offer = make_offer([(phrases, 9.0 * encode(model.network, phrases, device=CPU))], device=CPU)
    prefix = torch.tensor([model.inputs.tokenise(TEXTS[0]).subword_ids[:6]])
    hidden = decode(
        model.network, prefix, method=Method(first_share=0.0), num_subwords=16, offer=offer
    )
    shown = decode(model.network, prefix, method=Method(), num_subwords=16, offer=offer)
    assert max(hidden[0].unit_lengths) == 1 < max(shown[0].unit_lengths)


def test_neighbours_vote(model: DynamicLM, documents: list[SubwordText]) -> None:
    made = make_datastore(model.network, [documents], device=CPU)
    followers = [i for each in documents for i in each.subword_ids.tolist()[1:]]
    assert made.followers[0].tolist() == followers
    store = Datastore(made.keys, made.followers, neighbours=3, temperature=0.5, weight=0.4)
    state = made.keys[0, 4] + 0.01
    scores = model.network.subword_scores(state[None]).float()
    distances = ((made.keys[0] - state) ** 2).sum(1) / model.network.width
    nearest = distances.argsort()[:3].tolist()
    votes = torch.softmax(-distances[nearest] / 0.5, dim=0)
    expected = 0.6 * scores[0].softmax(0)
    for at, vote in zip(nearest, votes, strict=True):
        expected[followers[at]] += 0.4 * vote
    assert torch.allclose(store.adjust()(state[None], scores)[0].exp(), expected, atol=1e-5)


class TestStaticPhrases:
    def test_merging_loses_nothing(self, model: DynamicLM, documents: list[SubwordText]) -> None:
        pairs = frequent_pairs(make_table(documents), size=20)
        size = model.network.num_subwords
        for document in documents:
            ids = document.subword_ids.tolist()
            merged = merge_pairs(ids, {p: row for row, p in enumerate(pairs)}, num_subwords=size)
            assert unfold(merged, num_subwords=size, phrases=pairs).subword_ids == ids
            assert len(merged) < len(ids)

    def test_the_most_frequent_come_first(self) -> None:
        text = SubwordText(np.array([1, 2, 1, 2, 3]), np.array([True] * 5))
        assert frequent_pairs(make_table([text]), size=2) == [(1, 2), (2, 1)]

    def test_rows_start_as_means_learn_and_are_read_back(
        self, tmp_path: Path, documents: list[SubwordText]
    ) -> None:
        model = make_dynamic_lm(tmp_path / "base")
        pairs = frequent_pairs(make_table(documents), size=8)
        static = start_static(model.network, pairs)
        table = model.network.language_model.get_input_embeddings().weight  # type: ignore[operator]
        assert torch.allclose(static.vectors[0], table[list(pairs[0])].mean(0))
        losses = train_static(
            model.network,
            static,
            [each.subword_ids for each in documents],
            steps=30,
            batch_size=3,
            learning_rate=1e-2,
        )
        assert losses[-1] < 0.8 * losses[0]
        static.save(tmp_path)
        again = open_static(tmp_path, device=CPU, dtype=torch.float32)
        assert again.pairs == pairs
        assert torch.allclose(again.vectors, static.vectors, atol=1e-2)


class TestPrompts:
    def _prompts(self, documents: list[SubwordText]) -> PromptSet:
        chance = np.random.default_rng(0)
        return PromptSet(
            "birds",
            chance.integers(0, 300, (2, 32)),
            chance.integers(0, 300, (2, 128)),
            make_table(documents),
            np.array([[2, 0], [1, -1]]),
        )

    def test_come_back_as_they_were(self, tmp_path: Path, documents: list[SubwordText]) -> None:
        prompts = self._prompts(documents)
        save_prompts(tmp_path / "birds.bin", prompts)
        found = open_prompts(tmp_path / "birds.bin")
        assert found.domain == "birds"
        assert np.array_equal(found.prefixes, prompts.prefixes)
        assert np.array_equal(found.references, prompts.references)
        assert [len(found.own_documents(row)) for row in (0, 1)] == [2, 1]
        own = found.own_documents(0)[0]
        assert np.array_equal(own.subword_ids, documents[2].subword_ids)
        assert np.array_equal(own.word_starts, documents[2].word_starts)

    def test_damage_is_noticed(self, tmp_path: Path, documents: list[SubwordText]) -> None:
        path = tmp_path / "birds.bin"
        save_prompts(path, self._prompts(documents))
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        with pytest.raises(Damaged, match="generation prompts"):
            open_prompts(path)
