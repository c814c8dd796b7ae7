"""The ways of searching one collection, each made when first needed, and torch no sooner."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from quoth.app.config import Config
from quoth.artifact import FILE_NAME as ARTIFACT
from quoth.artifact import Artifact, open_artifact, save_artifact
from quoth.collection.store import Store
from quoth.errors import CollectionError, ConfigError
from quoth.search.calibration import Calibration
from quoth.search.hybrid import HybridSearcher
from quoth.search.lexical import LexicalSearcher
from quoth.search.searcher import IndexedSearcher, Searcher
from quoth.text.passages import cut_document
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.models.glow.encoder import GlowEncoder
    from quoth.search.dense import DenseSearcher

NAMES = ("lexical", "dense", "hybrid")
"""Ways of searching, by the names that `--with` takes."""

LoadEncoder = Callable[[Config], "GlowEncoder"]

_S = TypeVar("_S", bound=Searcher)
_CALIBRATION_KIND = "fusion calibration"
_CALIBRATION_VERSION = 1


class Searchers:
    """All searchers over one opened store with one configuration."""

    def __init__(
        self, folder: Path, store: Store, config: Config, *, load_encoder: LoadEncoder
    ) -> None:
        self._folder = folder
        self._store = store
        self._config = config
        self._load_encoder = load_encoder
        self._made: dict[tuple[str, bool], Searcher] = {}

    def get(self, name: str, *, syntax: bool) -> Searcher:
        """Give a searcher by name; with `syntax`, its queries may use + - quotes and field:."""
        if name == "lexical":
            return self.lexical(syntax=syntax)
        if name == "dense":
            return self.dense()
        if name == "hybrid":
            return self._once(name, syntax, lambda: self._make_hybrid(syntax=syntax))
        raise ConfigError(f"there is no searcher {name!r}; there are {', '.join(NAMES)}")

    def lexical(self, *, syntax: bool) -> LexicalSearcher:
        """Give the BM25 searcher."""
        return self._once("lexical", syntax, lambda: self._make_lexical(syntax=syntax))

    def dense(self) -> DenseSearcher:
        """Give the vector searcher of a collection that has been encoded."""
        if not self.is_encoded:
            raise CollectionError(
                f'{self._folder} has no vectors yet; run "quoth encode {self._folder}" once'
            )
        return self.dense_side()

    def dense_side(self) -> DenseSearcher:
        """Give the vector searcher, encoded or not."""
        return self._once("dense", False, self._make_dense)

    def kept(self) -> Iterator[IndexedSearcher]:
        """Yield the searchers whose index is kept in step with the documents."""
        yield self.lexical(syntax=True)
        if self.is_encoded:
            yield self.dense_side()

    @property
    def is_encoded(self) -> bool:
        """Whether the collection has vectors of the configured encoder."""
        return (self._dense_folder / ARTIFACT).exists()

    @property
    def calibration(self) -> Calibration | None:
        """What was found out about fusing, None before that or for another encoder."""
        found = open_artifact(
            self._folder / "hybrid", kind=_CALIBRATION_KIND, version=_CALIBRATION_VERSION
        )
        if found is None or found.config["encoder"] != self._config.dense.encoder:
            return None
        return Calibration.from_record(found.config["calibration"])

    def keep_calibration(self, calibration: Calibration) -> None:
        """Save what was found out about fusing."""
        folder = self._folder / "hybrid"
        folder.mkdir(exist_ok=True)
        content = {
            "encoder": self._config.dense.encoder,
            "calibration": calibration.to_record(),
        }
        change = self._store.change
        save_artifact(folder, Artifact(_CALIBRATION_KIND, _CALIBRATION_VERSION, change, content))

    def close(self) -> None:
        """Close all that were made."""
        for searcher in self._made.values():
            searcher.close()
        self._made = {}

    @property
    def _dense_folder(self) -> Path:
        return self._folder / "dense" / Path(self._config.dense.encoder).name

    def _once(self, name: str, syntax: bool, make: Callable[[], _S]) -> _S:
        if (name, syntax) not in self._made:
            self._made[name, syntax] = make()
        return cast(_S, self._made[name, syntax])

    def _make_lexical(self, *, syntax: bool) -> LexicalSearcher:
        return LexicalSearcher(
            self._folder / "lexical",
            self._store,
            analyser=Analyser(self._config.analyser),
            config=self._config.lexical,
            syntax=syntax,
        )

    def _make_dense(self) -> DenseSearcher:
        from quoth.search.dense import DenseSearcher

        return DenseSearcher(
            self._dense_folder,
            self._store,
            encoder=self._load_encoder(self._config),
            config=self._config.dense,
            counts=self.lexical(syntax=False).counts,
            cut=functools.partial(cut_document, config=self._config.passages),
        )

    def _make_hybrid(self, *, syntax: bool) -> HybridSearcher:
        sides: list[Searcher] = [self.lexical(syntax=syntax), self.dense()]
        config = self._config.fusion
        weights = config.weights("lexical", ["dense"])
        if config.method == "calibrated" and self.calibration is not None:
            weights = dict(self.calibration.weights)
        return HybridSearcher(sides, config=config, weights=weights)
