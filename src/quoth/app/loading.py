"""Models of an engine, each loaded when first needed and once only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quoth.app.searchers import missing_neural

if TYPE_CHECKING:
    from quoth.models.glow.encoder import GlowEncoder
    from quoth.models.query_generator.generator import QueryGenerator


class LoadedModels:
    """Keeps what was loaded, by name."""

    def __init__(self) -> None:
        self._encoders: dict[str, GlowEncoder] = {}
        self._generators: dict[str, QueryGenerator] = {}

    def encoder(self, name: str) -> GlowEncoder:
        """Give an encoder."""
        if name not in self._encoders:
            try:
                from quoth.models.glow.encoder import GlowEncoder
            except ImportError as error:
                raise missing_neural(error) from error
            _be_quiet()
            self._encoders[name] = GlowEncoder.load(name)
        return self._encoders[name]

    def generator(self, name: str) -> QueryGenerator:
        """Give a query generator."""
        if name not in self._generators:
            try:
                from quoth.models.query_generator.generator import QueryGenerator
            except ImportError as error:
                raise missing_neural(error, what="query generators") from error
            _be_quiet()
            self._generators[name] = QueryGenerator.load(name)
        return self._generators[name]


def _be_quiet() -> None:
    """Keep bars of other libraries out of what commands print."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
