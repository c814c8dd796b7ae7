"""What weighs words where an encoder weighs attention: a collection's counts and its analyser.

Where passages are encoded, lengths are compared with the mean passage, not with the mean document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quoth.collection.store import Store
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.weights import CountedWords, WordCounts
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.models.glow.encoded import Encoder

OpenCounts = Callable[[], WordCounts]
"""Opens the collection's word statistics, which weighted attention needs."""


class UnitWords:
    """Words of a collection as the units of its documents have them."""

    def __init__(self, store: Store, counts: OpenCounts, analyser: Analyser) -> None:
        self._store = store
        self._counts = counts
        self._analyser = analyser
        self._cuts: tuple[int, float] | None = None

    def counted(self, config: GlowConfig) -> CountedWords | None:
        """Return what weighs words; None where an encoder weighs none."""
        if config.weighting == "none":
            return None
        counts, body, lengths = self._counts(), config.fields[-1], {}
        if config.unit == "passage" and (share := self._passages_each(body)):
            lengths = {body: counts.average_lengths().get(body, 0.0) / share}
        return CountedWords(counts, self._analyser, lengths)

    def identify(self, encoder: Encoder) -> dict[str, Any]:
        """Describe everything that decides which vectors come out, to be kept with an index."""
        own = encoder.identity()
        if encoder.config.weighting == "none":
            return own
        return {**own, "words": {"analyser": self._analyser.identity(), "lengths": "of units"}}

    def _passages_each(self, body: str) -> float:
        """Return how many passages of a field a document has; counted anew when some change."""
        change = self._store.change
        if self._cuts is None or self._cuts[0] != change:
            count = max(1, self._store.num_documents)
            self._cuts = change, self._store.num_passages_of(body) / count
        return self._cuts[1]
