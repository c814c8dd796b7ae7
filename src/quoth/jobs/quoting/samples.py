"""From a collection to samples: texts, sentences rebuilt from other passages, labelled answers.

All of it is made once and kept as subwords, so that an interrupted training goes on with the very
samples it began with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quoth.errors import CollectionError
from quoth.jobs.learn.queries import spread
from quoth.jobs.quoting.corpus import Corpus, Source, all_passages
from quoth.jobs.quoting.pairs import LabelledQuestion
from quoth.jobs.quoting.settings import DynamicSettings
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Passage
from quoth.search.searcher import Progress
from quoth.selfsupervision.phrase_matching import Ids, SubwordText
from quoth.selfsupervision.phrase_sampling import SubwordKinds, as_subwords
from quoth.text.blocks import split_sentences
from quoth.training.quoting.batches import BatchMaker
from quoth.training.quoting.continuations import drawn_phrases, make_continuations
from quoth.training.quoting.quote_writer import CoverRecord, QuoteRecord, QuoteWriter
from quoth.training.quoting.set import (
    DynamicSet,
    Quotation,
    make_quotations,
    make_table,
    open_dynamic_set,
    save_dynamic_set,
)
from quoth.training.recipes.dynamic_lm_config import DynamicLMRecipe

_TRAINING, _HELD_OUT = "training.bin", "held-out.bin"
_AT_ONCE = 256
_FEWEST_TEXTS = 4
_SENTENCE_WORDS = (6, 40)
_SUPPORT = 8
_QUERY_CHARS = 1000
_ASKED_PASSAGES = 3


@dataclass(frozen=True, slots=True)
class HeldOutQuestion:
    """A question with passages that hold its answer, and with some that do not."""

    question: str
    answered: tuple[str, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """What is trained on, what is judged by, and how much that is."""

    training: DynamicSet
    held_out: DynamicSet
    questions: tuple[HeldOutQuestion, ...]
    counts: Mapping[str, int]


def make_samples(
    folder: Path,
    corpus: Corpus,
    questions: Sequence[LabelledQuestion],
    *,
    model: DynamicLM,
    settings: DynamicSettings,
    progress: Progress,
) -> dict[str, Any]:
    """Make the samples and write them; returns what else `open_samples` needs, as plain values."""
    samples = _SampleMaker(corpus, model, settings, progress).make(questions)
    save_dynamic_set(folder / _TRAINING, samples.training)
    save_dynamic_set(folder / _HELD_OUT, samples.held_out)
    asked = [asdict(each) for each in samples.questions]
    return {"counts": dict(samples.counts), "questions": asked}


def open_samples(folder: Path, told: Mapping[str, Any]) -> Samples:
    """Open the samples that were made."""
    asked = tuple(
        HeldOutQuestion(each["question"], tuple(each["answered"]), tuple(each["refused"]))
        for each in told["questions"]
    )
    training, held_out = (open_dynamic_set(folder / name) for name in (_TRAINING, _HELD_OUT))
    return Samples(training, held_out, asked, told["counts"])


class _SampleMaker:
    """Makes the samples of one training."""

    def __init__(
        self, corpus: Corpus, model: DynamicLM, settings: DynamicSettings, progress: Progress
    ) -> None:
        self._corpus = corpus
        self._model = model
        self._settings = settings
        self._config = settings.training
        self._progress = progress
        tokenizer = model.inputs.tokenizer
        self._kinds = SubwordKinds.of(
            [tokenizer.decode([each]) for each in range(tokenizer.get_vocab_size())]
        )
        self._chance = np.random.default_rng([self._config.seed, 0])

    def make(self, questions: Sequence[LabelledQuestion]) -> Samples:
        corpus = self._corpus
        records = list(self._records(questions))
        sides = [
            self._side(sources, [each for held, each in records if held == is_held], is_held)
            for is_held, sources in ((False, corpus.training), (True, corpus.judged))
        ]
        training, held_out = sides
        self._require_enough(training, held_out)
        asked = [
            asked
            for held, record in records
            if held and (asked := _as_question(record)) is not None
        ]
        counts = {
            "documents": len(corpus.training),
            "texts": len(training.texts),
            "quotations": len(training.quotations),
            "refusals": int((~training.quotations.is_answerable).sum()),
            "labelled questions": len(records),
            "held-out documents": len(corpus.judged),
            "held-out texts": len(held_out.texts),
            "held-out quotations": len(held_out.quotations),
        }
        return Samples(self._with_continuations(training), held_out, tuple(asked), counts)

    def _side(
        self, sources: Sequence[Source], records: Sequence[QuoteRecord], is_held: bool
    ) -> DynamicSet:
        """Make the texts and quotations of the documents on one side."""
        passages = all_passages(sources)
        texts, kept = self._texts(passages)
        most = self._config.judged
        quotations: list[Quotation] = []
        if self._settings.recipe.quote_share:
            writer = QuoteWriter(self._model.inputs, self._settings.quoting)
            count = min(self._config.sentences, 4 * most) if is_held else self._config.sentences
            quotations = [*writer.answer(records)]
            quotations += writer.cover(list(self._covers(sources, count, is_held)))
            quotations = [each for each in quotations if self._fits(each)]
            order = self._chance.permutation(len(quotations)).tolist()
            quotations = [quotations[at] for at in order[: most if is_held else None]]
        if is_held:
            chosen = spread(len(texts), most)
            texts, kept = [texts[at] for at in chosen], [kept[at] for at in chosen]
        return DynamicSet(
            make_table(texts),
            self._support(kept) if not is_held else np.zeros((len(texts), 0), dtype=np.int64),
            make_quotations(quotations),
            self._kinds.is_punctuation,
            self._kinds.opens_word,
        )

    def _texts(self, passages: Sequence[Passage]) -> tuple[list[SubwordText], list[Passage]]:
        """Read passages as subwords, cut to their room; also gives those that are long enough."""
        longest = min(self._config.text_subwords, self._model.max_positions)
        texts, kept = [], []
        for start in range(0, len(passages), _AT_ONCE):
            self._progress("reading passages", start, len(passages))
            own = passages[start : start + _AT_ONCE]
            read = self._model.inputs.tokenise_all([each.text for each in own])
            for passage, tokenised in zip(own, read, strict=True):
                whole = as_subwords(passage.text, tokenised)
                if len(whole.subword_ids) >= self._config.least_subwords:
                    cut = SubwordText(whole.subword_ids[:longest], whole.word_starts[:longest])
                    texts.append(cut)
                    kept.append(passage)
        return texts, kept

    def _support(self, passages: Sequence[Passage]) -> Ids:  # (N, K)
        """Find the texts related to each text, where phrases are looked for in them."""
        if self._settings.recipe.sampling.method != "fmm":
            return np.zeros((len(passages), 0), dtype=np.int64)
        row_by_passage = {passage: row for row, passage in enumerate(passages)}
        rows = np.full((len(passages), _SUPPORT), -1, dtype=np.int64)
        for at, passage in enumerate(passages):
            self._progress("finding related passages", at, len(passages))
            near = self._near(passage.text, without=passage.docid, k=_SUPPORT)
            found = [row_by_passage[each] for each in near if each in row_by_passage]
            rows[at, : len(found)] = found
        return rows

    def _covers(
        self, sources: Sequence[Source], count: int, is_held: bool
    ) -> Iterator[CoverRecord]:
        """Draw sentences, with the passages of other documents that are nearest to them."""
        fewest, most = _SENTENCE_WORDS
        sentences = [
            (source, text)
            for source in sources
            for passage in source.passages
            for span in split_sentences(passage.text)
            if fewest <= len((text := passage.text[span.start : span.end]).split()) <= most
        ]
        drawn = self._chance.permutation(len(sentences))[:count].tolist()
        for done, at in enumerate(drawn):
            self._progress("finding sentences to rebuild", done, len(drawn))
            source, text = sentences[at]
            k = self._settings.quoting.num_passages
            near = self._near(text, without=source.docid, k=k, is_held=is_held)
            if near:
                yield CoverRecord(source.heading, text, tuple(each.text for each in near))

    def _records(self, questions: Sequence[LabelledQuestion]) -> Iterator[tuple[bool, QuoteRecord]]:
        """Join labelled questions with their passages and with others that are near."""
        corpus = self._corpus
        for done, each in enumerate(questions):
            self._progress("finding passages for questions", done, len(questions))
            passage = each.passage or self._holding(each)
            if not passage:
                continue
            is_held = corpus.is_held_out(each.docid, passage)
            near = self._near(
                each.question, without=each.docid, k=self._config.distractors, is_held=is_held
            )
            others = tuple(other.text for other in near if other.text != passage)
            yield is_held, QuoteRecord(each.question, each.answers, passage, others)

    def _holding(self, question: LabelledQuestion) -> str:
        """Find the passage of a document that holds an answer; empty where none does."""
        texts = (passage.text for passage in self._corpus.passages_of(question.docid))
        return next((text for text in texts if any(map(text.__contains__, question.answers))), "")

    def _near(
        self, text: str, *, without: str, k: int, is_held: bool = False
    ) -> tuple[Passage, ...]:
        query = text[:_QUERY_CHARS]
        return self._corpus.neighbours(query, k=k, without=without, with_held_out=is_held)

    def _fits(self, quotation: Quotation) -> bool:
        length = len(quotation.prompt_ids) + len(quotation.target_ids)
        return length <= self._model.max_positions

    def _with_continuations(self, training: DynamicSet) -> DynamicSet:
        """Let the untouched model go on from the phrases that come first, where it is asked to."""
        recipe = self._settings.recipe
        if not (recipe.mixed_weight and recipe.negatives.generation):
            return training
        usable = usable_recipe(self._settings, training)
        maker = BatchMaker(training, usable)
        wanted: dict[bytes, None] = {}
        most = self._config.most_epochs * epoch_steps(training, usable)
        for number in range((self._config.steps or int(most) + 1) * recipe.accumulate):
            self._progress("drawing phrases", len(wanted), self._config.continuations)
            if len(wanted) >= self._config.continuations:
                break
            wanted |= dict.fromkeys(drawn_phrases(maker, [number]))
        made = make_continuations(
            self._model.network, list(wanted), length=recipe.negatives.extension, batch_size=256
        )
        return replace(training, continuations=made)

    def _require_enough(self, training: DynamicSet, held_out: DynamicSet) -> None:
        found, kept = len(training.texts), len(held_out.texts)
        if found < _FEWEST_TEXTS or not kept:
            raise CollectionError(
                f"this collection holds {found} passages of {self._config.least_subwords} subwords"
                f" or more to train on and {kept} to judge by, expected {_FEWEST_TEXTS} and 1 at"
                " least; add documents, or lower training.least_subwords with --set"
            )


def usable_recipe(settings: DynamicSettings, training: DynamicSet) -> DynamicLMRecipe:
    """Leave quotations out where none could be made, unless they were asked for."""
    if len(training.quotations) or "recipe.quote_share" in settings.given:
        return settings.recipe
    return replace(settings.recipe, quote_share=0.0)


def epoch_steps(training: DynamicSet, recipe: DynamicLMRecipe) -> float:
    """Return the steps after which samples of one kind were all read once, whichever is first."""
    share = recipe.quote_share
    kinds = (
        (1 - share, len(training.texts) / recipe.batch_size),
        (share, len(training.quotations) / recipe.quote_batch_size),
    )
    batches = min(batches / part for part, batches in kinds if part)
    return batches / recipe.accumulate


def _as_question(record: QuoteRecord) -> HeldOutQuestion | None:
    """Make a question that can be answered and one that cannot of a held-out record."""
    hidden = [answer.casefold() for answer in record.answers]
    without = [
        text
        for text in record.distractors
        if not any(answer in text.casefold() for answer in hidden)
    ]
    if not without:
        return None
    answered = (record.passage, *record.distractors)[:_ASKED_PASSAGES]
    return HeldOutQuestion(record.question, answered, tuple(without[:_ASKED_PASSAGES]))
