"""Name new documents for generative search: pseudo-queries that a query generator writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quoth.collection.store import Store
from quoth.errors import ConfigError
from quoth.records import Document
from quoth.settings.config import Config
from quoth.settings.stored import stored_build
from quoth.text.passages import cut_document

if TYPE_CHECKING:
    from quoth.models.query_generator.generator import QueryGenerator

LoadGenerator = Callable[[str], "QueryGenerator"]

_logger = logging.getLogger(__name__)


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
