"""What `artifact.json` says about a dense index: its model, its segments, what was removed.

Every change of the index is one new `DenseState`, saved in one step. Files are numbered from one
counter that never goes back, so a name never stands for two contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from quoth.artifact import FILE_NAME, Artifact, FileSeal, find_damage, open_artifact
from quoth.errors import Damaged

KIND = "dense index"
VERSION = 1
CODES_VERSION = 2
"""Format of an index with codes, which earlier versions of Quoth cannot keep up."""

_OF_CODES = {"codes", "build"}


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One immutable batch of vectors."""

    number: int
    num_vectors: int
    longest: float
    """Length of the longest stored vector, which bounds the rounding error of a score."""

    @property
    def codes_name(self) -> str:
        """File of the stored numbers, (N, D)."""
        return f"segment-{self.number:06d}.codes.npy"

    @property
    def labels_name(self) -> str:
        """File of the row, unit and scale of each vector, (N,)."""
        return f"segment-{self.number:06d}.labels.npy"


@dataclass(frozen=True, slots=True)
class RemovedEntry:
    """The rows that were removed since the last compaction."""

    number: int
    num_rows: int
    num_vectors: int

    @property
    def name(self) -> str:
        """File of the rows, sorted."""
        return f"removed-{self.number:06d}.npy"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """The HNSW graph, and where in the segments each of its nodes now is."""

    number: int
    places_number: int
    num_nodes: int
    neighbours: int
    build_depth: int

    @property
    def name(self) -> str:
        """File of the graph, in FAISS's format."""
        return f"graph-{self.number:06d}.faiss"

    @property
    def places_name(self) -> str:
        """File of the place of each node, -1 where compaction dropped it."""
        return f"places-{self.places_number:06d}.npy"

    @property
    def names(self) -> set[str]:
        """All files."""
        return {self.name, self.places_name}


@dataclass(frozen=True, slots=True)
class TrainedEntry:
    """The centroids of an IVF-PQ index, learnt from a sample."""

    number: int
    lists: int
    code_bytes: int
    asked_bytes: int
    num_vectors: int
    """Live vectors at the time."""

    @property
    def name(self) -> str:
        """File of an index without vectors, in FAISS's format."""
        return f"trained-{self.number:06d}.faiss"


@dataclass(frozen=True, slots=True)
class CodesEntry:
    """The IVF-PQ index, and where in the segments each of its nodes now is."""

    number: int
    places_number: int
    num_nodes: int
    trained: TrainedEntry

    @property
    def name(self) -> str:
        """File of the codes, in FAISS's format."""
        return f"ivfpq-{self.number:06d}.faiss"

    @property
    def places_name(self) -> str:
        """File of the place of each node, -1 where compaction dropped it."""
        return f"places-{self.places_number:06d}.npy"

    @property
    def names(self) -> set[str]:
        """All files."""
        return {self.name, self.places_name, self.trained.name}


@dataclass(frozen=True, slots=True)
class BuildEntry:
    """An IVF-PQ index that is being built: trained, and some of its vectors encoded."""

    places_number: int
    num_nodes: int
    first_node: int
    """Nodes before it are those of the index that stands."""

    block_size: int
    trained: TrainedEntry
    blocks: tuple[int, ...] = ()

    @property
    def places_name(self) -> str:
        """File of the place of each node, -1 where compaction dropped it."""
        return f"places-{self.places_number:06d}.npy"

    @property
    def next_node(self) -> int:
        """The node that the next block begins with."""
        return self.first_node + self.block_size * len(self.blocks)

    @property
    def block_names(self) -> list[str]:
        """Files of list and code of each node, from the first on."""
        return [f"block-{number:06d}.npy" for number in self.blocks]

    @property
    def names(self) -> set[str]:
        """All files."""
        return {self.places_name, self.trained.name, *self.block_names}


@dataclass(frozen=True, slots=True)
class DenseState:
    """One state of a dense index, complete."""

    model: Mapping[str, Any]
    storage: str
    change: int = 0
    log: str = ""
    last_number: int = 0
    width: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    removed: RemovedEntry | None = None
    graph: GraphEntry | None = None
    codes: CodesEntry | None = None
    build: BuildEntry | None = None
    files: Mapping[str, FileSeal] = field(default_factory=dict)

    @property
    def num_places(self) -> int:
        """Vectors on disk, dead ones included."""
        return sum(each.num_vectors for each in self.segments)

    @property
    def num_dead(self) -> int:
        """Vectors on disk whose row was removed."""
        return self.removed.num_vectors if self.removed else 0

    @property
    def num_vectors(self) -> int:
        """Live vectors."""
        return self.num_places - self.num_dead

    @property
    def finder(self) -> str:
        """What stands to find candidates, as the settings call it; "exact" where nothing does."""
        return "hnsw" if self.graph else "ivfpq" if self.codes else "exact"

    @property
    def needed_names(self) -> set[str]:
        """Files without which there is no index."""
        names = {name for each in self.segments for name in (each.codes_name, each.labels_name)}
        return names | ({self.removed.name} if self.removed else set())

    @property
    def built_names(self) -> set[str]:
        """Files that can be built again from the others."""
        entries = (self.graph, self.codes, self.build)
        return {name for each in entries if each for name in each.names}

    def to_artifact(self) -> Artifact:
        """Describe the state as it is saved, with the seals of the files it names and no others."""
        config = asdict(self)
        del config["files"], config["change"]
        for name in _OF_CODES:
            if config[name] is None:
                del config[name]
        version = CODES_VERSION if any(name in config for name in _OF_CODES) else VERSION
        names = self.needed_names | self.built_names
        files = {name: seal for name, seal in self.files.items() if name in names}
        return Artifact(KIND, version, self.change, config, files)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Read a saved state back."""
        config = dict(artifact.config)
        config["segments"] = tuple(SegmentEntry(**each) for each in config["segments"])
        for name, kind in (("removed", RemovedEntry), ("graph", GraphEntry)):
            config[name] = kind(**config[name]) if config[name] else None
        for name in _OF_CODES & config.keys():
            config[name] = _read_codes(name, config[name])
        return cls(**config, change=artifact.change, files=artifact.files)


def _read_codes(name: str, saved: Mapping[str, Any]) -> CodesEntry | BuildEntry:
    """Read what is saved of an IVF-PQ index, finished or not."""
    trained = TrainedEntry(**saved["trained"])
    if name == "codes":
        return CodesEntry(**{**saved, "trained": trained})
    return BuildEntry(**{**saved, "trained": trained, "blocks": tuple(saved["blocks"])})


def find_problems(folder: Path, state: DenseState, names: set[str]) -> tuple[str, ...]:
    """Say which of these files are missing or of another size than recorded."""
    files = {name: seal for name, seal in state.files.items() if name in names}
    return find_damage(folder, replace(state.to_artifact(), files=files), deep=False)


def read_state(folder: Path) -> DenseState | None:
    """Read the recorded state, None where none was finished."""
    artifact = open_artifact(folder, kind=KIND, version=VERSION, others=(CODES_VERSION,))
    if artifact is None:
        return None
    try:
        return DenseState.from_artifact(artifact)
    except (KeyError, TypeError) as error:
        raise Damaged(f"{folder / FILE_NAME} does not describe a dense index ({error})") from error
