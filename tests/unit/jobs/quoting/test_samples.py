"""What a language model learns from, made of a collection, and what it never sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.jobs.quoting.test_job import PLACES, SMALL, text_of, write_pairs
from tests.unit.jobs.quoting.test_settings import layers
from tiny_language_model import save_language_model

from quoth.engine.engine import Engine
from quoth.jobs.quoting.corpus import Corpus
from quoth.jobs.quoting.pairs import LabelledQuestion, read_questions
from quoth.jobs.quoting.samples import Samples, open_samples
from quoth.jobs.quoting.samples import make_samples as write_samples
from quoth.jobs.quoting.settings import read_settings
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Document
from quoth.search.searcher import ignore_progress
from quoth.settings.dynamic_lm import DynamicTrainingConfig
from quoth.training.quoting.set import DynamicSet


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_model(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "birds.quoth") as opened:
        opened.add_documents(Document(f"bird-{at}", {"text": (text_of(at),)}) for at in range(12))
        yield opened


def make_samples(
    engine: Engine,
    base: Path,
    tmp_path: Path,
    *texts: str,
    questions: list[LabelledQuestion] | None = None,
) -> tuple[Corpus, DynamicLM, Samples]:
    settings = read_settings(*layers([*SMALL, *texts], steps=2, device="cpu", held_out=0.3))
    corpus = Corpus(engine, settings.training, ignore_progress)
    config = replace(settings.model, base=str(base), max_prompt_subwords=384)
    model = DynamicLM.start(base, config=config, device=torch.device("cpu"))
    told = write_samples(
        tmp_path,
        corpus,
        questions or [],
        model=model,
        settings=settings,
        progress=ignore_progress,
    )
    return corpus, model, open_samples(tmp_path, told)


def texts_in(made: DynamicSet, model: DynamicLM) -> list[str]:
    quotations = [made.quotations[row] for row in range(len(made.quotations))]
    read = [made.texts[row].subword_ids for row in range(len(made.texts))]
    read += [np.concatenate((each.prompt_ids, each.target_ids)) for each in quotations]
    return [model.inputs.text(each.tolist()) for each in read]


def test_held_out_documents_are_never_trained_on(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    questions = read_questions(write_pairs(tmp_path / "pairs.jsonl"), set(engine.docids()))
    corpus, model, samples = make_samples(engine, base, tmp_path, questions=questions)
    held = {int(docid.partition("-")[2]) for docid in corpus.held}
    assert len(held) == 4 and len(samples.training.texts) == 8 and len(samples.held_out.texts) == 4
    trained_on = texts_in(samples.training, model)
    assert not [text for text in trained_on for at in held if f"number {at} " in text]
    judged_by = texts_in(samples.held_out, model)[:4]
    assert {at for at in range(12) for text in judged_by if f"number {at} " in text} == held
    assert samples.counts["labelled questions"] == 12
    assert {each.question for each in samples.questions} == {
        question.question for question in questions if question.docid in corpus.held
    }
    for asked, at in zip(samples.questions, sorted(held), strict=True):
        answer = f"number {at} sleeps {PLACES[at % 4]}"
        assert answer in asked.answered[0] and asked.refused
        assert not [text for text in asked.refused if answer in text]


def test_the_same_words_in_another_document_are_held_out_as_well(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    settings = DynamicTrainingConfig(held_out=0.3)
    before = Corpus(engine, settings, ignore_progress)
    docid = min(before.held)
    engine.add_documents([Document("copy", {"text": engine.document(docid).fields["text"]})])
    corpus = Corpus(engine, settings, ignore_progress)
    twins = {docid, "copy"} & corpus.held
    assert twins and before.digest != corpus.digest
    texts = {passage.text for source in corpus.training for passage in source.passages}
    assert engine.document(docid).fields["text"][0] not in texts
    near = corpus.neighbours(text_of(3), k=12, with_held_out=False)
    assert near and not [each for each in near if each.text not in texts]


def test_sentences_are_rebuilt_from_passages_of_other_documents(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    _corpus, model, samples = make_samples(engine, base, tmp_path)
    quotations = samples.training.quotations
    assert len(quotations) == samples.counts["quotations"] > 0
    for row in range(len(quotations)):
        own = quotations[row]
        sentence = model.inputs.text(own.target_ids.tolist()).strip()
        read = [model.inputs.text(passage.subword_ids.tolist()) for passage in own.passages]
        assert read and not [text for text in read if sentence in text]
        for start, end, number, place in own.phrases.tolist():
            there = own.passages[number].subword_ids[place : place + end - start]
            assert np.array_equal(own.target_ids[start:end], there)


def test_related_texts_are_found_where_phrases_are_looked_for_in_them(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    _corpus, model, samples = make_samples(engine, base, tmp_path, "sampling.method=fmm")
    made = samples.training
    texts = texts_in(made, model)
    assert all((rows >= 0).any() for rows in made.support_rows)
    for row, related in enumerate(made.support_rows.tolist()):
        assert row not in related
        first = texts[related[0]].split()
        assert len(set(first) & set(texts[row].split())) >= 8


def test_generated_negatives_are_made_before_training(
    engine: Engine, base: Path, tmp_path: Path
) -> None:
    _corpus, _model, samples = make_samples(engine, base, tmp_path, "negatives.generation=true")
    made = samples.training.continuations.subword_ids
    assert made and all(len(own) == 4 for own in made.values())


def test_passages_given_as_text_are_on_one_side(engine: Engine, tmp_path: Path) -> None:
    corpus = Corpus(engine, DynamicTrainingConfig(held_out=0.3), ignore_progress)
    for source, is_held in ((corpus.training[0], False), (corpus.judged[0], True)):
        text = source.passages[-1].text
        assert corpus.is_held_out("", text) is corpus.is_held_out(source.docid, text) is is_held
    drawn = [corpus.is_held_out("", f"a passage from elsewhere, {at}") for at in range(400)]
    assert 0.2 < sum(drawn) / 400 < 0.4
