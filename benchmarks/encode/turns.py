"""Time systems in turns, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Encode = Callable[[Sequence[str]], NDArray[np.float32]]


def time_in_turns(
    systems: Mapping[str, Encode], passages: Sequence[str], *, chunk: int
) -> dict[str, Any]:
    """Encode chunk by chunk with each system, and relate their times chunk by chunk."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    closest = 1.0
    for encode in systems.values():
        encode(passages[:32])  # warm up
    chunks = [passages[at : at + chunk] for at in range(0, len(passages), chunk)]
    for at, part in enumerate(chunks):
        vectors = {}
        for name in sorted(systems, reverse=at % 2 == 1):
            start = time.perf_counter()
            vectors[name] = systems[name](part)
            seconds[name].append(time.perf_counter() - start)
        one, two = vectors.values()
        closest = min(closest, float((one * two).sum(1).min()))
    ratios = [
        theirs / own
        for theirs, own in zip(seconds["sentence-transformers"], seconds["quoth"], strict=True)
    ]
    return {
        "passages": len(passages),
        "passages_per_second": {name: len(passages) / sum(each) for name, each in seconds.items()},
        "ratio": median(ratios),
        "ratios": ratios,
        "least_cosine_between_them": closest,
    }
