"""Decoding over subwords and phrases, against a plain loop without cache, batch or shortcuts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_language_model import TEXTS, make_dynamic_lm
from torch import Tensor

from quoth.answer.candidates import make_vocabulary
from quoth.answer.cite import Token
from quoth.answer.config import CandidateConfig, DecodingConfig
from quoth.answer.generate import Decoder, Prompt, draw_from_nucleus, generate
from quoth.answer.splices import OpenQuotation
from quoth.answer.vectors import PhraseVectors
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Span
from quoth.vocabulary.dynamic import Candidate, DynamicVocabulary, Source

GREEDY = DecodingConfig(max_subwords=24)


def make_prompt(model: DynamicLM, question: str, texts: list[str], scale: float = 1.0) -> Prompt:
    vocabulary = make_vocabulary(
        question,
        texts,
        tokenise=model.inputs.tokenise_all,
        config=CandidateConfig(max_candidates=80),
    )
    vectors = PhraseVectors(model).encode(vocabulary, texts)
    prompt = tuple(model.inputs.prompt(question, texts))
    return Prompt(prompt, vocabulary, vectors * scale, passages=tuple(texts))


@pytest.fixture(scope="module")
def prompts(model: DynamicLM) -> list[Prompt]:
    """Prompts of unequal length, with different phrases that are often chosen."""
    return [
        make_prompt(model, "When does the barn owl hunt?", [TEXTS[0], TEXTS[1]], 1.5),
        make_prompt(model, "Swifts?", [TEXTS[2]], 1.5),
        make_prompt(model, "What does the raven watch at dusk?", [TEXTS[1]], 1.5),
    ]


def scores_after(model: DynamicLM, prompt: Prompt, written: list[Token]) -> Tensor:  # (V + C,)
    """Score all subwords and all phrases after a text, from the start."""
    unfolds = model.config.phrase_input == "unfold"
    ids = list(prompt.subword_ids)
    for token in written:
        is_vector = token.row is not None and not unfolds
        ids += [model.network.num_subwords + (token.row or 0)] if is_vector else token.subword_ids
    with torch.no_grad():
        batch = torch.tensor([ids])
        embedded = model.network.embed(batch, phrase_vectors=prompt.vectors)
        mask = torch.ones_like(batch, dtype=torch.bool)
        state = model.network.states(embedded, mask=mask)[0, -1:]
        scores = torch.cat(
            [
                model.network.subword_scores(state),
                model.network.phrase_scores(state, prompt.vectors),
            ],
            dim=1,
        )[0]
    banned = sorted(model.inputs.special_ids - set(model.inputs.end_ids))
    scores[banned] = -torch.inf
    return scores


def greedy_reference(model: DynamicLM, prompt: Prompt, max_subwords: int) -> list[Token]:
    written: list[Token] = []
    size = model.network.num_subwords
    while (room := max_subwords - sum(len(each.subword_ids) for each in written)) > 0:
        scores = scores_after(model, prompt, written)
        for row, candidate in enumerate(prompt.vocabulary.candidates):
            if len(candidate.subword_ids) > room:
                scores[size + row] = -torch.inf
        best = int(scores.argmax())
        if best in model.inputs.end_ids:
            break
        row = best - size if best >= size else None
        ids = prompt.vocabulary.candidates[row].subword_ids if row is not None else (best,)
        written.append(Token(ids, row, float(scores.log_softmax(0)[best])))
    return written


def same(found: tuple[Token, ...], expected: list[Token] | tuple[Token, ...]) -> None:
    assert [(each.row, each.subword_ids) for each in found] == [
        (each.row, each.subword_ids) for each in expected
    ]
    logs = [each.log_probability for each in expected]
    assert [each.log_probability for each in found] == pytest.approx(logs, abs=1e-3)


def test_greedy_is_the_best_token_at_every_step(model: DynamicLM, prompts: list[Prompt]) -> None:
    found = generate(model, prompts, config=GREEDY)
    for prompt, tokens in zip(prompts, found, strict=True):
        same(tokens, greedy_reference(model, prompt, 24))
    kinds = Counter(each.row is None for tokens in found for each in tokens)
    assert kinds[True] and kinds[False], "both kinds of tokens are tested"


@pytest.mark.parametrize("method", ["greedy", "nucleus"])
def test_a_batch_writes_what_each_prompt_gets_alone(
    model: DynamicLM, prompts: list[Prompt], method: str
) -> None:
    config = replace(GREEDY, method=method, seed=3, no_repeat_subwords=4)
    together = generate(model, prompts, config=config)
    for prompt, tokens in zip(prompts, together, strict=True):
        same(generate(model, [prompt], config=config)[0], tokens)
    assert len({len(tokens) for tokens in together}) > 1, "texts end at different steps"


@pytest.mark.parametrize("phrase_input", ["vector", "unfold"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_both_families_and_both_ways_of_reading_phrases(
    tmp_path: Path, kind: str, phrase_input: str
) -> None:
    config = DynamicLMConfig(
        base=str(tmp_path / "base"), phrase_input=phrase_input, max_prompt_subwords=384
    )
    model = make_dynamic_lm(tmp_path / "base", config, kind=kind)
    made = [
        make_prompt(model, "When does the barn owl hunt?", [TEXTS[0]], 3.0),
        make_prompt(model, "Swifts?", [TEXTS[2]], 3.0),
    ]
    found = generate(model, made, config=replace(GREEDY, max_subwords=16))
    for prompt, tokens in zip(made, found, strict=True):
        same(tokens, greedy_reference(model, prompt, 16))
    assert any(each.row is not None for tokens in found for each in tokens)


def test_without_phrases_only_subwords_are_written(model: DynamicLM, prompts: list[Prompt]) -> None:
    config = replace(GREEDY, phrases=False)
    bare = [
        Prompt(each.subword_ids, DynamicVocabulary.of([]), each.vectors[:0]) for each in prompts
    ]
    found = generate(model, prompts, config=config)
    assert all(each.row is None for tokens in found for each in tokens)
    for tokens, expected in zip(found, generate(model, bare, config=GREEDY), strict=True):
        same(tokens, expected)


def test_texts_never_exceed_their_length(model: DynamicLM, prompts: list[Prompt]) -> None:
    for most in (1, 3, 7):
        for tokens in generate(model, prompts, config=replace(GREEDY, max_subwords=most)):
            assert sum(len(each.subword_ids) for each in tokens) <= most


def unfold(tokens: tuple[Token, ...]) -> list[int]:
    return [subword for token in tokens for subword in token.subword_ids]


def test_no_stretch_is_written_twice_where_that_is_forbidden(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    def repeats(tokens: tuple[Token, ...]) -> int:
        ids = unfold(tokens)
        counts = Counter(pairwise(ids))
        return max(counts.values(), default=0)

    config = replace(GREEDY, max_subwords=60)
    free = generate(model, prompts, config=config)
    assert max(map(repeats, free)) > 1, "left alone, this model repeats itself"
    bound = generate(model, prompts, config=replace(config, no_repeat_subwords=2))
    assert max(map(repeats, bound)) == 1


def test_a_phrase_is_used_as_often_as_allowed(model: DynamicLM, prompts: list[Prompt]) -> None:
    eager = [replace(each, vectors=each.vectors * 3) for each in prompts]
    config = replace(GREEDY, max_subwords=60)

    def most(found: list[tuple[Token, ...]]) -> int:
        counts = [Counter(each.row for each in tokens if each.row is not None) for tokens in found]
        return max(max(each.values(), default=0) for each in counts)

    assert most(generate(model, eager, config=config)) > 2
    assert most(generate(model, eager, config=replace(config, max_phrase_uses=2))) <= 2


# --- a vocabulary that changes while decoding ----------------------------------------------------


def test_the_offer_grows_by_its_share_and_leaves_earlier_scores_alone(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    config = replace(GREEDY, first_share=0.3, growth_share=0.2, growth_every=2)
    decoder = Decoder(model, prompts[:1], config=config)
    total = len(prompts[0].vocabulary.candidates)
    sizes, tokens = [len(decoder.vocabulary(0).offered)], []
    for step in decoder.steps():
        sizes.append(len(decoder.vocabulary(0).offered))
        tokens += [token for _number, token in step]
    shares = [0.3, 0.3, 0.5, 0.5, 0.7, 0.7, 0.9, 0.9, 1.0]
    expected = [-int(-total * share // 1) for share in shares]
    assert sizes[: len(expected)] == expected[: len(sizes)] and len(sizes) > 5
    (fixed,) = generate(
        model,
        [replace(prompts[0], vocabulary=prompts[0].vocabulary.offer(range(sizes[0])))],
        config=GREEDY,
    )
    same(tuple(tokens[:2]), fixed[:2])  # before the first growth: as if it never came


def test_growth_from_outside_changes_no_score_of_what_was_offered(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    prompt = prompts[1]
    decoder = Decoder(model, [prompt], config=GREEDY)
    steps = decoder.steps()
    written = [token for _number, token in next(steps)]
    before = scores_after(model, prompt, written)
    new = Candidate(" barn raven", (5, 6), (Source(0, Span(0, 10)),))
    grown = decoder.vocabulary(0).grow([new])
    vectors = torch.cat([prompt.vectors, 50 * before[:1].new_ones((1, model.network.phrase_width))])
    decoder.grow(0, grown, vectors)
    bigger = Prompt(prompt.subword_ids, grown, vectors)
    after = scores_after(model, bigger, written)
    assert torch.equal(before, after[: len(before)])
    scores = after.clone()
    best = int(scores.argmax())
    ((_number, token),) = next(steps)
    size = model.network.num_subwords
    assert token.row == (best - size if best >= size else None)


def test_phrases_not_among_the_best_for_long_are_off_loaded(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    config = replace(GREEDY, off_load_after=3, best_kept=4)
    decoder = Decoder(model, prompts[:1], config=config)
    best: list[set[int]] = []
    written: list[Token] = []
    left = list(range(len(prompts[0].vocabulary.candidates)))
    for step in decoder.steps():
        scores = scores_after(model, prompts[0], written)[model.network.num_subwords :]
        offered = torch.tensor(left)
        best.append({int(offered[at]) for at in scores[offered].topk(4).indices})
        written += [token for _number, token in step]
        left = list(decoder.vocabulary(0).offered)
        if len(best) >= 3:
            assert set(left) <= set().union(*best[-3:]) | {token.row for token in written[-3:]}
        else:
            assert len(left) == len(scores)
    assert len(best) > 4


# --- beginnings and drawing ----------------------------------------------------------------------


def test_the_probability_of_a_beginning_is_the_product_of_its_steps(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    ids = tuple(model.inputs.tokenise("The documents").subword_ids)
    decoder = Decoder(model, prompts, config=GREEDY)
    for prompt, found in zip(prompts, decoder.beginning_probabilities(ids), strict=True):
        total = 0.0
        for at, subword in enumerate(ids):
            read = [Token((each,), None) for each in ids[:at]]
            scores = scores_after(model, prompt, read)
            lengths = torch.tensor([len(c.subword_ids) for c in prompt.vocabulary.candidates])
            scores[model.network.num_subwords :][lengths > 24] = -torch.inf
            total += float(scores.log_softmax(0)[subword])
        assert found == pytest.approx(float(torch.tensor(total).exp()), rel=1e-3)
    tokens: list[list[Token]] = [[] for _prompt in prompts]
    for step in decoder.steps():  # having asked changes nothing
        for number, token in step:
            tokens[number].append(token)
    for own, expected in zip(tokens, generate(model, prompts, config=GREEDY), strict=True):
        same(tuple(own), expected)


def test_the_nucleus_is_the_fewest_that_hold_the_share() -> None:
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    chance = torch.Generator().manual_seed(0)

    def draw(share: float) -> Counter[int]:
        return Counter(draw_from_nucleus(scores, share=share, chance=chance) for _ in range(600))

    assert set(draw(0.5)) == {0}
    assert set(draw(0.79)) == {0, 1}
    found = draw(1.0)
    assert set(found) == {0, 1, 2, 3}
    assert found[0] / 600 == pytest.approx(0.5, abs=0.08)


def test_the_seed_decides_what_is_drawn(model: DynamicLM, prompts: list[Prompt]) -> None:
    def draw(**settings: Any) -> list[list[int]]:
        config = replace(GREEDY, method="nucleus", **settings)
        return [unfold(tokens) for tokens in generate(model, prompts, config=config)]

    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    assert draw(nucleus=1e-6) == [unfold(each) for each in generate(model, prompts, config=GREEDY)]
    assert draw(temperature=1e-4, seed=7) == draw(nucleus=1e-6)


def test_no_prompts_give_no_texts(model: DynamicLM) -> None:
    assert generate(model, [], config=GREEDY) == []


def test_a_text_begins_with_a_phrase_where_it_has_to(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    weak = [replace(each, vectors=each.vectors * 0.01) for each in prompts]
    free = generate(model, weak, config=GREEDY)
    forced = [replace(each, phrase_first=True) for each in weak]
    bound = generate(model, forced, config=GREEDY)
    assert all(text[0].row is None for text in free)
    assert all(text[0].row is not None for text in bound)
    none = replace(GREEDY, phrases=False)
    assert generate(model, forced, config=none) == generate(model, weak, config=none)


def test_a_sentence_is_not_put_together_from_two_places(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    def splices(splice_penalty: float) -> int:
        found = 0
        given = [
            replace(each, phrase_first=True, splice_penalty=splice_penalty) for each in prompts
        ]
        for prompt, text in zip(given, generate(model, given, config=GREEDY), strict=True):
            quotation = OpenQuotation(prompt.passages, model.inputs.text)
            for token in text:
                if token.row is None:
                    quotation.write(token.subword_ids)
                    continue
                candidate = prompt.vocabulary.candidates[token.row]
                found += quotation.is_open and not quotation.goes_on(candidate)
                quotation.quote(candidate)
        return found

    assert splices(0.0) > 0
    assert splices(1000.0) == 0


def test_guidance_counts_at_every_step(model: DynamicLM, prompts: list[Prompt]) -> None:
    for prompt in prompts:
        rows = range(len(prompt.vocabulary.candidates))
        only = tuple(1000.0 if row == 1 else 0.0 for row in rows)
        config = replace(GREEDY, no_repeat_subwords=0)
        (guided,) = generate(model, [replace(prompt, guidance=only)], config=config)
        assert len(guided) > 1 and all(token.row == 1 for token in guided[:2])


def test_handicaps_count_where_a_text_begins_and_nowhere_else(
    model: DynamicLM, prompts: list[Prompt]
) -> None:
    bound = [replace(each, phrase_first=True) for each in prompts]
    free = generate(model, bound, config=GREEDY)
    for prompt, text in zip(bound, free, strict=True):
        rows = range(len(prompt.vocabulary.candidates))
        other = next(row for row in rows if row != text[0].row)
        only_other = tuple(0.0 if row == other else 1000.0 for row in rows)
        (moved,) = generate(model, [replace(prompt, handicaps=only_other)], config=GREEDY)
        assert moved[0].row == other
        scores = scores_after(model, prompt, list(moved[:1]))
        best = float(scores.log_softmax(0).max())
        assert moved[1].log_probability == pytest.approx(best, abs=1e-3)


def test_phrases_that_join_later_have_no_handicap(model: DynamicLM, prompts: list[Prompt]) -> None:
    handicaps = (1000.0,) * len(prompts[0].vocabulary.candidates)
    known = replace(prompts[0], handicaps=handicaps, phrase_first=True)
    decoder = Decoder(model, [known], config=GREEDY)
    new = Candidate(" heron of nowhere", (5, 6), ())
    grown = known.vocabulary.grow([new])
    decoder.grow(0, grown, torch.cat([known.vectors, known.vectors[:1]]))
    ((_number, token),) = next(iter(decoder.steps()))
    assert token.row == len(grown.candidates) - 1
