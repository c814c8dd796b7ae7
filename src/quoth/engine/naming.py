"""Open generative search, and name new documents for it: a query generator writes their names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.collection.store import Store
from quoth.engine.models import missing_neural
from quoth.errors import CollectionError, ConfigError
from quoth.records import Document
from quoth.search.generative.config import NO_GENERATOR
from quoth.search.generative.state import TRIE, find_model
from quoth.settings.config import Config
from quoth.settings.stored import stored_build
from quoth.text.passages import cut_document

if TYPE_CHECKING:
    from quoth.models.query_generator.generator import QueryGenerator
    from quoth.search.generative.files import GenerativeModel
    from quoth.search.generative.searcher import GenerativeSearcher

LoadGenerator = Callable[[str], "QueryGenerator"]
LoadGenerative = Callable[[Path], "GenerativeModel"]

_logger = logging.getLogger(__name__)


def open_generative(
    collection: Path,
    store: Store,
    config: Config,
    *,
    load: LoadGenerative,
    load_generator: LoadGenerator,
    turn: AbstractContextManager[object] | None,
) -> GenerativeSearcher:
    """Search by a collection's model; `turn` is held while one that engines share is at work."""
    folder = find_model(collection, config.generative.model)
    if folder is None:
        name = config.generative.model or "for generative search"
        raise CollectionError(
            f'{collection} has no model {name} yet; run "quoth train pixar {collection}"'
        )
    try:
        from quoth.search.generative.searcher import GenerativeSearcher
    except ImportError as error:
        raise missing_neural(error, what="generative models") from error
    names = functools.partial(name_documents, config, store, load=load_generator)
    return GenerativeSearcher(
        folder / TRIE,
        store,
        load_model=functools.partial(load, folder),
        config=config.generative,
        identify=None if config.generative.generator == NO_GENERATOR else names,
        turn=turn,
    )


def name_documents(
    config: Config, store: Store, documents: Sequence[Document], *, load: LoadGenerator
) -> list[list[str]]:
    """Write pseudo-queries of documents' passages, but of fields that are names themselves."""
    wanted, passages = config.generative, []
    for document in documents:
        every = cut_document(document, config=config.passages)
        passages.append([each.text for each in every if each.field not in wanted.sources])
    if not any(passages):
        return passages
    try:
        generator = load(wanted.generator)
    except ConfigError as error:
        _logger.warning("new documents are named by their fields alone: %s", error)
        return [[] for _document in documents]
    flat = [text for own in passages for text in own]
    trained = stored_build(store)
    written = iter(
        generator.generate(
            flat, per_passage=wanted.written, seed=trained.seed, temperature=trained.temperature
        )
    )
    return [[query for _text in own for query in next(written)] for own in passages]
