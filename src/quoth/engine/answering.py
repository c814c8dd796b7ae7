"""Questions to a collection: from its hits to an answer, by a reader or a language model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.answer.config import SHIPPED, SHIPPED_READER
from quoth.engine.finding import CutSnippet
from quoth.engine.models import LoadedModels, missing_neural
from quoth.errors import ConfigError
from quoth.records import Answer, Hit, Passage, ShownAnswer, ShownHits
from quoth.settings.config import Config

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from quoth.answer.answerer import Answerer
    from quoth.answer.cite import Piece
    from quoth.answer.nearness import EncodeSentences
    from quoth.answer.reading_answerer import FittedReader, TitledPassage
    from quoth.answer.stream import AnswerStream
    from quoth.engine.language_model import OpenedModel

OpenModel = Callable[[str], "OpenedModel"]
"""Opens a language model by name, or returns the one that others use, too."""

_CACHE = "phrase-vectors"
_BYTES = 1_000_000


class Asking:
    """Answers for one engine; models are opened when first needed, and once only.

    Engines that share language models give the way to the shared one (`open_model`); the encoder of
    sentences is that of `models`, so that it is loaded once where vectors are searched as well.
    """

    def __init__(
        self,
        folder: Path,
        *,
        models: LoadedModels | None = None,
        open_model: OpenModel | None = None,
    ) -> None:
        self._folder = folder
        self._open_model = open_model
        self._shared = models
        self._models: dict[str, OpenedModel] = {}
        self._answerers: dict[tuple[Hashable, ...], Answerer] = {}
        self._readers: dict[str, FittedReader | None] = {}
        self._loaded = models or LoadedModels()
        self._encode_sentences: EncodeSentences | None = None

    def close(self) -> None:
        """Let go of the models, which would otherwise stay until Python collects its garbage."""
        self._models.clear()
        self._answerers.clear()
        self._readers.clear()
        self._loaded = self._shared or LoadedModels()
        self._encode_sentences = None

    def ask(
        self,
        question: str,
        hits: Sequence[Hit],
        *,
        config: Config,
        passages: Sequence[TitledPassage] = (),
    ) -> AnswerStream:
        """Answer from the passages of hits, or of their documents where given, piece by piece."""
        reader = self._fitted_reader(config)
        if reader is not None:
            from quoth.answer.reading_answerer import ReadingAnswerer, TitledPassage

            shown = [TitledPassage(each) for each in passages_of(hits)]
            writer = self._writer(config)
            encode = self._encode if reader.needs_vectors(config.answer) else None
            answering = ReadingAnswerer(reader, config.answer, writer=writer, encode=encode)
            return answering.stream(question, passages or shown)
        answerer = self._answerer(_for_answering(config))
        return answerer.stream(question, passages_of(hits), threshold=config.answer.threshold)

    def _writer(self, config: Config) -> Answerer | None:
        """Open the language model where it is to write; None where it has not learned to quote."""
        if config.answer.wording != "written":
            return None
        answerer = self._answerer(_for_answering(config))
        return None if self._models[config.answer.model].notice else answerer

    def reads(self, config: Config) -> bool:
        """Whether a reader answers, which takes several passages of a document."""
        return self._fitted_reader(config) is not None

    def _fitted_reader(self, config: Config) -> FittedReader | None:
        """Open the reader, once; None where the language model is to answer."""
        is_wanted = config.answer.model == SHIPPED and config.decoding.phrases
        name = config.answer.reader if is_wanted else ""
        if name not in self._readers:
            self._readers[name] = open_reader(name)
        return self._readers[name]

    def generate(self, prefix: str, hits: Sequence[Hit], *, config: Config) -> AnswerStream:
        """Continue a text with the phrases of hits, piece by piece."""
        return self._answerer(config).continue_text(prefix, passages_of(hits))

    def _answerer(self, config: Config) -> Answerer:
        from quoth.engine.language_model import open_language_model

        name = config.answer.model
        if name not in self._models:
            self._models[name] = (self._open_model or open_language_model)(name)
        opened = self._models[name]
        # Questions with other thresholds share what answers: it is decided on for each.
        key = (replace(config.answer, threshold=1.0), config.candidates, config.decoding)
        if key not in self._answerers:
            self._answerers[key] = self._make(opened, config)
        return self._answerers[key]

    def _make(self, opened: OpenedModel, config: Config) -> Answerer:
        from quoth.answer.answerer import Answerer, AnswerSettings
        from quoth.answer.phrase_vector_cache import PhraseVectorCache

        quotes = config.decoding.phrases and not opened.notice
        settings = AnswerSettings(
            answer=config.answer,
            candidates=config.candidates,
            decoding=replace(config.decoding, phrases=quotes),
            abstention=opened.abstention,
        )
        cache = PhraseVectorCache(
            self._folder / _CACHE,
            model=opened.identity,
            max_bytes=config.answer.cache_megabytes * _BYTES,
        )
        return Answerer(
            opened.model, settings, cache=cache, encode=self._encode, notice=opened.notice
        )

    def _encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Encode as when abstention was fitted: by the embedded encoder, whatever searches."""
        if self._encode_sentences is None:
            self._encode_sentences = self._loaded.sentence_encoder()
        return self._encode_sentences(sentences)


class AnswerInProgress:
    """An answer while it is written: iterate over its pieces, then take the whole.

    The collection need not be open any more.
    """

    def __init__(self, stream: AnswerStream, found: ShownHits, cut: CutSnippet) -> None:
        self.notice = stream.notice
        self.incomplete = found.incomplete
        """How much was searched by vectors, while not all are there; empty otherwise."""
        self._stream = stream
        self._found = found
        self._cut = cut

    @property
    def suggestion(self) -> str:
        """The question with corrections for words that no document has; empty without any."""
        return self._found.suggestion

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._stream)

    def answer(self) -> Answer:
        """Return the answer; what was not iterated over is generated now."""
        return self._stream.answer()

    def shown(self) -> ShownAnswer:
        """Return the answer with all that is shown of it, its sources as they were read."""
        answer, found = self.answer(), self._found
        by_docid = {each.hit.docid: each for each in found.hits}
        sources = tuple(
            replace(
                by_docid[passage.docid],
                rank=rank,
                hit=replace(by_docid[passage.docid].hit, passage=passage),
                snippet=self._cut(passage),
            )
            for rank, passage in enumerate(answer.passages, start=1)
        )
        return ShownAnswer(
            self._stream.question,
            answer,
            sources,
            found.searcher,
            self.notice,
            found.unreachable,
            found.incomplete,
            found.suggestion,
        )


def open_reader(name: str) -> FittedReader | None:
    """Open a reader; None where none is named, or the shipped one is not installed."""
    try:
        from quoth.answer.reading_answerer import FittedReader
    except ImportError as error:
        raise missing_neural(error, what="answers") from error
    folder = _reader_folder(name)
    return None if folder is None else FittedReader.open(folder)


def _reader_folder(name: str) -> Path | None:
    from quoth.models.pretrained import find_shipped

    if Path(name).is_dir() and name:
        return Path(name)
    try:
        return find_shipped(name) if name else None
    except ConfigError:
        if name == SHIPPED_READER:  # not installed, or an older release
            return None
        raise


def _for_answering(config: Config) -> Config:
    return replace(config, decoding=config.answer.for_answering(config.decoding))


def passages_of(hits: Sequence[Hit]) -> list[Passage]:
    """Take the passages of hits, each once."""
    return list(dict.fromkeys(hit.passage for hit in hits if hit.passage is not None))
