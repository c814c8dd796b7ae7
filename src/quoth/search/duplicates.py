"""Show near-identical documents once, at the place of the best of them, with their other places.

Only hits are compared, by signatures that were made when documents were added, so a search costs a
few microseconds more per hit. Where some fall together, a longer stretch of the same ranking is
looked at to fill the page; what is shown of a hit is made for the page alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quoth.compiled import is_compiled, quick
from quoth.records import Hit, SearchRequest
from quoth.text.signatures import SKETCH_SIZE, are_similar, smallest_hashes

MOST_REACH = 200
"""Pages beyond so many hits are shown as they are found."""

_KEYS = 8  # two texts of similarity 0.9 share none of their 8 smallest hashes once in 10^7 times
_MOST_ROUNDS = 4

BestHits = Callable[[int], Sequence[Hit]]
"""Returns the k best hits, fewer where there are no more."""

ReadSignatures = Callable[[Sequence[Hit]], Sequence[bytes]]
"""Returns what tells near-identical documents, for each hit."""


@dataclass(slots=True)
class Group:
    """A hit with its rank and signature, and the near-identical ones that were found after it."""

    best: Hit
    rank: int
    signature: bytes
    others: list[str] = field(default_factory=list)


_make_group = quick(Group)


@dataclass(frozen=True, slots=True)
class DistinctPage:
    """The groups of a page, and how many of the best hits were looked at for it."""

    groups: Sequence[Group]
    k: int


def choose_distinct(
    request: SearchRequest, best: BestHits, *, signatures: ReadSignatures, least: float
) -> DistinctPage:
    """Choose the hits of a page, near-identical documents together."""
    wanted = request.reach
    for _round in range(_MOST_ROUNDS):
        k, hits = wanted, best(wanted)
        groups = group_hits(hits, signatures(hits), least=least)
        missing = request.reach - len(groups)
        if missing <= 0 or len(hits) < k:
            break
        wanted = k + 2 * missing
    return DistinctPage(groups[request.offset : request.reach], k)


def group_hits(hits: Sequence[Hit], signatures: Sequence[bytes], *, least: float) -> list[Group]:
    """Put hits that are at least so similar together, in the order of the best of each group."""
    groups: list[Group] = []
    numbers = _number_groups(signatures, least=least)
    for rank, (number, hit, signature) in enumerate(
        zip(numbers, hits, signatures, strict=True), start=1
    ):
        if number == len(groups):  # as with most hits
            groups.append(_make_group(hit, rank, signature, []))
        else:
            groups[number].others.append(hit.docid)
    return groups


def _number_groups(signatures: Sequence[bytes], *, least: float) -> Sequence[int]:
    """Number the group of each signature; one that is like no earlier one begins the next."""
    if not is_compiled():
        return number_groups_slowly(signatures, least=least)
    from quoth.native import group

    return group(list(signatures), _KEYS, SKETCH_SIZE, least)


def number_groups_slowly(signatures: Sequence[bytes], *, least: float) -> list[int]:
    """Do the same without compiled code."""
    numbers: list[int] = []
    firsts: list[bytes] = []
    by_hash: dict[int, tuple[int, ...]] = {}
    for signature in signatures:
        keys = smallest_hashes(signature, _KEYS)
        near = dict.fromkeys(number for key in keys for number in by_hash.get(key, ()))
        alike = (each for each in near if are_similar(firsts[each], signature, least=least))
        number = next(alike, len(firsts))
        if number == len(firsts):
            firsts.append(signature)
            by_hash.update({key: (*by_hash.get(key, ()), number) for key in keys})
        numbers.append(number)
    return numbers
