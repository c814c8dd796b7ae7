"""Work on pieces, each on some machine of the cluster, and give what comes out in their order.

A streaming Ray Data job: workers that load what they need once, results taken one by one, and no
more pieces under way than the object store and the taker keep up with. A piece whose machine is
lost is worked on again elsewhere; what a piece raises ends the job with that error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from quoth.cluster.connecting import hush, load_ray
from quoth.cluster.failing import plain_errors
from quoth.errors import QuothError

_T = TypeVar("_T")
_R = TypeVar("_R")

_MOST_BLOCKS = 2_000  # pieces beyond share a block, which is what is done again after a loss


def map_in_order(make: Callable[[], Callable[[_T], _R]], pieces: Sequence[_T]) -> Iterator[_R]:
    """Return what the work makes of each piece; `make` is called once in each worker.

    Both travel by pickle, so `make` is a function of a module, or a partial of one.
    """
    if not pieces:
        return
    ray_data = load_data()
    worked = pieces_as_data(pieces).map_batches(
        _Worker,
        fn_constructor_args=(make,),
        batch_size=1,
        compute=ray_data.ActorPoolStrategy(
            min_size=1, max_size=min(len(pieces), count_processors())
        ),
        num_cpus=1,
    )
    with plain_errors():
        for row in worked.iter_rows():
            yield unwrap(row["made"])


def pieces_as_data(pieces: Sequence[Any]) -> Any:
    """Make a dataset of pieces, whose results come in their order."""
    rows = [{"piece": pickle.dumps(piece)} for piece in pieces]
    data = load_data().from_items(rows, override_num_blocks=min(len(rows), _MOST_BLOCKS))
    data.context.execution_options.preserve_order = True
    data.context.enable_progress_bars = False
    return data


def wrap(work: Callable[[], Any]) -> bytes:
    """Do a piece of work and pack what it gives, or the error of ours that it raises."""
    try:
        return pickle.dumps(work())
    except QuothError as error:
        return pickle.dumps(_Raised(error))


def unwrap(packed: bytes) -> Any:
    """Return what was packed; an error is raised."""
    found = pickle.loads(packed)
    if isinstance(found, _Raised):
        raise found.error
    return found


def load_data() -> ModuleType:
    """Import Ray Data, which sets up its own logging as it is imported."""
    load_ray()
    import ray.data

    hush("ray.data")
    module: ModuleType = ray.data
    return module


def count_processors() -> int:
    """Count the processors of all machines that are joined."""
    return max(1, int(load_ray().cluster_resources().get("CPU", 1)))


class _Worker:
    """Holds what `make` gave, for all pieces that come to one process."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = make()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"made": [self._one(pickle.loads(each)) for each in batch["piece"]]}

    def _one(self, piece: Any) -> bytes:
        return wrap(lambda: self._work(piece))


@dataclass(frozen=True, slots=True)
class _Raised:
    error: QuothError
