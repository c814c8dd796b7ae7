"""Models of an engine, each loaded when first needed and once only."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.artifact import require_sealed
from quoth.collection.store import Store
from quoth.errors import MissingExtra
from quoth.search.generative.state import identify_model
from quoth.search.likelihood import add_likelihood
from quoth.search.rerank import ReadPassage, ScorePairs, join_passage
from quoth.search.rerank_config import BOTH, CROSS_ENCODER, LIKELIHOOD, RerankConfig
from quoth.settings.config import Config
from quoth.text.passages import cut_document
from quoth.text.words import Analyser
from quoth.vocabulary.statistics import Statistics

if TYPE_CHECKING:
    from quoth.answer.nearness import EncodeSentences
    from quoth.models.glow.encoded import Encoder
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.models.query_generator.scoring import QueryScorer
    from quoth.models.reader.reader import Reader
    from quoth.search.dense.searcher import DenseSearcher
    from quoth.search.generative.files import GenerativeModel

LoadEncoder = Callable[[Config], "Encoder"]


class LoadedModels:
    """Keeps what was loaded, by name."""

    turn: AbstractContextManager[object] = nullcontext()
    """Held while identifiers are generated, where several threads share the model for it."""

    def __init__(self) -> None:
        self._encoders: dict[str, Encoder] = {}
        self._generators: dict[str, QueryGenerator] = {}
        self._readers: dict[str, Reader] = {}
        self._scorers: dict[str, QueryScorer | None] = {}
        self._generative: dict[str, GenerativeModel] = {}
        self._identities: dict[Path, str] = {}

    def encoder(self, name: str) -> Encoder:
        """Return an encoder."""
        if name not in self._encoders:
            try:
                from quoth.models.glow.plain import open_encoder

                be_quiet()
                require_sealed(Path(name))
                self._encoders[name] = open_encoder(name)
            except ImportError as error:
                raise missing_neural(error) from error
        return self._encoders[name]

    def sentence_encoder(self) -> EncodeSentences:
        """Return the encoder that answers are weighed with: the embedded one, whatever searches."""
        from quoth.models.pretrained import DEFAULT_NAME

        encoder = self.encoder(DEFAULT_NAME)
        return lambda sentences: encoder.encode_queries(sentences).vectors

    def generator(self, name: str) -> QueryGenerator:
        """Return a query generator."""
        if name not in self._generators:
            try:
                from quoth.models.query_generator.generator import QueryGenerator
            except ImportError as error:
                raise missing_neural(error, what="query generators") from error
            be_quiet()
            require_sealed(Path(name))
            self._generators[name] = QueryGenerator.load(name)
        return self._generators[name]

    def scorer(self, name: str) -> QueryScorer | None:
        """Return a query generator to look at hits with; None where it is of another kind."""
        if name not in self._scorers:
            try:
                from quoth.models.query_generator.scoring import open_scorer
            except ImportError as error:
                raise missing_neural(error, what="query generators") from error
            require_sealed(Path(name))
            self._scorers[name] = open_scorer(name)
        return self._scorers[name]

    def reader(self, name: str) -> Reader:
        """Return a reader, the same one as for answers."""
        if name not in self._readers:
            try:
                from quoth.models.reader.reader import Reader
            except ImportError as error:
                raise missing_neural(error, what="rerankers") from error
            require_sealed(Path(name))
            self._readers[name] = Reader.load(name)
        return self._readers[name]

    def reranker(self, config: RerankConfig) -> ScorePairs:
        """Return what scores pairs of query and passage."""
        if config.by == LIKELIHOOD:
            return self._likelihood(config)
        if config.by == BOTH:
            return self._both(config)
        reader = self.reader(config.reader)
        from quoth.models.reader.inputs import TitledText

        def score(queries: Sequence[str], passages: Sequence[ReadPassage]) -> list[float]:
            texts = [TitledText(each.title, each.text) for each in passages]
            return reader.score(queries, texts, most=config.max_subwords)

        return score

    def _both(self, config: RerankConfig) -> ScorePairs:
        """Return what adds log p(query | passage) to what the cross-encoder says."""
        read = self.reranker(replace(config, by=CROSS_ENCODER))
        likely = self._likelihood(config)
        factor = config.likelihood_factor or self.generator(config.generator).likelihood_factor

        def score(queries: Sequence[str], passages: Sequence[ReadPassage]) -> list[float]:
            scores = read(queries, passages)
            return add_likelihood(
                queries, passages, scores, likely, factor=factor, hits=config.likelihood_hits
            )

        return score

    def _likelihood(self, config: RerankConfig) -> ScorePairs:
        """Return what gives log p(query | passage)."""
        generator = self.generator(config.generator)
        return lambda queries, passages: generator.score(
            queries, [join_passage(each) for each in passages]
        ).tolist()

    def generative(self, folder: Path) -> GenerativeModel:
        """Return a model for generative search; loaded anew if another was put into its place.

        Shards that have the same one share it.
        """
        identity = self._identities[folder] = identify_model(folder)
        if identity not in self._generative:
            try:
                import torch

                from quoth.search.generative.files import open_generative_model
            except ImportError as error:
                raise missing_neural(error, what="generative models") from error
            be_quiet()
            used = set(self._identities.values())
            self._generative = {key: own for key, own in self._generative.items() if key in used}
            model = open_generative_model(folder, threads=torch.get_num_threads())
            self._generative[identity] = model
        return self._generative[identity]


def open_dense(
    folder: Path,
    store: Store,
    config: Config,
    *,
    load_encoder: LoadEncoder,
    counts: Callable[[], Statistics],
    analyser: Analyser,
) -> DenseSearcher:
    """Search by the vectors in a folder; the encoder is loaded when there is something to encode.

    `counts` opens the statistics that weigh words.
    """
    try:
        from quoth.search.dense.searcher import DenseSearcher
    except ImportError as error:
        raise missing_neural(error) from error
    return DenseSearcher(
        folder,
        store,
        load_encoder=functools.partial(load_encoder, config),
        config=config.dense,
        counts=counts,
        analyser=analyser,
        cut=functools.partial(cut_document, config=config.passages),
    )


def be_quiet() -> None:
    """Keep bars of other libraries out of what commands print."""
    if not {"huggingface_hub", "transformers"} & sys.modules.keys():
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # read when they are loaded, if ever
        return
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


@functools.cache
def can_encode() -> bool:
    """Whether the libraries that vectors need are installed, told without loading them."""
    has_reader = any(importlib.util.find_spec(name) for name in ("onnxruntime", "torch"))
    return has_reader and all(importlib.util.find_spec(name) for name in ("numpy", "tokenizers"))


def missing_neural(error: ImportError, *, what: str = "vectors") -> MissingExtra:
    """Say what to install where a library that networks need is absent."""
    return MissingExtra(f'{what} need {error.name}; run pip install "quoth[neural]"')
