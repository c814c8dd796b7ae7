"""Prometheus' text format, version 0.0.4: families of samples, one line per sample.

Pure: numbers in, lines out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from quoth.server.monitoring.histogram import BOUNDS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def family(name: str, kind: str, about: str, samples: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a family, or none where it has no samples.

    >>> list(family("owls", "gauge", "Owls seen.", ["owls 2"]))
    ['# HELP owls Owls seen.', '# TYPE owls gauge', 'owls 2']
    """
    lines = list(samples)
    if lines:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} {kind}"
        yield from lines


def sample(name: str, value: float, labels: Mapping[str, str] | None = None) -> str:
    r"""Return the line of one sample.

    >>> sample("owls", 2), sample("owls", 0.5, {"wood": 'a "dark"\nwood'})
    ('owls 2', 'owls{wood="a \\"dark\\"\\nwood"} 0.5')
    """
    pairs = _pairs(labels or {})
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def histogram_samples(name: str, labels: Mapping[str, str], found: Histogram) -> Iterator[str]:
    """Yield the lines of one histogram: its buckets, its sum and its count."""
    pairs = _pairs(labels)  # once, since a scrape has thousands of buckets
    for bound, number in zip(_BOUND_TEXTS, found.cumulative, strict=True):
        yield f'{name}_bucket{{{pairs},le="{bound}"}} {number}'
    yield sample(f"{name}_sum", found.total, labels)
    yield sample(f"{name}_count", found.count, labels)


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())


def _number(value: float) -> str:
    """Write a number with all its digits, so that a large sum still grows by small steps.

    >>> _number(3), _number(1234567.25), _number(math.inf)
    ('3', '1234567.25', '+Inf')
    """
    return "+Inf" if value == math.inf else repr(value)


def _escape(text: str) -> str:
    """Escape a label's value; what UTF-8 cannot hold is written as its code."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_ESCAPES)


_BOUND_TEXTS = tuple(_number(each) for each in (*BOUNDS, math.inf))
