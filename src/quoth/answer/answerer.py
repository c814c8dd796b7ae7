"""Answer questions from passages: prompt, phrases, decision, text, citations.

All of a question's steps in order: passages are cut to the prompt's room, their phrases found and
encoded, the prompt read once; then it is decided whether the passages hold an answer, and if so it
is generated over subwords and phrases and cited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from quoth.answer.abstain import REFUSAL_ALONE, Abstention, make_features
from quoth.answer.beginnings import handicaps
from quoth.answer.candidates import Rank, make_vocabulary
from quoth.answer.cite import Piece, Writer
from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.answer.generate import Decoder, Prompt
from quoth.answer.guidance import Guide
from quoth.answer.nearness import EncodeSentences, Numbers, sentence_cosines, sentences_of
from quoth.answer.phrase_vector_cache import PhraseVectorCache
from quoth.answer.stream import AnswerStream
from quoth.answer.vectors import PhraseVectors
from quoth.errors import ConfigError
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.records import Answer, Passage
from quoth.vocabulary.dynamic import NO_ANSWER, DynamicVocabulary

_REFUSAL_SUBWORDS = 4  # "The documents do not": what no other answer begins with
_LEAST_SUBWORDS = 16  # of a passage that is worth reading
_MARGIN = 64  # subwords of a prompt beside passages and question


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """All settings of answering, and the fitted calibration of abstention."""

    answer: AnswerConfig = field(default_factory=AnswerConfig)
    candidates: CandidateConfig = field(default_factory=CandidateConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    abstention: Abstention = REFUSAL_ALONE


class Answerer:
    """Answers with one language model; vectors of phrases are kept between questions."""

    def __init__(
        self,
        model: DynamicLM,
        settings: AnswerSettings,
        *,
        cache: PhraseVectorCache | None = None,
        encode: EncodeSentences | None = None,
        notice: str = "",
    ) -> None:
        """`notice` goes with every stream: what a reader should know of this model.

        `encode` is the encoder that abstention was fitted with, None where it had none; an answer
        then begins wherever the language model likes best.
        """
        self._encode = encode
        self._model = model
        self._notice = notice
        self._settings = settings
        self._vectors = PhraseVectors(model, cache=cache)

    def answer(
        self, questions: Sequence[str], passages: Sequence[Sequence[Passage]]
    ) -> list[Answer]:
        """Answer each question from its own passages, best hit first, as one batch."""
        threshold = self._settings.answer.threshold
        streams = [AnswerStream(each, self._notice, threshold) for each in questions]
        for number, piece in self._pieces(questions, passages, streams):
            streams[number].pieces.append(piece)
        return [stream.answer() for stream in streams]

    def stream(
        self, question: str, passages: Sequence[Passage], *, threshold: float | None = None
    ) -> AnswerStream:
        """Answer one question piece by piece: iterate over it, then take its `answer()`.

        It abstains where having no answer is more probable than the threshold; None is as set.
        """
        own = self._settings.answer.threshold if threshold is None else threshold
        stream = AnswerStream(question, self._notice, own)
        found = self._pieces([question], [passages], [stream])
        stream.source = (piece for _number, piece in found)
        return stream

    def continue_text(self, prefix: str, passages: Sequence[Passage]) -> AnswerStream:
        """Continue a text piece by piece, with the phrases of passages as further vocabulary.

        The passages are not read, only quoted; nothing is decided about their holding an answer.
        """
        self._settings.answer.check(prefix)
        stream = AnswerStream(prefix, self._notice)
        stream.passages, stream.is_continuation = tuple(passages), True
        stream.source = self._continue(prefix, stream.passages)
        return stream

    def _continue(self, prefix: str, passages: Sequence[Passage]) -> Iterator[Piece]:
        inputs = self._model.inputs
        ids = (*inputs.opening, *inputs.tokenise(prefix.rstrip()).subword_ids)
        texts = [passage.text for passage in passages]
        vocabulary = self._vocabulary(prefix, texts, most=self._settings.candidates.max_continued)
        room = self._model.max_positions - self._settings.decoding.max_subwords
        if room < 1:
            raise ConfigError(
                f"decoding.max_subwords is {self._settings.decoding.max_subwords:,}, this model"
                f" reads {self._model.max_positions:,} subwords in all; lower it"
            )
        prompt = Prompt(ids[-room:], vocabulary, self._vectors.encode(vocabulary, texts))
        decoder = Decoder(self._model, [prompt], config=self._settings.decoding)
        writer = Writer(inputs.text, has_begun=True)
        for step in decoder.steps():
            for at, token in step:
                yield from writer.write(token, decoder.vocabulary(at))
        yield from writer.close()

    def write(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Passage]],
        *,
        guides: Sequence[Guide],
    ) -> Iterator[tuple[int, Piece]]:
        """Answer as one batch, guided by what a reader found; that there are answers is known.

        Pieces come with the number of their question.
        """
        asked = zip(questions, passages, guides, strict=True)
        prepared = [
            self._prepare(question, own, with_vectors=False, guide=guide)
            for question, own, guide in asked
        ]
        streams = [AnswerStream(each) for each in questions]
        readable = [number for number, each in enumerate(prepared) if each.passages]
        decoder = self._decoder([prepared[number] for number in readable])
        yield from self._write(decoder, readable, streams)

    def first_phrases(
        self, question: str, passages: Sequence[Passage], guide: Guide
    ) -> tuple[DynamicVocabulary, Numbers, Numbers]:
        """Return phrases, their scores as an answer's first and their bonuses, to fit guidance."""
        prepared = self._prepare(question, passages, with_vectors=False, guide=guide)
        (scores,) = self._decoder([prepared]).first_scores()
        bonuses = np.array(prepared.prompt.guidance)
        return prepared.prompt.vocabulary, scores.double().cpu().numpy(), bonuses

    def features(
        self, questions: Sequence[str], passages: Sequence[Sequence[Passage]]
    ) -> Numbers:  # (N, F)
        """Return what abstention is decided by, for fitting it; nothing is generated."""
        asked = zip(questions, passages, strict=True)
        prepared = [self._prepare(*each, with_vectors=True) for each in asked]
        readable = [each for each in prepared if each.passages]
        refusals = iter(self._refusals(self._decoder(readable), len(readable)))
        return np.stack(
            [
                self._signs(question, each, refusal=next(refusals) if each.passages else 1.0)
                for question, each in zip(questions, prepared, strict=True)
            ]
        )

    def _pieces(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Passage]],
        streams: Sequence[AnswerStream],
    ) -> Iterator[tuple[int, Piece]]:
        """Prepare, decide and write; what is decided is noted in the streams."""
        asked, with_vectors = zip(questions, passages, strict=True), self._needs_vectors
        prepared = [self._prepare(*each, with_vectors=with_vectors) for each in asked]
        readable = [number for number, each in enumerate(prepared) if each.passages]
        decoder = self._decoder([prepared[number] for number in readable])
        refusals = dict(zip(readable, self._refusals(decoder, len(readable)), strict=True))
        for number, (stream, each) in enumerate(zip(streams, prepared, strict=True)):
            stream.passages = each.passages
            stream.support = 0.0
            if number in refusals:
                stream.support = self._support(questions[number], each, refusal=refusals[number])
            stream.abstains = not each.passages or 1.0 - stream.support > stream.threshold
        yield from self._write(decoder, readable, streams)

    @property
    def _needs_vectors(self) -> bool:
        """Whether vectors of sentences have any weight, in abstaining or in beginning an answer."""
        begins = self._settings.decoding.phrases and self._settings.answer.far_penalty > 0.0
        return begins or self._settings.abstention.needs_vectors

    def _support(self, question: str, prepared: _Prepared, *, refusal: float) -> float:
        """Return the probability that there is an answer."""
        signs = self._signs(question, prepared, refusal=refusal)
        return 1.0 - float(self._settings.abstention.probabilities(signs[None])[0])

    def _signs(self, question: str, prepared: _Prepared, *, refusal: float) -> Numbers:  # (F,)
        """Gather the signs that these passages hold an answer."""
        texts = [passage.text for passage in prepared.passages]
        return make_features(question, texts, refusal=refusal, nearest=prepared.nearest)

    def _write(
        self, decoder: Decoder, readable: Sequence[int], streams: Sequence[AnswerStream]
    ) -> Iterator[tuple[int, Piece]]:
        """Generate what is to be answered; the others are left out of the batch."""
        speaking = [at for at, number in enumerate(readable) if not streams[number].abstains]
        decoder.keep(speaking)
        writers = {number: Writer(self._model.inputs.text) for number in readable}
        for step in decoder.steps():
            for at, token in step:
                number = readable[at]
                for piece in writers[number].write(token, decoder.vocabulary(at)):
                    yield number, piece
        for number in (readable[at] for at in speaking):
            for piece in writers[number].close():
                yield number, piece

    def _decoder(self, prepared: Sequence[_Prepared]) -> Decoder:
        prompts = [each.prompt for each in prepared]
        return Decoder(self._model, prompts, config=self._settings.decoding)

    def _refusals(self, decoder: Decoder, count: int) -> list[float]:
        """Return the model's own probability of refusing, per question."""
        refusal = self._model.inputs.tokenise(NO_ANSWER).subword_ids[:_REFUSAL_SUBWORDS]
        return decoder.beginning_probabilities(refusal) if count else []

    def _prepare(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        with_vectors: bool,
        guide: Guide | None = None,
    ) -> _Prepared:
        """Write a question's prompt, encode the phrases of its passages and weigh sentences."""
        self._settings.answer.check(question)
        inputs, rules = self._model.inputs, self._settings.answer
        kept = self._cut(question, passages)
        texts = [passage.text for passage in kept]
        sentences = sentences_of(texts)
        cosines = np.zeros(len(sentences))
        if with_vectors and self._encode is not None:
            cosines = sentence_cosines(question, sentences, encode=self._encode)
        vocabulary = self._vocabulary(question, texts, rank=guide.rank if guide else None)
        prompt = Prompt(
            tuple(inputs.prompt(question, texts)) if texts else (),
            vocabulary,
            self._vectors.encode(vocabulary, texts),
            handicaps(vocabulary, sentences, cosines, penalty=rules.far_penalty),
            phrase_first=rules.phrase_first,
            splice_penalty=rules.splice_penalty,
            passages=tuple(texts),
            guidance=guide.bonuses(vocabulary) if guide else (),
        )
        return _Prepared(tuple(kept), prompt, float(cosines.max(initial=-1.0)) if texts else 0.0)

    def _vocabulary(
        self,
        question: str,
        texts: Sequence[str],
        *,
        rank: Rank | None = None,
        most: int | None = None,
    ) -> DynamicVocabulary:
        """Offer the phrases of texts, `most` of them where that is not as for answers."""
        own = self._candidates()
        if not self._settings.decoding.phrases:
            return DynamicVocabulary.of([])
        return make_vocabulary(
            question,
            texts,
            tokenise=self._model.inputs.tokenise_all,
            config=own if most is None else replace(own, max_candidates=most),
            per_passage=self._model.config.marker != "none",
            rank=rank,
        )

    def _candidates(self) -> CandidateConfig:
        """Offer no longer phrases than the model has learned to read."""
        own, longest = self._settings.candidates, self._model.config.max_phrase_subwords
        most = min(own.max_subwords, longest)
        return replace(own, max_subwords=most, min_subwords=min(own.min_subwords, most))

    def _cut(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """Cut passages to the prompt's room: the best keep theirs, the last are cut or left out."""
        inputs = self._model.inputs
        asked = len(inputs.tokenise(question).subword_ids)
        if asked > inputs.max_prompt_subwords // 4:
            raise ConfigError(
                f"the question has {asked:,} subwords, of which this model reads"
                f" {inputs.max_prompt_subwords // 4:,}; ask a shorter one"
            )
        room = min(
            self._settings.answer.prompt_subwords, inputs.max_prompt_subwords - asked - _MARGIN
        )
        kept = []
        for passage in passages:
            if not passage.text.strip():
                continue
            ends = inputs.tokenise(passage.text).ends
            room -= 8  # the passage's number, and the empty line after it
            if len(ends) <= room:
                kept.append(passage)
                room -= len(ends)
                continue
            if room >= _LEAST_SUBWORDS:
                kept.append(_shorten(passage, ends[room - 1]))
            break
        return kept


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A question's passages as they stand in its prompt, the prompt, and the best cosine."""

    passages: tuple[Passage, ...]
    prompt: Prompt
    nearest: float
    """Of the question and a sentence; 0 where nothing encodes sentences."""


def _shorten(passage: Passage, length: int) -> Passage:
    """Keep the first characters of a passage; its span says so."""
    text = passage.text[:length]
    span = replace(passage.span, end=passage.span.start + length)
    return replace(passage, text=text, span=span)
